"""The door to Kubernetes: its objects, as bytes, become values of the model.

Here belongs whatever knows how Kubernetes spells things: quantities, manifests, lists, labels that
make groups, fields that afflux does not enforce yet. Two ways lead in: `inventory.load` for files,
`live.running.run` for a cluster. Both share the rest, in the order of the data: yaml_events and
reading (bytes to objects), complaints (errors as people read them), decoding (objects to machines
and tasks) and grouping (tasks to groups). `api` is the client, `volumes` what storage means.

Not here: any decision about where a task goes, any policy, any knowledge of the other doors.
"""
