"""The finish of a level: search that closes what the network left open.

The network does not know that classes compete for the same CPU and memory of a machine, so at high
load tasks are refused although everything would fit after a few moves. What waits goes wherever it
still fits, the tightest machine first; then a bounded search in Rust (afflux-pack) repacks what
was placed in this very round, so that more fits and everything is cheaper. Both are exact.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from afflux._core import repack
from afflux.plan.book import Book
from afflux.plan.demand import Demand, Gang, Level, Singles
from afflux.plan.gangs import place_gang, tightest
from afflux.plan.ration import Ration

# The search may go through so many rounds per task it can move, and so many in all; and
# may hold a task against a machine so often (20 million times is about 0.1 s).
ROUNDS_PER_TASK = 400
ROUNDS = 20_000
EFFORT = 20_000_000
# All levels of a round together; each may use half of what those before it have left.
ROUNDS_IN_ALL = 2 * ROUNDS
FEWEST_ROUNDS = 50


def finish(
    book: Book, demand: Demand, level: Level, rationed: Ration | None, rounds_left: int
) -> int:
    """Place what is left of a level, by moving what was placed in this round if need be.

    Returns how many rounds of search are left for the levels below.
    """
    _insert(book, level)
    rounds = min(ROUNDS, ROUNDS_PER_TASK * int(book.count.sum()), rounds_left // 2)
    if rounds < FEWEST_ROUNDS:
        return rounds_left
    _repack(book, demand, level, rationed, rounds)
    # Lower levels are not looked at yet: the network, not this, decides where they go.
    sweep(book, [other for other in demand.levels if other.priority >= level.priority])
    return rounds_left - rounds


def sweep(book: Book, levels: Sequence[Level]) -> None:
    """Leave no group of these levels waiting for which there is room as things stand."""
    found = True
    while found:
        found = False
        for level in levels:
            found |= _insert(book, level)


def _insert(book: Book, level: Level) -> bool:
    """Put waiting groups where they fit, in queue order; whether anybody found a place."""
    usable = book.usable_classes()
    waiting: list[tuple[int, Singles | Gang]] = [
        (singles.positions[singles.taken], singles)
        for singles in level.singles.values()
        if singles.left and usable[singles.class_index]
    ]
    waiting += [
        (gang.position, gang)
        for gang in level.waiting_gangs()
        if all(usable[number] for number in gang.need)
    ]
    found = False
    for _, item in sorted(waiting, key=lambda entry: entry[0]):
        if isinstance(item, Gang):
            item.placed = place_gang(book, item.need)
            found |= item.placed
            continue
        while item.left and (row := tightest(book, item.class_index)) is not None:
            book.place(item.class_index, row)
            item.taken += 1
            found = True
    return found


def _repack(book: Book, demand: Demand, level: Level, rationed: Ration | None, rounds: int) -> None:
    """Search for a better packing of this round."""
    placed = book.units.sum(axis=1)
    # Singles and gangs of this level may come and go; what is placed of others has to stay.
    fixed = placed.copy()
    singles: list[list[int]] = [[] for _ in demand.shapes]
    for number, waiting in level.singles.items():
        fixed[number] -= waiting.taken
        singles[number] = waiting.waiting.tolist()
    for gang in level.gangs:
        if gang.placed:
            for number, count in gang.need.items():
                fixed[number] -= count
    candidates = [g for g in level.gangs if g.placed or _hopeful(book, g)]
    rows = np.flatnonzero(book.admitted.any(axis=0))
    columns = {int(row): column for column, row in enumerate(rows)}
    units, open_gangs = repack(
        requests=book.requests,
        devices=[s.devices and (s.devices.count, s.devices.milli) for s in demand.shapes],
        admitted=book.admitted[:, rows],
        cost=book.cost[:, rows],
        slope=book.slope[rows],
        free=book.free[rows],
        free_devices=[book.free_devices[row] for row in rows],
        units=[(number, columns[row], devices) for number, row, devices in book.placed_units()],
        fixed=fixed.tolist(),
        singles=singles,
        gangs=[(list(g.need.items()), g.worth, g.placed) for g in candidates],
        first=rationed
        and (
            [rationed.singles.get(number, 0) for number in range(len(demand.shapes))],
            [gang.position in rationed.gangs for gang in candidates],
        ),
        rounds=rounds,
        effort=EFFORT,
        seed=0,
    )
    book.replace_units([(number, int(rows[column]), tuple(d)) for number, column, d in units])
    for gang, is_open in zip(candidates, open_gangs, strict=True):
        gang.placed = is_open
    _count_singles(book, level, fixed)


def _hopeful(book: Book, gang: Gang) -> bool:
    """Whether the gang could be placed if nothing else of this round were."""
    return all(
        np.minimum(book.most[number], count).sum() >= count for number, count in gang.need.items()
    )


def _count_singles(book: Book, level: Level, fixed: NDArray[np.int64]) -> None:
    """What is there beyond the fixed units and the gangs are singles, longest waiting first."""
    taken = book.units.sum(axis=1) - fixed
    for gang in level.gangs:
        if gang.placed:
            for number, count in gang.need.items():
                taken[number] -= count
    for number, singles in level.singles.items():
        singles.taken = int(taken[number])
