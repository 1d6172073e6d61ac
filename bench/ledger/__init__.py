"""What a ledger costs: how fast a flood of pods is queued, and its share of a cycle.

`cycles` goes the way of the live door, from pods as a watch brings them to rows in an embedded
PostgreSQL, without an API server; `live` is two schedulers on a real one, of which one keeps a
ledger. Both with and without one in turn, in the same run.
"""
