"""Settling: classes that prefer something of each other are routed once more.

A flow does not see how its own units attract or repel those of other classes. When it has been
accepted, each class whose costs depend on units of another class is taken out, priced with the
others in place, and placed again. All of its units must find a place, otherwise they return.
"""

import numpy as np

from afflux.network.pairs import TaskSource
from afflux.network.routing import route
from afflux.plan.book import Book
from afflux.plan.rising_costs import with_soft_costs

# So many classes are placed again for each level of priority.
MAX_SETTLED_CLASSES = 64
# More than any cost of a placement.
_WAITING_COST = 1 << 36


def settle(book: Book) -> int:
    """Place the classes again that others attract or repel; returns the number of solves."""
    if not book.soft:
        return 0
    placed = book.packing.placed()
    depending = [
        number
        for number in book.soft.classes
        if placed[number]
        and book.soft.counts_others(number, placed > 0)
        and not book.is_related([number])
    ]
    settled = depending[:MAX_SETTLED_CLASSES]
    for number in settled:
        _place_again(book, number)
    if settled:
        book.forget_refusals()
    return len(settled)


def _place_again(book: Book, number: int) -> None:
    packing = book.packing
    mark = packing.mark()
    classes, machines = packing.unit_columns()
    rows, counts = np.unique(machines[classes == number], return_counts=True)
    units = int(counts.sum())
    for row, count in zip(rows.tolist(), counts.tolist(), strict=True):
        packing.remove(number, row, count)
    book.count_units()
    chosen = np.zeros(len(book.classes), np.bool_)
    chosen[number] = True
    pairs, slots = book.open_pairs(chosen)
    waiting = np.where(chosen, units, 0)
    pairs, steps = with_soft_costs(book.soft, pairs, slots, waiting, ())
    source = TaskSource(number, np.full(units, _WAITING_COST, np.int64))
    routed = route([source], pairs, slots, steps)
    used = np.flatnonzero(routed.units)
    rows = pairs.machine[used].astype(np.int64)
    placed = packing.place_flow(np.full(len(used), number), rows, routed.units[used])
    if placed.sum() < units:
        packing.rollback(mark)
