"""Volume chooser: which volumes the pods that were placed get, before any of them is bound.

A claim that waits for its first consumer gets an existing volume, or its provisioner will create
one for the pod's node. A choice is assumed at once, so two pods never get the same volume. The
members of a gang get their volumes together: if one member gets none, the whole gang is decided
again. So do the pods of a circle, which require each other.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from afflux.kube import objects
from afflux.kube.reader.cluster_reader import ClusterReader
from afflux.kube.reader.cluster_storage import PodPlacement
from afflux.kube.rejection import DECIDE_AGAIN, Rejection
from afflux.kube.volumes.claims import claim_references
from afflux.kube.volumes.gang_volumes import VolumeShortfall
from afflux.kube.volumes.volume_choice import Choice
from afflux.kube.volumes.volume_needs import Blocked
from afflux.model.placement import Placement
from afflux.model.relations import Labels
from afflux.model.waiting_group import WaitingGroup

_log = logging.getLogger(__name__)

# How many pods that found no volumes are remembered.
_MAX_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True)
class Unit:
    """Placements that get volumes all or none: a gang, a circle, several of them that have pods in
    common, or a single pod. `name` is that of the gang or of a pod, for people; `key` that of the
    gang, or the id of a pod."""

    name: str
    key: str
    members: Sequence[Placement]
    is_gang: bool = False

    @property
    def names_members(self) -> bool:
        """Whether the members may learn each other's names: they are of one namespace."""
        return len({each.task.name.partition("/")[0] for each in self.members}) == 1


@dataclass(frozen=True, slots=True)
class ChosenVolumes:
    """The volumes of a pod, and the labels of the node for which they were chosen."""

    choices: tuple[Choice, ...]
    labels: Labels


@dataclass(frozen=True, slots=True)
class UnitVolumes:
    """By task id, the volumes of the pods of a unit, and why others cannot be bound. With
    `together`, the pods were given volumes as a whole."""

    unit: Unit
    chosen: Mapping[str, ChosenVolumes] = field(default_factory=dict[str, ChosenVolumes])
    refused: Mapping[str, Rejection] = field(default_factory=dict[str, Rejection])
    together: bool = False


class VolumeChooser:
    """Chooses as kube-scheduler's VolumeBinding plugin does, and for gangs as a whole.

    `on_avoidance` is called with the ids of pods that are decided again with other volumes. They
    avoid the volumes that others of their gang need until `end_avoidance` is called.
    """

    def __init__(
        self,
        reader: ClusterReader,
        on_avoidance: Callable[[Sequence[str]], object] = lambda _: None,
    ) -> None:
        self._reader = reader
        self._cluster_storage = reader.cluster_storage
        self._on_avoidance = on_avoidance
        # How often volumes were given to pods, and that number when a pod last found none.
        self._given = 0
        self._given_when_none_left: dict[str, int] = {}

    def choose(
        self,
        placements: Sequence[Placement],
        groups: Iterable[WaitingGroup],
        circles: Iterable[Collection[str]] = (),
    ) -> Iterator[UnitVolumes]:
        """Choose for one unit after the other; units without claims are left out."""
        claiming = {each.task.id for each in placements if self._has_claims(each)}
        for unit in units(placements, groups, circles) if claiming else ():
            if all(each.task.id not in claiming for each in unit.members):
                continue
            try:
                found = self._choose_for(unit)
            except Exception:
                # After a defect the other placements of the cycle are still bound.
                _log.exception("volumes for %s could not be chosen", unit.name)
                why = "volumes could not be chosen because of a defect, see the log"
                found = _refused(unit, Rejection(why))
            yield found

    def _has_claims(self, placement: Placement) -> bool:
        pod = self._reader.pending_pod(placement.task)
        return pod is not None and bool(claim_references(pod))

    def _choose_for(self, unit: Unit) -> UnitVolumes:
        going: list[PodPlacement] = []
        for placement in unit.members:
            pod = self._reader.pending_pod(placement.task)
            node = self._reader.nodes.get(placement.machine)
            if pod is None or node is None:
                return _refused(unit, DECIDE_AGAIN)
            going.append((pod, placement, node.metadata.labels or {}))
        if len(going) == 1:
            return self._choose_one_by_one(unit, going)
        found = self._cluster_storage.choose_gang(going)
        if not isinstance(found, VolumeShortfall):
            self._count_given(unit.key)
            chosen = {
                placement.task.id: ChosenVolumes(found[placement.task.id], labels)
                for _, placement, labels in going
            }
            return UnitVolumes(unit, chosen, together=True)
        if found.splits_claim:
            # Some members share a claim, which plans do not consider: they follow the first.
            return self._choose_one_by_one(unit, going)
        return _refused(unit, self._gang_rejection(unit, found, going))

    def _choose_one_by_one(self, unit: Unit, going: Iterable[PodPlacement]) -> UnitVolumes:
        chosen: dict[str, ChosenVolumes] = {}
        refused: dict[str, Rejection] = {}
        for pod, placement, labels in going:
            found = self._choose_one(pod, placement, labels)
            if isinstance(found, Rejection):
                refused[placement.task.id] = found
            else:
                chosen[placement.task.id] = ChosenVolumes(found, labels)
        return UnitVolumes(unit, chosen, refused)

    def _choose_one(
        self, pod: objects.Pod, placement: Placement, labels: Labels
    ) -> tuple[Choice, ...] | Rejection:
        choices = self._cluster_storage.choose(pod, placement, labels)
        task_id = placement.task.id
        if isinstance(choices, Blocked):
            lost = self._taken_by_others(task_id)
            return DECIDE_AGAIN if lost else Rejection(choices.reason)
        self._count_given(task_id)
        return choices

    def _gang_rejection(
        self, unit: Unit, short: VolumeShortfall, going: Sequence[PodPlacement]
    ) -> Rejection:
        """Why a group has to wait.

        It is decided again at once if other pods took volumes since, or if some members look
        elsewhere from now on. Both can happen only a limited number of times.
        """
        tasks = {placement.task.id: placement.task for _, placement, _ in going}
        lost = self._taken_by_others(unit.key)
        if self._cluster_storage.avoid_shortfall(going, short):
            self._on_avoidance([*tasks])
            return DECIDE_AGAIN
        self._cluster_storage.end_avoidance(tasks)
        if lost:
            return DECIDE_AGAIN
        if not unit.names_members:
            return Rejection("the pod and the pods that it requires find no volumes at once")
        together = f"group {unit.name} finds no volumes for all its members at once"
        if not unit.is_gang:
            together = "the pod and the pods that it requires find no volumes at once"
        return Rejection(f"{together}: {tasks[short.pod].name}: {short.reason}")

    def _count_given(self, key: str) -> None:
        self._given += 1
        self._given_when_none_left.pop(key, None)

    def _taken_by_others(self, key: str) -> bool:
        """Whether other pods got volumes since this pod or group last found none.

        Pods that are decided in one cycle may compete for the same few volumes. One of them gets
        volumes each time, so the others can be decided again at once and get theirs in the end.
        """
        before = self._given_when_none_left.get(key, -1)
        if len(self._given_when_none_left) > _MAX_REMEMBERED:
            # Most of these pods were deleted meanwhile; the others are decided once more.
            self._given_when_none_left.clear()
        self._given_when_none_left[key] = self._given
        return self._given > before


def units(
    placements: Sequence[Placement],
    groups: Iterable[WaitingGroup],
    circles: Iterable[Collection[str]],
) -> Iterator[Unit]:
    """The placements that go together, and each other one alone, in order."""
    gang_of: dict[str, WaitingGroup] = {}
    # By task id, the ids of a gang or of circles; one object for all that go together.
    together: dict[str, list[str]] = {}
    for group in groups:
        if group.is_gang:
            ids = [task.id for task in group.tasks]
            together.update(dict.fromkeys(ids, ids))
            gang_of.update(dict.fromkeys(ids, group))
    for circle in circles:
        joined = list(
            dict.fromkeys(a for each in sorted(circle) for a in together.get(each, [each]))
        )
        together.update(dict.fromkeys(joined, joined))
    members: dict[int, list[Placement]] = {}
    for placement in placements:
        if (ids := together.get(placement.task.id)) is not None:
            members.setdefault(id(ids), []).append(placement)
    for placement in placements:
        task = placement.task
        if (ids := together.get(task.id)) is None:
            yield Unit(task.name, task.id, [placement])
        elif found := members.pop(id(ids), None):
            gang = next((gang_of[each] for each in ids if each in gang_of), None)
            if gang is None:
                yield Unit(task.name, task.id, found)
            else:
                yield Unit(gang.name, gang.key, found, is_gang=True)


def _refused(unit: Unit, why: Rejection) -> UnitVolumes:
    return UnitVolumes(unit, refused=dict.fromkeys((each.task.id for each in unit.members), why))
