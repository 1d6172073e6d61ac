"""Promises from cycle to cycle: which hold, which were broken, and by what.

A promise is broken when its group starts later than it was first promised, as others count.
With honest durations some strategies break none by themselves; but machines are lost, other
schedulers' pods come, groups arrive that go first, and work runs longer than it said.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from afflux.model.group import Group
from afflux.model.promise import Promise, Standing


class Cause(StrEnum):
    """What broke a promise; the first of these that happened since it was made."""

    ERROR = "set aside after an error"
    MACHINE = "machine lost"
    FOREIGN = "foreign pod"
    PRIORITY = "higher priority"
    QUEUE = "queue served first"
    CHANGED = "group changed"
    OVERRUN = "ran longer than expected"
    RESTART = "changed during a restart"
    STRATEGY = "strategy"


@dataclass(frozen=True, slots=True)
class Broken:
    """A promise that was not kept: when the group was to start, and why it did not."""

    group: str
    promised_seconds: float
    cause: Cause


# A waiting group by its name, and when queues are served by theirs, from 0.
GroupOf = Callable[[str], Group | None]
Rank = Mapping[str, int]

# Queue and priority.
_Level = tuple[str, int]


@dataclass(slots=True)
class _Record:
    """`first` is what counts; `disturbed` is what has happened since, and `slipped` by how much it
    moved back whenever something was hardly late.

    After a restart the level is not known until the first decision: all that is heard before was
    there already when the promise was made, or came while nobody looked.
    """

    promise: Promise
    level: _Level | None
    first: float | None
    disturbed: set[Cause] = field(default_factory=set[Cause])
    slipped: float = 0.0


class Promises:
    """What holds now, by group.

    Who starts no more than `tolerance_seconds` late is on time: on real clocks nothing happens at
    the very moment for which it is planned. So that something ends no later than this is a cause
    only for those whom it moves back by more, at once or little by little.
    """

    def __init__(self, tolerance_seconds: float = 0.0) -> None:
        self._tolerance = tolerance_seconds
        self._current: dict[str, Promise] = {}
        self._records: dict[str, _Record] = {}
        self._restored: set[str] = set()
        self._levels: Counter[_Level] = Counter()
        # What everybody has heard of who was promised something when promises were last replaced.
        self._heard: set[Cause] = set()
        # Whether something has been hardly late since then.
        self._hardly_late = False
        self._soonest = math.inf
        self._as_expected = False
        self._moved = False
        self._last_ready = -math.inf

    def __bool__(self) -> bool:
        """Whether anybody who waits was promised anything."""
        return bool(self._levels)

    def restore(self, promises: Iterable[Promise]) -> None:
        """What was promised before a restart."""
        self._as_expected = False
        for promise in promises:
            self._restored.add(promise.group)
            self._current[promise.group] = promise
            self._records[promise.group] = _Record(promise, None, promise.start_seconds)

    def standing(self, now_seconds: float) -> Standing:
        """What holds as the next decision is made."""
        if self._soonest < now_seconds:
            # Somebody should have started by now: what runs takes longer than it said.
            self.overrun(now_seconds - self._soonest)
        return Standing(self._current, self._as_expected)

    def next_due_seconds(self, after_seconds: float) -> float:
        """When the next promise has to be kept, infinity if there is none."""
        starts = (promise.start_seconds for promise in self._current.values())
        return min((at for at in starts if at is not None and at > after_seconds), default=math.inf)

    def current(self) -> tuple[Promise, ...]:
        """Every promise that holds."""
        return tuple(self._current.values())

    def disturb(self, cause: Cause) -> None:
        """Something happened that may break promises."""
        self._as_expected = False
        if cause in self._heard:
            return
        self._heard.add(cause)
        for record in self._records.values():
            if record.level is not None:
                record.disturbed.add(cause)

    def overrun(self, by_seconds: float) -> None:
        """Something takes so much longer than was expected; infinity if nobody knows how much."""
        if by_seconds > self._tolerance:
            self.disturb(Cause.OVERRUN)
            return
        self._as_expected = False
        self._hardly_late = True

    def freed(self) -> None:
        """There is more room than was expected: promises may move to an earlier start."""
        self._as_expected = False

    def joined(self, group: Group, before: Group | None) -> None:
        """A group became ready; `before` is what it was if it waited already."""
        if group == before:
            return
        if before is not None:
            # It may take longer or more room than others counted on, and than it counted on itself.
            self.disturb(Cause.CHANGED)
        elif group.ready_seconds < self._last_ready:
            self._as_expected = False
        self._last_ready = max(self._last_ready, group.ready_seconds)
        if any(queue == group.queue and p < group.priority for queue, p in self._levels):
            self._as_expected = False

    def set_aside(self, groups: Iterable[str]) -> None:
        """Nobody can decide about these for a while; others may want what they were promised."""
        for name in groups:
            self._as_expected = False
            record = self._records.get(name)
            if record is not None:
                record.disturbed.add(Cause.ERROR)

    def forget(self, group: str) -> None:
        """The group is no longer wanted."""
        self._as_expected = False
        self._drop(group)

    def overtaken(
        self, placed: Iterable[Group], promises: Iterable[Promise], group_of: GroupOf, rank: Rank
    ) -> None:
        """These start and those are promised a start now. Who had a promise before hears of those
        who go ahead: all of the queues served before its own, and of its own those of a higher
        priority who had no promise yet."""
        first = len(rank)
        highest: dict[str, int] = {}
        ahead = [(group, not self._has_time(group.name)) for group in placed]
        for promise in promises:
            if self._current.get(promise.group) != promise:
                group = group_of(promise.group)
                ahead += [] if group is None else [(group, not self._has_time(group.name))]
        for group, is_new in ahead:
            first = min(first, rank.get(group.queue, 0))
            if is_new:
                highest[group.queue] = max(group.priority, highest.get(group.queue, group.priority))
        behind: dict[_Level, Cause] = {}
        for queue, priority in self._levels:
            if priority < highest.get(queue, priority):
                behind[queue, priority] = Cause.PRIORITY
            elif rank.get(queue, 0) > first:
                behind[queue, priority] = Cause.QUEUE
        for record in self._records.values() if behind else ():
            if record.level in behind:
                record.disturbed.add(behind[record.level])

    def started(self, groups: Iterable[str], now_seconds: float) -> list[Broken]:
        """These groups start now; which of them were promised to start earlier."""
        broken: list[Broken] = []
        self._moved = False
        for name in groups:
            record = self._records.get(name)
            if record is not None:
                self._moved |= record.promise.start_seconds != now_seconds
                self._slips(record, now_seconds)
                if record.first is not None and now_seconds - record.first > self._tolerance:
                    why = (cause for cause in Cause if cause in record.disturbed)
                    broken.append(Broken(name, record.first, next(why, Cause.STRATEGY)))
                self._drop(name)
        return broken

    def replace(self, promises: Iterable[Promise], group_of: GroupOf) -> None:
        """What holds from now on; the groups can be asked for by name."""
        current: dict[str, Promise] = {}
        soonest = math.inf
        for promise in promises:
            name, start = promise.group, promise.start_seconds
            current[name] = promise
            if start is not None and start < soonest:
                soonest = start
            record = self._records.get(name)
            if record is None:
                record = self._records[name] = _Record(promise, None, start)
                self._settle(record, group_of(name))
                continue
            if record.promise is not promise:
                self._moved |= start != record.promise.start_seconds
                self._slips(record, start)
                record.promise = promise
                if record.first is None:
                    # Only now it has a time that can be missed.
                    record.first = start
                    record.disturbed.clear()
        self._settle_restored(current, group_of)
        self._heard.clear()
        self._hardly_late = False
        self._current, self._soonest = current, soonest
        # Who moved to an earlier start has left a place that others may want.
        self._as_expected = not self._moved

    def _has_time(self, group: str) -> bool:
        promise = self._current.get(group)
        return promise is not None and promise.start_seconds is not None

    def _slips(self, record: _Record, start: float | None) -> None:
        """This start follows on the one that the record has."""
        before = record.promise.start_seconds
        if self._hardly_late and record.level is not None and _is_later(start, before):
            record.slipped += math.inf if start is None or before is None else start - before
            if record.slipped > self._tolerance:
                record.disturbed.add(Cause.OVERRUN)

    def _settle(self, record: _Record, group: Group | None) -> None:
        record.level = ("", 0) if group is None else (group.queue, group.priority)
        self._levels[record.level] += 1

    def _settle_restored(self, current: Mapping[str, Promise], group_of: GroupOf) -> None:
        """After the first decision: what could not be kept changed while nobody looked."""
        restored, self._restored = self._restored, set[str]()
        for name in restored:
            record, group = self._records.get(name), group_of(name)
            if record is None or group is None:
                self._drop(name)
                continue
            self._settle(record, group)
            promise = current.get(name)
            if promise is None or _is_later(promise.start_seconds, record.first):
                record.disturbed.add(Cause.RESTART)

    def _drop(self, group: str) -> None:
        self._current.pop(group, None)
        self._restored.discard(group)
        record = self._records.pop(group, None)
        if record is not None and record.level is not None:
            self._levels[record.level] -= 1
            self._levels += Counter()  # without those of whom there are none


def _is_later(start: float | None, than: float | None) -> bool:
    return than is not None and (start is None or start > than)
