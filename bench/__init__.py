"""Benchmarks: time and quality of the optimisation, always compared with a peer.

`python -m bench` runs all and prints tables; `--json FILE` also writes the figures.
"""
