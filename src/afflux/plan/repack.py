"""Repacking: places what the network left waiting, by moving placements of this round.

The network does not know that classes compete for the CPU and memory of a machine, so at high load
tasks stay waiting although they would fit after a few moves. First waiting tasks are placed where
they still fit, on the fullest machine; then a bounded search in Rust (afflux-pack) repacks the
placements of this round, so that more tasks fit at a lower cost. Both count capacity exactly.
"""

from collections.abc import Sequence

from afflux.plan.book import Book, Table
from afflux.plan.preselection import Preselection
from afflux.plan.waiting_demand import Demand, Gang, Level, Singles

# Limits of the search: rounds per task that it can move, rounds of one search, and checks whether a
# task fits on a machine (20 million take about 0.1 s).
SEARCH_ROUNDS_PER_TASK = 400
MAX_SEARCH_ROUNDS = 20_000
MAX_FIT_CHECKS = 20_000_000
# For all levels of a round together; each may use half of what the levels before it left.
MAX_TOTAL_SEARCH_ROUNDS = 2 * MAX_SEARCH_ROUNDS
MIN_SEARCH_ROUNDS = 50


def repack_level(
    book: Book, demand: Demand, level: Level, preselected: Preselection | None, rounds_left: int
) -> int:
    """Place what still waits of a level, by moving placements of this round if necessary.

    Returns how many rounds of search are left for the levels below.
    """
    _place_where_it_fits(book, level)
    useful = SEARCH_ROUNDS_PER_TASK * int(book.packing.counts().sum())
    rounds = min(MAX_SEARCH_ROUNDS, useful, rounds_left // 2)
    if rounds < MIN_SEARCH_ROUNDS:
        return rounds_left
    _repack(book, demand, level, preselected, rounds)
    # Not the lower levels: the network decides first where they go.
    place_remaining(book, [other for other in demand.levels if other.priority >= level.priority])
    return rounds_left - rounds


def place_remaining(book: Book, levels: Sequence[Level]) -> None:
    """Place every group of these levels that fits without moving other tasks."""
    found = True
    while found:
        found = False
        for level in levels:
            found |= _place_where_it_fits(book, level)


def _place_where_it_fits(book: Book, level: Level) -> bool:
    """Place waiting groups where they fit, in queue order; whether one was placed."""
    usable = book.packing.usable_classes()
    waiting: list[tuple[int, Singles | Gang]] = [
        (singles.positions[singles.placed_count], singles)
        for singles in level.singles.values()
        if singles.waiting_count and usable[singles.class_index]
    ]
    waiting += [
        (gang.position, gang)
        for gang in level.waiting_gangs()
        if book.has_rules(gang.need) or all(usable[number] for number in gang.need)
    ]
    found = False
    for _, item in sorted(waiting, key=lambda entry: entry[0]):
        if isinstance(item, Gang):
            item.placed = book.place_gang(item.need)
            found |= item.placed
            continue
        placed = book.packing.place_tightest(item.class_index, item.waiting_count)
        item.placed_count += placed
        found |= placed > 0
    return found


def _repack(
    book: Book, demand: Demand, level: Level, preselected: Preselection | None, rounds: int
) -> None:
    """Search for a better packing of this round."""
    # The search may drop and add groups of this level; groups of other levels stay placed.
    fixed = book.packing.placed()
    singles: list[list[int]] = [[] for _ in demand.classes]
    for number, waiting in level.singles.items():
        fixed[number] -= waiting.placed_count
        singles[number] = waiting.waiting_costs.tolist()
    # Units that constraints between tasks concern stay where they are.
    gangs = [gang for gang in level.gangs if not book.is_related(gang.need)]
    for gang in gangs:
        if gang.placed:
            for number, count in gang.need.items():
                fixed[number] -= count
    candidates = [g for g in gangs if g.placed or _could_fit(book, g)]
    preselected_counts = None
    if preselected is not None and not book.rules:
        preselected_counts = (
            [preselected.singles.get(number, 0) for number in range(len(demand.classes))],
            [gang.position in preselected.gangs for gang in candidates],
        )
    open_gangs = book.packing.repack(
        fixed=fixed.tolist(),
        singles=singles,
        gangs=[(list(g.need.items()), g.waiting_cost, g.placed) for g in candidates],
        first=preselected_counts,
        rounds=rounds,
        effort=MAX_FIT_CHECKS,
        seed=0,
    )
    book.forget_refusals()
    for gang, is_open in zip(candidates, open_gangs, strict=True):
        gang.placed = is_open
    _count_singles(book, level, fixed)


def _could_fit(book: Book, gang: Gang) -> bool:
    """Whether each class of the gang would fit without the other placements of this round."""
    return all(book.packing.had_room(number, count) for number, count in gang.need.items())


def _count_singles(book: Book, level: Level, fixed: Table) -> None:
    """Units beyond the fixed ones and those of gangs belong to singles, longest waiting first."""
    taken = book.packing.placed() - fixed
    for gang in level.gangs:
        if gang.placed and not book.is_related(gang.need):
            for number, count in gang.need.items():
                taken[number] -= count
    for number, singles in level.singles.items():
        singles.placed_count = int(taken[number])
