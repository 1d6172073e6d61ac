"""Replay a workload on a virtual clock, through the same cycle that drives a cluster.

The clock jumps from event to event. At the same instant submissions come before terminations, and
terminations in the order of submission. A scheduler that knows no groups sees their members as
tasks on their own; the group's work then begins when the last member has a machine, and those
placed before hold theirs idle. Not here: what a scheduler decides, or what is made of the result.
"""

import heapq
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from afflux.cluster.state import State
from afflux.cycle.events import Event, GroupReady, TaskEnded
from afflux.cycle.loop import Cycle, Outcome
from afflux.cycle.ports import Scheduler
from afflux.model.group import Group
from afflux.model.placement import Placement
from afflux.sim.result import CycleTiming, Promised, Result, Run
from afflux.sim.workload import Submission, Workload


@dataclass(frozen=True, slots=True)
class Contestant:
    """A scheduler to simulate: its name, how to make it, and whether it places groups whole."""

    name: str
    make: Callable[[State], Scheduler]
    whole_groups: bool = True


def replay(
    workload: Workload,
    contestant: Contestant,
    interval_seconds: float = 0.0,
    progress: Callable[[int], object] | None = None,
) -> Result:
    """Run the workload to its end.

    With `interval_seconds` the scheduler runs at multiples of it only, once for everything that
    has happened since; otherwise as soon as something happens. What ends in between ends on time,
    but its machine is free for others from the next multiple on. `progress` is told of every
    submission and every termination of a group.
    """
    return _Replay(workload, contestant, interval_seconds, progress).run()


@dataclass(slots=True)
class _Life:
    """A group from its submission on: where its members are, since when it works."""

    number: int
    submission: Submission
    machines: dict[str, tuple[str, float]]
    start: float | None = None
    end: float | None = None


class _Replay:
    def __init__(
        self,
        workload: Workload,
        contestant: Contestant,
        interval_seconds: float,
        progress: Callable[[int], object] | None,
    ) -> None:
        self._workload = workload
        self._contestant = contestant
        self._interval = interval_seconds
        self._progress = progress
        state = State(workload.machines)
        self._cycle = Cycle(state, contestant.make(state))
        self._now = 0.0
        self._lives = [_Life(i, s, {}) for i, s in enumerate(workload.submissions)]
        self._owner = {t.id: life for life in self._lives for t in life.submission.group.tasks}
        self._ends: list[tuple[float, int]] = []
        self._submitted = 0
        self._waiting = 0  # tasks
        self._timings: list[CycleTiming] = []
        self._promised: dict[str, Promised] = {}
        self._unknown: set[str] = set()
        self._again = math.inf

    def run(self) -> Result:
        for now, events in self._batches():
            self._now = now
            began = time.perf_counter()
            outcome = self._cycle.run(events, now)
            self._again = math.inf if outcome.again_seconds is None else outcome.again_seconds
            seconds = time.perf_counter() - began
            self._note(outcome)
            self._start(outcome.placements)
            if self._waiting:
                placed = len(outcome.placements)
                self._timings.append(CycleTiming(now, seconds, self._waiting, placed))
                self._waiting -= placed
        return Result(
            scheduler=self._contestant.name,
            workload=self._workload,
            runs=tuple(run for life in self._lives for run in _runs(life)),
            cycles=tuple(self._timings),
            ended_at=self._now,
            promised=tuple(self._promised.values()),
            unknown=frozenset(self._unknown - self._promised.keys()),
        )

    def _note(self, outcome: Outcome) -> None:
        """Remember who was promised what, and what was not kept."""
        promised = self._promised
        for promise in outcome.promises:
            start = promise.start_seconds
            known = promised.get(promise.group)
            if start is None:
                self._unknown.add(promise.group)
            if start is None or (known is not None and start >= known.earliest):
                continue
            promised[promise.group] = (
                Promised(promise.group, self._now, start, start)
                if known is None
                else replace(known, earliest=start)
            )
        for broken in outcome.broken:
            promised[broken.group] = replace(promised[broken.group], broken=str(broken.cause))

    def _start(self, placements: Sequence[Placement]) -> None:
        """Placements take effect at once; a group works from when all its members are placed."""
        for placement in placements:
            life = self._owner[placement.task.id]
            life.machines[placement.task.id] = (placement.machine, self._now)
            if len(life.machines) == len(life.submission.group.tasks):
                life.start = self._now
                if life.submission.run_seconds is not None:
                    life.end = self._now + life.submission.run_seconds
                    heapq.heappush(self._ends, (life.end, life.number))

    def _batches(self) -> Iterator[tuple[float, list[Event]]]:
        """What happens until the scheduler runs next, and when that is."""
        while (at := self._next_at()) < math.inf:
            if self._interval > 0:
                at = _next_multiple(at, self._interval)
            elif self._workload.pass_per_event:
                yield at, self._next_events()
                continue
            events: list[Event] = []
            while self._next_at() <= at:
                events += self._next_events()
            yield at, events
            # A promise is kept even if nothing else happens then.
            while self._interval <= 0 and self._again < self._next_at():
                at, self._again = self._again, math.inf
                yield at, []

    def _next_at(self) -> float:
        """When the next event happens, infinity if there is none."""
        return min(self._next_submission(), self._ends[0][0] if self._ends else math.inf)

    def _next_submission(self) -> float:
        if self._submitted == len(self._lives):
            return math.inf
        return self._lives[self._submitted].submission.group.ready_seconds

    def _next_events(self) -> list[Event]:
        if self._progress is not None:
            self._progress(1)
        if self._next_submission() <= self._next_at():
            group = self._lives[self._submitted].submission.group
            self._submitted += 1
            self._waiting += len(group.tasks)
            return [GroupReady(part) for part in self._parts(group)]
        _, number = heapq.heappop(self._ends)
        return [TaskEnded(task_id) for task_id in self._lives[number].machines]

    def _parts(self, group: Group) -> list[Group]:
        if self._contestant.whole_groups:
            return [group]
        return [replace(group, name=task.id, tasks=(task,)) for task in group.tasks]


def _next_multiple(at: float, interval: float) -> float:
    """The first multiple of the interval that is not before `at`, rounding errors aside."""
    steps = at / interval
    # Where a float has no fractions left every time is a multiple. And what comes out must not lie
    # before `at`, or the clock would stand still.
    return at if abs(steps) >= 2**52 else max(at, math.ceil(steps) * interval)


def _runs(life: _Life) -> Iterator[Run]:
    group = life.submission.group
    for task in group.tasks:
        machine, bound = life.machines.get(task.id, (None, None))
        yield Run(task, group.name, group.ready_seconds, bound, life.start, life.end, machine)
