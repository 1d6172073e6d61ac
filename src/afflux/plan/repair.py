"""The finish of a level: search that closes what the network left open.

The network does not know that classes compete for the same CPU and memory of a machine, so at high
load tasks are refused although everything would fit after a few moves. What waits goes wherever it
still fits, the tightest machine first; then a bounded search in Rust (afflux-pack) repacks what
was placed in this very round, so that more fits and everything is cheaper. Both are exact.
"""

import numpy as np

from afflux._flow import repack
from afflux.plan.book import Book
from afflux.plan.demand import Demand, Gang, Level, Singles
from afflux.plan.gangs import place_gang

# The search may go through so many rounds per task it can move or place, and so many in all; and
# may hold a task against a machine so often (20 million times is about 0.1 s).
ROUNDS_PER_TASK = 100
ROUNDS = 8_000
EFFORT = 20_000_000


def finish(book: Book, demand: Demand, level: Level) -> None:
    """Place what is left of a level, by moving what was placed in this round if need be."""
    _insert(book, level)
    if _repack(book, demand, level):
        sweep(book, demand)


def sweep(book: Book, demand: Demand) -> None:
    """Leave no group waiting for which there is room as things stand."""
    while any([_insert(book, level) for level in demand.levels]):
        pass


def _insert(book: Book, level: Level) -> bool:
    """Put waiting groups where they fit, in queue order; whether anybody found a place."""
    usable = book.room.any(axis=1)
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
        while item.left and (row := _tightest(book, item.class_index)) is not None:
            book.place(item.class_index, row)
            item.taken += 1
            found = True
    return found


def _tightest(book: Book, number: int) -> int | None:
    """The machine with room for a task of this class that has least left; the cheaper of equals."""
    rows = np.flatnonzero(book.room[number])
    if not len(rows):
        return None
    left = (book.free[rows] / book.scale).sum(axis=1)
    order = np.lexsort((book.marginal(number)[rows], left))
    return int(rows[order[0]])


def _repack(book: Book, demand: Demand, level: Level) -> bool:
    """Search for a better packing of this round; whether the number of placed tasks changed."""
    placed = book.units.sum(axis=1)
    # Singles of this level may come and go; everything else that is placed has to stay placed.
    taken = np.zeros_like(placed)
    left = np.zeros_like(placed)
    for number, singles in level.singles.items():
        taken[number] = singles.taken
        left[number] = singles.left
    movable = int(placed.sum())
    if movable < 2:
        return False
    rows = np.flatnonzero(book.admitted.any(axis=0))
    columns = {int(row): column for column, row in enumerate(rows)}
    packed = repack(
        requests=book.requests,
        devices=[s.devices and (s.devices.count, s.devices.milli) for s in demand.shapes],
        admitted=book.admitted[:, rows],
        cost=book.cost[:, rows],
        slope=book.slope[rows],
        free=book.free[rows],
        free_devices=[book.free_devices[row] for row in rows],
        units=[(number, columns[row], devices) for number, row, devices in book.placed_units()],
        at_least=(placed - taken).tolist(),
        at_most=(placed + left).tolist(),
        rounds=min(ROUNDS, ROUNDS_PER_TASK * (movable + int(left.sum()))),
        effort=EFFORT,
        seed=0,
    )
    book.replace_units([(number, int(rows[column]), tuple(d)) for number, column, d in packed])
    change = book.units.sum(axis=1) - placed
    for number in np.flatnonzero(change):
        level.singles[int(number)].taken += int(change[number])
    return bool(change.any())
