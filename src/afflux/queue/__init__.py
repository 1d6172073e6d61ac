"""Groups that wait: what makes one complete, what their queue asks of them, and in which order they
are considered.

Not here: who may start (admit) or where (plan); nor how a door spells a group's name and size.
"""
