"""The scheduler of a live cluster.

In the order of the data: `watched_kinds` (the watched collections), `object_store` and `work_queue`
(the newest version of every object, and the keys of those that changed), `cluster_reader` with
`live_groups` and `live_storage` (turns changes into events for the cycle), `scheduling_loop`,
`volume_binder` and `binder` (carry decisions out), `announcements` and `violation_announcements`
with `event_recorder`, `pod_conditions` and `write_queue` (tell users), `deadline_cleanup` and
`half_bound_rollback` (delete pods and their owners), `ledger_writer`, `leader_election`, and
`process`, which runs all.

Not here: HTTP (kube.api), the meaning of objects (kube, kube.volumes), and any decision about where
a task is placed.
"""
