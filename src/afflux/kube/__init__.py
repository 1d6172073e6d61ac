"""The adapter for Kubernetes: its objects become values of the model.

Here belongs what depends on the formats of Kubernetes: quantities, manifests, lists, labels that
name groups, fields that afflux does not enforce yet. There are two adapters: `live.process.run`
follows a cluster, `file_adapter` has the objects of files for a dry run. Both go through `reader`,
which turns changes of objects into events, and the other modules, in the order of the data:
yaml_reader and object_files (bytes to objects), input_errors (error messages), nodes and pods
(objects to machines and tasks), pod_relations and cluster_relations (what pods state about other
pods, and what Services and controllers add), group_claims (tasks to groups), pod_claims and
group_deadlines (what pods say about their controllers, and when groups are overdue). `api` is the
API client, `volumes` the meaning of storage objects, `disks` that of disk bandwidth.

Not here: placement decisions, policies, other adapters.
"""
