"""Exact room at an instant for several classes that share machines, promises considered.

Counting is exact for one class only. Here the same book and the same search as in a round say
whether a whole group has room, at once or when others will have ended.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from afflux.cluster.state import State
from afflux.model.devices import take_devices
from afflux.model.group import Group
from afflux.model.task import Shape
from afflux.network.pricing import Pricing
from afflux.plan.book import Book, Table
from afflux.plan.gangs import place_gang

# Promises that may be moved to other machines so that one more finds room.
MOST_REARRANGED = 32
# Dearer than any policy's price: a promise prefers machines that nobody could use at once.
_FREE_NOW = 1 << 44

# Class, machine, devices.
Seat = tuple[Shape, int, tuple[int, ...]]
# When, and whether nothing has to end before.
Start = tuple[float, bool]


@dataclass(frozen=True, slots=True)
class Commitment:
    """A group that starts at a time of this plan, on these machines."""

    group: Group
    start: Start
    end: float
    seats: tuple[Seat, ...]


class Packing:
    """The machines as they are, and as they will be."""

    def __init__(
        self, state: State, pricing: Pricing, shapes: Sequence[Shape], now_seconds: float
    ) -> None:
        self._state = state
        self._shapes = list(shapes)
        self._numbers = {shape: number for number, shape in enumerate(shapes)}
        self._prices = [pricing.prices(shape) for shape in shapes]
        self._now = now_seconds
        self._admitted = np.array([p.admitted for p in self._prices]).reshape(len(shapes), -1)
        # What can start at once; those who do stay in it.
        self._at_once = Book(state, self._shapes, self._prices)
        self._columns = self._at_once.columns
        ending = [
            (max(held.until_seconds, now_seconds), held)
            for row in state.rows.values()
            for held in state.held_on(row)
            if held.until_seconds is not None
        ]
        ending.sort(key=lambda end: end[0])
        self._ending = [held for _, held in ending]
        self._ends = np.array([end for end, _ in ending])
        self._end_rows = np.array([held.row for held in self._ending], np.intp)
        self._returned: Table = np.zeros((len(ending), len(self._columns)), np.int64)
        for number, held in enumerate(self._ending):
            self._returned[number] = state.requests(held.counted)[self._columns]

    def ends(self) -> list[float]:
        """When what runs is expected to end."""
        return self._ends.tolist()

    def start(
        self, group: Group, end: float, promises: Iterable[Commitment]
    ) -> tuple[Seat, ...] | None:
        """Seats for a group that starts at once and leaves all it outlives of the promises alone.

        They stay taken.
        """
        book = self._at_once
        before = book.mark()
        outlived = [promise for promise in promises if promise.start[0] < end]
        for promise in outlived:
            self._sit(book, promise.seats)
        mark = book.mark()
        found = place_gang(book, self._need(group))
        seats = self._since(book, mark) if found else ()
        if outlived:
            book.rollback(before)
            book.forget_refusals()
            self._sit(book, seats)
        return seats if found else None

    def reserve(
        self, group: Group, start: Start, end: float, others: Sequence[Commitment]
    ) -> list[Commitment] | None:
        """The group and all others with seats for everybody; others keep their starts.

        None if the group does not fit then, as far as the search could see.
        """
        seats = self._seats(group, start, end, others)
        if seats is not None:
            return [*others, Commitment(group, start, end, seats)]
        movable = [other for other in others if not other.start[1] and other.start[0] >= start[0]]
        if not movable or len(movable) > MOST_REARRANGED:
            return None
        fixed = [other for other in others if other not in movable]
        return self.rearrange(fixed, [*movable, Commitment(group, start, end, ())])

    def rearrange(
        self, fixed: Sequence[Commitment], movable: Iterable[Commitment]
    ) -> list[Commitment] | None:
        """Seats for everybody, chosen anew in the order of their starts but for those `fixed`."""
        placed = list(fixed)
        for each in sorted(movable, key=lambda commitment: commitment.start[0]):
            seats = self._seats(each.group, each.start, each.end, placed)
            if seats is None:
                return None
            placed.append(Commitment(each.group, each.start, each.end, seats))
        return placed

    def keep(
        self, promise: Commitment, others: Sequence[Commitment]
    ) -> tuple[Seat, ...] | None:
        """The seats of a promise, if it still holds on the machines it has; devices may differ."""
        book = self._book(promise.start, promise.end, others)
        mark = book.mark()
        for shape, row, _ in promise.seats:
            number = self._numbers[shape]
            if book.room[number, row] < 1:
                return None
            book.place(number, row)
        return self._since(book, mark)

    def _seats(
        self, group: Group, start: Start, end: float, others: Iterable[Commitment]
    ) -> tuple[Seat, ...] | None:
        book = self._book(start, end, others)
        if not start[1]:
            book.cost += _FREE_NOW * (self._at_once.room > 0)
        mark = book.mark()
        return self._since(book, mark) if place_gang(book, self._need(group)) else None

    def _book(self, start: Start, end: float, others: Iterable[Commitment]) -> Book:
        """The least that is free from then to the end.

        All that the others hold at any time in between counts as held throughout: that is never
        too much, and exact if none of them starts in between.
        """
        book = Book(self._state, self._shapes, self._prices)
        free, devices = book.free.copy(), list(book.free_devices)
        at, at_once = start
        ended = 0 if at_once else int(np.searchsorted(self._ends, at, side="right"))
        np.add.at(free, self._end_rows[:ended], self._returned[:ended])
        for held in self._ending[:ended]:
            if held.task.shape.devices is not None:
                milli = -held.task.shape.devices.milli
                devices[held.row] = take_devices(devices[held.row], held.devices, milli)
        for other in others:
            if other.start[0] < end and other.end > at:
                for shape, row, taken in other.seats:
                    free[row] -= book.requests[self._numbers[shape]]
                    if shape.devices is not None:
                        devices[row] = take_devices(devices[row], taken, shape.devices.milli)
        book.foresee(free, devices, self._admitted)
        return book

    def _sit(self, book: Book, seats: Iterable[Seat]) -> None:
        for shape, row, devices in seats:
            book.place(self._numbers[shape], row, 1, [devices] if devices else ())

    def _since(self, book: Book, mark: int) -> tuple[Seat, ...]:
        """What was placed since the mark."""
        units = book.placed_since(mark)
        return tuple((self._shapes[number], row, indices) for number, row, indices in units)

    def _need(self, group: Group) -> dict[int, int]:
        return {self._numbers[shape]: count for shape, count in group.shapes}
