"""The cost of the ledger: how fast many new pods are queued, and its share of a cycle.

`cycles` measures from pods in the cluster reader to rows in an embedded PostgreSQL, without an API
server. `live_schedulers` compares two schedulers on a real API server, one of them with a ledger.
Both alternate between runs with and without a ledger.
"""
