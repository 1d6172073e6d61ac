"""The live adapter of Kubernetes.

In the order of the data: `watched_kinds` (the watched collections, which fill the stores of
kube.reader, and through it the register of groups), `volume_binder` and `binder` (carry decisions
out), `pod_locator` (where a pod is), `kubernetes_adapter` (these as control's adapter),
`pod_notices` with `event_recorder`, `pod_conditions` and `write_queue` (tell users),
`deadline_cleanup` and `half_bound_rollback` (delete pods and their owners), `leader_election`, and
`process`, which runs all.

Not here: HTTP (kube.api), the meaning of objects (kube, kube.volumes, kube.reader), the life of
groups (groups), when cycles run and what is told and recorded (control), and any decision about
where a task is placed.
"""
