"""The adapter of the service: connects the cluster that clients describe to control.

Implements `control.adapter.LiveAdapter`. An order takes effect at once: the placement is kept and
told to the client that asks for a schedule. A pass of the control loop runs when one asks.
"""

import asyncio
import logging
from collections.abc import Sequence
from time import time

from afflux.control.adapter import (
    NOWHERE,
    HeldTask,
    NoticeKind,
    OrderListener,
    Reports,
    RestsOn,
    TaskLocation,
)
from afflux.cycle.event_intake import ResyncRequest
from afflux.cycle.events import Event, GroupReady, GroupWithdrawn
from afflux.cycle.loop import Outcome
from afflux.groups.register import GroupRegister
from afflux.model.eviction import Eviction
from afflux.model.placement import Placement
from afflux.model.task import Task
from afflux.rpc.service_cluster import ServiceCluster

# Changes are taken in after this time, together with those that have come meanwhile.
_INTAKE_SECONDS = 0.01

_log = logging.getLogger(__name__)


class ServiceAdapter:
    """Machines, tasks and orders of one cluster. `listener` is told of orders. With `has_ledger`
    the register is restored before the first pass."""

    def __init__(
        self,
        cluster: ServiceCluster,
        register: GroupRegister,
        listener: OrderListener,
        *,
        has_ledger: bool = False,
    ) -> None:
        self._cluster = cluster
        self._register = register
        self._listener = listener
        # Those that wait for a pass that begins later, and those of the pass under way.
        self._asked: list[asyncio.Future[None]] = []
        self._in_pass: list[asyncio.Future[None]] = []
        self._is_asked = asyncio.Event()
        # Taken in for the next pass; when further changes are; whether the register is restored.
        self._events: list[Event] = []
        self._timer: asyncio.TimerHandle | None = None
        self._is_restored = not has_ledger
        cluster.on_report = self._take_in_later

    @property
    def register(self) -> GroupRegister:
        return self._register

    async def run_pass(self) -> None:
        """Wait until a pass that begins from now on has ended."""
        done = asyncio.get_running_loop().create_future()
        self._asked.append(done)
        self._is_asked.set()
        await done

    # --- Reports

    async def synced(self) -> None:
        """What clients have described so far is all there is."""

    async def wait_for_reports(self) -> None:
        for done in self._in_pass:
            if not done.done():
                done.set_result(None)
        self._in_pass = []
        await self._is_asked.wait()

    def wake(self) -> None:
        """The next pass is run when a client asks for it, whatever is due before."""

    def drain(self, now_seconds: float) -> Reports:
        self._is_asked.clear()
        self._in_pass += self._asked
        self._asked = []
        self._take_in(now_seconds)
        self._is_restored = True
        events, self._events = self._events, []
        held = [
            HeldTask(task, hold.why, "refused" if hold.kind == "refused" else "incomplete")
            for task, hold in self._register.take_held_back()
        ]
        return Reports(events, held, machines=len(self._cluster.machines))

    def _take_in_later(self) -> None:
        """Groups are looked at while clients describe tasks, so that a schedule need not wait for
        that. Before the first pass it is not known what a ledger has."""
        if self._is_restored and self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(_INTAKE_SECONDS, lambda: self._take_in(time()))

    def _take_in(self, now_seconds: float) -> None:
        """Report the changes of the cluster to the register, and collect what may start."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        cluster, register = self._cluster, self._register
        for task_id, how, at_seconds in cluster.take_ends():
            register.ended(task_id, how, at_seconds)
        register.confirm_restored(lambda member: member.uid in cluster.tasks, now_seconds)
        for member in cluster.take_members():
            try:
                register.set(member, now_seconds)
            except Exception as error:
                # One task must not keep all others waiting.
                _log.exception("task %s cannot be considered", member.task.name)
                cluster.tasks[member.task.id].status = f"it cannot be considered: {error!r}"
        self._events += cluster.take_events()
        withdrawn, ready = register.take_starts(now_seconds)
        self._events += [*map(GroupWithdrawn, withdrawn), *map(GroupReady, ready)]

    def resync(self, requests: Sequence[ResyncRequest], pause_seconds: float) -> None:
        loop = asyncio.get_running_loop()
        for each in requests:
            if each.kind == "machine":
                loop.call_later(pause_seconds, self._cluster.report_machine, each.name)
            elif (group := self._register.waiting_group(each.name)) is not None:
                task_id = group.tasks[0].id
                loop.call_later(pause_seconds, self._register.report_again, task_id)

    # --- Orders

    def assume(self, outcome: Outcome) -> None:
        for each in outcome.placements:
            self._register.sent(each.task.id, each.machine)

    async def reserve(self, outcome: Outcome) -> Sequence[Placement]:
        """The cluster has nothing to agree to."""
        return outcome.placements

    def place(
        self,
        placements: Sequence[Placement],
        rests_on: RestsOn,  # noqa: ARG002  the order of the placements is enough
    ) -> None:
        refused: list[Placement] = []
        for each in placements:
            if self._cluster.place(each):
                self._register.bound(each.task.id, each.machine)
                self._listener.bound(each, 0.0)
            else:
                refused.append(each)
        self.give_up(refused)

    def evict(
        self,
        evictions: Sequence[Eviction],
        nominations: Sequence[Placement],  # noqa: ARG002  the status of their tasks names them
    ) -> None:
        for each in evictions:
            self._cluster.evict(each.task.id)

    def give_up(self, placements: Sequence[Placement], evictions: Sequence[Eviction] = ()) -> None:
        for each in placements:
            self._register.not_bound(each.task.id)
            self._cluster.not_placed(each)
        for each in evictions:
            self._cluster.not_evicted(each.task.id)

    async def orders_sent(self) -> None:
        """Orders take effect at once."""

    # --- Where a task is

    def observed(self, task_id: str, name: str) -> TaskLocation:  # noqa: ARG002
        if task_id not in self._cluster.tasks:
            return NOWHERE
        return TaskLocation(exists=True, machine=self._cluster.machine_of(task_id))

    async def locate(self, task_id: str, name: str) -> TaskLocation:
        return self.observed(task_id, name)


class ServiceNotices:
    """What is told about tasks is kept with them; the protocol of Firmament cannot carry it."""

    def __init__(self, cluster: ServiceCluster) -> None:
        self._cluster = cluster

    def is_waiting(self, task: Task) -> bool:
        known = self._cluster.tasks.get(task.id)
        return known is not None and not known.machine

    def status_of(self, task: Task) -> str:
        known = self._cluster.tasks.get(task.id)
        return "" if known is None else known.status

    def event(self, task: Task, kind: NoticeKind, text: str) -> None:
        """The status says it too."""

    def status(self, task: Task, text: str, *, order_refused: bool) -> None:  # noqa: ARG002
        known = self._cluster.tasks.get(task.id)
        if known is not None:
            known.status = text

    def started(self, placement: Placement) -> None:
        """The cluster has removed the status."""
