"""The door to Kubernetes: its objects, as bytes, become values of the model.

Here belongs whatever knows how Kubernetes spells things: quantities, manifests, lists, labels that
make groups, fields that afflux does not enforce yet. `inventory.load` is the way in; the rest is
in the order of the data: yaml_events and reading (bytes to objects), complaints (errors as people
read them), decoding (objects to machines and tasks) and grouping (tasks to groups).

Not here: any decision about where a task goes, any policy, any knowledge of the other doors.
"""
