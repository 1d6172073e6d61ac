"""Promises from cycle to cycle: which hold, which were broken, and by what.

A promise is broken when its group can no longer start by the earliest time it was ever promised.
With honest durations some strategies break none by themselves; but machines are lost, other
schedulers' pods come, groups of a higher priority arrive, and work runs longer than it said.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from afflux.model.promise import Promise


class Cause(StrEnum):
    """What broke a promise; the first of these that happened since it was made."""

    MACHINE = "machine lost"
    FOREIGN = "foreign pod"
    PRIORITY = "higher priority"
    OVERRUN = "ran longer than expected"
    STRATEGY = "strategy"


@dataclass(frozen=True, slots=True)
class Broken:
    """A promise that was not kept: when the group was to start, and by what it does not."""

    group: str
    promised_seconds: float
    cause: Cause


@dataclass(slots=True)
class _Record:
    """`earliest` is what counts; `disturbed` is what has happened since."""

    promise: Promise
    priority: int
    earliest: float | None
    broken: bool = False
    disturbed: set[Cause] = field(default_factory=set[Cause])


class Promises:
    """What holds now, by group."""

    def __init__(self) -> None:
        self.current: dict[str, Promise] = {}
        self._records: dict[str, _Record] = {}

    def restore(self, promises: Iterable[Promise]) -> None:
        """What was promised before a restart."""
        for promise in promises:
            self.current[promise.group] = promise
            self._records[promise.group] = _Record(promise, 0, promise.start_seconds)

    def disturb(self, cause: Cause, priority: int | None = None) -> None:
        """Something happened that may break promises, or those of less than this priority."""
        for record in self._records.values():
            if priority is None or record.priority < priority:
                record.disturbed.add(cause)

    def forget(self, group: str) -> None:
        """The group is no longer wanted."""
        self.current.pop(group, None)
        self._records.pop(group, None)

    def started(self, groups: Iterable[str], now_seconds: float) -> list[Broken]:
        """These groups start now; which of them were promised to start earlier."""
        broken: list[Broken] = []
        for name in groups:
            record = self._records.get(name)
            if record is not None:
                broken += self._break(record, now_seconds)
                self.forget(name)
        return broken

    def replace(self, promises: Iterable[tuple[Promise, int]]) -> list[Broken]:
        """What holds from now on, with the priorities of the groups; which had been better."""
        broken: list[Broken] = []
        self.current = {}
        for promise, priority in promises:
            self.current[promise.group] = promise
            record = self._records.get(promise.group)
            start = promise.start_seconds
            if record is None:
                self._records[promise.group] = _Record(promise, priority, start)
                continue
            record.promise, record.priority = promise, priority
            if start is not None:
                broken += self._break(record, start)
                if record.earliest is None or start < record.earliest:
                    record.earliest = start
                    record.disturbed.clear()
        return broken

    def _break(self, record: _Record, start_seconds: float) -> list[Broken]:
        if record.broken or record.earliest is None or start_seconds <= record.earliest:
            return []
        record.broken = True
        cause = next((each for each in Cause if each in record.disturbed), Cause.STRATEGY)
        return [Broken(record.promise.group, record.earliest, cause)]
