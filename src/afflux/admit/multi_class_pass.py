"""When groups can start, if the groups of a pass are of several classes that share machines.

Counting each class alone gives times at which a group surely does not fit. Whether the group fits
at another time is searched for on the machines as they will be then, at the times at which a
running or planned task ends.
"""

import math
from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from afflux._core import Timeline
from afflux.admit.group_classes import GroupClasses
from afflux.admit.planned_run import PlannedRun, Start, expected_run_seconds
from afflux.admit.room_at_instant import RoomAtInstant
from afflux.admit.room_over_time import RoomOverTime
from afflux.cluster.task_class import TaskClass
from afflux.model.task import Shape
from afflux.model.waiting_group import WaitingGroup

# So many times are tried for a group one after the other, then every second, fourth, eighth... one.
MAX_CONSECUTIVE_TRIES = 16
# A group that has a reservation tries fewer times for an earlier start: it can try again later.
MAX_IMPROVEMENT_TRIES = 4
# The effort of one pass, in machines examined: about three seconds. The groups that it does not
# reach keep their reservations, or wait for the next pass. As much again is for reservations that
# cannot be kept: after that such a group still gets another start, but maybe not the earliest.
MAX_EFFORT = 3_000_000
EFFORT_PER_TRY = 200
# A try for a group with constraints between tasks costs so many times more.
RELATED_EFFORT = 10


class MultiClassPass:
    """The groups of several classes that were started or got a reservation in one pass."""

    def __init__(
        self,
        room_over_time: RoomOverTime,
        room: RoomAtInstant,
        classes: Iterable[TaskClass],
        group_classes: GroupClasses,
        now_seconds: float,
    ) -> None:
        self.started: dict[str, PlannedRun] = {}
        self.reserved: dict[str, PlannedRun] = {}
        self._room = room
        self._now = now_seconds
        self._effort_left = MAX_EFFORT
        self._effort_left_for_delayed = MAX_EFFORT
        # How many tasks or groups end at each time; and these times in order.
        self._end_counts: Counter[float] = Counter(room.ends())
        self._ends = sorted(self._end_counts)
        self._group_classes = group_classes
        self._classes = frozenset(classes)
        # Timelines count without constraints between tasks: no group fits before they say.
        self._timelines: dict[Shape, Timeline] = {
            shape: room_over_time.begin_pass(shape, now_seconds).timeline
            for shape in {each.shape for each in self._classes}
        }

    def covers(self, group: WaitingGroup) -> bool:
        """Whether the classes of the group are among those of this pass."""
        return all(each in self._classes for each in self._group_classes.classes(group))

    def lacks_company(self, group: WaitingGroup) -> bool:
        """Whether the group requires tasks of which none runs or is planned."""
        return self.covers(group) and self._room.lacks_company(group, self._planned_runs())

    def take_over(
        self, started: Iterable[WaitingGroup], reserved: Iterable[PlannedRun]
    ) -> list[WaitingGroup]:
        """Continue from the results for a single class, where all groups find machines.

        Returns the groups that find none after all.
        """
        for group in started:
            self.start(group)
        reserved = list(reserved)
        found = self._on_same_machines(reserved)
        if not found:
            found = self._room.rearrange([*self.started.values()], reserved)
        if found is None:
            # A later start for one of the groups is better than no start for all.
            return [
                run.group
                for run in reserved
                if not self.renew(run) and not self.reserve_delayed(run.group)
            ]
        for run in found:
            if run.group.key not in self.started:
                self._add_reservation(run)
        return []

    def _on_same_machines(self, reserved: Iterable[PlannedRun]) -> list[PlannedRun] | None:
        """All reservations on the machines they have; None if one cannot stay there."""
        placed = list(self.started.values())
        for run in reserved:
            assignments = self._room.reassign(run, placed) if run.assignments else None
            if assignments is None:
                return None
            placed.append(PlannedRun(run.group, run.start, run.end, assignments))
        return placed

    def start(self, group: WaitingGroup, reserved: PlannedRun | None = None) -> bool:
        """Start the group at once, if it fits; where no search finds room, on the machines of its
        reservation, which is not among the planned runs."""
        start: Start = (self._now, True)
        if not self._may_fit(group, start):
            return False
        end = self._now + expected_run_seconds(group)
        found = self._room.start(group, end, self._planned_runs())
        if found is None and reserved is not None:
            found = self._room.start_on(reserved, end, self._planned_runs())
        if found is None:
            return False
        self._take(group, start)
        self._add_end(end)
        self.started[group.key] = next(run for run in found if run.group is group)
        self._update_reserved(found)
        return True

    def reserve(self, group: WaitingGroup, not_after: float) -> bool:
        """Reserve the earliest start found for the group, if it is not later than `not_after`."""
        max_tries = math.inf if not_after == math.inf else MAX_IMPROVEMENT_TRIES
        for number, at in enumerate(self._candidate_times(group, MAX_CONSECUTIVE_TRIES)):
            if at > not_after or number >= max_tries or self.is_exhausted:
                return False
            self._effort_left -= self._effort_of_try(group)
            if self._reserve_at(group, (at, False)):
                return True
        return False

    def reserve_delayed(self, group: WaitingGroup) -> bool:
        """Reserve another start for a group whose reservation cannot be kept.

        It finds one even if no effort is left, unless the group waits for work without end.
        """
        consecutive = MAX_CONSECUTIVE_TRIES if self._effort_left_for_delayed > 0 else 0
        for at in self._candidate_times(group, consecutive):
            self._effort_left_for_delayed -= self._effort_of_try(group)
            if self._reserve_at(group, (at, False)):
                return True
        return False

    def _candidate_times(self, group: WaitingGroup, consecutive: int) -> Iterator[float]:
        """The times at which the group might start: the first ones one after the other, then every
        second, fourth, eighth... one, and in any case the last one."""
        tried, stride = 0, 1
        ends = self._ends
        if self._group_classes.has_rules(group):
            # The group may need tasks that are planned to start.
            starts = {run.start[0] for run in self.reserved.values()}
            ends = sorted({*ends, *starts})
        at = self._earliest(group, self._now)
        while at is not None:
            yield at
            tried += 1
            stride *= 2 if tried > consecutive else 1
            later = _later(ends, at, stride)
            at = None if later is None else self._earliest(group, later)

    def _reserve_at(self, group: WaitingGroup, start: Start) -> bool:
        end = start[0] + expected_run_seconds(group)
        found = self._room.reserve(group, start, end, self._planned_runs())
        if found is None:
            return False
        self._add_reservation(next(run for run in found if run.group is group))
        self._update_reserved(found)
        return True

    def _effort_of_try(self, group: WaitingGroup) -> int:
        effort = EFFORT_PER_TRY + self._room.machines
        return RELATED_EFFORT * effort if self._group_classes.has_rules(group) else effort

    @property
    def is_exhausted(self) -> bool:
        """Whether the effort of this pass is used up."""
        return self._effort_left <= 0

    def renew(self, earlier: PlannedRun) -> bool:
        """Reserve the same start as before on the same machines, or on others, if it still fits."""
        group, start = earlier.group, earlier.start
        if not self._may_fit(group, start):
            return False
        if earlier.assignments:
            assignments = self._room.reassign(earlier, self._planned_runs())
            if assignments is not None:
                self._add_reservation(PlannedRun(group, start, earlier.end, assignments))
                return True
        return self._reserve_at(group, start)

    def renew_together(self, earlier: Sequence[PlannedRun]) -> bool:
        """Reserve the same starts as before on the same machines, if all of them can stay there.

        Constraints between tasks may need that they come back together."""
        found = self._room.reassign_together(earlier, self._planned_runs())
        for run in found or ():
            self._add_reservation(run)
        return found is not None

    def is_needed(self, run: PlannedRun) -> bool:
        """Whether another reservation rests on this run, which is not among the planned ones."""
        return self._room.is_needed(run, self._planned_runs())

    def may_fit_now(self, group: WaitingGroup) -> bool:
        """Whether counting leaves room for a group at once that has a reservation in this pass."""
        own = self.release(group)
        may_fit = self._may_fit(group, (self._now, True))
        if own is not None:
            self._add_reservation(own)
        return may_fit

    def release(self, group: WaitingGroup) -> PlannedRun | None:
        """Cancel the reservation that the group got in this pass, and return it."""
        own = self.reserved.pop(group.key, None)
        if own is not None:
            for shape, count in group.shapes:
                self._timelines[shape].take(-count, expected_run_seconds(group), own.start)
            self._remove_end(own.end)
        return own

    def restore(self, released: PlannedRun) -> None:
        """Undo `release`."""
        self._add_reservation(released)

    def rearrange(self, started: Sequence[PlannedRun]) -> bool:
        """Choose machines for all reservations, given those of the started groups; False if the
        search finds none."""
        found = self._room.rearrange(started, self.reserved.values())
        self._update_reserved(found or ())
        return found is not None

    def _update_reserved(self, runs: Iterable[PlannedRun]) -> None:
        """Reservations keep their times, but may have got other machines."""
        for run in runs:
            if run.group.key in self.reserved:
                self.reserved[run.group.key] = run

    def _planned_runs(self) -> list[PlannedRun]:
        return [*self.started.values(), *self.reserved.values()]

    def _add_reservation(self, run: PlannedRun) -> None:
        self._take(run.group, run.start)
        self._add_end(run.end)
        self.reserved[run.group.key] = run

    def _take(self, group: WaitingGroup, start: Start) -> None:
        for shape, count in group.shapes:
            self._timelines[shape].take(count, expected_run_seconds(group), start)

    def _may_fit(self, group: WaitingGroup, start: Start) -> bool:
        run = expected_run_seconds(group)
        return all(self._timelines[shape].fits(n, run, start) for shape, n in group.shapes)

    def _earliest(self, group: WaitingGroup, not_before: float) -> float | None:
        """The earliest time at which there is room for every class, each counted alone."""
        # Each class may move the time on, until all classes agree on one.
        at, agreed = not_before, False
        while not agreed:
            agreed = True
            for shape, count in group.shapes:
                found = self._timelines[shape].earliest(count, expected_run_seconds(group), at)
                if found is None:
                    return None
                if found[0] > at:
                    at, agreed = found[0], False
        return at

    def _add_end(self, end: float) -> None:
        if not self._end_counts[end] and end < math.inf:
            insort(self._ends, end)
        self._end_counts[end] += 1

    def _remove_end(self, end: float) -> None:
        self._end_counts[end] -= 1
        if not self._end_counts[end] and end < math.inf:
            del self._ends[bisect_left(self._ends, end)]


def _later(times: Sequence[float], at: float, stride: int) -> float | None:
    """The stride-th next of these times, or the last one there is."""
    place = bisect_right(times, at)
    if place == len(times):
        return None
    return times[min(place + stride, len(times)) - 1]
