"""Exact room at an instant for several classes that share machines, promises considered.

Counting is exact for one class only. Here the same book and the same search as in a round say
whether a whole group has room, at once or when others will have ended.
"""

import math
from collections.abc import Iterable, Sequence
from itertools import islice

import numpy as np

from afflux._core import least_free
from afflux.admit.commitment import Cell, Commitment, Seat, Start
from afflux.admit.endings import Endings
from afflux.cluster.state import State
from afflux.model.devices import take_devices
from afflux.model.group import Group
from afflux.model.task import Shape
from afflux.network.pricing import Pricing
from afflux.plan.book import Book
from afflux.plan.gangs import place_gang

# Promises that may be moved to other machines so that one more finds room.
MOST_REARRANGED = 16
# Dearer than any policy's price: a promise prefers machines that nobody could use at once.
_FREE_NOW = 1 << 44


class Packing:
    """The machines as they are, and as they will be."""

    def __init__(
        self,
        state: State,
        pricing: Pricing,
        shapes: Sequence[Shape],
        endings: Endings,
        now_seconds: float,
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
        self._requests = np.ascontiguousarray(self._at_once.requests)
        self._at_first = self._at_once.free.copy()
        self._devices_at_first = list(self._at_once.free_devices)
        self._endings = endings
        self._returned = np.ascontiguousarray(endings.returned[:, self._columns])

    @property
    def machines(self) -> int:
        """How many there are."""
        return len(self._at_first)

    def ends(self) -> list[float]:
        """When what runs is expected to end."""
        return self._endings.ends.tolist()

    def start(
        self, group: Group, end: float, others: Sequence[Commitment]
    ) -> list[Commitment] | None:
        """The group and all others, with seats for everybody, if the group starts at once.

        Its seats stay taken. `others` are all who have started before, and all promises.
        """
        book = self._at_once
        start = (self._now, True)
        if all(other.start[1] or other.start[0] >= end for other in others):
            mark = book.mark()
            if not place_gang(book, self._need(group)):
                return None
            return [*others, Commitment(group, start, end, _since(book, mark))]
        found = self.reserve(group, start, end, others)
        if found is not None:
            own = next(each for each in found if each.group is group)
            for shape, row, devices in own.seats:
                book.place(self._numbers[shape], row, 1, [devices] if devices else ())
        return found

    def reserve(
        self, group: Group, start: Start, end: float, others: Sequence[Commitment]
    ) -> list[Commitment] | None:
        """The group and all others, with seats for everybody; others keep their starts.

        None if the group does not fit then, as far as the search could see.
        """
        seats = self._seats(group, start, end, others)
        if seats is not None:
            return [*others, Commitment(group, start, end, seats)]
        later = (each for each in others if not each.start[1] and each.start[0] >= start[0])
        movable = list(islice(later, MOST_REARRANGED + 1))
        if not movable or len(movable) > MOST_REARRANGED:
            return None
        moved = {each.group.name for each in movable}
        fixed = [other for other in others if other.group.name not in moved]
        return self.rearrange(fixed, [*movable, Commitment(group, start, end, ())])

    def rearrange(
        self, fixed: Sequence[Commitment], movable: Iterable[Commitment]
    ) -> list[Commitment] | None:
        """Seats for everybody, chosen anew in the order of their starts but for those `fixed`."""
        placed = list(fixed)
        for each in sorted(movable, key=lambda each: (each.start[0], not each.start[1])):
            seats = self._seats(each.group, each.start, each.end, placed)
            if seats is None:
                return None
            placed.append(Commitment(each.group, each.start, each.end, seats))
        return placed

    def keep(self, promise: Commitment, others: Sequence[Commitment]) -> tuple[Seat, ...] | None:
        """The seats of a promise, if it still holds on the machines it has; devices may differ."""
        book = self._book(promise.group, promise.start, promise.end, others)
        mark = book.mark()
        for shape, row, _ in promise.seats:
            number = book.shapes.index(shape)
            if book.room[number, row] < 1:
                return None
            book.place(number, row)
        return _since(book, mark)

    def _seats(
        self, group: Group, start: Start, end: float, others: Iterable[Commitment]
    ) -> tuple[Seat, ...] | None:
        book = self._book(group, start, end, others)
        if not start[1]:
            numbers = [self._numbers[shape] for shape in book.shapes]
            book.cost += _FREE_NOW * (self._at_once.room[numbers] > 0)
        need = dict(enumerate(count for _, count in group.shapes))
        mark = book.mark()
        return _since(book, mark) if place_gang(book, need) else None

    def _book(self, group: Group, start: Start, end: float, others: Iterable[Commitment]) -> Book:
        """The least that is free from then to the end, for the classes of a group.

        What runs only ends, so on most machines that is what is free at the start. Where others
        start later, each of their starts is looked at as well.
        """
        numbers = [self._numbers[shape] for shape, _ in group.shapes]
        shapes = [self._shapes[number] for number in numbers]
        book = Book(self._state, shapes, [self._prices[number] for number in numbers])
        at = start[0]
        there = [other for other in others if other.start[0] < end and other.end > at]
        free = least_free(
            self._at_first,
            ends=self._endings.ends,
            end_rows=self._endings.rows,
            returned=self._returned,
            seats=[cell for other in there for cell in other.cells or self._counted(other)],
            requests=self._requests,
            start=_moment(start),
            end=end,
        )
        devices = self._devices_at_first
        if any(shape.devices is not None for shape in shapes):
            devices = self._least_devices(start, there)
        concerned = np.searchsorted(self._columns, book.columns)
        book.foresee(free[:, concerned], list(devices), self._admitted[numbers])
        return book

    def _counted(self, commitment: Commitment) -> list[Cell]:
        """Its seats as they are counted, written down: every try asks for those of all others."""
        moment, end = _moment(commitment.start), commitment.end
        commitment.cells.extend(
            (moment, end, row, self._numbers[shape]) for shape, row, _ in commitment.seats
        )
        return commitment.cells

    def _least_devices(self, start: Start, others: Sequence[Commitment]) -> list[tuple[int, ...]]:
        """The same for devices, which are tracked one by one."""
        devices = self._devices_at(start, others)
        for moment in {other.start for other in others if not _has_begun(other, start)}:
            rows = {row for o in others if o.start == moment for _, row, _ in o.seats}
            then = self._devices_at(moment, others)
            for row in rows:
                pairs = zip(devices[row], then[row], strict=True)
                devices[row] = tuple(min(pair) for pair in pairs)
        return devices

    def _devices_at(self, start: Start, others: Iterable[Commitment]) -> list[tuple[int, ...]]:
        devices = list(self._devices_at_first)
        at, at_once = start
        ended = 0 if at_once else int(np.searchsorted(self._endings.ends, at, side="right"))
        for held in self._endings.held[:ended]:
            if held.task.shape.devices is not None:
                milli = -held.task.shape.devices.milli
                devices[held.row] = take_devices(devices[held.row], held.devices, milli)
        for other in others:
            if _has_begun(other, start) and other.end > at:
                for shape, row, taken in other.seats:
                    if shape.devices is not None:
                        devices[row] = take_devices(devices[row], taken, shape.devices.milli)
        return devices

    def _need(self, group: Group) -> dict[int, int]:
        return {self._numbers[shape]: count for shape, count in group.shapes}


def _since(book: Book, mark: int) -> tuple[Seat, ...]:
    """What was placed since the mark."""
    units = book.placed_since(mark)
    return tuple((book.shapes[number], row, indices) for number, row, indices in units)


def _has_begun(commitment: Commitment, start: Start) -> bool:
    """Whether it has begun at this moment; what begins at once does so before anything else."""
    return commitment.start[1] or (not start[1] and commitment.start[0] <= start[0])


def _moment(start: Start) -> float:
    return -math.inf if start[1] else start[0]
