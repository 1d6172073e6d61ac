"""Priorities are strict: a level is finished before a lower one is looked at.

When a level is finished no waiting group of it has room; the finish of a lower level never takes a
task of a higher one away, but may move it. So, level by level, almost as many are placed as an
integer program finds from the highest priority down, and as if the lower ones were not there. And
if what the round placed at lower priorities is taken away again, a waiting group of the higher one
has room only where such a move happened to make it, about once in thousands of groups.
"""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest

from afflux.cluster.state import State
from afflux.model.placement import Placement
from afflux.model.selectors import NodeAffinity
from afflux.model.waiting_group import WaitingGroup
from oracles.builders import by_machine, decide, group, machine, shape
from oracles.disks import MODELS, random_disks, report
from oracles.highs import Highs
from oracles.integer_programs import can_place_whole, most_placed
from oracles.naive_model import World
from oracles.random_clusters import Generator

# Of the tasks that could be placed, at the first level at which the plan and the optimum differ.
LARGEST_GAP = 0.015
# The same where disks are scarce: sizes by which the search orders tasks do not count them.
LARGEST_GAP_WITH_DISKS = 0.03
# Waiting groups for which a move of the finish made room that a lower level then took.
MOST_OVERTAKEN = 0.001
INSTANCES_PER_BATCH = 60


def random_instance(seed: str, *, with_disks: bool = False) -> tuple[World, list[WaitingGroup]]:
    """Two or three priorities; all groups equally old, so that their number is what counts."""
    rng = Random(seed)
    generator = Generator(
        rng,
        gangs_only=rng.random() < 0.5,
        largest_machines=6,
        largest_groups=25,
        with_disks=with_disks,
    )
    generator.priorities = (0, 10, 20)[: rng.randint(2, 3)]
    world = World()
    for offered in generator.machines():
        world.set_machine(offered)
        if with_disks and rng.random() < 0.9:
            world.disks[offered.name] = random_disks(rng, 60)
    groups = [
        replace(
            waiting,
            ready_seconds=0.0,
            tasks=tuple(replace(task, blocked=None) for task in waiting.tasks),
        )
        for waiting in generator.groups()
    ]
    return world, sorted(groups, key=lambda waiting: -waiting.priority)


def place(world: World, groups: Sequence[WaitingGroup]) -> tuple[Placement, ...]:
    state = State(world.machines.values())
    state.set_normalisers(frozenset(MODELS), world.prices)
    for name, disks in world.disks.items():
        state.set_disks(report(name, *disks))
    return decide(state, *groups).placements


def counts(groups: Sequence[WaitingGroup], placements: Sequence[Placement]) -> dict[int, int]:
    placed = {placement.task.id for placement in placements}
    levels = dict.fromkeys(sorted({g.priority for g in groups}, reverse=True), 0)
    for waiting in groups:
        levels[waiting.priority] += sum(task.id in placed for task in waiting.tasks)
    return levels


def first_difference(ours: dict[int, int], best: dict[int, int]) -> int:
    """How many are missing at the highest priority at which there is a difference."""
    return next((best[p] - ours[p] for p in best if best[p] != ours[p]), 0)


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(4))
def test_a_lower_priority_never_takes_what_a_higher_one_could_use(batch: int, highs: Highs):
    missing = possible = without_others = overtaken = waiting = 0
    for number in range(INSTANCES_PER_BATCH):
        world, groups = random_instance(f"priorities {batch} {number}")
        placements = place(world, groups)
        levels = counts(groups, placements)
        for priority in levels:
            overtaken += len(waiting_with_room(highs, world, groups, placements, priority))
        waiting += sum(len(g.tasks) for g in groups) - len(placements)
        best = most_placed(highs, world.rooms(), groups)
        missing += first_difference(levels, best)
        possible += sum(best.values())
        higher = [g for g in groups if g.priority > min(levels)]
        alone = counts(higher, place(world, higher))
        without_others += first_difference(levels, alone)
    assert overtaken <= MOST_OVERTAKEN * waiting
    assert missing <= LARGEST_GAP * possible
    assert without_others <= LARGEST_GAP * possible


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(3))
def test_with_disks_nearly_as_much_is_placed_as_the_integer_program_can(batch: int, highs: Highs):
    missing = possible = 0
    for number in range(INSTANCES_PER_BATCH):
        world, groups = random_instance(f"disks {batch} {number}", with_disks=True)
        levels = counts(groups, place(world, groups))
        best = most_placed(highs, world.rooms(), groups)
        missing += first_difference(levels, best)
        possible += sum(best.values())
    assert possible > 3 * INSTANCES_PER_BATCH
    assert missing <= LARGEST_GAP_WITH_DISKS * possible


def waiting_with_room(
    highs: Highs,
    world: World,
    groups: Sequence[WaitingGroup],
    placements: Sequence[Placement],
    priority: int,
) -> list[str]:
    """Groups of this priority that would fit if nothing lower had been placed."""
    priorities = {task.id: waiting.priority for waiting in groups for task in waiting.tasks}
    after = World(dict(world.machines))
    for placement in placements:
        if priorities[placement.task.id] >= priority:
            after.run(placement.task, placement.machine, placement.devices)
    rooms = after.rooms()
    return [
        waiting.name
        for waiting in groups
        if waiting.priority == priority
        and waiting.tasks[0].id not in after.running
        and can_place_whole(highs, rooms, waiting)
    ]


def test_a_higher_priority_moves_aside_where_it_can():
    # `high` is cheaper on the larger machine, but only there the two others may go.
    state = State([machine("large", cpu=100, pods=2, labels={"only": "x"}), machine("m", cpu=10)])
    bound = NodeAffinity(selector=(("only", "x"),))
    plan = decide(
        state,
        group("high", shape(cpu=1), priority=10),
        group("a", shape(cpu=1, affinity=bound)),
        group("b", shape(cpu=2, affinity=bound)),
    )
    assert by_machine(plan.placements) == {"large": ["a.0", "b.0"], "m": ["high.0"]}


def test_a_gang_of_a_higher_priority_goes_before_any_number_of_others():
    state = State([machine(f"m{i}", cpu=4) for i in range(3)])
    gang = group("gang", *[shape(cpu=3)] * 3, priority=1)
    others = [group(f"g{i}", shape(cpu=1)) for i in range(12)]
    plan = decide(state, gang, *others)
    assert {name: len(tasks) for name, tasks in by_machine(plan.placements).items()} == {
        "m0": 2,
        "m1": 2,
        "m2": 2,
    }
    assert sum(p.task.name.startswith("gang") for p in plan.placements) == 3


def test_negative_priorities_come_last():
    state = State([machine("m", cpu=1)])
    plan = decide(state, group("zero", shape(cpu=1)), group("low", shape(cpu=1), priority=-1))
    assert by_machine(plan.placements) == {"m": ["zero.0"]}
