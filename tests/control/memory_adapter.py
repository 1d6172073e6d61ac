"""An adapter without a cluster manager: machines and tasks in memory, told what to do by a test.

It knows nothing but control's protocol. An order takes effect at once.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from afflux.app import make_scheduler
from afflux.cluster.state import State
from afflux.config import parse_scheduler_spec
from afflux.control.adapter import (
    NOWHERE,
    HeldTask,
    NoticeKind,
    Reports,
    RestsOn,
    TaskLocation,
)
from afflux.control.announcements import Announcements
from afflux.control.ledger_writer import LedgerWriter
from afflux.control.loop import ControlLoop
from afflux.cycle.event_intake import ResyncRequest
from afflux.cycle.events import (
    Event,
    GroupReady,
    GroupWithdrawn,
    MachineSet,
    TaskEnded,
    TaskRuns,
)
from afflux.cycle.interfaces import Ledger
from afflux.cycle.loop import Cycle, Outcome
from afflux.groups.member import Claim, GroupTerms, Member
from afflux.groups.register import GroupRegister
from afflux.model.eviction import Eviction
from afflux.model.machine import Machine
from afflux.model.placement import Placement
from afflux.model.task import Task
from afflux.web.scheduler_metrics import Metrics
from afflux.web.watchdog import Watchdog
from oracles.builders import machine, shape, task


class MemoryNotices:
    """What was told, in order: events as (task, kind, text), and the last status of each task."""

    def __init__(self) -> None:
        self.events: list[tuple[str, NoticeKind, str]] = []
        self.statuses: dict[str, str] = {}
        self.refused_orders: list[str] = []
        self.gone: set[str] = set()

    def is_waiting(self, task: Task) -> bool:
        return task.name not in self.gone

    def status_of(self, task: Task) -> str:
        return self.statuses.get(task.name, "")

    def event(self, task: Task, kind: NoticeKind, text: str) -> None:
        self.events.append((task.name, kind, text))

    def status(self, task: Task, text: str, *, order_refused: bool) -> None:
        self.statuses[task.name] = text
        if order_refused:
            self.refused_orders.append(task.name)

    def started(self, placement: Placement) -> None:
        self.gone.add(placement.task.name)


@dataclass(slots=True)
class MemoryCluster:
    """What there is, whether or not a scheduler runs: machines, tasks by id, and their places."""

    machines: dict[str, Machine] = field(default_factory=dict[str, Machine])
    tasks: dict[str, Member] = field(default_factory=dict[str, Member])
    places: dict[str, str] = field(default_factory=dict[str, str])


class MemoryAdapter:
    """The machines and tasks of a cluster, to which a test adds some and from which it removes
    some. Another adapter of the same cluster is that of the next leader."""

    def __init__(self, cluster: MemoryCluster | None = None) -> None:
        self.cluster = cluster or MemoryCluster()
        # The names of tasks for which the cluster does not agree, once each.
        self.not_reserved: set[str] = set()
        self.fails_to_reserve = False
        self.register = GroupRegister()
        self._events: list[Event] = [MachineSet(each) for each in self.cluster.machines.values()]
        # The ids of the tasks that have changed since the last `drain`.
        self._changed = dict.fromkeys(self.cluster.tasks)
        self._has_reports = asyncio.Event()

    @property
    def places(self) -> dict[str, str]:
        return self.cluster.places

    # --- The cluster

    def add_machine(self, name: str, cpu: int) -> None:
        self.cluster.machines[name] = machine(name, cpu=cpu, memory=100)
        self._report(MachineSet(self.cluster.machines[name]))

    def add_group(self, name: str, size: int, cpu: int) -> None:
        for number in range(size):
            self._add(task(f"{name}.{number}", shape(cpu=cpu, memory=1)), name, size)

    def hold(self, name: str, why: str) -> None:
        self._add(task(name, blocked=why), "", 1)

    def end(self, task_id: str) -> None:
        """The task has succeeded."""
        del self.cluster.tasks[task_id]
        self._changed[task_id] = None
        if self.places.pop(task_id, None) is not None:
            self._events.append(TaskEnded(task_id))
        self.wake()

    def _add(self, added: Task, group: str, size: int) -> None:
        # Each task is a second younger than all before.
        ages = (each.created_seconds for each in self.cluster.tasks.values())
        created = max(ages, default=0.0) + 1
        claim = Claim(group, GroupTerms(size))
        member = Member(added, name=added.name, claim=claim, created_seconds=created)
        self.cluster.tasks[added.id] = member
        self._changed[added.id] = None
        self.wake()

    def _report(self, event: Event) -> None:
        self._events.append(event)
        self.wake()

    # --- Adapter

    def drain(self, now_seconds: float) -> Reports:
        self._has_reports.clear()
        tasks, changed = self.cluster.tasks, self._changed
        self._changed = {}
        for task_id in changed.keys() - tasks.keys():
            self.register.ended(task_id, "succeeded", now_seconds)
        self.register.confirm_restored(lambda member: member.uid in tasks, now_seconds)
        for task_id in changed:
            if task_id in tasks:
                self._report_task(replace(tasks[task_id], machine=self.places.get(task_id, "")))
        events, self._events = self._events, []
        withdrawn, ready = self.register.take_starts(now_seconds)
        events += [*map(GroupWithdrawn, withdrawn), *map(GroupReady, ready)]
        held = [HeldTask(each, hold.why) for each, hold in self.register.take_held_back()]
        return Reports(events, held, machines=len(self.cluster.machines))

    def _report_task(self, member: Member) -> None:
        self.register.set(member)
        if member.machine:
            self._events.append(TaskRuns(member.task, member.machine))

    def assume(self, outcome: Outcome) -> None:
        for each in outcome.placements:
            self.register.sent(each.task.id, each.machine)

    async def reserve(self, outcome: Outcome) -> Sequence[Placement]:
        if self.fails_to_reserve:
            self.fails_to_reserve = False
            raise ConnectionError("no storage")
        lost = [each for each in outcome.placements if each.task.name in self.not_reserved]
        self.not_reserved -= {each.task.name for each in lost}
        self.give_up(lost)
        return [each for each in outcome.placements if each not in lost]

    def place(self, placements: Sequence[Placement], rests_on: RestsOn) -> None:
        for each in placements:
            assert each.task.id not in self.places
            self.places[each.task.id] = each.machine
            self.register.bound(each.task.id, each.machine)
            self._report(TaskRuns(each.task, each.machine))

    def give_up(self, placements: Sequence[Placement], evictions: Sequence[Eviction] = ()) -> None:
        assert not evictions
        for each in placements:
            self.register.not_bound(each.task.id)
            self._report(TaskEnded(each.task.id))

    # --- LiveAdapter

    async def synced(self) -> None:
        pass

    async def wait_for_reports(self) -> None:
        await self._has_reports.wait()

    def wake(self) -> None:
        self._has_reports.set()

    def resync(self, requests: Sequence[ResyncRequest], pause_seconds: float) -> None:
        assert not requests

    def evict(self, evictions: Sequence[Eviction], nominations: Sequence[Placement]) -> None:
        assert not evictions
        assert not nominations

    async def orders_sent(self) -> None:
        pass

    def observed(self, task_id: str, name: str) -> TaskLocation:
        if task_id not in self.cluster.tasks:
            return NOWHERE
        return TaskLocation(exists=True, machine=self.places.get(task_id))

    async def locate(self, task_id: str, name: str) -> TaskLocation:
        return self.observed(task_id, name)


def memory_cycle() -> Cycle:
    """A cycle that knows nothing yet."""
    state = State()
    return Cycle(state, make_scheduler(parse_scheduler_spec("cpu-memory@fcfs"), state))


@asynccontextmanager
async def at_work(
    adapter: MemoryAdapter, ledger: Ledger | None = None
) -> AsyncGenerator[MemoryNotices]:
    """The control loop at work, as the leader with this ledger if one is given; what it tells."""
    notices, metrics, cycle = MemoryNotices(), Metrics(), memory_cycle()
    writer = None if ledger is None else LedgerWriter(ledger, adapter.register)
    loop = ControlLoop(
        adapter,
        cycle,
        Announcements(notices, metrics, adapter.register.waiting_group),
        metrics=metrics,
        watchdog=Watchdog(60.0),
        ledger_writer=writer,
        error_pause_seconds=0.01,
    )
    if writer is None:
        running = [asyncio.create_task(loop.run())]
    else:

        async def begin(cycle: Cycle) -> None:
            await writer.take_over(cycle, adapter, None, 0.0)

        running = [asyncio.create_task(loop.run(begin)), asyncio.create_task(writer.run())]
    try:
        yield notices
        assert not any(each.done() for each in running), running
    finally:
        for each in running:
            each.cancel()
        await asyncio.wait(running)
        if writer is not None:
            await writer.finish()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.001)
