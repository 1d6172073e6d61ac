"""Groups that wait, in the order in which they are considered.

Not here: who may start (admit) or where (plan).
"""
