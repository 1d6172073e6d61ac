"""Benchmarks: time and quality of the optimisation, always compared with a peer.

`python -m bench` runs all and prints tables; `--json FILE` also writes the figures. bench/kube and
bench/conformance compare with kube-scheduler on a real API server.
"""
