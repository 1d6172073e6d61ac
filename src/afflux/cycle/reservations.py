"""Reservations from cycle to cycle: which stand, which were broken, and why.

A reservation is broken when its group starts later than it was first reserved, which is how the
literature on backfilling counts. With honest run times `easy` and `conservative-compress` break
none by themselves. But machines are lost, pods of other schedulers come, groups arrive that go
first, and work runs longer than it said.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from afflux.model.reservation import Reservation, StandingReservations
from afflux.model.waiting_group import WaitingGroup


class DelayCause(StrEnum):
    """Why a reservation was broken: the first of these that happened since it was made."""

    ERROR = "set aside after an error"
    MACHINE = "machine lost"
    FOREIGN = "foreign pod"
    PREEMPTION = "preemption"
    DISKS = "disk bandwidth lost"
    PRIORITY = "higher priority"
    QUEUE = "queue served first"
    CHANGED = "group changed"
    COMPANY = "company lost"
    OVERRUN = "ran longer than expected"
    RESTART = "changed during a restart"
    STRATEGY = "strategy"


@dataclass(frozen=True, slots=True)
class BrokenReservation:
    """A group that starts later than was first reserved for it, and why."""

    group: str
    reserved_start_seconds: float
    cause: DelayCause


# The waiting group of a name; and the place of each queue in the order of service, from 0.
GroupOf = Callable[[str], WaitingGroup | None]
Rank = Mapping[str, int]

# Queue and priority.
_Level = tuple[str, int]


@dataclass(slots=True)
class _Record:
    """The reservation of one group, and what may have delayed it.

    `first_start` is the start that was reserved first, and that counts. `causes` have happened
    since. `slipped` is by how much the start has moved back in small steps, each within the
    tolerance, because something ended slightly late.

    After a restart `level` is None until the first decision: events before it report what was there
    when the reservation was made, or what changed while no scheduler ran.
    """

    reservation: Reservation
    level: _Level | None
    first_start: float | None
    causes: set[DelayCause] = field(default_factory=set[DelayCause])
    slipped: float = 0.0


class Reservations:
    """The reservations that stand now, by group.

    A group that starts at most `tolerance_seconds` late is on time: on real clocks nothing happens
    exactly when planned. Likewise an end that is late by no more than this is a cause only for
    groups whose start it moves back by more, at once or step by step.
    """

    def __init__(self, tolerance_seconds: float = 0.0) -> None:
        self._tolerance = tolerance_seconds
        self._current: dict[str, Reservation] = {}
        self._records: dict[str, _Record] = {}
        self._restored: set[str] = set()
        self._levels: Counter[_Level] = Counter()
        # Since reservations were last replaced: the causes that all records have got, and whether
        # something was late within the tolerance.
        self._noted_causes: set[DelayCause] = set()
        self._was_slightly_late = False
        self._next_start = math.inf
        self._as_expected = False
        self._has_moved = False
        self._last_ready = -math.inf

    def __bool__(self) -> bool:
        """Whether any waiting group has a reservation."""
        return bool(self._levels)

    def restore(self, reservations: Iterable[Reservation]) -> None:
        """Take over the reservations that were made before a restart."""
        self._as_expected = False
        for reservation in reservations:
            self._restored.add(reservation.group)
            self._current[reservation.group] = reservation
            self._records[reservation.group] = _Record(reservation, None, reservation.start_seconds)

    def standing(self, now_seconds: float) -> StandingReservations:
        """The reservations that stand when the next decision begins."""
        if self._next_start < now_seconds:
            # A group should have started by now, so a running task takes longer than it said.
            self.note_overrun(now_seconds - self._next_start)
        return StandingReservations(self._current, self._as_expected)

    def next_due_seconds(self, after_seconds: float) -> float:
        """The next reserved start after this time, infinity if there is none."""
        starts = (reservation.start_seconds for reservation in self._current.values())
        return min((at for at in starts if at is not None and at > after_seconds), default=math.inf)

    def current(self) -> tuple[Reservation, ...]:
        """Every reservation that stands."""
        return tuple(self._current.values())

    def note_disturbance(self, cause: DelayCause) -> None:
        """Something happened that may break reservations."""
        self._as_expected = False
        if cause in self._noted_causes:
            return
        self._noted_causes.add(cause)
        for record in self._records.values():
            if record.level is not None:
                record.causes.add(cause)

    def note_overrun(self, delay_seconds: float) -> None:
        """A task ends this much later than expected; infinity if its end is unknown."""
        if delay_seconds > self._tolerance:
            self.note_disturbance(DelayCause.OVERRUN)
            return
        self._as_expected = False
        self._was_slightly_late = True

    def note_more_room(self) -> None:
        """There is more room than was expected: reservations may move to an earlier start."""
        self._as_expected = False

    def note_ready(self, group: WaitingGroup, before: WaitingGroup | None) -> None:
        """A group became ready; `before` is the group as it waited already, if it did."""
        if group == before:
            return
        if before is not None:
            # The group may now run longer or need more room than was planned for it.
            self.note_disturbance(DelayCause.CHANGED)
        elif group.ready_seconds < self._last_ready:
            self._as_expected = False
        self._last_ready = max(self._last_ready, group.ready_seconds)
        if any(queue == group.queue and p < group.priority for queue, p in self._levels):
            self._as_expected = False

    def note_quarantined(self, groups: Iterable[str]) -> None:
        """Decisions leave these groups out for a while; others may take their reserved room."""
        for name in groups:
            self._as_expected = False
            record = self._records.get(name)
            if record is not None:
                record.causes.add(DelayCause.ERROR)

    def discard(self, group: str) -> None:
        """The group no longer waits."""
        self._as_expected = False
        self._drop(group)

    def note_overtaken(
        self,
        placed: Iterable[WaitingGroup],
        reservations: Iterable[Reservation],
        group_of: GroupOf,
        rank: Rank,
    ) -> None:
        """These groups start now, and these reservations are made.

        A group with an earlier reservation may be delayed by every group of a queue that is served
        before its own, and in its own queue by groups of a higher priority that had no reserved
        start yet.
        """
        first = len(rank)
        highest: dict[str, int] = {}
        ahead = [(group, not self._has_start(group.key)) for group in placed]
        for reservation in reservations:
            if self._current.get(reservation.group) != reservation:
                group = group_of(reservation.group)
                ahead += [] if group is None else [(group, not self._has_start(group.key))]
        for group, is_new in ahead:
            first = min(first, rank.get(group.queue, 0))
            if is_new:
                highest[group.queue] = max(group.priority, highest.get(group.queue, group.priority))
        overtaken: dict[_Level, DelayCause] = {}
        for queue, priority in self._levels:
            if priority < highest.get(queue, priority):
                overtaken[queue, priority] = DelayCause.PRIORITY
            elif rank.get(queue, 0) > first:
                overtaken[queue, priority] = DelayCause.QUEUE
        for record in self._records.values() if overtaken else ():
            if record.level in overtaken:
                record.causes.add(overtaken[record.level])

    def note_preempted(self, priority: int) -> None:
        """Groups of at most this priority have got places by evictions, or hold on to them: that
        may delay every group of a lower priority."""
        for record in self._records.values():
            if record.level is not None and record.level[1] < priority:
                record.causes.add(DelayCause.PREEMPTION)

    def note_started(self, groups: Iterable[str], now_seconds: float) -> list[BrokenReservation]:
        """These groups start now; returns the reservations that this breaks."""
        broken: list[BrokenReservation] = []
        self._has_moved = False
        for name in groups:
            record = self._records.get(name)
            if record is not None:
                self._has_moved |= record.reservation.start_seconds != now_seconds
                self._add_slip(record, now_seconds)
                first = record.first_start
                if first is not None and now_seconds - first > self._tolerance:
                    causes = (cause for cause in DelayCause if cause in record.causes)
                    cause = next(causes, DelayCause.STRATEGY)
                    broken.append(BrokenReservation(name, first, cause))
                self._drop(name)
        return broken

    def replace(self, reservations: Iterable[Reservation], group_of: GroupOf) -> None:
        """These are the reservations from now on."""
        current: dict[str, Reservation] = {}
        next_start = math.inf
        for reservation in reservations:
            name, start = reservation.group, reservation.start_seconds
            current[name] = reservation
            if start is not None and start < next_start:
                next_start = start
            record = self._records.get(name)
            if record is None:
                record = self._records[name] = _Record(reservation, None, start)
                self._settle(record, group_of(name))
                continue
            if record.reservation is not reservation:
                self._has_moved |= start != record.reservation.start_seconds
                self._add_slip(record, start)
                record.reservation = reservation
                if record.first_start is None:
                    # The start was unknown so far, and could not be missed.
                    record.first_start = start
                    record.causes.clear()
        self._settle_restored(current, group_of)
        self._noted_causes.clear()
        self._was_slightly_late = False
        self._current, self._next_start = current, next_start
        # A group that moved to an earlier start has freed room that others may use.
        self._as_expected = not self._has_moved

    def _has_start(self, group: str) -> bool:
        reservation = self._current.get(group)
        return reservation is not None and reservation.start_seconds is not None

    def _add_slip(self, record: _Record, start: float | None) -> None:
        """The start of a record moves; small delays add up."""
        before = record.reservation.start_seconds
        if self._was_slightly_late and record.level is not None and _is_later(start, before):
            record.slipped += math.inf if start is None or before is None else start - before
            if record.slipped > self._tolerance:
                record.causes.add(DelayCause.OVERRUN)

    def _settle(self, record: _Record, group: WaitingGroup | None) -> None:
        record.level = ("", 0) if group is None else (group.queue, group.priority)
        self._levels[record.level] += 1

    def _settle_restored(self, current: Mapping[str, Reservation], group_of: GroupOf) -> None:
        """After the first decision: what it could not keep changed while no scheduler ran."""
        restored, self._restored = self._restored, set[str]()
        for name in restored:
            record, group = self._records.get(name), group_of(name)
            if record is None or group is None:
                self._drop(name)
                continue
            self._settle(record, group)
            reservation = current.get(name)
            if reservation is None or _is_later(reservation.start_seconds, record.first_start):
                record.causes.add(DelayCause.RESTART)

    def _drop(self, group: str) -> None:
        self._current.pop(group, None)
        self._restored.discard(group)
        record = self._records.pop(group, None)
        if record is not None and record.level is not None:
            self._levels[record.level] -= 1
            self._levels += Counter()  # drops the levels that are empty


def _is_later(start: float | None, than: float | None) -> bool:
    return than is not None and (start is None or start > than)
