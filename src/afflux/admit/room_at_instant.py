"""Exact room for several classes that share machines: at once, or from a later time on.

Counting is exact for a single class only. Here the book and the gang search of a round say whether
a whole group has room, now or when other tasks will have ended, beside all planned runs.

Constraints between tasks are judged when a group starts, with the tasks that run then. So a planned
run also has to leave those that start after it, while it runs, where they are planned.
"""

import math
from collections.abc import Iterable, Sequence
from itertools import islice

import numpy as np

from afflux._core import least_free
from afflux.admit.expected_ends import ExpectedEnds
from afflux.admit.group_classes import GroupClasses
from afflux.admit.planned_run import Assignment, Occupancy, PlannedRun, Start, has_begun
from afflux.admit.tasks_at_instant import TasksAtInstant
from afflux.cluster.disk_columns import DiskColumns
from afflux.cluster.machines import Column
from afflux.cluster.state import State
from afflux.cluster.task_class import TaskClass
from afflux.cluster.task_room import FreeCapacity
from afflux.model.devices import take_devices
from afflux.model.waiting_group import WaitingGroup
from afflux.network.pricing import Pricing
from afflux.plan.book import Book, counted_columns

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
        classes: Sequence[TaskClass],
        group_classes: GroupClasses,
        *,
        expected_ends: ExpectedEnds,
        now_seconds: float,
    ) -> None:
        self._state = state
        self._classes = list(classes)
        self._group_classes = group_classes
        self._numbers = {each: number for number, each in enumerate(classes)}
        self._prices = [pricing.prices(each.shape) for each in classes]
        self._now = now_seconds
        # What is free at once; groups that start in this pass are entered into it.
        self._book_now = Book(state, self._classes, self._prices)
        self._columns = self._book_now.columns
        self._requests = self._book_now.requests
        self._free_now = self._book_now.packing.free()
        self._devices_now = list(state.view().free_devices)
        self._disks_now = state.view().disks.copied() if _use_disks(classes) else None
        self._expected_ends = expected_ends
        self._returned = np.ascontiguousarray(expected_ends.returned[:, self._columns])
        self._tasks = TasksAtInstant(state.relations, expected_ends)

    @property
    def machines(self) -> int:
        return len(self._free_now)

    def ends(self) -> list[float]:
        """The expected ends of running tasks."""
        return self._expected_ends.ends.tolist()

    def lacks_company(self, group: WaitingGroup, others: Iterable[PlannedRun]) -> bool:
        """Whether the group requires tasks of which none runs or is planned."""
        rules = self._book_now.rules
        if not rules:
            return False
        numbers = [self._numbers[each] for each in self._group_classes.classes(group)]
        planned = {self._numbers[of] for run in others for of, _, _ in run.assignments}
        there = {c for number in (*numbers, *planned) for c in rules.classes[number].counted_by}
        return any(
            rule.kind == "near"
            and not rule.flag
            and not there.issuperset(rule.counters)
            and not any(self._book_now.packing.domain_counts(c).any() for c in rule.counters)
            for number in numbers
            for rule in rules.classes[number].rules
        )

    def start(
        self, group: WaitingGroup, end: float, others: Sequence[PlannedRun]
    ) -> list[PlannedRun] | None:
        """Start the group at once: it and all others with their machines, None if it does not fit.

        `others` are the groups that have started in this pass, and all reservations.
        """
        book = self._book_now
        start = (self._now, True)
        if all(other.start[1] or other.start[0] >= end for other in others):
            mark = book.packing.mark()
            counts = self._group_classes.of(group)
            if not book.place_gang({self._numbers[each]: n for each, n in counts}):
                return None
            if self._group_classes.is_related(group) and book.packing.violations():
                book.packing.rollback(mark)
                return None
            return [*others, PlannedRun(group, start, end, tuple(book.units_since(mark)))]
        found = self.reserve(group, start, end, others)
        if found is not None:
            own = next(each for each in found if each.group is group)
            units = [(self._numbers[of], row, devices) for of, row, devices in own.assignments]
            if not book.packing.place_together(units):
                return None
        return found

    def start_on(
        self, reserved: PlannedRun, end: float, others: Sequence[PlannedRun]
    ) -> list[PlannedRun] | None:
        """Start a group at once on the machines of its reservation, if it still has room there."""
        now = PlannedRun(reserved.group, (self._now, True), end, reserved.assignments)
        found = self.reassign(now, others)
        if found is None:
            return None
        units = [(self._numbers[of], row, devices) for of, row, devices in found]
        if not self._book_now.packing.place_together(units):
            return None
        return [*others, PlannedRun(now.group, now.start, end, found)]

    def reserve(
        self, group: WaitingGroup, start: Start, end: float, others: Sequence[PlannedRun]
    ) -> list[PlannedRun] | None:
        """The group and all others with their machines; the others keep their starts.

        None if the search finds no room for the group at that time.
        """
        assignments = self._find_assignments(group, start, end, others)
        if assignments is not None:
            run = PlannedRun(group, start, end, assignments)
            if self._leaves_in_place(run, others):
                return [*others, run]
        later = (each for each in others if not each.start[1] and each.start[0] >= start[0])
        movable = list(islice(later, MAX_REARRANGED + 1))
        if not movable or len(movable) > MAX_REARRANGED:
            return None
        moved = {each.group.key for each in movable}
        fixed = [other for other in others if other.group.key not in moved]
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
            run = PlannedRun(each.group, each.start, each.end, assignments)
            if not self._leaves_in_place(run, placed):
                return None
            placed.append(run)
        return placed

    def reassign(
        self, reserved: PlannedRun, others: Sequence[PlannedRun]
    ) -> tuple[Assignment, ...] | None:
        """The same machines for a reservation if they still have room; devices may differ."""
        found = self._in_place(reserved, others)
        if found is None:
            return None
        run = PlannedRun(reserved.group, reserved.start, reserved.end, found)
        return found if self._leaves_in_place(run, others) else None

    def is_needed(self, run: PlannedRun, others: Sequence[PlannedRun]) -> bool:
        """Whether one of the other runs could not start where it is planned without this one."""
        return any(
            self._in_place(other, [each for each in others if each is not other]) is None
            for other in self._judged_with(run, others)
        )

    def reassign_together(
        self, reserved: Sequence[PlannedRun], others: Sequence[PlannedRun]
    ) -> list[PlannedRun] | None:
        """The same machines for several reservations, each judged with all others in place; None if
        one cannot stay there. Classes with devices or disks are not handled."""
        everything = [*others, *reserved]
        for run in reserved:
            if any(of.shape.devices or of.shape.disks for of, _, _ in run.assignments):
                return None
            if self._in_place(run, [each for each in everything if each is not run]) is None:
                return None
        stay = all(self._leaves_in_place(run, others) for run in reserved)
        return list(reserved) if stay else None

    def _in_place(
        self, run: PlannedRun, others: Sequence[PlannedRun]
    ) -> tuple[Assignment, ...] | None:
        """The run on its machines, if it can start there with the others in place."""
        book = self._book(run.group, run.start, run.end, others)
        numbers = {each: number for number, each in enumerate(book.classes)}
        mark = book.packing.mark()
        units = [(numbers[of], row, ()) for of, row, _ in run.assignments]
        return tuple(book.units_since(mark)) if book.packing.place_together(units) else None

    def _leaves_in_place(self, run: PlannedRun, others: Sequence[PlannedRun]) -> bool:
        """Whether the runs that start while this one runs can start where they are planned."""
        return all(
            self._in_place(other, [*(each for each in others if each is not other), run])
            is not None
            for other in self._judged_with(run, others)
        )

    def _judged_with(self, run: PlannedRun, others: Iterable[PlannedRun]) -> Iterable[PlannedRun]:
        """The runs that start while this one runs, and whose rules count its tasks."""
        if not self._group_classes.is_related(run.group):
            return ()
        return (
            other
            for other in others
            if has_begun(run, other.start)
            and other.start[0] < run.end
            and self._group_classes.concerns(run.group, [other.group])
        )

    def _find_assignments(
        self, group: WaitingGroup, start: Start, end: float, others: Iterable[PlannedRun]
    ) -> tuple[Assignment, ...] | None:
        book = self._book(group, start, end, others)
        need = dict(enumerate(count for _, count in self._group_classes.of(group)))
        mark = book.packing.mark()
        return tuple(book.units_since(mark)) if book.place_gang(need) else None

    def _book(
        self, group: WaitingGroup, start: Start, end: float, others: Iterable[PlannedRun]
    ) -> Book:
        """What stays free from the start to the end, for the classes of a group.

        Running tasks only end, so on most machines that is what is free at the start. Where other
        groups start later, each of their starts is examined as well.
        """
        classes = list(self._group_classes.classes(group))
        numbers = [self._numbers[each] for each in classes]
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
        if any(each.shape.devices is not None for each in classes):
            devices = self._least_devices(start, there)
        disks = self._disks_now
        if _use_disks(classes):
            disks = self._least_disks(start, there)
        requests = np.array([self._state.requests(each.shape) for each in classes])
        columns = np.searchsorted(self._columns, counted_columns(self._state, requests))
        avoided = [] if start[1] else [self._cost_if_free_now(number) for number in numbers]
        free_then = FreeCapacity(free[:, columns], devices, disks)
        tasks_on = self._tasks.at(start, there)
        return Book(self._state, classes, prices, free_then, extra_cost=avoided, tasks_on=tasks_on)

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
            (moment, end, row, self._numbers[of]) for of, row, _ in run.assignments
        )
        return run.occupancies

    def _least_devices(self, start: Start, others: Sequence[PlannedRun]) -> list[tuple[int, ...]]:
        """The devices that stay free; they are tracked one by one."""
        devices = self._devices_at(start, others)
        for moment in {other.start for other in others if not has_begun(other, start)}:
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
            if has_begun(other, start) and other.end > at:
                for of, row, taken in other.assignments:
                    if of.shape.devices is not None:
                        devices[row] = take_devices(devices[row], taken, of.shape.devices.milli)
        return devices

    def _least_disks(self, start: Start, others: Sequence[PlannedRun]) -> DiskColumns | None:
        """What stays free of the disks."""
        least = self._disks_at(start, others)
        for moment in {other.start for other in others if not has_begun(other, start)}:
            then = self._disks_at(moment, others)
            if least is not None and then is not None:
                np.minimum(least.left, then.left, out=least.left)
        return least

    def _disks_at(self, start: Start, others: Iterable[PlannedRun]) -> DiskColumns | None:
        if self._disks_now is None:
            return None
        disks = self._disks_now.copied()
        at, at_once = start
        ended = 0 if at_once else int(np.searchsorted(self._expected_ends.ends, at, side="right"))
        for held in self._expected_ends.tasks[:ended]:
            disks.give_back(held.row, self._state.disks.charges_of(held.task.id))
        for other in others:
            if has_begun(other, start) and other.end > at:
                for of, row, taken in other.assignments:
                    shape = of.shape
                    if shape.disks is not None:
                        count = 0 if shape.devices is None else shape.devices.count
                        disks.take(row, shape.disks, taken[count:])
        return disks


def _use_disks(classes: Iterable[TaskClass]) -> bool:
    return any(each.shape.disks is not None for each in classes)


def _moment(start: Start) -> float:
    return -math.inf if start[1] else start[0]
