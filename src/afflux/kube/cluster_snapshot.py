"""The way in: files of Kubernetes objects to everything a scheduling cycle starts from."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from afflux.kube import objects
from afflux.kube.decoding import (
    Surroundings,
    created_seconds,
    deleted_seconds,
    is_bound,
    is_finished,
    machine,
    scheduler_of,
    started_seconds,
    task,
)
from afflux.kube.grouping import Member, PodGroups, expected_run_seconds, groups
from afflux.kube.images import ImageCensus
from afflux.kube.reading import Contents, Found, read
from afflux.kube.repulsion import Repulsion, kept_out, shut_out
from afflux.kube.volumes.claims import pod_references
from afflux.kube.volumes.needs import Blocked
from afflux.kube.volumes.storage import Storage, StorageObject, task_id
from afflux.kube.volumes.together import Short
from afflux.model.errors import InputError
from afflux.model.group import Group
from afflux.model.machine import Machine
from afflux.model.placement import Placement
from afflux.model.resources import PODS, amount_of
from afflux.model.task import Task
from afflux.queue.quorum import ONE_QUEUE, Held
from afflux.queue.rules import QueueRules

# Kubernetes creates these two itself, so that they are missing from most inputs.
_SYSTEM_PRIORITIES = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}


@dataclass(frozen=True, slots=True)
class Inventory:
    """Machines, what runs on them, what may start and what waits for which reason.

    `ends` is when what runs is expected to end, by task id, for those who say so. `ignored` counts
    objects of kinds that have no part in scheduling; `notes` are sentences about the input that its
    owner should see.
    """

    machines: tuple[Machine, ...]
    running: tuple[tuple[Task, str], ...]
    groups: tuple[Group, ...]
    waiting: tuple[Held, ...]
    ignored: Counter[str]
    notes: tuple[str, ...]
    volumes: "ClaimedVolumes" = field(compare=False, repr=False)
    ends: Mapping[str, float] = field(default_factory=dict[str, float])


def load(
    sources: Sequence[tuple[str, bytes]],
    rules: Mapping[str, QueueRules] = ONE_QUEUE,
    now_seconds: float = 0.0,
    scheduler_names: Collection[str] = (),
) -> Inventory:
    """The inventory of these (file name, content) pairs; an InputError for unusable input.

    A pod of which nobody says when it was started starts `now_seconds`. What runs and does not say
    how long it takes does so as its queue says, if it is of one of these schedulers.
    """
    contents = read(sources)
    alive = [pod for pod in contents.of(objects.Pod).values() if not is_finished(pod.value)]
    _refuse_shared_uids(alive)
    storage = _storage(contents, alive)
    machines = {name: _machine(node, storage) for name, node in contents.of(objects.Node).items()}
    notes = _slotless(machines.values())
    members: list[Member] = []
    running: list[tuple[Task, str]] = []
    ends: dict[str, float] = {}
    keeping_away: list[tuple[str, objects.Pod]] = []
    homeless: list[str] = []
    leaving: list[str] = []
    priorities = _Priorities(contents)
    around = Surroundings(images=ImageCensus(machines.values()), storage=storage)
    for pod in alive:
        node = pod.value.spec.node_name or ""
        if not node and pod.value.metadata.deletion_timestamp:
            leaving.append(pod.name)
            continue
        member = _member(pod, priorities, around)
        if not pod.value.metadata.deletion_timestamp:
            members.append(member)
        if node in machines:
            running.append((member.task, node))
            ours = scheduler_of(pod.value) in scheduler_names
            end = _end(pod.value, rules if ours else {}, now_seconds)
            if end is not None:
                ends[member.task.id] = end
            keeping_away.append((pod.name, pod.value))
        elif node:
            homeless.append(pod.name)
    notes += _listed(homeless, "on nodes that are not in the input and take up nothing")
    notes += _listed(leaving, "being deleted and had no node; left alone")

    labels = {name: each.labels for name, each in machines.items()}
    repulsion = Repulsion(keeping_away, _namespace_labels(contents), labels)
    gathered = groups(
        (_kept_away(member, repulsion, labels) for member in members),
        PodGroups(
            {name: g.value for name, g in contents.of(objects.MemberGroup).items()},
            {name: g.value for name, g in contents.of(objects.NativeGroup).items()},
        ),
        rules,
        storage.shortage,
    )
    return Inventory(
        machines=tuple(machines.values()),
        running=tuple(running),
        groups=tuple(_told_apart(gathered.ready)),
        waiting=(*gathered.waiting, *gathered.refused),
        ignored=contents.ignored,
        notes=tuple(notes),
        volumes=ClaimedVolumes(around, {m.task.id: m.pod for m in members if not m.running}),
        ends=ends,
    )


def _end(pod: objects.Pod, rules: Mapping[str, QueueRules], now_seconds: float) -> float | None:
    """When what runs is expected to end, None without end."""
    deleted, lasts = deleted_seconds(pod), expected_run_seconds(pod, rules)
    if deleted is not None or lasts is None:
        return deleted
    started = started_seconds(pod)
    return (now_seconds if started is None else started) + lasts


def _told_apart(ready: Sequence[Group]) -> list[Group]:
    """A pod and a group may have the same name; the queue knows groups by it."""
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
    """Volumes that pending pods get as they are placed one after the other."""

    def __init__(self, around: Surroundings, pending: Mapping[str, objects.Pod]) -> None:
        self._around = around
        self._claiming = {id_: pod for id_, pod in pending.items() if pod_references(pod)}

    def take(
        self, together: Sequence[Placement], labels: Mapping[str, Mapping[str, str]]
    ) -> frozenset[str]:
        """Volumes for pods that start together, on machines with these labels; who finds none.

        Those that they get are no longer to be had. If one of them finds none, all of them do:
        except where they share a claim, and so have to follow the first that gets it.
        """
        storage = self._around.storage
        going = [
            (self._claiming[each.task.id], each.machine, labels[each.machine])
            for each in together
            if each.task.id in self._claiming
        ]
        if storage is None or not going:
            return frozenset()
        if len(together) > 1:
            found = storage.choose_together(going)
            if not isinstance(found, Short):
                storage.assume(tuple(choice for each in found.values() for choice in each))
                return frozenset()
            if not found.scattered:
                storage.concede(going, found)
                return frozenset(each.task.id for each in together)
        lost: set[str] = set()
        for pod, node, stated in going:
            choices = storage.choose(pod, node, stated)
            if isinstance(choices, Blocked):
                lost.add(task_id(pod))
            else:
                storage.assume(choices)
        return frozenset(lost)

    def look_again(self, waiting: Iterable[Group]) -> list[Group]:
        """Those of the groups that ask for something else, now that some volumes are taken."""
        changed: list[Group] = []
        for group in waiting:
            tasks = tuple(
                task(self._claiming[t.id], self._around) if t.id in self._claiming else t
                for t in group.tasks
            )
            if tasks != group.tasks:
                changed.append(replace(group, tasks=tasks))
        return changed


def _storage(contents: Contents, pods: Iterable[Found[objects.Pod]]) -> Storage:
    storage = Storage()
    found: list[Found[StorageObject]] = [
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

    def __init__(self, contents: Contents) -> None:
        classes = [found.value for found in contents.of(objects.PriorityClass).values()]
        self._by_name = _SYSTEM_PRIORITIES | {c.metadata.name or "": c.value for c in classes}
        self._default = max((c.value for c in classes if c.global_default), default=0)

    def of(self, spec: objects.PodSpec) -> int:
        if spec.priority is not None:
            return spec.priority
        if spec.priority_class_name:
            return self._by_name.get(spec.priority_class_name, 0)
        return self._default


def _machine(node: Found[objects.Node], storage: Storage) -> Machine:
    try:
        stated = node.value.metadata.labels or {}
        return machine(node.value, storage.csi_node(node.name), storage.volumes_on(stated))
    except InputError as error:
        raise node.error(error) from None


def _member(pod: Found[objects.Pod], priorities: _Priorities, around: Surroundings) -> Member:
    try:
        return Member(
            task=task(pod.value, around),
            pod=pod.value,
            running=is_bound(pod.value),
            priority=priorities.of(pod.value.spec),
            created_seconds=created_seconds(pod.value),
        )
    except InputError as error:
        raise pod.error(error) from None


def _kept_away(
    member: Member, repulsion: Repulsion, machines: Mapping[str, Mapping[str, str]]
) -> Member:
    if member.running or member.task.blocked:
        return member
    places = repulsion.places(member.pod)
    why = repulsion.against(member.pod) or (places and shut_out(places, machines))
    task = replace(member.task, shape=kept_out(member.task.shape, places), blocked=why)
    return replace(member, task=task)


def _refuse_shared_uids(pods: Iterable[Found[objects.Pod]]) -> None:
    """A task's identity is its pod's uid: two pods with one cannot be told apart."""
    owners: dict[str, Found[objects.Pod]] = {}
    for pod in pods:
        uid = pod.value.metadata.uid
        if uid and (first := owners.setdefault(uid, pod)) is not pod:
            raise pod.error(f"metadata.uid: {uid!r} is also that of {first.name} ({first.origin})")


def _namespace_labels(contents: Contents) -> Mapping[str, Mapping[str, str]]:
    return {
        name: found.value.metadata.labels or {}
        for name, found in contents.of(objects.Namespace).items()
    }


def _slotless(machines: Iterable[Machine]) -> list[str]:
    names = [each.name for each in machines if amount_of(each.capacity, PODS) == 0]
    if not names:
        return []
    nodes = "1 node offers" if len(names) == 1 else f"{len(names)} nodes offer"
    return [f"{nodes} no room for pods (status.allocatable.pods): {_some(names)}"]


def _listed(names: Sequence[str], predicament: str) -> list[str]:
    if not names:
        return []
    pods = "1 pod is" if len(names) == 1 else f"{len(names)} pods are"
    return [f"{pods} {predicament}: {_some(names)}"]


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"
