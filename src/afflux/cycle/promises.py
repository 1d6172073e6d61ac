"""Promises from cycle to cycle: which hold, which were broken, and by what.

A promise is broken when its group starts later than it was first promised, as others count.
With honest durations some strategies break none by themselves; but machines are lost, other
schedulers' pods come, groups of a higher priority arrive, and work runs longer than it said.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from afflux.model.group import Group
from afflux.model.promise import Promise, Standing


class Cause(StrEnum):
    """What broke a promise; the first of these that happened since it was made."""

    MACHINE = "machine lost"
    FOREIGN = "foreign pod"
    PRIORITY = "higher priority"
    OVERRUN = "ran longer than expected"
    STRATEGY = "strategy"


@dataclass(frozen=True, slots=True)
class Broken:
    """A promise that was not kept: when the group was to start, and why it did not."""

    group: str
    promised_seconds: float
    cause: Cause


@dataclass(slots=True)
class _Record:
    """`first` is what counts; `disturbed` is what has happened since.

    After a restart the priority is not known until the first decision: all that is heard before
    was there already when the promise was made.
    """

    promise: Promise
    priority: int | None
    first: float | None
    disturbed: set[Cause] = field(default_factory=set[Cause])


class Promises:
    """What holds now, by group."""

    def __init__(self) -> None:
        self._current: dict[str, Promise] = {}
        self._records: dict[str, _Record] = {}
        self._priorities: Counter[int] = Counter()
        self._soonest = math.inf
        self._as_expected = False
        self._moved = False
        self._last_ready = -math.inf

    def restore(self, promises: Iterable[Promise]) -> None:
        """What was promised before a restart."""
        self._as_expected = False
        for promise in promises:
            self._current[promise.group] = promise
            self._records[promise.group] = _Record(promise, None, promise.start_seconds)

    def standing(self, now_seconds: float) -> Standing:
        """What holds as the next decision is made."""
        if self._as_expected and self._soonest < now_seconds:
            # Somebody should have started by now: what runs takes longer than it said.
            self.disturb(Cause.OVERRUN)
        return Standing(self._current, self._as_expected)

    def current(self) -> tuple[Promise, ...]:
        """Every promise that holds."""
        return tuple(self._current.values())

    def disturb(self, cause: Cause) -> None:
        """Something happened that may break promises."""
        self._as_expected = False
        for record in self._records.values():
            if record.priority is not None:
                record.disturbed.add(cause)

    def freed(self) -> None:
        """There is more room than was expected: promises may move to an earlier start."""
        self._as_expected = False

    def joined(self, group: Group, *, known: bool) -> None:
        """A group became ready; `known` if it waited already and has changed."""
        if known or group.ready_seconds < self._last_ready:
            self._as_expected = False
        self._last_ready = max(self._last_ready, group.ready_seconds)
        if any(priority < group.priority for priority in self._priorities):
            self._as_expected = False
            for record in self._records.values():
                if record.priority is not None and record.priority < group.priority:
                    record.disturbed.add(Cause.PRIORITY)

    def forget(self, group: str) -> None:
        """The group is no longer wanted."""
        self._as_expected = False
        self._drop(group)

    def started(self, groups: Iterable[str], now_seconds: float) -> list[Broken]:
        """These groups start now; which of them were promised to start earlier."""
        broken: list[Broken] = []
        self._moved = False
        for name in groups:
            record = self._records.get(name)
            if record is not None:
                self._moved |= record.promise.start_seconds != now_seconds
                if record.first is not None and now_seconds > record.first:
                    why = (cause for cause in Cause if cause in record.disturbed)
                    broken.append(Broken(name, record.first, next(why, Cause.STRATEGY)))
                self._drop(name)
        return broken

    def replace(self, promises: Iterable[Promise], priority_of: Callable[[str], int]) -> None:
        """What holds from now on, with the priorities of the groups."""
        current: dict[str, Promise] = {}
        soonest = math.inf
        for promise in promises:
            name, start = promise.group, promise.start_seconds
            current[name] = promise
            if start is not None and start < soonest:
                soonest = start
            record = self._records.get(name)
            if record is None:
                self._record(promise, priority_of(name))
                continue
            if record.priority is None:
                record.priority = priority_of(name)
                self._priorities[record.priority] += 1
            if record.promise is not promise:
                self._moved |= start != record.promise.start_seconds
                record.promise = promise
                record.first = start if record.first is None else record.first
        self._current, self._soonest = current, soonest
        # Who moved to an earlier start has left a place that others may want.
        self._as_expected = not self._moved

    def _record(self, promise: Promise, priority: int) -> None:
        self._records[promise.group] = _Record(promise, priority, promise.start_seconds)
        self._priorities[priority] += 1

    def _drop(self, group: str) -> None:
        self._current.pop(group, None)
        record = self._records.pop(group, None)
        if record is not None and record.priority is not None:
            self._priorities[record.priority] -= 1
            self._priorities += Counter()  # without those of whom there are none
