"""The cost of the ledger: how fast many new pods are queued, and its share of a cycle.

`cycles` measures from pods in the cluster reader to rows in an embedded PostgreSQL, without an API
server. `large_group` measures a further member of a group of thousands. `live_schedulers` compares
two schedulers on a real API server, one of them with a ledger. The first and the last alternate
between runs with and without a ledger.
"""
