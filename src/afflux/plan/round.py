"""A round: route by flow, accept what fits exactly, solve the rest again, finish by search.

Several resources make placement a packing problem that no flow states exactly. So the flow
proposes, the book disposes: what fits is accepted in queue order, room is computed again on the
machines it touched, and only the rest is routed again. Each pass places a task or closes a gang;
after a few passes, an exact bounded search finishes. Priorities are strict: a level is
finished before the next one is looked at.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from afflux.cluster.state import State
from afflux.model.group import Group
from afflux.model.placement import Placement
from afflux.model.promise import Promise
from afflux.model.task import Shape
from afflux.network.layout import Source, route
from afflux.network.pricing import Pricing
from afflux.plan.accept import accept
from afflux.plan.book import Book, settle
from afflux.plan.demand import Demand, Gang, Level, count_tasks, gather_demand
from afflux.plan.ration import Ration, ration
from afflux.plan.repair import ROUNDS_IN_ALL, finish, sweep

# Passes of routing per level before search takes over.
PASSES = 8


@dataclass(frozen=True, slots=True)
class Round:
    """What a round decided, and how good it is.

    `cost` is what the plan costs, waiting included; `bound` what the relaxed network, or the
    relaxed knapsack where not everything fits, says no plan can undercut, level by level given the
    levels above. Groups without room even alone are in neither. `promises` is who was promised a
    start, `unsatisfiable` who can never start, with the reason, `unreached` who could not be looked
    at because there are too many; `served` are the queues that were asked one after the other, in
    that order. `goes_on`: the next round looks at others, also if nothing happens before.
    """

    placements: tuple[Placement, ...]
    placed: tuple[Group, ...]
    solves: int = 0
    cost: int | None = None
    bound: int | None = None
    promises: tuple[Promise, ...] = ()
    unsatisfiable: Mapping[str, str] = field(default_factory=dict[str, str])
    unreached: frozenset[str] = frozenset()
    served: tuple[str, ...] = ()
    goes_on: bool = False

    @property
    def gap(self) -> float | None:
        """How much dearer the plan is than the bound, as a share of the bound; None if unknown."""
        if self.cost is None or self.bound is None:
            return None
        return (self.cost - self.bound) / max(1, abs(self.bound))


def plan_round(state: State, pricing: Pricing, groups: Sequence[Group]) -> Round:
    """Place as many of these groups, which come in queue order, as well as possible."""
    hopeful = _hopeful(pricing, groups)
    if not hopeful:
        return Round((), (), cost=0, bound=0)
    demand = gather_demand(hopeful)
    prices = [pricing.prices(shape) for shape in demand.shapes]
    book = Book(state, demand.shapes, prices)
    book.set_slope(prices, count_tasks(demand))
    demand.keep_waiting_dearest(book.dearest())
    solves = 0
    bound = 0
    rounds_left = ROUNDS_IN_ALL
    for level in demand.levels:
        before = book.placement_cost()
        below_others = bool(book.count.any())
        rationed = ration(book, level)
        used, level_bound = _fill(book, level, rationed)
        solves += used
        bound += level_bound
        waiting = level.waiting_cost()
        if rationed is not None and rationed.exact and waiting == rationed.waiting_bound:
            # Nobody else could start, and the network has found the cheapest places.
            continue
        # The bound holds as long as the levels above stay where they are: they can be moved.
        if book.placement_cost() - before + waiting > level_bound or (waiting and below_others):
            rounds_left = finish(book, demand, level, rationed, rounds_left)
    sweep(book, demand.levels)
    placed = _placed(demand)
    placements = settle(book, state, placed)
    cost = book.placement_cost() + demand.waiting_cost()
    # A bound takes the levels above as given; moving them may have undercut it.
    return Round(placements, placed, solves, cost, min(bound, cost))


def _hopeful(pricing: Pricing, groups: Sequence[Group]) -> list[Group]:
    """Groups for whose members of each shape there is room; the others wait at no expense."""
    rooms: dict[Shape, int] = {}
    found: list[Group] = []
    last: Shape | None = None
    room = 0
    for group in groups:
        for shape, count in group.shapes:
            # Neighbours in the queue are often of one class.
            if shape is not last:
                last = shape
                if shape not in rooms:
                    rooms[shape] = int(pricing.prices(shape).room.sum())
                room = rooms[shape]
            if room < count:
                break
        else:
            found.append(group)
    return found


def _fill(book: Book, level: Level, rationed: Ration | None) -> tuple[int, int]:
    """Route and accept until nothing more comes of it; the number of solves and a bound."""
    bound = rationed.waiting_bound if rationed else level.waiting_cost()
    closed: set[int] = set()
    for solves in range(PASSES):
        gangs = [gang for gang in level.waiting_gangs() if gang.position not in closed]
        if rationed is not None:
            gangs = [gang for gang in gangs if gang.position in rationed.gangs]
        sources = _sources(book, level, gangs, rationed)
        if not sources:
            return solves, bound
        routed = route(sources, book.offer())
        if solves == 0 and rationed is None:
            bound += routed.cost - sum(int(source.waiting.sum()) for source in sources)
        progress, spare = accept(book, level, gangs, routed.units)
        if not progress:
            starved = [g for g in gangs if any(spare[number] for number in g.need)]
            if not starved:
                return solves + 1, bound
            closed.add(starved[-1].position)
    return PASSES, bound


def _sources(book: Book, level: Level, gangs: list[Gang], rationed: Ration | None) -> list[Source]:
    """What waits, has room somewhere, and may go first."""
    usable = book.usable_classes()
    sources: list[Source] = []
    for number, singles in level.singles.items():
        until = len(singles.groups) if rationed is None else rationed.singles.get(number, 0)
        if singles.taken < until and usable[number]:
            sources.append(Source(number, singles.waiting[singles.taken : until]))
    for gang in gangs:
        if all(usable[number] for number in gang.need):
            sources += [
                Source(number, np.full(count, gang.waiting_cost, np.int64))
                for number, count in gang.need.items()
            ]
    return sources


def _placed(demand: Demand) -> tuple[Group, ...]:
    """Groups that got a place, in queue order."""
    placed: list[tuple[int, Group]] = []
    for level in demand.levels:
        placed += [(gang.position, gang.group) for gang in level.gangs if gang.placed]
        for singles in level.singles.values():
            placed += list(zip(singles.positions, singles.groups, strict=True))[: singles.taken]
    placed.sort(key=lambda entry: entry[0])
    return tuple(group for _, group in placed)
