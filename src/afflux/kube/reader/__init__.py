"""The reader of Kubernetes objects: their changes become events for the scheduling cycle
and members of groups.

Used by the scheduler of a live cluster and by `afflux place` on files alike, so that everything
that one object means for another is written once: `object_store` and `work_queue` (the newest
version of every object, and the keys of those that changed), `ended_pods` (how pods ended),
`cluster_storage` (which pods and nodes a storage object concerns), `node_disks` and `cluster_disks`
(reports of disks, and the pods reserved for them), `cluster_reader` (everything together), and
`volume_chooser` (which volumes placed pods get).

Not here: where objects come from (kube.api, kube.live, kube.object_files), the meaning of one
object by itself (kube, kube.volumes), clocks, decisions.
"""
