"""Volume binder: chooses the volumes of placed pods, writes the choice and waits for the claims.

First volumes are chosen: a claim that waits for its first consumer gets an existing volume, or its
provisioner is told to create one on the pod's node. A choice is assumed at once, so two pods never
get the same volume. The members of a gang get their volumes together: if one member gets none, the
whole gang is decided again. So do the pods of a circle, which require each other.

Then the choice is written, and the pod is bound once all its claims are bound. The members of a
gang wait for each other, because creating the last volume may still fail.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from afflux.kube import objects
from afflux.kube.api.client import MERGE_PATCH, Api
from afflux.kube.api.errors import ApiError, UnreachableError
from afflux.kube.live.bind_steps import DECIDE_AGAIN, Rejection
from afflux.kube.live.cluster_reader import ClusterReader
from afflux.kube.live.live_storage import PodPlacement
from afflux.kube.volumes.claims import Claim, claim_references
from afflux.kube.volumes.gang_volumes import VolumeShortfall
from afflux.kube.volumes.volume_choice import Choice, claim_patch, volume_patch
from afflux.kube.volumes.volume_needs import Blocked
from afflux.model.group import Group
from afflux.model.placement import Placement
from afflux.model.relations import Labels

Choices = tuple[Choice, ...]
Rejected = list[tuple[Placement, Rejection]]

_log = logging.getLogger(__name__)

# How many pods that found no volumes are remembered.
_MAX_REMEMBERED = 10_000
# How long a pod avoids the volumes that other members of its gang need. The reason for it may go
# away without any event, so the avoidance ends by itself.
AVOIDANCE_SECONDS = 60.0


@dataclass(slots=True)
class _GangVolumes:
    """The members of a gang, which wait for each other's volumes: how many are left, any error."""

    members_left: int
    # The pods of a circle may be of several namespaces, and must not learn each other's names.
    names_members: bool = True
    settled: asyncio.Event = field(default_factory=asyncio.Event)
    rejection: Rejection | None = None

    async def arrive(self) -> Rejection | None:
        """One member is ready; waits for the others. None if all are, otherwise why not."""
        self.members_left -= 1
        if self.members_left == 0:
            self.settled.set()
        await self.settled.wait()
        return self.rejection

    def fail(self, name: str, rejection: Rejection) -> None:
        """One member failed, so all of them do."""
        if self.rejection is None:
            why = f"group waits for {name}: {rejection.reason}"
            if not self.names_members:
                why = "a pod that it depends on by required affinity could not be bound"
            self.rejection = replace(rejection, reason=why) if rejection.reason else DECIDE_AGAIN
        self.settled.set()


@dataclass(frozen=True, slots=True)
class _Chosen:
    """The volumes chosen for a pod on a node with these labels."""

    choices: Choices
    labels: Labels
    gang: _GangVolumes | None = None


@dataclass(frozen=True, slots=True)
class _Unit:
    """Placements that get volumes all or none: a gang, a circle, several of them that have pods in
    common, or a single pod. `name` is that of the gang or of a pod."""

    name: str
    members: Sequence[Placement]
    is_gang: bool = False

    @property
    def names_members(self) -> bool:
        """Whether the members may learn each other's names: they are of one namespace."""
        return len({each.task.name.partition("/")[0] for each in self.members}) == 1


class VolumeBinder:
    """Does what kube-scheduler's VolumeBinding plugin does before a pod with claims is bound.

    `remaining_seconds` returns how long this process may still write, None for no limit.
    """

    def __init__(
        self,
        api: Api,
        reader: ClusterReader,
        timeout_seconds: float,
        remaining_seconds: Callable[[], float | None] = lambda: None,
        avoidance_seconds: float = AVOIDANCE_SECONDS,
    ) -> None:
        self._api = api
        self._remaining_seconds = remaining_seconds
        self._reader = reader
        self._live_storage = reader.live_storage
        self._timeout_seconds = timeout_seconds
        self._avoidance_seconds = avoidance_seconds
        self._chosen: dict[str, _Chosen] = {}
        # By task id, of the pods that are being prepared.
        self._preparing: dict[str, _GangVolumes] = {}
        # How often volumes were given to pods, and that number when a pod last found none.
        self._given = 0
        self._given_when_none_left: dict[str, int] = {}

    # --- Choosing

    async def choose(
        self,
        placements: Sequence[Placement],
        groups: Iterable[Group],
        circles: Iterable[Collection[str]] = (),
    ) -> tuple[Sequence[Placement], Rejected]:
        """Choose volumes for these placements: those that can be bound, and those that cannot.
        Either all members of a gang or circle can be bound or none."""
        claiming = {each.task.id for each in placements if self._claims(each)}
        if not claiming:
            return placements, []
        bindable: list[Placement] = []
        rejected: Rejected = []
        for unit in _units(placements, groups, circles):
            members = unit.members
            if not any(each.task.id in claiming for each in members):
                bindable += members
                continue
            try:
                refused = self._choose_for(unit)
            except Exception:
                # After a defect the other placements of the cycle are still bound.
                _log.exception("volumes for %s could not be chosen", unit.name)
                defect = Rejection("volumes could not be chosen because of a defect, see the log")
                refused = dict.fromkeys((each.task.id for each in members), defect)
            bindable += [each for each in members if each.task.id not in refused]
            rejected += [(p, refused[p.task.id]) for p in members if p.task.id in refused]
            # Thousands of volumes take a while; the event loop runs other tasks in between.
            await asyncio.sleep(0)
        return bindable, rejected

    def _claims(self, placement: Placement) -> bool:
        pod = self._reader.pending_pod(placement.task)
        return pod is not None and bool(claim_references(pod))

    def _choose_for(self, unit: _Unit) -> dict[str, Rejection]:
        """Choose for a gang or a single pod; why pods cannot be bound, by task id."""
        members, going = unit.members, list[PodPlacement]()
        for placement in members:
            pod = self._reader.pending_pod(placement.task)
            node = self._reader.nodes.get(placement.machine)
            if pod is None or node is None:
                return dict.fromkeys((each.task.id for each in members), DECIDE_AGAIN)
            going.append((pod, placement, node.metadata.labels or {}))
        if len(going) == 1:
            return self._choose_one(*going[0])
        found = self._live_storage.choose_gang(going)
        if not isinstance(found, VolumeShortfall):
            self._count_given(unit.name)
            together = _GangVolumes(len(going), unit.names_members)
            for _, placement, labels in going:
                choices = found[placement.task.id]
                self._chosen[placement.task.id] = _Chosen(choices, labels, together)
            return {}
        if found.splits_claim:
            # Some members share a claim, which plans do not consider: they follow the first.
            refused: dict[str, Rejection] = {}
            for each in going:
                refused |= self._choose_one(*each)
            return refused
        rejection = self._gang_rejection(unit, found, going)
        return dict.fromkeys((each.task.id for each in members), rejection)

    def _choose_one(
        self, pod: objects.Pod, placement: Placement, labels: Labels
    ) -> dict[str, Rejection]:
        choices = self._live_storage.choose(pod, placement, labels)
        task_id = placement.task.id
        if isinstance(choices, Blocked):
            lost = self._taken_by_others(task_id)
            return {task_id: DECIDE_AGAIN if lost else Rejection(choices.reason)}
        self._count_given(task_id)
        self._chosen[task_id] = _Chosen(choices, labels)
        return {}

    def _gang_rejection(
        self, unit: _Unit, short: VolumeShortfall, going: Sequence[PodPlacement]
    ) -> Rejection:
        """Why a group has to wait.

        It is decided again at once if other pods took volumes since, or if some members look
        elsewhere from now on. Both can happen only a limited number of times.
        """
        tasks = {placement.task.id: placement.task for _, placement, _ in going}
        lost = self._taken_by_others(unit.name)
        if self._live_storage.avoid_shortfall(going, short):
            loop = asyncio.get_running_loop()
            loop.call_later(self._avoidance_seconds, self._live_storage.end_avoidance, [*tasks])
            return DECIDE_AGAIN
        self._live_storage.end_avoidance(tasks)
        if lost:
            return DECIDE_AGAIN
        if not unit.names_members:
            return Rejection("the pod and the pods that it requires find no volumes at once")
        together = f"group {unit.name} finds no volumes for all its members at once"
        if not unit.is_gang:
            together = "the pod and the pods that it requires find no volumes at once"
        return Rejection(f"{together}: {tasks[short.pod].name}: {short.reason}")

    def _count_given(self, name: str) -> None:
        self._given += 1
        self._given_when_none_left.pop(name, None)

    def _taken_by_others(self, name: str) -> bool:
        """Whether other pods got volumes since this pod or group last found none.

        Pods that are decided in one cycle may compete for the same few volumes. One of them gets
        volumes each time, so the others can be decided again at once and get theirs in the end.
        """
        before = self._given_when_none_left.get(name, -1)
        if len(self._given_when_none_left) > _MAX_REMEMBERED:
            # Most of these pods were deleted meanwhile; the others are decided once more.
            self._given_when_none_left.clear()
        self._given_when_none_left[name] = self._given
        return self._given > before

    # --- Binding

    def concerns(self, placement: Placement) -> bool:
        """Whether the pod has to wait for its own volumes or those of its gang."""
        return placement.task.id in self._chosen

    async def prepare(self, placement: Placement) -> Rejection | None:
        """Bind every claim of the pod; None when done, otherwise why it failed."""
        chosen = self._chosen.pop(placement.task.id)
        gang = chosen.gang
        if gang is None:
            return await self._bind_claims(placement, chosen)
        self._preparing[placement.task.id] = gang
        try:
            rejection = await self._bind_claims(placement, chosen)
            if rejection is None:
                return await gang.arrive()
            self._fail(gang, placement, rejection)
            return rejection
        finally:
            if self._preparing.get(placement.task.id) is gang:
                del self._preparing[placement.task.id]

    def is_joint(self, placement: Placement) -> bool:
        """Whether the pod gets its volumes together with others or not at all."""
        chosen = self._chosen.get(placement.task.id)
        return chosen is not None and chosen.gang is not None

    def cancel(self, placement: Placement, rejection: Rejection) -> None:
        """The pod will not be bound for this reason, and neither will the others of its gang whose
        volumes are not all bound yet."""
        task_id = placement.task.id
        chosen, gang = self._chosen.pop(task_id, None), self._preparing.get(task_id)
        if chosen is not None:
            self._live_storage.forget(chosen.choices)
            gang = chosen.gang
        if gang is not None:
            self._fail(gang, placement, rejection)

    def _fail(self, gang: _GangVolumes, placement: Placement, rejection: Rejection) -> None:
        gang.fail(placement.task.name, rejection)
        self._live_storage.notify_changed()

    async def _bind_claims(self, placement: Placement, chosen: _Chosen) -> Rejection | None:
        choices, gang = chosen.choices, chosen.gang
        try:
            if gang is not None and gang.rejection is not None:
                return gang.rejection
            if self._reader.pending_pod(placement.task) is None:
                return DECIDE_AGAIN
            async with asyncio.timeout(self._timeout_seconds):
                return await self._write(choices) or await self._wait_until_bound(chosen)
        except TimeoutError:
            return Rejection(f"its volumes were not bound within {self._timeout_seconds:g} s")
        finally:
            self._live_storage.forget(choices)

    async def _write(self, choices: Choices) -> Rejection | None:
        """Write the choices; None when done, otherwise why it failed."""
        for choice in choices:
            claim = self._live_storage.storage.cache.claims.get(choice.claim)
            if claim is None:
                return Rejection(f"persistentvolumeclaim {choice.claim} is gone")
            remaining = self._remaining_seconds()
            if remaining is not None and remaining <= 0:
                return DECIDE_AGAIN
            try:
                async with asyncio.timeout(remaining):
                    if choice.volume is None:
                        await self._tell_provisioner(claim, choice.node)
                    else:
                        await self._reserve(choice.volume, claim)
            except (ApiError, UnreachableError) as error:
                return Rejection(f"persistentvolumeclaim {choice.claim}: {error}")
        return None

    async def _tell_provisioner(self, claim: Claim, node: str) -> None:
        space, name = claim.key.split("/")
        written = await self._api.send(
            "PATCH",
            f"/api/v1/namespaces/{space}/persistentvolumeclaims/{name}",
            claim_patch(claim, node),
            answer=objects.PersistentVolumeClaim,
            content_type=MERGE_PATCH,
        )
        self._live_storage.set_written(self._live_storage.claims, written)

    async def _reserve(self, volume_name: str, claim: Claim) -> None:
        volume = self._live_storage.storage.cache.volumes.get(volume_name)
        patch = volume_patch(volume, claim) if volume is not None else None
        if patch is None:
            return
        written = await self._api.send(
            "PATCH",
            f"/api/v1/persistentvolumes/{volume_name}",
            patch,
            answer=objects.PersistentVolume,
            content_type=MERGE_PATCH,
        )
        self._live_storage.set_written(self._live_storage.volumes, written)

    async def _wait_until_bound(self, chosen: _Chosen) -> Rejection | None:
        """Wait until the volume controllers have bound every claim; why they cannot, if so."""
        while True:
            if chosen.gang is not None and chosen.gang.rejection is not None:
                return chosen.gang.rejection
            changed = self._live_storage.changed
            progress = self._live_storage.storage.progress(chosen.choices, chosen.labels)
            if isinstance(progress, Blocked):
                return Rejection(progress.reason)
            if progress:
                return None
            await changed.wait()


def _units(
    placements: Sequence[Placement], groups: Iterable[Group], circles: Iterable[Collection[str]]
) -> Iterator[_Unit]:
    """The placements that go together, and each other one alone, in order."""
    name_of: dict[str, str] = {}
    # By task id, the ids of a gang or of circles; one object for all that go together.
    together: dict[str, list[str]] = {}
    for group in groups:
        if group.is_gang:
            ids = [task.id for task in group.tasks]
            together.update(dict.fromkeys(ids, ids))
            name_of.update(dict.fromkeys(ids, group.name))
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
            yield _Unit(task.name, [placement])
        elif found := members.pop(id(ids), None):
            name = next((name_of[each] for each in ids if each in name_of), "")
            yield _Unit(name or task.name, found, is_gang=bool(name))
