"""From a flow to the book: what fits of it, and who gets it.

A flow speaks of units of classes. Machines on which everything it proposes fits together take it
at once; on the others classes are served in queue order as far as they fit. Then the accepted
units are handed to those who wait: single tasks one each, a gang all it needs or nothing. What
nobody can use goes back.
"""

import sys
from bisect import bisect_left

import numpy as np
from numpy.typing import NDArray

from afflux.plan.book import Book
from afflux.plan.demand import Gang, Level

Table = NDArray[np.int64]


def accept(book: Book, level: Level, gangs: list[Gang], units: Table) -> tuple[bool, Table]:
    """Take what fits; whether anybody got something, and the units of each class left over."""
    accepted = _enter(book, level, units)
    progress, spare = _hand_out(level, gangs, accepted)
    _give_back(book, spare, accepted)
    return progress, spare


def _enter(book: Book, level: Level, units: Table) -> Table:
    """Put into the book what fits of a flow; returns it as a table like `units`."""
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
    """The place of each class's longest waiting member."""
    first = [sys.maxsize] * classes
    for gang in level.waiting_gangs():
        for number in gang.need:
            first[number] = min(first[number], gang.position)
    for number, singles in level.singles.items():
        if singles.left:
            first[number] = min(first[number], singles.positions[singles.taken])
    return first


def _hand_out(level: Level, gangs: list[Gang], accepted: Table) -> tuple[bool, Table]:
    """Give accepted units to those who wait, in queue order; gangs take all they need or nothing.

    Returns whether anybody got something, and the units of each class that nobody could use.
    """
    spare = accepted.sum(axis=1)
    progress = False
    for gang in gangs:
        for number in gang.need:
            progress |= _hand_to_singles(level, number, spare, before=gang.position)
        if all(spare[number] >= count for number, count in gang.need.items()):
            for number, count in gang.need.items():
                spare[number] -= count
            gang.placed = progress = True
    for number in level.singles:
        progress |= _hand_to_singles(level, number, spare, before=None)
    return progress, spare


def _hand_to_singles(level: Level, number: int, spare: Table, before: int | None) -> bool:
    singles = level.singles.get(number)
    if singles is None:
        return False
    ahead = singles.left
    if before is not None:
        ahead = bisect_left(singles.positions, before) - singles.taken
    count = min(ahead, int(spare[number]))
    if count <= 0:
        return False
    singles.taken += count
    spare[number] -= count
    return True


def _give_back(book: Book, spare: Table, accepted: Table) -> None:
    """Take units that nobody could use off the machines again, the dearest first."""
    for number in np.flatnonzero(spare):
        left = int(spare[number])
        for row in np.argsort(-book.cost[number], kind="stable"):
            count = min(left, int(accepted[number, row]))
            if count:
                book.remove(int(number), int(row), count)
                left -= count
            if not left:
                break
