"""Door 3: the scheduler on a laptop, driven by a virtual clock and real or made-up workloads.

Workloads are read or generated (swf, openb, synthetic), replayed by the same cycle that drives a
cluster, measured (metrics) and shown (report). Not here: any scheduling decision of afflux's own;
`pod_by_pod` is the peer to compare with.
"""
