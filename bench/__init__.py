"""Measurements: what the optimisation costs and what it buys, always beside a peer.

`python -m bench` runs all and prints a table; `--json FILE` keeps the figures.
"""
