"""A round: route by flow, accept what fits exactly, route the rest again, repack by search.

With several resources placement is a packing problem that a flow does not state exactly. So the
flow only proposes: what fits is accepted in queue order, room is computed again on the machines
that took tasks, and the rest is routed again. Each pass places a task or gives up a gang; after a
few passes a bounded search repacks. Priorities are strict: a level is planned completely before
the next one.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from afflux.cluster.relation_index import relations_of
from afflux.cluster.state import State
from afflux.model.task import Shape
from afflux.model.waiting_group import WaitingGroup
from afflux.network.pairs import TaskSource
from afflux.network.pricing import Pricing
from afflux.network.routing import route
from afflux.plan.accept import accept
from afflux.plan.book import Book, make_placements
from afflux.plan.domain_caps import with_caps
from afflux.plan.plan import Plan
from afflux.plan.preselection import Preselection, preselect
from afflux.plan.refused_proposals import RefusedProposals
from afflux.plan.related_tasks import (
    count_untried_sets,
    place_related_gangs,
    place_sets,
    remove_refused,
)
from afflux.plan.repack import MAX_TOTAL_SEARCH_ROUNDS, place_remaining, repack_level
from afflux.plan.rising_costs import with_soft_costs
from afflux.plan.settle import settle
from afflux.plan.waiting_demand import Demand, Gang, Level, count_tasks, gather_demand

# Passes of routing per level before the search.
MAX_ROUTING_PASSES = 8


def plan_round(state: State, pricing: Pricing, groups: Sequence[WaitingGroup]) -> Plan:
    """Plan placements for these groups, which come in queue order."""
    candidates = _with_room(pricing, groups)
    if not candidates:
        return Plan(cost=0, bound=0)
    state.relations.use(relations_of(candidates))
    demand = gather_demand(candidates, state.relations.class_of)
    prices = [pricing.prices(each.shape) for each in demand.classes]
    book = Book(state, demand.classes, prices)
    book.use_soft_terms(state)
    book.set_slope(prices, count_tasks(demand))
    demand.raise_waiting_costs(book.max_cost())
    solves = bound = 0
    proposals = RefusedProposals()
    rounds_left = MAX_TOTAL_SEARCH_ROUNDS
    for number, level in enumerate(demand.levels):
        before = book.packing.cost()
        below_others = bool(book.packing.counts().any())
        preselected = preselect(book, level)
        place_related_gangs(book, level)
        used, level_bound = _fill(book, level, preselected, proposals)
        solves += used
        bound += level_bound
        while place_sets(book, demand.levels[: number + 1]):
            solves += _fill(book, level, preselected, proposals)[0]
        solves += settle(book)
        waiting = level.waiting_cost()
        if waiting:
            book.count_soft_costs()
        if preselected is not None and preselected.exact and waiting == preselected.waiting_bound:
            # No plan starts more, and the network has found the cheapest machines.
            continue
        # The bound takes the placements of higher levels as fixed; the search may move them.
        is_dear = book.packing.cost() - before + waiting > level_bound
        if (is_dear and (waiting or not book.soft)) or (waiting and below_others):
            rounds_left = repack_level(book, demand, level, preselected, rounds_left)
    _sweep(book, demand)
    if refused := remove_refused(book, demand):
        _sweep(book, demand)
    book.count_soft_costs()
    placed = _placed(demand)
    placements = make_placements(book, state, placed)
    cost = book.packing.cost() + demand.waiting_cost()
    return Plan(
        placements,
        placed,
        solves,
        cost,
        # A bound takes the levels above as given; moving them may have undercut it. The caps of
        # domains leave out plans that may be as good.
        None if book.rules or book.soft else min(bound, cost),
        refused_tasks=refused,
        refused_proposals=proposals,
        cut_searches=book.packing.cut_searches(),
        untried_sets=count_untried_sets(book, demand.levels),
    )


def _sweep(book: Book, demand: Demand) -> None:
    """Place every task, gang and set that has room without moving others."""
    place_remaining(book, demand.levels)
    while place_sets(book, demand.levels):
        place_remaining(book, demand.levels)


def _with_room(pricing: Pricing, groups: Sequence[WaitingGroup]) -> list[WaitingGroup]:
    """The groups with room for their members of each shape; the others are not planned."""
    rooms: dict[Shape, int] = {}
    found: list[WaitingGroup] = []
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


def _fill(
    book: Book, level: Level, preselected: Preselection | None, refused: RefusedProposals
) -> tuple[int, int]:
    """Route and accept until nothing more is placed; the number of solves and a bound. Proposals
    that have no room are added to `refused`."""
    bound = preselected.waiting_bound if preselected else level.waiting_cost()
    closed: set[int] = set()
    book.leave_out_soft_costs()
    for solves in range(MAX_ROUTING_PASSES):
        gangs = [
            gang
            for gang in level.waiting_gangs()
            if gang.position not in closed and not book.has_rules(gang.need)
        ]
        if preselected is not None:
            gangs = [gang for gang in gangs if gang.position in preselected.gangs]
        sources = _sources(book, level, gangs, preselected)
        if not sources:
            return solves, bound
        routed_classes = np.zeros(len(book.classes), np.bool_)
        routed_classes[[source.class_index for source in sources]] = True
        book.count_units()
        pairs, slots = book.open_pairs(routed_classes)
        units = _units(sources, len(book.classes))
        pairs, limits = with_caps(book, pairs, units)
        pairs, steps = with_soft_costs(book.soft, pairs, slots, units, limits)
        routed = route(sources, pairs, slots, steps)
        if solves == 0 and preselected is None:
            bound += routed.bound - sum(int(source.waiting_costs.sum()) for source in sources)
        accepted = accept(book, level, gangs, pairs, routed.units)
        refused += accepted.refused
        if not accepted.progress:
            starved = [g for g in gangs if any(accepted.spare[number] for number in g.need)]
            if not starved:
                return solves + 1, bound
            closed.add(starved[-1].position)
    return MAX_ROUTING_PASSES, bound


def _sources(
    book: Book, level: Level, gangs: list[Gang], preselected: Preselection | None
) -> list[TaskSource]:
    """Sources for what waits, has room on some machine, and is preselected."""
    usable = book.packing.usable_classes()
    sources: list[TaskSource] = []
    for number, singles in level.singles.items():
        until = len(singles.groups) if preselected is None else preselected.singles.get(number, 0)
        if singles.placed_count < until and usable[number]:
            sources.append(TaskSource(number, singles.waiting_costs[singles.placed_count : until]))
    for gang in gangs:
        if all(usable[number] for number in gang.need):
            sources += [
                TaskSource(number, np.full(count, gang.waiting_cost_per_task, np.int64))
                for number, count in gang.need.items()
            ]
    return sources


def _units(sources: Sequence[TaskSource], classes: int) -> NDArray[np.int64]:
    """The waiting units of each class."""
    units = np.zeros(classes, np.int64)
    for source in sources:
        units[source.class_index] += len(source.waiting_costs)
    return units


def _placed(demand: Demand) -> tuple[WaitingGroup, ...]:
    """The placed groups, in queue order."""
    placed: list[tuple[int, WaitingGroup]] = []
    for level in demand.levels:
        placed += [(gang.position, gang.group) for gang in level.gangs if gang.placed]
        for singles in level.singles.values():
            waiting = list(zip(singles.positions, singles.groups, strict=True))
            placed += waiting[: singles.placed_count]
    placed.sort(key=lambda entry: entry[0])
    return tuple(group for _, group in placed)
