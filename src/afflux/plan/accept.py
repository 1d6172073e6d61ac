"""Accepts the part of a flow that fits exactly, and assigns it to waiting tasks and gangs.

A flow proposes units of classes on machines. A machine on which all proposed units fit together
takes them all; on the others classes are placed in queue order as far as they fit. Then the
accepted units are assigned: one to a single task, all it needs or nothing to a gang. Units that are
left over are removed again.
"""

import sys
from bisect import bisect_left

import numpy as np
from numpy.typing import NDArray

from afflux.plan.book import Book
from afflux.plan.waiting_demand import Gang, Level

Table = NDArray[np.int64]


def accept(book: Book, level: Level, gangs: list[Gang], units: Table) -> tuple[bool, Table]:
    """Place what fits; whether a task or gang was placed, and the units of each class left over."""
    accepted = _place_fitting(book, level, units)
    progress, spare = _assign_units(level, gangs, accepted)
    _remove_unassigned(book, spare, accepted)
    return progress, spare


def _place_fitting(book: Book, level: Level, units: Table) -> Table:
    """Place in the book what fits of a flow; returns the placed units, a table like `units`."""
    asked = units.T @ book.requests
    clash = ((asked > 0) & (asked > book.free)).any(axis=1) | book.uses_devices(units)
    accepted = np.where(clash, 0, units)
    safe = np.flatnonzero(accepted.any(axis=0))
    book.place_table(accepted, safe)
    first = _first_in_queue(level, len(units))
    for row in np.flatnonzero(clash & units.any(axis=0)):
        proposed: list[int] = np.flatnonzero(units[:, row]).tolist()
        for number in sorted(proposed, key=first.__getitem__):
            count = min(int(units[number, row]), int(book.room[number, row]))
            if count:
                book.place(number, int(row), count)
                accepted[number, row] = count
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


def _assign_units(level: Level, gangs: list[Gang], accepted: Table) -> tuple[bool, Table]:
    """Assign accepted units in queue order; a gang takes all it needs or nothing.

    Returns whether a task or gang was placed, and the units of each class left over.
    """
    spare = accepted.sum(axis=1)
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


def _assign_to_singles(level: Level, number: int, spare: Table, before: int | None) -> bool:
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


def _remove_unassigned(book: Book, spare: Table, accepted: Table) -> None:
    """Remove unassigned units from the machines again, the most expensive first."""
    for number in np.flatnonzero(spare):
        left = int(spare[number])
        for row in np.argsort(-book.cost[number], kind="stable"):
            count = min(left, int(accepted[number, row]))
            if count:
                book.remove(int(number), int(row), count)
                left -= count
            if not left:
                break
