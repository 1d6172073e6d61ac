"""Waiting groups: their quorum, the rules of their queue, and their order.

Not here: which groups may start (admit) or where (plan), nor how an adapter writes the name and the
size of a group.
"""
