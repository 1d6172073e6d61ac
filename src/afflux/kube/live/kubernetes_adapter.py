"""The adapter of a Kubernetes cluster: reader, volume binder, binder and locator as one.

Implements `control.adapter.LiveAdapter`. Each part does its own work; this says which of them takes
part in which step of a pass.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from afflux.control.adapter import HeldTask, HoldKind, Reports, RestsOn, TaskLocation
from afflux.cycle.event_intake import ResyncRequest
from afflux.cycle.loop import Outcome
from afflux.groups.member import Hold
from afflux.groups.register import GroupRegister
from afflux.kube.group_claims import claimed_group
from afflux.kube.live.binder import Binder
from afflux.kube.live.disk_reserver import DiskReserver
from afflux.kube.live.half_bound_circles import HalfBoundCircles
from afflux.kube.live.pod_evictor import PodEvictor
from afflux.kube.live.pod_locator import PodLocator
from afflux.kube.live.volume_binder import VolumeBinder
from afflux.kube.reader.cluster_reader import ClusterReader
from afflux.kube.reader.object_store import ObjectStore
from afflux.kube.rejection import DECIDE_AGAIN
from afflux.model.eviction import Eviction
from afflux.model.placement import Placement
from afflux.model.task import Task


class KubernetesAdapter:
    """With `half_bound_circles`, it follows which pods that require each other are bound.

    With an `evictor` running pods are evicted.
    With a `disk_reserver` no pod that states what it does on disks is bound before it is reserved.
    `needed` are the stores that must be complete before the first cycle.
    """

    def __init__(
        self,
        reader: ClusterReader,
        volume_binder: VolumeBinder,
        binder: Binder,
        locator: PodLocator,
        *,
        half_bound_circles: HalfBoundCircles | None = None,
        disk_reserver: DiskReserver | None = None,
        evictor: PodEvictor | None = None,
        needed: Sequence[ObjectStore[Any]] = (),
    ) -> None:
        self._reader = reader
        self._volume_binder = volume_binder
        self._binder = binder
        self._half_bound_circles = half_bound_circles
        self._disk_reserver = disk_reserver
        self._evictor = evictor
        self._needed = needed
        self._locator = locator

    @property
    def register(self) -> GroupRegister:
        return self._reader.register

    # --- Reports

    async def synced(self) -> None:
        for store in self._needed:
            await store.synced.wait()

    async def wait_for_reports(self) -> None:
        await self._reader.changes.wait()

    def wake(self) -> None:
        self._reader.changes.put(("cycle", ""))

    def drain(self, now_seconds: float) -> Reports:
        events = self._reader.take_events(now_seconds)
        unconfirmed = self._binder.begin_cycle()
        if self._half_bound_circles is not None:
            self._half_bound_circles.update(now_seconds)
        if self._disk_reserver is not None:
            self._disk_reserver.drained()
        held = held_tasks(self._reader)
        return Reports(events, held, unconfirmed, len(self._reader.nodes))

    def resync(self, requests: Sequence[ResyncRequest], pause_seconds: float) -> None:
        self._reader.resync(requests)
        loop = asyncio.get_running_loop()
        for each in requests:
            key = ("node", each.name) if each.kind == "machine" else ("cycle", "")
            loop.call_later(pause_seconds, self._reader.changes.put, key)

    # --- Orders

    def assume(self, outcome: Outcome) -> None:
        self._reader.assume(outcome.placements)
        if self._half_bound_circles is not None:
            self._half_bound_circles.add(outcome.circles, outcome.placements)

    async def reserve(self, outcome: Outcome) -> Sequence[Placement]:
        groups = outcome.decision.plan.placed if outcome.decision is not None else ()
        placements, rejected = await self._volume_binder.choose(
            outcome.placements, groups, outcome.circles
        )
        if self._disk_reserver is not None:
            # After the volumes, which a rejected pod gives back without any write.
            placements, unreserved = await self._disk_reserver.reserve(
                placements, groups, outcome.circles
            )
            rejected = [*rejected, *unreserved]
        for placement, rejection in rejected:
            self._binder.reject(placement, rejection)
        return placements

    def place(self, placements: Sequence[Placement], rests_on: RestsOn) -> None:
        self._binder.submit(placements, rests_on)

    def evict(self, evictions: Sequence[Eviction], nominations: Sequence[Placement]) -> None:
        if self._evictor is not None:
            self._evictor.submit(evictions, nominations)

    def give_up(self, placements: Sequence[Placement], evictions: Sequence[Eviction] = ()) -> None:
        for placement in placements:
            self._binder.reject(placement, DECIDE_AGAIN)
        if self._evictor is not None:
            self._evictor.give_up(evictions)

    async def orders_sent(self) -> None:
        await self._binder.all_sent()

    # --- Where a pod is

    def observed(self, task_id: str, name: str) -> TaskLocation:
        return self._locator.observed(task_id, name)

    async def locate(self, task_id: str, name: str) -> TaskLocation:
        return await self._locator.locate(task_id, name)


def held_tasks(reader: ClusterReader) -> list[HeldTask]:
    """The pods found to be held since the last call."""
    return [
        HeldTask(task, hold.why, _hold_kind(reader, task, hold))
        for task, hold in reader.register.take_held_back()
    ]


def _hold_kind(reader: ClusterReader, task: Task, hold: Hold) -> HoldKind:
    pod = reader.pending_pod(task)
    if pod is not None and pod.spec.scheduling_gates:
        return "gated"
    if hold.kind == "refused":
        return "refused"
    if reader.is_bind_refused(task.name):
        return "order"
    return "task" if pod is None or claimed_group(pod) is None else "incomplete"
