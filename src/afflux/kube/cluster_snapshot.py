"""Files of Kubernetes objects to a snapshot of the cluster, the input of a scheduling cycle."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from afflux.kube import objects
from afflux.kube.cluster_relations import ClusterRelations, namespace_labels
from afflux.kube.group_claims import Member, PodGroups, expected_run_seconds, groups
from afflux.kube.images import ImageCensus
from afflux.kube.nodes import machine
from afflux.kube.object_files import LoadedObject, LoadedObjects, read
from afflux.kube.pods import (
    PodContext,
    created_seconds,
    deleted_seconds,
    is_bound,
    is_finished,
    namespace,
    scheduler_of,
    started_seconds,
    task,
)
from afflux.kube.tenant_limits import TenantLimits, demand_of
from afflux.kube.volumes.claims import claim_references
from afflux.kube.volumes.gang_volumes import VolumeShortfall
from afflux.kube.volumes.storage import Storage, StorageObject, task_id
from afflux.kube.volumes.volume_needs import Blocked
from afflux.model.errors import InputError
from afflux.model.group import Group
from afflux.model.machine import Machine
from afflux.model.placement import Placement
from afflux.model.relations import Labels
from afflux.model.resources import PODS, amount_of
from afflux.model.task import Task
from afflux.queue.quorum import ONE_QUEUE, HeldBackTask
from afflux.queue.rules import QueueRules

# Kubernetes creates these two itself, so that they are missing from most inputs.
_SYSTEM_PRIORITIES = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """Machines, running tasks, groups that may start, and waiting tasks with their reasons.

    `ends` is the expected end of running tasks by id, where it is known; `namespaces` the labels
    of namespaces. `ignored` counts objects of kinds without a part in scheduling; `notes` are
    remarks about the input for its owner.
    """

    machines: tuple[Machine, ...]
    running: tuple[tuple[Task, str], ...]
    groups: tuple[Group, ...]
    waiting: tuple[HeldBackTask, ...]
    ignored: Counter[str]
    notes: tuple[str, ...]
    volumes: "ClaimedVolumes" = field(compare=False, repr=False)
    ends: Mapping[str, float] = field(default_factory=dict[str, float])
    namespaces: Mapping[str, Labels] = field(default_factory=dict[str, Labels])


def load(
    sources: Sequence[tuple[str, bytes]],
    rules: Mapping[str, QueueRules] = ONE_QUEUE,
    now_seconds: float = 0.0,
    scheduler_names: Collection[str] = (),
    relations: ClusterRelations | None = None,
) -> ClusterSnapshot:
    """The snapshot of these (file name, content) pairs; an InputError for unusable input.

    A running pod without a start time counts as started at `now_seconds`. A running pod of one of
    these schedulers without a run time gets the default of its queue. The Services and controllers
    that are read are added to `relations`, which has the default constraints.
    """
    contents = read(sources)
    alive = [pod for pod in contents.of(objects.Pod).values() if not is_finished(pod.value)]
    _refuse_shared_uids(alive)
    storage = _storage(contents, alive)
    machines = {name: _machine(node, storage) for name, node in contents.of(objects.Node).items()}
    notes = _note_without_pod_slots(machines.values())
    members: list[Member] = []
    running: list[tuple[Task, str]] = []
    ends: dict[str, float] = {}
    on_unknown_nodes: list[str] = []
    deleting: list[str] = []
    priorities = _Priorities(contents)
    limits = TenantLimits()
    relations = ClusterRelations() if relations is None else relations
    _read_selecting(contents, relations)
    images = ImageCensus(machines.values())
    context = PodContext(images=images, storage=storage, relations=relations)
    for pod in alive:
        node = pod.value.spec.node_name or ""
        if not node and pod.value.metadata.deletion_timestamp:
            deleting.append(pod.name)
            continue
        member = _member(pod, priorities, context)
        if not pod.value.metadata.deletion_timestamp:
            members.append(_apply_limits(member, limits))
        if node in machines:
            running.append((member.task, node))
            ours = scheduler_of(pod.value) in scheduler_names
            end = _end(pod.value, rules if ours else {}, now_seconds)
            if end is not None:
                ends[member.task.id] = end
        elif node:
            on_unknown_nodes.append(pod.name)
    notes += _note_pods(on_unknown_nodes, "on nodes that are not in the input and take up nothing")
    notes += _note_pods(deleting, "being deleted and had no node; left alone")

    gathered = groups(
        members,
        PodGroups(
            {name: g.value for name, g in contents.of(objects.CoschedulingPodGroup).items()},
            {name: g.value for name, g in contents.of(objects.NativePodGroup).items()},
        ),
        rules,
        storage.volume_shortfall,
    )
    return ClusterSnapshot(
        machines=tuple(machines.values()),
        running=tuple(running),
        groups=tuple(_with_unique_names(gathered.ready)),
        waiting=(*gathered.waiting, *gathered.refused),
        ignored=contents.ignored,
        notes=tuple(notes),
        volumes=ClaimedVolumes(context, {m.task.id: m.pod for m in members if not m.running}),
        ends=ends,
        namespaces=_namespaces(contents, alive),
    )


def _end(pod: objects.Pod, rules: Mapping[str, QueueRules], now_seconds: float) -> float | None:
    """When a running pod is expected to end, None if that is unknown."""
    deleted, lasts = deleted_seconds(pod), expected_run_seconds(pod, rules)
    if deleted is not None or lasts is None:
        return deleted
    started = started_seconds(pod)
    return (now_seconds if started is None else started) + lasts


def _with_unique_names(ready: Sequence[Group]) -> list[Group]:
    """Rename groups that have the name of a pod: the queue identifies groups by name."""
    pods = {group.name for group in ready if _is_pod(group)}
    return [
        replace(group, name=f"{group.name} (group)")
        if group.name in pods and not _is_pod(group)
        else group
        for group in ready
    ]


def _is_pod(group: Group) -> bool:
    return len(group.tasks) == 1 and group.name == group.tasks[0].name


class ClaimedVolumes:
    """The volumes of pending pods, assumed as the pods are placed."""

    def __init__(self, context: PodContext, pending: Mapping[str, objects.Pod]) -> None:
        self._context = context
        self._claiming = {id_: pod for id_, pod in pending.items() if claim_references(pod)}

    def take(self, gang: Sequence[Placement], labels: Mapping[str, Labels]) -> frozenset[str]:
        """Assume volumes for pods that start together; returns the pods without volumes.

        If one pod of a gang finds none, none gets any, except when pods share a claim: those have
        to follow the first one that gets it.
        """
        storage = self._context.storage
        members = [
            (self._claiming[each.task.id], each.machine, labels[each.machine])
            for each in gang
            if each.task.id in self._claiming
        ]
        if storage is None or not members:
            return frozenset()
        if len(gang) > 1:
            found = storage.choose_gang(members)
            if not isinstance(found, VolumeShortfall):
                storage.assume(tuple(choice for each in found.values() for choice in each))
                return frozenset()
            if not found.splits_claim:
                storage.avoid_shortfall(members, found)
                return frozenset(each.task.id for each in gang)
        lost: set[str] = set()
        for pod, node, stated in members:
            choices = storage.choose(pod, node, stated)
            if isinstance(choices, Blocked):
                lost.add(task_id(pod))
            else:
                storage.assume(choices)
        return frozenset(lost)

    def update_tasks(self, waiting: Iterable[Group]) -> list[Group]:
        """The groups whose requests have changed, now that some volumes are assumed."""
        changed: list[Group] = []
        for group in waiting:
            tasks = tuple(
                task(self._claiming[t.id], self._context) if t.id in self._claiming else t
                for t in group.tasks
            )
            if tasks != group.tasks:
                changed.append(replace(group, tasks=tasks))
        return changed


def _storage(contents: LoadedObjects, pods: Iterable[LoadedObject[objects.Pod]]) -> Storage:
    storage = Storage()
    found: list[LoadedObject[StorageObject]] = [
        *contents.of(objects.StorageClass).values(),
        *contents.of(objects.CSIDriver).values(),
        *contents.of(objects.CSINode).values(),
        *contents.of(objects.CSIStorageCapacity).values(),
        *contents.of(objects.PersistentVolume).values(),
        *contents.of(objects.PersistentVolumeClaim).values(),
        *(pod for pod in pods if pod.value.spec.volumes),
    ]
    for each in found:
        try:
            storage.set(each.value)
        except InputError as error:
            raise each.error(error) from None
    return storage


class _Priorities:
    """The priority of a pod: its own, its class's, the default class's, 0."""

    def __init__(self, contents: LoadedObjects) -> None:
        classes = [found.value for found in contents.of(objects.PriorityClass).values()]
        self._by_name = _SYSTEM_PRIORITIES | {c.metadata.name or "": c.value for c in classes}
        self._default = max((c.value for c in classes if c.global_default), default=0)

    def of(self, spec: objects.PodSpec) -> int:
        if spec.priority is not None:
            return spec.priority
        if spec.priority_class_name:
            return self._by_name.get(spec.priority_class_name, 0)
        return self._default


def _machine(node: LoadedObject[objects.Node], storage: Storage) -> Machine:
    try:
        stated = node.value.metadata.labels or {}
        return machine(node.value, storage.csi_node(node.name), storage.volumes_on(stated))
    except InputError as error:
        raise node.error(error) from None


def _member(pod: LoadedObject[objects.Pod], priorities: _Priorities, context: PodContext) -> Member:
    try:
        return Member(
            task=task(pod.value, context),
            pod=pod.value,
            running=is_bound(pod.value),
            priority=priorities.of(pod.value.spec),
            created_seconds=created_seconds(pod.value),
        )
    except InputError as error:
        raise pod.error(error) from None


def _apply_limits(member: Member, limits: TenantLimits) -> Member:
    if member.running or member.task.blocked:
        return member
    demand = demand_of(member.task.shape)
    why = limits.admit(member.task.name, namespace(member.pod), demand)
    return member if why is None else replace(member, task=replace(member.task, blocked=why))


def _refuse_shared_uids(pods: Iterable[LoadedObject[objects.Pod]]) -> None:
    """Two pods with one uid are an error: the uid identifies the task."""
    owners: dict[str, LoadedObject[objects.Pod]] = {}
    for pod in pods:
        uid = pod.value.metadata.uid
        if uid and (first := owners.setdefault(uid, pod)) is not pod:
            raise pod.error(f"metadata.uid: {uid!r} is also that of {first.name} ({first.origin})")


def _read_selecting(contents: LoadedObjects, relations: ClusterRelations) -> None:
    """Add the Services and controllers, from which default constraints follow."""
    for found in (
        *contents.of(objects.Service).values(),
        *contents.of(objects.ReplicationController).values(),
        *contents.of(objects.ReplicaSet).values(),
        *contents.of(objects.StatefulSet).values(),
    ):
        relations.set(found.value)


def _namespaces(
    contents: LoadedObjects, pods: Iterable[LoadedObject[objects.Pod]]
) -> dict[str, Labels]:
    """The labels of the namespaces that are read, and of those that pods name."""
    found = contents.of(objects.Namespace)
    names = dict.fromkeys((*found, *(namespace(pod.value) for pod in pods)))
    stated = {name: found[name].value if name in found else None for name in names}
    return {name: namespace_labels(name, each) for name, each in stated.items()}


def _note_without_pod_slots(machines: Iterable[Machine]) -> list[str]:
    names = [each.name for each in machines if amount_of(each.capacity, PODS) == 0]
    if not names:
        return []
    nodes = "1 node offers" if len(names) == 1 else f"{len(names)} nodes offer"
    return [f"{nodes} no room for pods (status.allocatable.pods): {_shortened(names)}"]


def _note_pods(names: Sequence[str], state: str) -> list[str]:
    if not names:
        return []
    pods = "1 pod is" if len(names) == 1 else f"{len(names)} pods are"
    return [f"{pods} {state}: {_shortened(names)}"]


def _shortened(names: Sequence[str]) -> str:
    shown = ", ".join(names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"
