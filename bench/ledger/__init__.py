"""What a ledger costs: how fast a flood of pods is queued, and its share of a cycle.

The way of the data is the live door's, from pods as a watch brings them to rows in an embedded
PostgreSQL; only the API server is missing.
"""
