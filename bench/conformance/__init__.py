"""Runs the scheduling specs of Kubernetes' own end-to-end tests with kube-scheduler and afflux.

`python -m bench.conformance` starts a fresh control plane for each scheduler and runs the suite
(`testbed/e2e`) on it. This package has the cluster, the run, the comparison with the recorded
results and the page of documentation; the control plane and the suite are in `testbed`.
"""
