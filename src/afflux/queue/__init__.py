"""Queues: the rules of named queues, and the order of the groups that wait in them.

Not here: when a group has its quorum and which place it gets (groups), which groups may start
(admit), or where (plan).
"""
