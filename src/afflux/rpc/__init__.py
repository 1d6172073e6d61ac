"""The service: tasks and machines that any cluster manager tells over gRPC, and their schedule.

Here: the protocol of Firmament's clients (`firmament_service`), its messages as values of the model
(`task_messages`, `machine_messages`), the cluster that clients describe (`service_cluster`), its
adapter to control (`service_adapter`), the server and the process. Not here: Kubernetes as a source
of events, and the decisions. The constraints of a task mean what those of a pod mean, and are read
by the same code (`kube/node_constraints`, `kube/pod_relations`).

`proto/` has the messages; the Python files in it are generated (`make proto`).
"""
