"""Accepts the part of a flow that fits exactly, and assigns it to waiting tasks and gangs.

A flow proposes units of classes on machines; on each machine classes are placed in queue order as
far as they fit. Then the accepted units are assigned: one to a single task, all it needs or nothing
to a gang. Units that are left over are removed again.
"""

import sys
from bisect import bisect_left
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from afflux.network.pairs import Pairs
from afflux.plan.book import Book
from afflux.plan.domain_caps import order_of_units
from afflux.plan.refused_proposals import RefusedProposals, count_refused
from afflux.plan.waiting_demand import Gang, Level

Column = NDArray[np.int64]


class Accepted(NamedTuple):
    """Whether a task or gang was placed, the units of each class left over, and how many units
    had no room."""

    progress: bool
    spare: Column
    refused: RefusedProposals


def accept(book: Book, level: Level, gangs: list[Gang], pairs: Pairs, units: Column) -> Accepted:
    """Place what fits of a flow, which has units for each pair."""
    used = np.flatnonzero(units)
    numbers = np.searchsorted(pairs.first, used, side="right") - 1
    rank = np.array(_first_in_queue(level, len(book.classes)))
    in_queue_order = np.lexsort((rank[numbers], pairs.machine[used]))
    used, numbers = used[in_queue_order], numbers[in_queue_order]
    rows = pairs.machine[used].astype(np.int64)
    accepted = _place(book, numbers, rows, units[used], rank)
    refused = count_refused(book, numbers, rows, units[used] - accepted)
    totals = np.zeros(len(book.classes), np.int64)
    np.add.at(totals, numbers, accepted)
    progress, spare = _assign_units(level, gangs, totals)
    for number in np.flatnonzero(spare).tolist():
        own = np.flatnonzero((numbers == number) & (accepted > 0))
        costly_first = own[np.argsort(-pairs.cost[used[own]], kind="stable")]
        _remove(book, number, rows[costly_first], accepted[costly_first], int(spare[number]))
    return Accepted(progress, spare, refused)


def _place(book: Book, numbers: Column, rows: Column, units: Column, rank: Column) -> Column:
    """Place these units of classes on machines; returns how many of each had room.

    Classes with rules about other tasks come last, and of each the units in an order in which they
    can follow one another.
    """
    if not book.rules:
        return book.packing.place_flow(numbers, rows, units)
    has_rules = np.array([book.has_rules([number]) for number in range(len(book.classes))])
    ruled = has_rules[numbers]
    accepted = np.zeros(len(units), np.int64)
    accepted[~ruled] = book.packing.place_flow(numbers[~ruled], rows[~ruled], units[~ruled])
    for number in sorted(np.unique(numbers[ruled]).tolist(), key=lambda number: rank[number]):
        own = np.flatnonzero(numbers == number)
        each = np.repeat(own, units[own])
        each = each[order_of_units(book, number, rows[each])]
        # A unit that is refused may have room once the others are there.
        for _ in range(2):
            ones = np.ones(len(each), np.int64)
            placed = book.packing.place_flow(numbers[each], rows[each], ones)
            np.add.at(accepted, each, placed)
            each = each[placed == 0]
    return accepted


def _first_in_queue(level: Level, classes: int) -> list[int]:
    """For each class the queue position of its longest waiting member."""
    first = [sys.maxsize] * classes
    for gang in level.waiting_gangs():
        for number in gang.need:
            first[number] = min(first[number], gang.position)
    for number, singles in level.singles.items():
        if singles.waiting_count:
            first[number] = min(first[number], singles.positions[singles.placed_count])
    return first


def _assign_units(level: Level, gangs: list[Gang], accepted: Column) -> tuple[bool, Column]:
    """Assign accepted units in queue order; a gang takes all it needs or nothing.

    Returns whether a task or gang was placed, and the units of each class left over.
    """
    spare = accepted.copy()
    progress = False
    for gang in gangs:
        for number in gang.need:
            progress |= _assign_to_singles(level, number, spare, before=gang.position)
        if all(spare[number] >= count for number, count in gang.need.items()):
            for number, count in gang.need.items():
                spare[number] -= count
            gang.placed = progress = True
    for number in level.singles:
        progress |= _assign_to_singles(level, number, spare, before=None)
    return progress, spare


def _assign_to_singles(level: Level, number: int, spare: Column, before: int | None) -> bool:
    singles = level.singles.get(number)
    if singles is None:
        return False
    ahead = singles.waiting_count
    if before is not None:
        ahead = bisect_left(singles.positions, before) - singles.placed_count
    count = min(ahead, int(spare[number]))
    if count <= 0:
        return False
    singles.placed_count += count
    spare[number] -= count
    return True


def _remove(book: Book, number: int, rows: Column, accepted: Column, spare: int) -> None:
    """Remove unassigned units from these machines, as many as were accepted there."""
    for row, units in zip(rows.tolist(), accepted.tolist(), strict=True):
        count = min(spare, units)
        book.remove(number, row, count)
        spare -= count
        if not spare:
            return
