"""The simulator: replays a workload on a virtual clock with the same cycle that drives a cluster.

Workloads are read (swf, openb) or generated (synthetic_workload), replayed (replay), measured
(metrics) and shown (report). `pod_by_pod` imitates kube-scheduler, for comparison. Not here:
afflux's own scheduling decisions.
"""
