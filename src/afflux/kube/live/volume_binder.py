"""Volume binder: chooses the volumes of placed pods, writes the choice and waits for the claims.

First volumes are chosen (kube/reader/volume_chooser.py): for all members of a gang, or for none.

Then the choice is written, and the pod is bound once all its claims are bound. The members of a
gang wait for each other, because creating the last volume may still fail.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

from afflux.kube import objects
from afflux.kube.api.client import MERGE_PATCH, Api
from afflux.kube.api.errors import ApiError, UnreachableError
from afflux.kube.reader.cluster_reader import ClusterReader
from afflux.kube.reader.volume_chooser import VolumeChooser
from afflux.kube.rejection import DECIDE_AGAIN, Rejection
from afflux.kube.volumes.claims import Claim
from afflux.kube.volumes.volume_choice import Choice, claim_patch, volume_patch
from afflux.kube.volumes.volume_needs import Blocked
from afflux.model.placement import Placement
from afflux.model.relations import Labels
from afflux.model.waiting_group import WaitingGroup

Choices = tuple[Choice, ...]
Rejected = list[tuple[Placement, Rejection]]

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
        self._cluster_storage = reader.cluster_storage
        self._timeout_seconds = timeout_seconds
        self._avoidance_seconds = avoidance_seconds
        self._chooser = VolumeChooser(reader, self._end_avoidance_later)
        self._chosen: dict[str, _Chosen] = {}
        # By task id, of the pods that are being prepared.
        self._preparing: dict[str, _GangVolumes] = {}

    # --- Choosing

    async def choose(
        self,
        placements: Sequence[Placement],
        groups: Iterable[WaitingGroup],
        circles: Iterable[Collection[str]] = (),
    ) -> tuple[Sequence[Placement], Rejected]:
        """Choose volumes for these placements: those that can be bound, and those that cannot.
        Either all members of a gang or circle can be bound or none."""
        refused: dict[str, Rejection] = {}
        for found in self._chooser.choose(placements, groups, circles):
            gang: _GangVolumes | None = None
            if found.together:
                gang = _GangVolumes(len(found.unit.members), found.unit.names_members)
            for task_id, each in found.chosen.items():
                self._chosen[task_id] = _Chosen(each.choices, each.labels, gang)
            refused |= found.refused
            # Thousands of volumes take a while; the event loop runs other tasks in between.
            await asyncio.sleep(0)
        bindable = [each for each in placements if each.task.id not in refused]
        rejected = [(p, refused[p.task.id]) for p in placements if p.task.id in refused]
        return bindable, rejected

    def _end_avoidance_later(self, pods: Sequence[str]) -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(self._avoidance_seconds, self._cluster_storage.end_avoidance, pods)

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
            self._cluster_storage.forget(chosen.choices)
            gang = chosen.gang
        if gang is not None:
            self._fail(gang, placement, rejection)

    def _fail(self, gang: _GangVolumes, placement: Placement, rejection: Rejection) -> None:
        gang.fail(placement.task.name, rejection)
        self._cluster_storage.notify_changed()

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
            self._cluster_storage.forget(choices)

    async def _write(self, choices: Choices) -> Rejection | None:
        """Write the choices; None when done, otherwise why it failed."""
        for choice in choices:
            claim = self._cluster_storage.storage.cache.claims.get(choice.claim)
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
        self._cluster_storage.set_written(self._cluster_storage.claims, written)

    async def _reserve(self, volume_name: str, claim: Claim) -> None:
        volume = self._cluster_storage.storage.cache.volumes.get(volume_name)
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
        self._cluster_storage.set_written(self._cluster_storage.volumes, written)

    async def _wait_until_bound(self, chosen: _Chosen) -> Rejection | None:
        """Wait until the volume controllers have bound every claim; why they cannot, if so."""
        while True:
            if chosen.gang is not None and chosen.gang.rejection is not None:
                return chosen.gang.rejection
            changed = self._cluster_storage.changed
            progress = self._cluster_storage.storage.progress(chosen.choices, chosen.labels)
            if isinstance(progress, Blocked):
                return Rejection(progress.reason)
            if progress:
                return None
            await changed.wait()
