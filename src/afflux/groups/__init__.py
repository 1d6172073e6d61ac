"""Groups: the life of every group of tasks, from its first member to its last.

Here: the identity of a group, what its members are and say, quorum rules, the register, and what
the ledger stores of it, as values. Not here: Kubernetes, clocks, the database, and the decision
which waiting groups start.
"""
