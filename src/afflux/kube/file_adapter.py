"""File adapter: the objects of files, for a dry run of the scheduler (control/dry_run.py).

The objects go through the reader of a live cluster. Here is what only files need: an object that
cannot be used is an error, which names its file; what the API server and its admission write is
filled in; and there are notes for the owner of the files. Placements are carried out on the objects
in memory.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

import msgspec

from afflux.control.adapter import HeldTask, Reports, RestsOn
from afflux.cycle.events import Event, MachineSet, NormalisersChanged
from afflux.cycle.loop import Outcome
from afflux.groups.quorum import BUILT_IN, QuorumRule
from afflux.groups.register import GroupRegister
from afflux.kube import objects
from afflux.kube.cluster_relations import ClusterRelations
from afflux.kube.disks.disk_requests import DiskCounting
from afflux.kube.disks.normaliser_files import Source, registry_of_files, split_contents
from afflux.kube.object_files import LoadedObject, LoadedObjects, read
from afflux.kube.pods import created_seconds, is_bound, is_finished
from afflux.kube.reader.cluster_disks import DiskOptions
from afflux.kube.reader.cluster_reader import ClusterReader
from afflux.kube.reader.volume_chooser import ChosenVolumes, Unit, VolumeChooser, units
from afflux.kube.rejection import DECIDE_AGAIN, Rejection
from afflux.model.errors import InputError
from afflux.model.eviction import Eviction
from afflux.model.placement import Placement
from afflux.model.resources import PODS, amount_of
from afflux.queue.rules import ONE_QUEUE, QueueRules

# Kubernetes creates these two itself, so that they are missing from most inputs.
_SYSTEM_PRIORITIES = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}


@dataclass(frozen=True, slots=True)
class FileDisks:
    """How disk bandwidth counts in files: for which pods, the name of the ConfigMap that lists the
    normalisers, and the keys by which these must be signed, if there are any."""

    counting: DiskCounting
    config_map: str = "default/normalization-func"
    trusted_keys: Mapping[str, bytes] = field(default_factory=dict[str, bytes])


class FileAdapter:
    """The objects in these (file name, content) pairs; an InputError for unusable input.

    All pending pods are considered, whatever scheduler they name. A running pod of one of these
    schedulers without a run time gets the default of its queue; one without a start time counts as
    started when it is first drained. The Services and controllers that are read are added to
    `relations`, which has the default constraints. With `evicts` running pods may be evicted,
    whatever scheduler they name. With `disks` disk bandwidth counts; contents of normalisers may be
    among the sources. `ignored` counts objects without a part in scheduling.
    """

    def __init__(
        self,
        sources: Sequence[tuple[str, bytes]],
        rules: Mapping[str, QueueRules] = ONE_QUEUE,
        scheduler_names: Collection[str] = (),
        relations: ClusterRelations | None = None,
        quorum_rules: Mapping[str, QuorumRule] = BUILT_IN,
        *,
        evicts: bool = False,
        disks: FileDisks | None = None,
    ) -> None:
        sources, normalisers = split_contents(sources)
        contents = read(sources)
        self.ignored = contents.ignored
        self._disk_notes: list[str] = []
        self._unreported: list[Event] = self._read_disks(contents, normalisers, disks)
        self._reader = ClusterReader(
            scheduler_names,
            rules,
            relations=relations,
            quorum_rules=quorum_rules,
            takes_all_pending=True,
            evicts=evicts,
            on_invalid=self._raise_invalid,
            disks=DiskOptions(disks.counting) if disks is not None else None,
        )
        self._chooser = VolumeChooser(self._reader)
        self._loaded = {
            store.kind: contents.of(kind) for kind, store in self._reader.stores.items()
        }
        self._without_pod_slots: dict[str, None] = {}
        pods = _completed_pods(contents)
        self._pod_notes = _notes_about_pods(pods, contents.of(objects.Node))
        completed: dict[type[objects.Object], Sequence[objects.Object]] = {
            objects.Pod: pods,
            objects.Namespace: _namespaces(contents, pods),
        }
        for kind, store in self._reader.stores.items():
            as_read = [found.value for found in contents.of(kind).values()]
            store.replaced(completed.get(kind, as_read))

    def _read_disks(
        self, contents: LoadedObjects, normalisers: Sequence[Source], disks: FileDisks | None
    ) -> list[Event]:
        """The event for the normalisers that are given."""
        config_maps = contents.of(objects.ConfigMap)
        named = config_maps.get(disks.config_map) if disks is not None else None
        ignored = {"ConfigMap": len(config_maps) - (named is not None)}
        if disks is None:
            ignored["NodeDiskIOInfo"] = len(contents.of(objects.NodeDiskIOInfo))
            ignored["normaliser"] = len(normalisers)
        self.ignored += Counter(ignored)
        if disks is None:
            return []
        try:
            registry, self._disk_notes = registry_of_files(
                None if named is None else named.value, normalisers, disks.trusted_keys
            )
        except InputError as error:
            raise named.error(error) if named is not None else error from None
        return [NormalisersChanged(frozenset(registry.in_use()), registry.normalise)]

    def _raise_invalid(self, kind: str, name: str, error: Exception) -> NoReturn:
        raise self._loaded[kind][name].error(error) if isinstance(error, InputError) else error

    def notes(self) -> list[str]:
        """Remarks about the input for its owner, once it has been drained."""
        slots = _note_without_pod_slots([*self._without_pod_slots])
        return slots + self._pod_notes + self._disk_notes

    # --- The protocol of adapters

    @property
    def register(self) -> GroupRegister:
        return self._reader.register

    def drain(self, now_seconds: float) -> Reports:
        events = [*self._unreported, *self._reader.take_events(now_seconds)]
        self._unreported.clear()
        self._note_machines(events)
        held = [HeldTask(task, hold.why) for task, hold in self.register.take_held_back()]
        return Reports(events, held, machines=len(self._reader.nodes))

    def assume(self, outcome: Outcome) -> None:
        self._reader.assume(outcome.placements)

    async def reserve(self, outcome: Outcome) -> Sequence[Placement]:
        groups = outcome.decision.plan.placed if outcome.decision is not None else ()
        chosen: dict[str, ChosenVolumes] = {}
        refused: dict[str, Rejection] = {}
        for found in self._chooser.choose(outcome.placements, groups, outcome.circles):
            chosen |= found.chosen
            refused |= found.refused
        if not refused:
            return outcome.placements
        going_together = units(outcome.placements, groups, outcome.circles)
        for task_id in _depending_on(refused, going_together, outcome.rests_on):
            refused[task_id] = DECIDE_AGAIN
            if task_id in chosen:
                self._reader.cluster_storage.forget(chosen[task_id].choices)
        for placement in outcome.placements:
            if (rejection := refused.get(placement.task.id)) is not None:
                waits = rejection.reason and not rejection.decide_again
                refusal = rejection.reason if waits else None
                self._reader.forget_assumed(placement, rejection.reason, refusal=refusal)
        return [each for each in outcome.placements if each.task.id not in refused]

    def place(self, placements: Sequence[Placement], rests_on: RestsOn) -> None:  # noqa: ARG002
        for placement in placements:
            pod = self._reader.pending_pod(placement.task)
            if pod is not None:
                spec = msgspec.structs.replace(pod.spec, node_name=placement.machine)
                self._reader.pods.changed(msgspec.structs.replace(pod, spec=spec))

    def give_up(self, placements: Sequence[Placement], evictions: Sequence[Eviction] = ()) -> None:
        del evictions  # of which a dry run carries out none
        for placement in placements:
            self._reader.forget_assumed(placement)

    def _note_machines(self, events: Iterable[Event]) -> None:
        for event in events:
            if isinstance(event, MachineSet) and not amount_of(event.machine.capacity, PODS):
                self._without_pod_slots[event.machine.name] = None


def _depending_on(
    refused: Collection[str], going_together: Iterable[Unit], rests_on: RestsOn
) -> list[str]:
    """The tasks that cannot be placed without the refused ones, because they rest on one of them,
    or because they go together with such a task."""
    unit_of = {each.task.id: unit for unit in going_together for each in unit.members}
    resting: dict[str, list[str]] = {}
    for task_id, needed in rests_on.items():
        for each in needed:
            resting.setdefault(each, []).append(task_id)
    found: dict[str, None] = {}
    open_ids = list(refused)
    while open_ids:
        for task_id in resting.get(open_ids.pop(), ()):
            for each in unit_of[task_id].members:
                if each.task.id not in found and each.task.id not in refused:
                    found[each.task.id] = None
                    open_ids.append(each.task.id)
    return list(found)


# --- What the API server and its admission write


def _completed_pods(contents: LoadedObjects) -> list[objects.Pod]:
    """The pods that have not ended, each with a uid and a priority."""
    classes = [found.value for found in contents.of(objects.PriorityClass).values()]
    by_name = _SYSTEM_PRIORITIES | {each.metadata.name or "": each.value for each in classes}
    default = max((each.value for each in classes if each.global_default), default=0)
    policies = {each.metadata.name or "": each.preemption_policy for each in classes}
    defaults = [each for each in classes if each.global_default and each.value == default]
    global_default = next((each.metadata.name or "" for each in defaults), "")
    owners: dict[str, LoadedObject[objects.Pod]] = {}
    pods: list[objects.Pod] = []
    for found in contents.of(objects.Pod).values():
        pod, spec = found.value, found.value.spec
        if is_finished(pod):
            continue
        uid = pod.metadata.uid or found.name
        if (first := owners.setdefault(uid, found)) is not found:
            # The uid identifies the task.
            raise found.error(
                f"metadata.uid: {uid!r} is also that of {first.name} ({first.origin})"
            )
        try:
            created_seconds(pod)
        except InputError as error:
            raise found.error(error) from None
        if spec.preemption_policy is None:
            policy = policies.get(spec.priority_class_name or global_default)
            spec = msgspec.structs.replace(spec, preemption_policy=policy)
        if spec.priority is None:
            name = spec.priority_class_name
            priority = by_name.get(name, 0) if name else default
            spec = msgspec.structs.replace(spec, priority=priority)
        metadata = msgspec.structs.replace(pod.metadata, uid=uid)
        pods.append(msgspec.structs.replace(pod, metadata=metadata, spec=spec))
    return pods


def _namespaces(contents: LoadedObjects, pods: Iterable[objects.Pod]) -> list[objects.Namespace]:
    """The namespaces that are read, and those that pods name."""
    found = {name: each.value for name, each in contents.of(objects.Namespace).items()}
    for pod in pods:
        name = pod.metadata.namespace or "default"
        if name not in found:
            found[name] = objects.Namespace(metadata=objects.Metadata(name=name))
    return list(found.values())


# --- Notes


def _notes_about_pods(pods: Iterable[objects.Pod], nodes: Collection[str]) -> list[str]:
    on_unknown_nodes: list[str] = []
    deleting: list[str] = []
    for pod in pods:
        name = f"{pod.metadata.namespace}/{pod.metadata.name}"
        if is_bound(pod):
            if pod.spec.node_name not in nodes:
                on_unknown_nodes.append(name)
        elif pod.metadata.deletion_timestamp:
            deleting.append(name)
    return [
        *_note_pods(on_unknown_nodes, "on nodes that are not in the input and take up nothing"),
        *_note_pods(deleting, "being deleted and had no node; left alone"),
    ]


def _note_without_pod_slots(names: Sequence[str]) -> list[str]:
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
