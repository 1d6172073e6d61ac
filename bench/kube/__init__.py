"""afflux and kube-scheduler on a real API server, the same work for both, and a ceiling for both.

`python -m bench.kube` starts a fresh control plane for every run, puts one workload on it, and
measures from outside: a Go program (`testbed/load`) creates the pods and notes from one watch when
each appeared and when it had its node. Here are the workloads, the contestants, the order of the
measurements and the report; the control plane and the load generator are in `testbed`.
"""
