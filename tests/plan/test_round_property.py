"""What every round guarantees, over thousands of random clusters and workloads.

Rounds follow one another through the cycle while machines join, leave and change, tasks arrive and
end. After each one, judged from the inputs by plain arithmetic: nothing over capacity, no group in
part, only admitted machines, no blocked task placed; and no group left waiting for which there is
still room, where for gangs an integer program decides.
"""

from dataclasses import replace
from random import Random

import pytest

from afflux.admit.strategies import Strategy, fcfs, flow
from afflux.cluster.state import State
from afflux.cycle.events import (
    DisksGone,
    DisksReported,
    Event,
    GroupReady,
    GroupWithdrawn,
    MachineGone,
    MachineSet,
    NormalisersChanged,
    TaskEnded,
    TaskRuns,
)
from afflux.cycle.loop import Cycle
from afflux.cycle.optimiser import Optimiser
from afflux.model.disks import Bandwidth, Disk, DiskReport
from afflux.model.task import Task
from afflux.model.waiting_group import WaitingGroup
from afflux.policies.cpu_memory import CpuMemory
from afflux.policies.load_spreading import LoadSpreading
from afflux.policies.policy import Weighted
from afflux.policies.registry import constraints
from afflux.queue.rules import QueueRules
from oracles.disks import MODELS, DiskRoom, kinds, random_disks
from oracles.highs import Highs
from oracles.integer_programs import can_place_whole
from oracles.naive_model import World, broken_rules, fits_somewhere
from oracles.random_clusters import Generator

pytestmark = pytest.mark.slow

BATCHES = 40
# So many of them belong to the inner loop.
QUICK_BATCHES = 6
CLUSTERS_PER_BATCH = 100


class Story:
    """One cluster over several rounds; the cycle and the naive model get the same events."""

    def __init__(self, seed: str, strategy: Strategy = flow, **kind: int) -> None:
        self.rng = Random(seed)
        self.with_disks = bool(kind.get("with_disks"))
        self.random = Generator(self.rng, **kind)
        self.world = World()
        self.waiting: dict[str, WaitingGroup] = {}
        self.arrived: dict[str, int] = {}
        policies = [Weighted(CpuMemory()), Weighted(LoadSpreading(), self.rng.randint(1, 3))]
        state = State()
        chosen = policies[: self.rng.randint(1, len(policies))]
        scheduler = Optimiser(state, [(QueueRules(), strategy)], constraints(), chosen)
        self.cycle = Cycle(state, scheduler)
        self._foreign = 0
        self._capacity: dict[str, tuple[Disk, ...]] = {}

    def opening(self) -> list[Event]:
        events: list[Event] = [MachineSet(machine) for machine in self.random.machines()]
        names = [event.machine.name for event in events]
        if self.with_disks:
            events.append(NormalisersChanged(frozenset(MODELS), self.world.prices))
            events += [self._disks(name) for name in names if self.rng.random() < 0.85]
        foreign = self.rng.randint(0, 2 * len(names))
        events += [self._foreign_task(self.rng.choice(names)) for _ in range(foreign)]
        events += [GroupReady(group) for group in self.random.groups()]
        return events

    def news(self) -> list[Event]:
        """What happens between two rounds."""
        rng = self.rng
        events: list[Event] = [TaskEnded(t) for t in self.world.running if rng.random() < 0.3]
        for name, machine in list(self.world.machines.items()):
            if rng.random() < 0.2:
                events.append(MachineSet(self.random.resized(machine)))
            elif rng.random() < 0.1:
                events += [MachineGone(name), DisksGone(name)]
                if rng.random() < 0.5:
                    events.append(MachineSet(self.random.machine(f"n{rng.randrange(10)}")))
            elif self.with_disks and rng.random() < 0.5:
                events.append(self._disks(name) if rng.random() < 0.9 else DisksGone(name))
            elif rng.random() < 0.1:
                events.append(self._foreign_task(name))
        events += [GroupWithdrawn(name) for name in self.waiting if rng.random() < 0.1]
        events += [GroupReady(g) for g in self.random.groups()[: rng.randint(0, 6)]]
        return events

    def _foreign_task(self, machine: str) -> TaskRuns:
        self._foreign += 1
        name = f"foreign{self._foreign}"
        shape = self.rng.choice(self.random.shapes)
        disks = (
            tuple(f"nvme{self.rng.randrange(4)}" for _ in shape.disks.volumes)
            if shape.disks
            else ()
        )
        disks = disks if self.with_disks and self.rng.random() < 0.7 else ()
        return TaskRuns(Task(name, name, shape), machine, disks=disks)

    def _disks(self, name: str) -> DisksReported:
        """A report, which deducts what the tasks take that it acknowledges: it knows those that are
        on disks which it has reported before."""
        rng = self.rng
        capacity = self.world.disks.get(name, ())
        room = DiskRoom(DiskReport(name, capacity), {}, self.world.prices)
        there = [t for t, where, _ in self.world.running.values() if where == name]
        acknowledged = [task for task in there if rng.random() < 0.5]
        if not capacity or rng.random() < 0.3:
            capacity, acknowledged = random_disks(rng), []
        index = {disk.id: number for number, disk in enumerate(capacity)}
        room.left = {disk.id: list(kinds(disk.left)) for disk in capacity}
        for task in acknowledged:
            on = self.world.on_disks[task.id]
            room.take(task.shape.disks, tuple(index[disk] for disk in on))
        disks = tuple(replace(d, left=Bandwidth(*room.left[d.id])) for d in capacity)
        self._capacity[name] = capacity
        refused = "silent" if rng.random() < 0.1 else ""
        known = frozenset(task.id for task in acknowledged)
        return DisksReported(DiskReport(name, disks, known, refused))

    def round(self, events: list[Event]) -> None:
        for event in events:
            self._note(event)
        if self.with_disks:
            self._note_disks(events)
        self.order_before = sorted(
            self.waiting.values(),
            key=lambda g: (-g.priority, g.ready_seconds, self.arrived[g.name]),
        )
        outcome = self.cycle.run(events)
        self._learn_disks()
        self.unsatisfiable = outcome.unsatisfiable
        self.last_placed = [group.name for group in outcome.round.placed] if outcome.round else []
        wrong = broken_rules(self.world, self.waiting.values(), outcome.placements)
        assert not wrong
        placed = {placement.task.id for placement in outcome.placements}
        for group in list(self.waiting.values()):
            if group.tasks[0].id in placed:
                del self.waiting[group.name]
        assert {group.name for group in self.cycle.queue} == set(self.waiting)
        for placement in outcome.placements:
            self.world.run(placement.task, placement.machine, placement.devices)
        self._learn_disks()

    def _learn_disks(self) -> None:
        """On which disks tasks run; where that was not known, the table has chosen."""
        disks_of = self.cycle.state.disks.disks_of
        self.world.on_disks = {i: disks_of(i) for i in self.world.running}

    def _note_disks(self, events: list[Event]) -> None:
        for event in events:
            match event:
                case DisksReported(report):
                    self.world.disks[report.machine] = self._capacity[report.machine]
                    self.world.refused[report.machine] = report.refused
                case DisksGone(name):
                    self.world.disks.pop(name, None)
                case _:
                    pass

    def _note(self, event: Event) -> None:
        match event:
            case MachineSet(machine):
                self.world.set_machine(machine)
            case MachineGone(name):
                self.world.remove_machine(name)
            case TaskRuns(task, machine):
                self.world.run(task, machine)
            case TaskEnded(task_id):
                self.world.end(task_id)
            case GroupReady(group):
                self.waiting[group.name] = group
                self.arrived[group.name] = len(self.arrived)
            case GroupWithdrawn(name):
                del self.waiting[name]

    @staticmethod
    def is_blocked(group: WaitingGroup) -> bool:
        return any(task.blocked for task in group.tasks)

    def considered(self) -> list[WaitingGroup]:
        return [group for group in self.waiting.values() if not self.is_blocked(group)]


def overlooked(highs: Highs, story: Story) -> list[str]:
    """Groups that wait although a whole placement exists as things stand."""
    rooms = story.world.rooms()
    known: dict[tuple, bool] = {}
    found: list[str] = []
    for group in story.considered():
        key = tuple(sorted(hash(task.shape) for task in group.tasks))
        if key not in known:
            known[key] = can_place_whole(highs, rooms, group)
        if known[key]:
            found.append(group.name)
    return found


@pytest.mark.parametrize(
    "batch",
    [*range(QUICK_BATCHES)]
    + [pytest.param(b, marks=pytest.mark.slow) for b in range(QUICK_BATCHES, BATCHES)],
)
def test_rounds_break_no_rule_and_leave_no_group_waiting_that_fits(batch: int, highs: Highs):
    for number in range(CLUSTERS_PER_BATCH):
        gangs_only = number % 4 == 0
        story = Story(
            f"flow {batch} {number}", gangs_only=gangs_only, largest_groups=5 if gangs_only else 14
        )
        events = story.opening()
        for turn in range(story.rng.choice((1, 1, 2, 4))):
            story.round(events)
            assert not overlooked(highs, story), (batch, number, turn)
            events = story.news()


@pytest.mark.parametrize(
    "batch",
    [*range(QUICK_BATCHES)]
    + [pytest.param(b, marks=pytest.mark.slow) for b in range(QUICK_BATCHES, BATCHES)],
)
def test_rounds_overcommit_no_disk_and_leave_no_group_waiting_that_fits(batch: int, highs: Highs):
    for number in range(CLUSTERS_PER_BATCH):
        gangs_only = number % 4 == 0
        story = Story(
            f"disks {batch} {number}",
            gangs_only=gangs_only,
            largest_groups=5 if gangs_only else 14,
            with_disks=True,
        )
        events = story.opening()
        for turn in range(story.rng.choice((1, 2, 4))):
            story.round(events)
            assert not overlooked(highs, story), (batch, number, turn)
            events = story.news()


@pytest.mark.parametrize("batch", range(4))
def test_under_fcfs_no_group_overtakes_another(batch: int, highs: Highs):
    for number in range(CLUSTERS_PER_BATCH):
        story = Story(f"fcfs {batch} {number}", fcfs)
        events = story.opening()
        for _ in range(story.rng.choice((1, 2, 3))):
            story.round(events)
            placed = story.last_placed
            # Groups that can never start are skipped.
            hopeful = [g for g in story.order_before if g.name not in story.unsatisfiable]
            order = [group.name for group in hopeful if not story.is_blocked(group)]
            assert order[: len(placed)] == placed
            if not placed and order:
                head = story.waiting[order[0]]
                assert not can_place_whole(highs, story.world.rooms(), head), (batch, number)
            events = story.news()


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(4))
def test_larger_clusters_with_hundreds_of_tasks(batch: int):
    for number in range(12):
        story = Story(f"large {batch} {number}", largest_machines=40, largest_groups=250)
        events = story.opening()
        for _ in range(3):
            story.round(events)
            rooms = story.world.rooms()
            for group in story.considered():
                if len(group.tasks) == 1:
                    assert not fits_somewhere(rooms, group.tasks[0].shape), (batch, number)
            events = story.news()
