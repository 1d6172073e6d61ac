"""Replays a workload on a virtual clock, with the same cycle that drives a cluster.

The clock jumps from event to event. At the same instant submissions come before terminations, and
terminations in the order of submission. A scheduler without groups gets the members as single
tasks; the group's work then begins when the last member has a machine, and the members placed
before hold their machines idle. Not here: scheduling decisions, metrics of the result.
"""

import heapq
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

from afflux.cluster.state import State
from afflux.cycle.events import Event, GroupReady, TaskEnded, TaskRuns
from afflux.cycle.interfaces import Scheduler
from afflux.cycle.loop import Cycle, Outcome
from afflux.model.eviction import Eviction
from afflux.model.eviction_terms import EvictionTerms
from afflux.model.placement import Placement
from afflux.model.task import Shape
from afflux.model.waiting_group import WaitingGroup
from afflux.sim.result import CycleTiming, ReservationRecord, Result, Run
from afflux.sim.workload import Submission, Workload


@dataclass(frozen=True, slots=True)
class SimulatedScheduler:
    """A scheduler to simulate: its name, its constructor, whether it places groups as a whole,
    whether it counts what tasks do on disks, and whether it evicts running tasks. An evicted group
    waits again at its old place, and begins anew."""

    name: str
    make: Callable[[State], Scheduler]
    whole_groups: bool = True
    counts_disks: bool = False
    preempts: bool = False


def replay(
    workload: Workload,
    scheduler: SimulatedScheduler,
    interval_seconds: float = 0.0,
    progress: Callable[[int], object] | None = None,
) -> Result:
    """Runs the workload to its end.

    With `interval_seconds` the scheduler runs only at multiples of the interval, once for all
    events since then; otherwise at every event. A task that ends in between ends on time, but its
    machine is free for others only from the next multiple on. `progress` is called with 1 for every
    submission and every termination of a group.
    """
    return _Replay(workload, scheduler, interval_seconds, progress).run()


@dataclass(slots=True)
class _SimulatedGroup:
    """A submitted group: by task id its placement and bind time, and when the group works."""

    number: int
    submission: Submission
    placed: dict[str, tuple[Placement, float]]
    start: float | None = None
    end: float | None = None


class _Replay:
    def __init__(
        self,
        workload: Workload,
        scheduler: SimulatedScheduler,
        interval_seconds: float,
        progress: Callable[[int], object] | None,
    ) -> None:
        self._workload = workload
        self._scheduler = scheduler
        self._interval = interval_seconds
        self._progress = progress
        state = State(workload.machines)
        if scheduler.counts_disks:
            models = {disk.model for report in workload.disks.reports for disk in report.disks}
            state.set_normalisers(frozenset(models), workload.disks.normalise)
            for report in workload.disks.reports:
                state.set_disks(report)
        self._cycle = Cycle(state, scheduler.make(state))
        self._now = 0.0
        self._groups = [_SimulatedGroup(i, s, {}) for i, s in enumerate(workload.submissions)]
        self._group_of_task = {
            t.id: simulated for simulated in self._groups for t in simulated.submission.group.tasks
        }
        self._ends: list[tuple[float, int]] = []
        self._submitted = 0
        self._waiting = 0  # tasks
        self._timings: list[CycleTiming] = []
        self._reservations: dict[str, ReservationRecord] = {}
        self._start_unknown: set[str] = set()
        self._wake_up_at = math.inf
        # What the next cycle learns of tasks that have started; and of those that were evicted.
        self._started: list[Event] = []
        self._evicted: list[Event] = []
        self._preemptions = 0
        self._work_lost_seconds = 0.0

    def run(self) -> Result:
        for now, events in self._batches():
            self._now = now
            self._run_cycle(events)
            while self._evicted:
                # The victims end at once; their places are taken by those for which they left.
                evicted, self._evicted = self._evicted, []
                self._run_cycle(evicted)
        return Result(
            scheduler=self._scheduler.name,
            workload=self._workload,
            runs=tuple(run for simulated in self._groups for run in _runs(simulated)),
            cycles=tuple(self._timings),
            ended_at=self._now,
            reservations=tuple(self._reservations.values()),
            start_unknown=frozenset(self._start_unknown - self._reservations.keys()),
            preemptions=self._preemptions,
            work_lost_seconds=self._work_lost_seconds,
        )

    def _run_cycle(self, events: list[Event]) -> None:
        started, self._started = self._started, []
        began = time.perf_counter()
        outcome = self._cycle.run([*started, *events], self._now)
        wake_up = outcome.wake_up_seconds
        self._wake_up_at = math.inf if wake_up is None else wake_up
        seconds = time.perf_counter() - began
        self._record_reservations(outcome)
        self._start_groups(outcome.placements)
        if self._waiting:
            placed = len(outcome.placements)
            self._timings.append(CycleTiming(self._now, seconds, self._waiting, placed))
            self._waiting -= placed
        self._evict(outcome.evictions)

    def _evict(self, evictions: Sequence[Eviction]) -> None:
        """The victims lose their work: their groups wait again, at their old places."""
        groups: dict[int, None] = {}
        for eviction in evictions:
            simulated = self._group_of_task[eviction.task.id]
            _, bound = simulated.placed.pop(eviction.task.id)
            self._work_lost_seconds += self._now - bound
            self._preemptions += 1
            self._waiting += 1
            self._evicted.append(TaskEnded(eviction.task.id))
            groups[simulated.number] = None
        for number in groups:
            simulated = self._groups[number]
            if simulated.end is not None:
                self._ends.remove((simulated.end, number))
                heapq.heapify(self._ends)
            simulated.start = simulated.end = None
            self._evicted.append(GroupReady(simulated.submission.group))

    def _record_reservations(self, outcome: Outcome) -> None:
        """Record first and earliest reserved starts, and why reservations were broken."""
        reservations = self._reservations
        for reservation in outcome.reservations:
            start = reservation.start_seconds
            known = reservations.get(reservation.group)
            if start is None:
                self._start_unknown.add(reservation.group)
            if start is None or (known is not None and start >= known.earliest_start):
                continue
            if known is None:
                known = ReservationRecord(reservation.group, self._now, start, start)
            reservations[reservation.group] = replace(known, earliest_start=start)
        for broken in outcome.broken:
            known = reservations[broken.group]
            reservations[broken.group] = replace(known, broken=str(broken.cause))

    def _start_groups(self, placements: Sequence[Placement]) -> None:
        """Placements take effect at once; a group works once all its members are placed."""
        for placement in placements:
            simulated = self._group_of_task[placement.task.id]
            simulated.placed[placement.task.id] = (placement, self._now)
            if self._scheduler.preempts:
                self._started.append(self._running(placement, simulated.submission.group))
            if len(simulated.placed) == len(simulated.submission.group.tasks):
                simulated.start = self._now
                if simulated.submission.run_seconds is not None:
                    simulated.end = self._now + simulated.submission.run_seconds
                    heapq.heappush(self._ends, (simulated.end, simulated.number))

    def _running(self, placement: Placement, group: WaitingGroup) -> TaskRuns:
        """A task as it is reported to a scheduler that may evict it."""
        run = group.run_seconds
        terms = EvictionTerms(
            group.key, group.priority, started_seconds=self._now, whole_group=group.is_gang
        )
        until = None if run is None else self._now + run
        return TaskRuns(placement.task, placement.machine, until, terms=terms)

    def _batches(self) -> Iterator[tuple[float, list[Event]]]:
        """For each run of the scheduler its time and the events before it."""
        while (at := self._next_at()) < math.inf:
            if self._interval > 0:
                at = _next_multiple(at, self._interval)
            elif self._workload.cycle_per_event:
                yield at, self._next_events()
                continue
            events: list[Event] = []
            while self._next_at() <= at:
                events += self._next_events()
            yield at, events
            # A reserved start wakes the scheduler up even if nothing else happens then.
            while self._interval <= 0 and self._wake_up_at < self._next_at():
                at, self._wake_up_at = self._wake_up_at, math.inf
                yield at, []

    def _next_at(self) -> float:
        """The time of the next event, infinity if there is none."""
        return min(self._next_submission(), self._ends[0][0] if self._ends else math.inf)

    def _next_submission(self) -> float:
        if self._submitted == len(self._groups):
            return math.inf
        return self._groups[self._submitted].submission.group.ready_seconds

    def _next_events(self) -> list[Event]:
        if self._progress is not None:
            self._progress(1)
        if self._next_submission() <= self._next_at():
            group = self._groups[self._submitted].submission.group
            self._submitted += 1
            self._waiting += len(group.tasks)
            return [GroupReady(part) for part in self._parts(group)]
        _, number = heapq.heappop(self._ends)
        return [TaskEnded(task_id) for task_id in self._groups[number].placed]

    def _parts(self, group: WaitingGroup) -> list[WaitingGroup]:
        if not self._scheduler.counts_disks:
            group = _without_disks(group)
        if self._scheduler.whole_groups:
            return [group]
        return [replace(group, key=task.id, name=task.id, tasks=(task,)) for task in group.tasks]


def _next_multiple(at: float, interval: float) -> float:
    """The first multiple of the interval that is not before `at`, up to rounding errors."""
    steps = at / interval
    # From 2**52 on floats have no fractions, and every time is a multiple. The result must not lie
    # before `at`: the clock would never reach it.
    return at if abs(steps) >= 2**52 else max(at, math.ceil(steps) * interval)


def _without_disks(group: WaitingGroup) -> WaitingGroup:
    """The group as a scheduler sees it that does not know disks."""
    if all(task.shape.disks is None for task in group.tasks):
        return group
    tasks = (replace(task, shape=_plain(task.shape)) for task in group.tasks)
    return replace(group, tasks=tuple(tasks))


@cache
def _plain(shape: Shape) -> Shape:
    return replace(shape, disks=None)


def _runs(simulated: _SimulatedGroup) -> Iterator[Run]:
    group, start, end = simulated.submission.group, simulated.start, simulated.end
    for task in group.tasks:
        placement, bound = simulated.placed.get(task.id, (None, None))
        machine = None if placement is None else placement.machine
        disks = () if placement is None else disks_in(placement)
        yield Run(task, group.key, group.ready_seconds, bound, start, end, machine, disks)


def disks_in(placement: Placement) -> tuple[int, ...]:
    """The disk of each volume of a placed task; none if its scheduler does not count disks."""
    devices = placement.task.shape.devices
    return placement.devices[0 if devices is None else devices.count :]
