"""A small simulated cluster in which groups come and go, with disturbances.

It keeps plain dictionaries of what runs where until when, and compares every outcome of the cycle
with them and, in `reservation_checks`, with what has happened.
"""

import math
from dataclasses import dataclass, field, replace

from afflux.admit.strategies import BUILT_IN
from afflux.cluster.state import State
from afflux.cycle.events import (
    DisksReported,
    Event,
    GroupReady,
    GroupWithdrawn,
    MachineGone,
    MachineSet,
    TaskEnded,
    TaskRuns,
)
from afflux.cycle.loop import Cycle, Outcome
from afflux.cycle.optimiser import Optimiser
from afflux.cycle.reservations import DelayCause
from afflux.model.implied_resources import HostPort, port_requests
from afflux.model.machine import Machine
from afflux.model.resources import resources
from afflux.model.selectors import NodeAffinity
from afflux.model.task import Shape, Task
from afflux.model.waiting_group import WaitingGroup
from afflux.policies.cpu_memory import CpuMemory
from afflux.policies.policy import Weighted
from afflux.policies.registry import constraints
from afflux.queue.rules import QueueRules
from oracles.builders import machine, shape
from oracles.disks import default_charge, disk, report, stated
from oracles.naive_model import admits
from oracles.reservation_checks import Record, Taken, check_room

PORT = resources({"pods": 1, "cpu": 1} | port_requests([HostPort("TCP", 80)]))
SHAPES = (
    shape(cpu=1),
    shape(cpu=2),
    shape(cpu=1, memory=3),
    shape(cpu=3, memory=1),
    Shape(PORT),
    shape(cpu=1, affinity=NodeAffinity((("zone", "a"),))),
    shape(cpu=1, count=1, milli=500),
    shape(cpu=2, affinity=NodeAffinity((("zone", "b"),))),
)
# The same where some shapes do something on disks.
REQUESTS = (
    None,
    stated((3, 1)),
    None,
    stated((2, 2), (1, 2)),
    None,
    default_charge(1, 1),
    stated((4, 0)),
    stated((2, 0), (2, 0)),
)
SHAPES_ON_DISKS = tuple(
    replace(each, disks=disks) for each, disks in zip(SHAPES, REQUESTS, strict=True)
)
DISKS = {
    "m0": (disk("a", 6, 6),),
    "m1": (disk("a", 4, 4), disk("b", 3, 3)),
    "m3": (disk("a", 4, 4), disk("b", 2, 2), disk("c", 2, 2)),
}
MACHINES = (
    machine("m0", cpu=4, memory=4, labels={"zone": "a"}),
    machine("m1", cpu=3, memory=6, labels={"zone": "b"}, devices=1),
    machine("m2", cpu=2, memory=2, labels={"zone": "a"}, devices=1),
    machine("m3", cpu=4, memory=8, labels={"zone": "b"}),
)


@dataclass
class Running:
    """A started group: its machines, its expected end `until`, and its real end `ends`."""

    group: WaitingGroup
    where: dict[str, str]
    until: float
    ends: float
    shapes: dict[str, Shape] = field(default_factory=dict)


class World:
    """Machines, queues of (rules, strategy's name), and one cycle."""

    def __init__(
        self, machines: int, queues: list[tuple[QueueRules, str]], *, with_disks: bool = False
    ) -> None:
        self.queues = queues
        self.shapes = SHAPES_ON_DISKS if with_disks else SHAPES
        self.disks = dict(DISKS) if with_disks else {}
        self.machines: dict[str, Machine] = {m.name: m for m in MACHINES[:machines]}
        self.cycle = self._new_cycle(list(self.machines.values()))
        self.now = 0.0
        self.numbers = 0
        self.waiting: dict[str, WaitingGroup] = {}
        self.running: dict[str, Running] = {}
        self.foreign: dict[str, tuple[Task, str, float]] = {}
        self.outcome = Outcome()
        self.never: set[str] = set()
        self.record = Record([(rules.name, strategy) for rules, strategy in queues])

    def _new_cycle(self, machines: list[Machine]) -> Cycle:
        state = State(machines)
        for name, disks in self.disks.items():
            state.set_disks(report(name, *disks))
        queues = [(rules, BUILT_IN[strategy]) for rules, strategy in self.queues]
        return Cycle(state, Optimiser(state, queues, constraints(), [Weighted(CpuMemory())]))

    # --- Events

    def arrive(
        self, shapes: tuple[int, ...], run: float | None, priority: int, queue: int, age: float = 0
    ) -> None:
        self.numbers += 1
        name = f"g{self.numbers}"
        tasks = tuple(
            Task(f"{name}.{i}", f"{name}.{i}", self.shapes[s % len(self.shapes)])
            for i, s in enumerate(shapes)
        )
        rules = self.queues[queue % len(self.queues)][0]
        group = WaitingGroup(name, tasks, priority, max(0.0, self.now - age), run, rules.name)
        self.waiting[name] = group
        self._run(GroupReady(group))

    def wait(self, seconds: float) -> None:
        """Let time pass; tasks that end meanwhile end at their time, with a cycle for each end."""
        until = self.now + seconds
        while True:
            due = [(r.ends, name) for name, r in self.running.items() if r.ends <= until]
            gone = [(end, name) for name, (_, _, end) in self.foreign.items() if end <= until]
            again = self.outcome.wake_up_seconds
            woken = [] if again is None or again > until else [(again, "")]
            if not due and not gone and not woken:
                break
            self.now, name = min(due + gone + woken)
            self.record.step += 1
            self._overdue()
            if not name:
                self._run()
            elif name in self.running:
                ended = self.running.pop(name)
                self._run(*(TaskEnded(task.id) for task in ended.group.tasks))
            else:
                del self.foreign[name]
                self._run(TaskEnded(name))
        self.now = until
        self._overdue()

    def end_early(self, which: int) -> None:
        if self.running:
            name = list(self.running)[which % len(self.running)]
            ended = self.running.pop(name)
            self._run(*(TaskEnded(task.id) for task in ended.group.tasks))

    def withdraw(self, which: int) -> None:
        if self.waiting:
            name = list(self.waiting)[which % len(self.waiting)]
            del self.waiting[name]
            self.record.forget(name)
            self._run(GroupWithdrawn(name))

    def overrun(self, which: int, seconds: float) -> None:
        """A running group will run longer than it said, without a report."""
        bounded = [r for r in self.running.values() if r.ends < math.inf]
        if bounded:
            bounded[which % len(bounded)].ends += seconds

    def extend(self, which: int, seconds: float) -> None:
        """A running group reports that it will run longer."""
        bounded = [r for r in self.running.values() if r.until < math.inf]
        if bounded:
            chosen = bounded[which % len(bounded)]
            chosen.until = max(chosen.until, self.now) + seconds
            chosen.ends = max(chosen.ends, chosen.until)
            self.record.happens(DelayCause.OVERRUN)
            self._run(*self._reports(chosen))

    def resize(self, which: int, shape_number: int) -> None:
        """A running group asks for other amounts, and takes them whether they fit or not."""
        if self.running:
            chosen = list(self.running.values())[which % len(self.running)]
            task = chosen.group.tasks[0]
            new = SHAPES[shape_number % 4]
            old = dict(chosen.shapes.get(task.id, task.shape).requests)
            if any(amount > old.get(name, 0) for name, amount in new.requests):
                self.record.happens(DelayCause.FOREIGN)
            chosen.shapes[task.id] = new
            self._run(*self._reports(chosen))

    def lose(self, which: int) -> None:
        if self.machines:
            name = list(self.machines)[which % len(self.machines)]
            del self.machines[name]
            self.record.happens(DelayCause.MACHINE)
            for running in list(self.running.values()):
                if name in running.where.values():
                    # The other members of the group end at once as well.
                    del self.running[running.group.name]
            self.foreign = {k: v for k, v in self.foreign.items() if v[1] != name}
            here = {t for r in self.running.values() for t in r.where} | self.foreign.keys()
            gone = [t for t in self._held_tasks() if t not in here]
            self._run(MachineGone(name), *(TaskEnded(task) for task in gone))

    def join(self) -> None:
        """A machine that was not there, or had been lost, comes."""
        names = [m.name for m in MACHINES if m.name not in self.machines]
        if names:
            new = next(m for m in MACHINES if m.name == names[0])
            self.machines[new.name] = new
            self._run(MachineSet(new))

    def impair(self, which: int, kind: int) -> None:
        """A machine is cordoned, gets smaller, or another label."""
        if self.machines:
            name = list(self.machines)[which % len(self.machines)]
            before = self.machines[name]
            smaller = {n: a if n == "pods" else max(1, a - 1) for n, a in before.capacity}
            after = (
                replace(before, unschedulable=not before.unschedulable),
                replace(before, capacity=resources(smaller)),
                replace(before, labels={"zone": "c"}),
            )[kind % 3]
            self.machines[name] = after
            if after != before:
                self.record.happens(DelayCause.MACHINE)
            self._run(MachineSet(after))

    def lose_bandwidth(self, which: int) -> None:
        """The disks of a machine have a little less left, or as much as at first again."""
        name = list(DISKS)[which % len(DISKS)]
        if not self.disks:
            return
        after = DISKS[name]
        if self.disks[name] == after:
            after = tuple(disk(d.id, d.left.read - 1, d.left.write - 1) for d in after)
            self.record.happens(DelayCause.DISKS)
        self.disks[name] = after
        self._run(DisksReported(report(name, *after)))

    def put_foreign(self, which: int, shape_number: int, seconds: float) -> None:
        if self.machines:
            self.numbers += 1
            name = list(self.machines)[which % len(self.machines)]
            task = Task(f"f{self.numbers}", f"f{self.numbers}", SHAPES[shape_number % 4])
            until = self.now + seconds
            self.foreign[task.id] = (task, name, until)
            self.record.happens(DelayCause.FOREIGN)
            self._run(TaskRuns(task, name, None if until == math.inf else until))

    def change(self, which: int, run: float | None) -> None:
        """A waiting group changes its run time."""
        if self.waiting:
            name = list(self.waiting)[which % len(self.waiting)]
            after = replace(self.waiting[name], run_seconds=run)
            if after != self.waiting[name]:
                self.record.happens(DelayCause.CHANGED)
            self.waiting[name] = after
            self._run(GroupReady(after))

    def restart(self) -> None:
        """A new process continues with the stored reservations and the reported state."""
        reservations = self.outcome.reservations
        running = [event for each in self.running.values() for event in self._reports(each)]
        self.cycle = self._new_cycle([])
        self.cycle.restore(reservations)
        self.record.restart(reservations, self.now, decided=self.outcome.round is not None)
        self._run(
            *(MachineSet(each) for each in self.machines.values()),
            *running,
            *(
                TaskRuns(task, name, None if until == math.inf else until)
                for task, name, until in self.foreign.values()
            ),
            *(GroupReady(group) for group in self.waiting.values()),
        )

    # --- Checks

    def _run(self, *events: Event) -> None:
        self.outcome = outcome = self.cycle.run(events, self.now)
        placed = self._start(outcome)
        self.record.check(outcome, placed, self.waiting, self.now)
        check_room(outcome, self.waiting, self.machines, self._taken(), self.now, self.disks)
        self._check_unsatisfiable(outcome, events)

    def _start(self, outcome: Outcome) -> list[WaitingGroup]:
        where = {p.task.id: p.machine for p in outcome.placements}
        placed = [g for g in self.waiting.values() if g.tasks[0].id in where]
        assert sum(len(g.tasks) for g in placed) == len(outcome.placements)
        for group in placed:
            del self.waiting[group.name]
            until = math.inf if group.run_seconds is None else self.now + group.run_seconds
            there = {task.id: where.pop(task.id) for task in group.tasks}
            for task in group.tasks:
                assert admits(self.machines[there[task.id]], task.shape), (group, there)
            self.running[group.name] = Running(group, there, until, until)
        return placed

    def _check_unsatisfiable(self, outcome: Outcome, events: tuple[Event, ...]) -> None:
        """A group stays unsatisfiable until it or a machine changes, whatever is ahead of it."""
        if any(isinstance(event, MachineSet | MachineGone | DisksReported) for event in events):
            self.never.clear()
        self.never &= self.waiting.keys()
        self.never -= {event.group.name for event in events if isinstance(event, GroupReady)}
        if outcome.round is not None:
            assert self.never <= outcome.unsatisfiable.keys()
            assert outcome.unsatisfiable.keys() <= self.waiting.keys()
            self.never = set(outcome.unsatisfiable)

    def _taken(self) -> list[Taken]:
        """The use of machines by running tasks."""
        ours = [
            Taken(
                running.shapes.get(task.id, task.shape),
                running.where[task.id],
                -math.inf,
                running.until,
            )
            for running in self.running.values()
            for task in running.group.tasks
        ]
        theirs = self.foreign.values()
        return ours + [Taken(task.shape, name, -math.inf, until) for task, name, until in theirs]

    def _overdue(self) -> None:
        """Note an overrun if a running group should have ended by now."""
        if any(r.until < self.now for r in self.running.values()) or any(
            r.until <= self.now < r.ends for r in self.running.values()
        ):
            self.record.happens(DelayCause.OVERRUN)

    def _held_tasks(self) -> list[str]:
        state = self.cycle.state
        return [held.task.id for row, _ in state.machines() for held in state.placed_on(row)]

    def _reports(self, running: Running) -> list[Event]:
        until = None if running.until == math.inf else running.until
        return [
            TaskRuns(
                replace(task, shape=running.shapes.get(task.id, task.shape)),
                running.where[task.id],
                until,
                self.cycle.state.disks.disks_of(task.id),
            )
            for task in running.group.tasks
        ]
