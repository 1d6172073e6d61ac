"""The IO driver of a node and the aggregator of many drivers, for scheduling by disk bandwidth.

Parsers and the model are pure: `counters`, `block_devices`, `pod_cgroups` read text and directory
trees whose roots are arguments; `sampling` turns counters into rates; `device_profile` says what a
disk can do; `remaining_bandwidth` what is left of it. `fio_benchmark` measures a profile. `driver`
and `aggregator` are the two processes, `node_reports` what they write to the API server.

Not here: what the scheduler does with the reports, and how its objects and annotations are read
(`afflux.kube`); what normalisers are and how they are signed (`afflux.normalisers`).
"""
