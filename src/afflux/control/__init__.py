"""Control: what every live adapter shares, on model values only.

Here: the protocol of an adapter, the loop that runs cycles, the ledger's writer and take-over,
what is announced about waiting tasks, and the dry run. Not here: Kubernetes or any other cluster
manager, and the decisions themselves, which are in cycle/.
"""
