"""Bounds are bounds: no plan of the true problem costs less than a round says it must."""

from dataclasses import replace
from random import Random

import pytest

from afflux.cluster.state import State
from afflux.model.group import Group
from afflux.model.task import Shape
from afflux.network.pricing import Pricing
from afflux.plan.book import Book
from afflux.plan.demand import (
    DOUBLED_AFTER_SECONDS,
    WAITING_COST,
    Demand,
    count_tasks,
    gather_demand,
)
from afflux.plan.ration import ration
from afflux.policies.cpu_memory import CpuMemory
from afflux.policies.policy import Weighted
from afflux.policies.registry import constraints
from oracles.building import group, machine, scheduler, shape
from oracles.highs import Highs
from oracles.programs import least_cost
from oracles.random_clusters import Generator
from oracles.scalar import World


def random_instance(seed: str) -> tuple[World, list[Group]]:
    """One priority, all ages."""
    rng = Random(seed)
    generator = Generator(rng, gangs_only=rng.random() < 0.5, largest_machines=5, largest_groups=14)
    world = World()
    for offered in generator.machines():
        world.set_machine(offered)
    groups = [
        replace(
            waiting,
            priority=0,
            tasks=tuple(replace(task, blocked=None) for task in waiting.tasks),
        )
        for waiting in generator.groups()
    ]
    return world, sorted(groups, key=lambda waiting: waiting.ready_seconds)


def books(world: World, groups: list[Group]) -> tuple[Book | None, Demand, State]:
    """The book of a round at its start, over groups that have room for all members of a shape."""
    state = State(world.machines.values())
    pricing = Pricing(state, constraints(), [Weighted(CpuMemory())])
    hopeful = [
        waiting
        for waiting in groups
        if all(pricing.prices(shape).room.sum() >= count for shape, count in waiting.shapes)
    ]
    demand = gather_demand(hopeful)
    if not hopeful:
        return None, demand, state
    prices = [pricing.prices(shape) for shape in demand.shapes]
    book = Book(state, demand.shapes, prices)
    book.set_slope(prices, count_tasks(demand))
    return book, demand, state


def worth_of(demand: Demand) -> dict[str, int]:
    worth: dict[str, int] = {}
    for level in demand.levels:
        worth |= {gang.group.name: gang.worth for gang in level.gangs}
        for singles in level.singles.values():
            names = [waiting.name for waiting in singles.groups]
            worth |= dict(zip(names, map(int, singles.waiting), strict=True))
    return worth


class Instance:
    """A random problem with the worths and costs that the round sees."""

    def __init__(self, seed: str) -> None:
        self.world, self.groups = random_instance(seed)
        self.book, self.demand, self.state = books(self.world, self.groups)
        self.worths = worth_of(self.demand)
        self.waiting = [g for g in self.groups if g.name in self.worths]
        self.numbers = {shape: i for i, shape in enumerate(self.demand.shapes)}

    def worth(self, waiting: Group) -> int:
        return self.worths[waiting.name]

    def cost(self, shape: Shape, name: str) -> int:
        return int(self.book.cost[self.numbers[shape], self.state.rows[name]])

    def slope(self, name: str) -> int:
        return int(self.book.slope[self.state.rows[name]])


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(4))
def test_no_plan_undercuts_the_bound(batch: int, highs: Highs):
    rationed = rounds = 0
    for number in range(45):
        it = Instance(f"bound {batch} {number}")
        if not it.waiting:
            continue
        limit = ration(it.book, it.demand.levels[0])
        if limit is not None:
            rationed += 1
            least = least_cost(highs, it.world.rooms(), it.waiting, it.worth)
            assert limit.waiting_bound <= least, (batch, number)
        rounds += 1
        plan = scheduler(it.state).decide(it.state, it.groups)
        least = least_cost(highs, it.world.rooms(), it.waiting, it.worth, it.cost, it.slope)
        assert plan.bound <= least <= plan.cost, (batch, number)
    assert rationed > 10
    assert rounds > 25


def test_the_bound_counts_the_oldest_of_a_class_at_their_own_worth():
    # Room for one of two; the older one is worth twice the newer.
    world = World({"m": machine("m", cpu=1)})
    old = group("old", shape(cpu=1), ready=0.0)
    new = group("new", shape(cpu=1), ready=float(DOUBLED_AFTER_SECONDS))
    book, demand, _ = books(world, [old, new])
    limit = ration(book, demand.levels[0])
    assert limit is not None
    assert limit.waiting_bound <= WAITING_COST
    assert limit.waiting_bound > WAITING_COST * 0.99
    assert limit.singles == {0: 1}


def test_where_everything_fits_nothing_is_rationed():
    world = World({"m": machine("m", cpu=2)})
    book, demand, _ = books(world, [group("a", shape(cpu=1)), group("b", shape(cpu=1))])
    assert ration(book, demand.levels[0]) is None
