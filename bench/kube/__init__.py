"""Compares afflux, kube-scheduler and a null binder on a real API server, with the same work.

`python -m bench.kube` starts a fresh control plane for every run, puts one workload on it, and
measures from outside: a Go program (`testbed/load`) creates the pods and notes from one watch when
each appeared and when it had its node. This package has the workloads, the schedulers under
comparison, the order of the runs and the report; the control plane and the load generator are in
`testbed`.
"""
