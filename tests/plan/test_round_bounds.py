"""Bounds are bounds: no plan of the true problem costs less than a round says it must."""

from dataclasses import replace
from random import Random

import pytest

from afflux.cluster.state import State
from afflux.model.task import Shape
from afflux.model.waiting_group import WaitingGroup
from afflux.network.pricing import Pricing
from afflux.plan.book import Book
from afflux.plan.preselection import preselect
from afflux.plan.waiting_demand import (
    WAITING_COST,
    WAITING_COST_DOUBLES_AFTER_SECONDS,
    Demand,
    count_tasks,
    gather_demand,
)
from afflux.policies.cpu_memory import CpuMemory
from afflux.policies.policy import Weighted
from afflux.policies.registry import constraints
from oracles.builders import group, machine, scheduler, shape
from oracles.highs import Highs
from oracles.integer_programs import least_cost
from oracles.naive_model import World
from oracles.random_clusters import Generator


def random_instance(seed: str) -> tuple[World, list[WaitingGroup]]:
    """One priority, all ages."""
    rng = Random(seed)
    generator = Generator(rng, gangs_only=rng.random() < 0.5, largest_machines=5, largest_groups=14)
    world = World()
    for offered in generator.machines():
        world.set_machine(offered)
    groups = [
        replace(
            waiting, priority=0, tasks=tuple(replace(task, blocked=None) for task in waiting.tasks)
        )
        for waiting in generator.groups()
    ]
    return world, sorted(groups, key=lambda waiting: waiting.ready_seconds)


def books(world: World, groups: list[WaitingGroup]) -> tuple[Book | None, Demand, State]:
    """The book of a round at its start, over groups that have room for all members of a shape."""
    state = State(world.machines.values())
    pricing = Pricing(state, constraints(), [Weighted(CpuMemory())])
    hopeful = [
        waiting
        for waiting in groups
        if all(pricing.prices(shape).room.sum() >= count for shape, count in waiting.shapes)
    ]
    demand = gather_demand(hopeful, state.relations.class_of)
    if not hopeful:
        return None, demand, state
    prices = [pricing.prices(each.shape) for each in demand.classes]
    book = Book(state, demand.classes, prices)
    book.set_slope(prices, count_tasks(demand))
    return book, demand, state


def waiting_costs_of(demand: Demand) -> dict[str, int]:
    waiting_cost: dict[str, int] = {}
    for level in demand.levels:
        waiting_cost |= {gang.group.name: gang.waiting_cost for gang in level.gangs}
        for singles in level.singles.values():
            names = [waiting.name for waiting in singles.groups]
            waiting_cost |= dict(zip(names, map(int, singles.waiting_costs), strict=True))
    return waiting_cost


class Instance:
    """A random problem with the worths and costs that the round sees."""

    def __init__(self, seed: str) -> None:
        self.world, self.groups = random_instance(seed)
        self.book, self.demand, self.state = books(self.world, self.groups)
        self.waiting_costs = waiting_costs_of(self.demand)
        self.waiting = [g for g in self.groups if g.name in self.waiting_costs]
        self.numbers = {each.shape: i for i, each in enumerate(self.demand.classes)}

    def waiting_cost(self, waiting: WaitingGroup) -> int:
        return self.waiting_costs[waiting.name]

    def cost(self, shape: Shape, name: str) -> int:
        rows, costs = self.book.packing.pairs(self.numbers[shape])
        return int(costs[rows == self.state.rows[name]].sum())

    def slope(self, name: str) -> int:
        return int(self.book.packing.slope()[self.state.rows[name]])


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(4))
def test_no_plan_undercuts_the_bound(batch: int, highs: Highs):
    preselected = rounds = 0
    for number in range(45):
        it = Instance(f"bound {batch} {number}")
        if not it.waiting:
            continue
        limit = preselect(it.book, it.demand.levels[0])
        if limit is not None:
            preselected += 1
            least = least_cost(highs, it.world.rooms(), it.waiting, it.waiting_cost)
            assert limit.waiting_bound <= least, (batch, number)
        rounds += 1
        plan = scheduler(it.state).decide(it.state, it.groups).plan
        least = least_cost(highs, it.world.rooms(), it.waiting, it.waiting_cost, it.cost, it.slope)
        assert plan.bound <= least <= plan.cost, (batch, number)
    assert preselected > 10
    assert rounds > 25


def test_the_bound_uses_the_waiting_cost_of_each_task_of_a_class():
    # Room for one of two; the older one is worth twice the newer.
    world = World({"m": machine("m", cpu=1)})
    old = group("old", shape(cpu=1), ready=0.0)
    new = group("new", shape(cpu=1), ready=float(WAITING_COST_DOUBLES_AFTER_SECONDS))
    book, demand, _ = books(world, [old, new])
    limit = preselect(book, demand.levels[0])
    assert limit is not None
    assert limit.waiting_bound <= WAITING_COST
    assert limit.waiting_bound > WAITING_COST * 0.99
    assert limit.singles == {0: 1}


def test_nothing_is_preselected_if_everything_fits():
    world = World({"m": machine("m", cpu=2)})
    book, demand, _ = books(world, [group("a", shape(cpu=1)), group("b", shape(cpu=1))])
    assert preselect(book, demand.levels[0]) is None
