"""A client that behaves like an unmodified Poseidon 0.8, written from what is known of it.

It watches an API server, here by listing, tells the service about machines and pods, asks for
schedules and binds. It exits, here by an error, where Poseidon exits. Its units and quirks:

- CPU in thousandths of a core; memory and storage times 1000, but plain bytes in AddTaskInfo;
- one processing unit for each machine, whose descriptor keeps old labels after an update;
- the id of a task is a hash of its job and of how many pods of the job exist, so that ids repeat;
- affinity terms carry a label entry with an empty key, and the real labels are lost;
- a cordoned node is removed, one that is not ready has failed, and both are added again later;
- neither priority nor slots by `num_slots_below` are set; the first task of a job is its root.
"""

from dataclasses import dataclass, field
from typing import Any
from uuid import NAMESPACE_DNS, uuid5

import grpc
from google.protobuf.message_factory import GetMessageClass
from testbed import ControlPlane, Manifest
from testbed.api import ApiError

from afflux.kube.quantities import nano
from afflux.rpc.proto.firmament import resources_pb2 as machines
from afflux.rpc.proto.firmament import scheduler_pb2 as pb

SCHEDULER = "poseidon"

_SERVICE = pb.DESCRIPTOR.services_by_name["FirmamentScheduler"]
_FATAL_REPLIES = {
    "TaskReplyType": (
        pb.TASK_NOT_FOUND,
        pb.TASK_JOB_NOT_FOUND,
        pb.TASK_ALREADY_SUBMITTED,
        pb.TASK_STATE_NOT_CREATED,
    ),
    "NodeReplyType": (pb.NODE_NOT_FOUND,),
}


class PoseidonExitError(Exception):
    """Poseidon has ended itself."""


@dataclass(slots=True)
class _Node:
    descriptor: machines.ResourceTopologyNodeDescriptor
    is_up: bool = False
    # Its labels and taints, as told last.
    said: tuple[Any, Any] = ((), ())


@dataclass(slots=True)
class _Job:
    uuid: str
    name: str
    root: Any = None
    pods: set[str] = field(default_factory=set[str])


class Poseidon:
    """One process of Poseidon; a restart is another one."""

    def __init__(self, plane: ControlPlane, port: int) -> None:
        self._plane = plane
        # One for Check and Schedule, one for all else.
        self._schedules, self._tells = (
            grpc.insecure_channel(
                f"127.0.0.1:{port}", options=(("grpc.use_local_subchannel_pool", 1),)
            )
            for _ in range(2)
        )
        self._nodes: dict[str, _Node] = {}
        self._node_of_uuid: dict[str, str] = {}
        self._jobs: dict[str, _Job] = {}
        # By pod uid, the task; by task id, the pod that it means.
        self._task_of: dict[str, tuple[int, str]] = {}
        self._pod_of: dict[int, Manifest] = {}
        self._phases: dict[str, str] = {}
        self._foreign: dict[str, str] = {}
        self.unscheduled: list[int] = []
        check = self._call("Check", pb.HealthCheckRequest())
        assert check.status == pb.SERVING

    def close(self) -> None:
        self._schedules.close()
        self._tells.close()

    def step(self) -> int:
        """Tell what has changed, ask for a schedule and bind; the number of bound pods."""
        self._tell_nodes()
        pods = self._plane.pods("default")
        self._tell_pods(pods)
        self._tell_foreign(pods)
        return self._bind(self._call("Schedule", pb.ScheduleRequest()))

    def _call(self, name: str, message: Any) -> Any:
        channel = self._schedules if name in {"Check", "Schedule"} else self._tells
        answer: Any = GetMessageClass(_SERVICE.methods_by_name[name].output_type)
        call: Any = channel.unary_unary(
            f"/firmament.FirmamentScheduler/{name}",
            request_serializer=lambda each: each.SerializeToString(),
            response_deserializer=answer.FromString,
        )
        try:
            reply = call(message)
        except grpc.RpcError as error:
            raise PoseidonExitError(f"{name}: {error}") from error
        kind = reply.DESCRIPTOR.fields_by_name.get("type")
        fatal = () if kind is None else _FATAL_REPLIES.get(kind.enum_type.name, ())
        if kind is not None and reply.type in fatal:
            says = kind.enum_type.values_by_number[reply.type].name
            raise PoseidonExitError(f"{name}: {says}")
        return reply

    # --- Nodes

    def _tell_nodes(self) -> None:
        present = {each["metadata"]["name"]: each for each in self._plane.nodes()}
        for name in self._nodes.keys() - present.keys():
            if self._nodes[name].is_up:
                self._leave("NodeRemoved", self._nodes[name])
            del self._nodes[name]
        for name, manifest in present.items():
            self._tell_node(name, manifest)

    def _tell_node(self, name: str, manifest: Manifest) -> None:
        known = self._nodes.get(name)
        cordoned = manifest["spec"].get("unschedulable", False)
        conditions = {each["type"]: each["status"] for each in manifest["status"]["conditions"]}
        is_up = not cordoned and conditions["Ready"] == "True"
        says = _labels(manifest["metadata"]["labels"]), _taints(manifest)
        if known is None:
            known = self._nodes[name] = _Node(self._topology(name, manifest))
        if known.is_up and not is_up:
            self._leave("NodeRemoved" if cordoned else "NodeFailed", known)
        elif not known.is_up and is_up:
            # With the same uuids as before. NODE_ALREADY_EXISTS is only logged.
            known.descriptor = self._topology(name, manifest)
            self._call("NodeAdded", known.descriptor)
        elif is_up and says != known.said:
            # The processing unit keeps the old ones.
            told = known.descriptor.resource_desc
            update = machines.ResourceDescriptor(labels=says[0], taints=says[1])
            del told.labels[:], told.taints[:]
            told.MergeFrom(update)
            self._call("NodeUpdated", known.descriptor)
        known.is_up, known.said = is_up, says

    def _leave(self, call: str, known: _Node) -> None:
        self._call(call, pb.ResourceUID(resource_uid=known.descriptor.resource_desc.uuid))

    def _topology(self, name: str, manifest: Manifest) -> machines.ResourceTopologyNodeDescriptor:
        """One machine with one processing unit."""
        uuid, unit = str(uuid5(NAMESPACE_DNS, name)), str(uuid5(NAMESPACE_DNS, f"{name} PU"))
        self._node_of_uuid[uuid] = self._node_of_uuid[unit] = name
        amounts = manifest["status"]["allocatable"]
        labels = _labels(manifest["metadata"]["labels"])
        taints = _taints(manifest)
        descriptor = machines.ResourceTopologyNodeDescriptor(
            resource_desc={
                "uuid": uuid,
                "type": machines.ResourceDescriptor.RESOURCE_MACHINE,
                "state": machines.ResourceDescriptor.RESOURCE_IDLE,
                "friendly_name": name,
                "resource_capacity": _vector(manifest["status"]["capacity"]),
                "available_resources": _vector(amounts),
                "reserved_resources": {},
                "labels": labels,
                "taints": taints,
                "max_pods": int(amounts["pods"]),
            },
        )
        descriptor.children.add(
            resource_desc={
                "uuid": unit,
                "type": machines.ResourceDescriptor.RESOURCE_PU,
                "state": machines.ResourceDescriptor.RESOURCE_IDLE,
                "friendly_name": f"{name}_PU #0",
                "labels": labels,
                "taints": taints,
            },
            parent_id=uuid,
        )
        return descriptor

    # --- Pods

    def _tell_pods(self, pods: list[Manifest]) -> None:
        ours = {
            each["metadata"]["uid"]: each
            for each in pods
            if each["spec"]["schedulerName"] == SCHEDULER
        }
        for uid in self._task_of.keys() - ours.keys():
            self._removed(uid)
        for uid, each in sorted(ours.items(), key=lambda pair: pair[1]["metadata"]["name"]):
            phase = each["status"]["phase"]
            if uid not in self._task_of:
                # Pods that run when it starts are none of its business.
                is_bound = bool(each["spec"].get("nodeName"))
                if phase == "Pending" and not is_bound and not _is_leaving(each):
                    self._submit(uid, each)
                continue
            if phase != self._phases[uid] and phase in {"Succeeded", "Failed"}:
                call = "TaskCompleted" if phase == "Succeeded" else "TaskFailed"
                self._call(call, pb.TaskUID(task_uid=self._task_of[uid][0]))
            self._phases[uid] = phase

    def _submit(self, uid: str, pod: Manifest) -> None:
        metadata = pod["metadata"]
        owners = metadata.get("ownerReferences", ())
        owner = owners[0]["uid"] if owners else uid
        job = self._jobs.setdefault(owner, _Job(str(uuid5(NAMESPACE_DNS, owner)), owner))
        job.pods.add(uid)
        task_id = _hash(f"{job.name} {len(job.pods)}")
        self._task_of[uid] = task_id, owner
        self._pod_of[task_id] = pod
        self._phases[uid] = "Pending"
        description = pb.TaskDescription(
            task_descriptor={
                "uid": task_id,
                "name": f"{metadata['namespace']}/{metadata['name']}",
                "task_namespace": metadata["namespace"],
                "job_id": job.uuid,
                "resource_request": _requests(pod),
                "labels": _labels(metadata.get("labels", {})),
                "label_selectors": [
                    {"key": key, "values": [value]}
                    for key, value in pod["spec"].get("nodeSelector", {}).items()
                ],
                "affinity": _affinity(pod["spec"].get("affinity", {})),
            },
            job_descriptor={"uuid": job.uuid, "name": job.name},
        )
        if job.root is None:
            job.root = description.task_descriptor
        description.job_descriptor.root_task.CopyFrom(job.root)
        self._call("TaskSubmitted", description)

    def _removed(self, uid: str) -> None:
        task_id, owner = self._task_of.pop(uid)
        self._jobs[owner].pods.discard(uid)
        del self._phases[uid]
        self._call("TaskRemoved", pb.TaskUID(task_uid=task_id))

    def _tell_foreign(self, pods: list[Manifest]) -> None:
        """Bound pods of other schedulers; `name/namespace`, unlike in tasks."""
        present = {
            f"{each['metadata']['name']}/{each['metadata']['namespace']}": each
            for each in pods
            if each["spec"]["schedulerName"] != SCHEDULER
            and each["spec"].get("nodeName")
            and each["status"]["phase"] in {"Pending", "Running"}
        }
        for name in self._foreign.keys() - present.keys():
            self._call("AddTaskInfo", pb.TaskInfo(task_name=name, type=pb.TASKINFO_REMOVE))
            del self._foreign[name]
        for name in present.keys() - self._foreign.keys():
            node = present[name]["spec"]["nodeName"]
            asked = _requests(present[name])
            told = pb.TaskInfo(
                task_name=name,
                resource_id=self._nodes[node].descriptor.resource_desc.uuid,
                cpu_utilization=int(asked.cpu_cores),
                mem_utilization=asked.ram_cap // 1000,
            )
            self._call("AddTaskInfo", told)
            self._foreign[name] = node

    # --- Schedules

    def _bind(self, deltas: pb.SchedulingDeltas) -> int:
        self.unscheduled = list(deltas.unscheduled_tasks)
        bound = 0
        for each in deltas.deltas:
            assert each.type == pb.SchedulingDelta.PLACE
            metadata = self._pod_of[each.task_id]["metadata"]
            node = self._node_of_uuid[each.resource_id]
            try:
                self._plane.bind(metadata["name"], node, metadata["namespace"])
            except ApiError as error:
                # Of a pod that runs on a node that it lost.
                if error.status not in {404, 409}:
                    raise
            bound += 1
        return bound


def _hash(text: str) -> int:
    """FNV-1 of 64 bits."""
    found = 0xCBF29CE484222325
    for byte in text.encode():
        found = (found * 0x100000001B3) % 2**64 ^ byte
    return found


def _is_leaving(pod: Manifest) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def _milli(amount: str) -> int:
    return nano(amount) // 10**6


def _vector(amounts: Manifest) -> machines.ResourceVector:
    """What it calls kilobytes are thousandths of a byte."""
    return machines.ResourceVector(
        cpu_cores=_milli(amounts.get("cpu", "0")),
        ram_cap=_milli(amounts.get("memory", "0")),
        ephemeral_storage=_milli(amounts.get("ephemeral-storage", "0")),
    )


def _requests(pod: Manifest) -> machines.ResourceVector:
    total = machines.ResourceVector()
    for each in pod["spec"]["containers"]:
        asked = _vector(each["resources"].get("requests", {}))
        total.cpu_cores += asked.cpu_cores
        total.ram_cap += asked.ram_cap
        total.ephemeral_storage += asked.ephemeral_storage
    return total


def _taints(node: Manifest) -> list[dict[str, str]]:
    return [
        {"key": each["key"], "value": each.get("value", ""), "effect": each["effect"]}
        for each in node["spec"].get("taints", ())
    ]


def _labels(labels: Manifest) -> list[dict[str, str]]:
    return [{"key": key, "value": value} for key, value in labels.items()]


def _affinity(stated: Manifest) -> dict[str, Any] | None:
    found: dict[str, Any] = {}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    if node := stated.get("nodeAffinity"):
        # Without a required part it sends an empty one.
        found["node_affinity"] = {required: node.get(required, {}), preferred: node.get(preferred)}
    for kind, name in (("podAffinity", "pod_affinity"), ("podAntiAffinity", "pod_anti_affinity")):
        terms = stated.get(kind, {}).get(required, ())
        if terms:
            found[name] = {required: [_term(each) for each in terms]}
    return found or None


def _term(term: Manifest) -> dict[str, Any]:
    selector: dict[str, Any] = {"matchLabels": {"key": "", "value": ""}}
    if expressions := term["labelSelector"].get("matchExpressions"):
        selector["matchExpressions"] = expressions
    return {"labelSelector": selector, "topologyKey": term["topologyKey"]}
