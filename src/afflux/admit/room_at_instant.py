"""Exact room for several classes that share machines: at once, or from a later time on.

Counting is exact for a single class only. Here the book and the gang search of a round say whether
a whole group has room, now or when other tasks will have ended, beside all planned runs.
"""

import math
from collections.abc import Iterable, Sequence
from itertools import islice

import numpy as np

from afflux._core import least_free
from afflux.admit.expected_ends import ExpectedEnds
from afflux.admit.planned_run import Assignment, Occupancy, PlannedRun, Start
from afflux.cluster.machines import Column
from afflux.cluster.state import State
from afflux.cluster.task_class import TaskClass
from afflux.model.devices import take_devices
from afflux.model.group import Group
from afflux.model.task import Shape
from afflux.network.pricing import Pricing
from afflux.plan.book import Book, FreeCapacity, counted_columns

# Reservations that may be moved to other machines so that one more finds room.
MAX_REARRANGED = 16
# Higher than any policy's price: a reservation prefers machines without room now.
_FREE_NOW_COST = 1 << 44


class RoomAtInstant:
    """The machines as they are now, and as they will be at later times."""

    def __init__(
        self,
        state: State,
        pricing: Pricing,
        shapes: Sequence[Shape],
        expected_ends: ExpectedEnds,
        now_seconds: float,
    ) -> None:
        self._state = state
        self._shapes = list(shapes)
        self._numbers = {shape: number for number, shape in enumerate(shapes)}
        self._prices = [pricing.prices(shape) for shape in shapes]
        self._now = now_seconds
        # What is free at once; groups that start in this pass are entered into it.
        self._book_now = Book(state, list(map(TaskClass, self._shapes)), self._prices)
        self._columns = self._book_now.columns
        self._requests = self._book_now.requests
        self._free_now = self._book_now.packing.free()
        self._devices_now = list(state.view().free_devices)
        self._expected_ends = expected_ends
        self._returned = np.ascontiguousarray(expected_ends.returned[:, self._columns])

    @property
    def machines(self) -> int:
        return len(self._free_now)

    def ends(self) -> list[float]:
        """The expected ends of running tasks."""
        return self._expected_ends.ends.tolist()

    def start(
        self, group: Group, end: float, others: Sequence[PlannedRun]
    ) -> list[PlannedRun] | None:
        """Start the group at once: it and all others with their machines, None if it does not fit.

        `others` are the groups that have started in this pass, and all reservations.
        """
        book = self._book_now
        start = (self._now, True)
        if all(other.start[1] or other.start[0] >= end for other in others):
            mark = book.packing.mark()
            if not book.place_gang({self._numbers[shape]: n for shape, n in group.shapes}):
                return None
            return [*others, PlannedRun(group, start, end, tuple(book.units_since(mark)))]
        found = self.reserve(group, start, end, others)
        if found is not None:
            own = next(each for each in found if each.group is group)
            for shape, row, devices in own.assignments:
                book.packing.place(self._numbers[shape], row, 1, devices)
        return found

    def reserve(
        self, group: Group, start: Start, end: float, others: Sequence[PlannedRun]
    ) -> list[PlannedRun] | None:
        """The group and all others with their machines; the others keep their starts.

        None if the search finds no room for the group at that time.
        """
        assignments = self._find_assignments(group, start, end, others)
        if assignments is not None:
            return [*others, PlannedRun(group, start, end, assignments)]
        later = (each for each in others if not each.start[1] and each.start[0] >= start[0])
        movable = list(islice(later, MAX_REARRANGED + 1))
        if not movable or len(movable) > MAX_REARRANGED:
            return None
        moved = {each.group.name for each in movable}
        fixed = [other for other in others if other.group.name not in moved]
        return self.rearrange(fixed, [*movable, PlannedRun(group, start, end, ())])

    def rearrange(
        self, fixed: Sequence[PlannedRun], movable: Iterable[PlannedRun]
    ) -> list[PlannedRun] | None:
        """All runs with machines: `fixed` keep theirs, the others choose in order of their starts.

        None if the search does not find room for all.
        """
        placed = list(fixed)
        for each in sorted(movable, key=lambda each: (each.start[0], not each.start[1])):
            assignments = self._find_assignments(each.group, each.start, each.end, placed)
            if assignments is None:
                return None
            placed.append(PlannedRun(each.group, each.start, each.end, assignments))
        return placed

    def reassign(
        self, reserved: PlannedRun, others: Sequence[PlannedRun]
    ) -> tuple[Assignment, ...] | None:
        """The same machines for a reservation if they still have room; devices may differ."""
        book = self._book(reserved.group, reserved.start, reserved.end, others)
        mark = book.packing.mark()
        for shape, row, _ in reserved.assignments:
            if not book.packing.place(book.classes.index(TaskClass(shape)), row):
                return None
        return tuple(book.units_since(mark))

    def _find_assignments(
        self, group: Group, start: Start, end: float, others: Iterable[PlannedRun]
    ) -> tuple[Assignment, ...] | None:
        book = self._book(group, start, end, others)
        need = dict(enumerate(count for _, count in group.shapes))
        mark = book.packing.mark()
        return tuple(book.units_since(mark)) if book.place_gang(need) else None

    def _book(self, group: Group, start: Start, end: float, others: Iterable[PlannedRun]) -> Book:
        """What stays free from the start to the end, for the classes of a group.

        Running tasks only end, so on most machines that is what is free at the start. Where other
        groups start later, each of their starts is examined as well.
        """
        numbers = [self._numbers[shape] for shape, _ in group.shapes]
        shapes = [self._shapes[number] for number in numbers]
        prices = [self._prices[number] for number in numbers]
        at = start[0]
        there = [other for other in others if other.start[0] < end and other.end > at]
        free = least_free(
            self._free_now,
            ends=self._expected_ends.ends,
            end_rows=self._expected_ends.rows,
            returned=self._returned,
            occupancies=[o for other in there for o in other.occupancies or self._occupy(other)],
            requests=self._requests,
            start=_moment(start),
            end=end,
        )
        devices = self._devices_now
        if any(shape.devices is not None for shape in shapes):
            devices = self._least_devices(start, there)
        requests = np.array([self._state.requests(shape) for shape in shapes])
        columns = np.searchsorted(self._columns, counted_columns(self._state, requests))
        avoided = [] if start[1] else [self._cost_if_free_now(number) for number in numbers]
        free_then = FreeCapacity(free[:, columns], devices)
        return Book(self._state, list(map(TaskClass, shapes)), prices, free_then, avoided)

    def _cost_if_free_now(self, number: int) -> Column:
        """A cost, by the machines of a class, where the class has room now."""
        rows, _ = self._book_now.packing.pairs(number)
        has_room = np.zeros(self.machines, np.bool_)
        has_room[rows] = self._book_now.packing.rooms(number) > 0
        return _FREE_NOW_COST * has_room[self._prices[number].rows]

    def _occupy(self, run: PlannedRun) -> list[Occupancy]:
        """The assignments of a run as the core takes them; cached, as every try needs them."""
        moment, end = _moment(run.start), run.end
        run.occupancies.extend(
            (moment, end, row, self._numbers[shape]) for shape, row, _ in run.assignments
        )
        return run.occupancies

    def _least_devices(self, start: Start, others: Sequence[PlannedRun]) -> list[tuple[int, ...]]:
        """The devices that stay free; they are tracked one by one."""
        devices = self._devices_at(start, others)
        for moment in {other.start for other in others if not _has_begun(other, start)}:
            rows = {row for o in others if o.start == moment for _, row, _ in o.assignments}
            then = self._devices_at(moment, others)
            for row in rows:
                pairs = zip(devices[row], then[row], strict=True)
                devices[row] = tuple(min(pair) for pair in pairs)
        return devices

    def _devices_at(self, start: Start, others: Iterable[PlannedRun]) -> list[tuple[int, ...]]:
        devices = list(self._devices_now)
        at, at_once = start
        ended = 0 if at_once else int(np.searchsorted(self._expected_ends.ends, at, side="right"))
        for held in self._expected_ends.tasks[:ended]:
            if held.task.shape.devices is not None:
                milli = -held.task.shape.devices.milli
                devices[held.row] = take_devices(devices[held.row], held.devices, milli)
        for other in others:
            if _has_begun(other, start) and other.end > at:
                for shape, row, taken in other.assignments:
                    if shape.devices is not None:
                        devices[row] = take_devices(devices[row], taken, shape.devices.milli)
        return devices


def _has_begun(run: PlannedRun, start: Start) -> bool:
    """Whether a run has begun at this time; runs that start at once begin before all others."""
    return run.start[1] or (not start[1] and run.start[0] <= start[0])


def _moment(start: Start) -> float:
    return -math.inf if start[1] else start[0]
