"""Foretelling: when a waiting group is told that it will start, and when that is worth new words.

Promises move with everything that ends early or late, in every cycle. To write each move to every
pod would load the API server for nothing: a group hears of one that matters to people, and all of
them together hear so much in a second at most. Who is not told now keeps the words it has until
there is room. Pure: no clock, no network.
"""

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from afflux.cycle.inspection import at
from afflux.model.promise import Promise

# A promise that moved by less than a minute is as it was; so is one that moved by less than this
# part of the time from when the group first heard of one.
SMALLEST_MOVE_SECONDS = 60.0
SMALLEST_MOVE_SHARE = 0.1
# Pods that hear new words in a second, and at once after a quiet time: each is an event and a
# condition. Only the last group of those that hear some at once may be larger than that.
PODS_PER_SECOND = 10.0
PODS_AT_ONCE = 1_000.0

UNKNOWN = "When it starts is unknown: it waits for work without end."
_PROMISED = "Promised to start by"
_WORDS_AT_END = re.compile(
    rf"(?:{re.escape(UNKNOWN)}|{_PROMISED} [0-9-]{{10}} [0-9:]{{5}} UTC\.)\Z"
)


@dataclass(frozen=True, slots=True)
class _Told:
    """What a group was told last, None for nothing that has a time; and since when it has words."""

    since: float
    start: float | None
    words: str


def words_of(start_seconds: float | None) -> str:
    """A promise in words; times are of the next full minute, since that is kept as well."""
    if start_seconds is None:
        return UNKNOWN
    return f"{_PROMISED} {at(math.ceil(start_seconds / 60) * 60):%Y-%m-%d %H:%M} UTC."


def words_in(message: str) -> str:
    """The words of a promise with which a message ends, which may be from a leader before us."""
    found = _WORDS_AT_END.search(message)
    return found[0] if found else ""


class Foretelling:
    """What waiting groups have been told."""

    def __init__(self) -> None:
        self._told: dict[str, _Told] = {}
        self._room = PODS_AT_ONCE
        self._as_of = -math.inf

    def tell(
        self, promises: Iterable[Promise], pods_of: Callable[[str], int], now_seconds: float
    ) -> dict[str, str | None]:
        """The words of every group that is promised a start, None if there was no room for any yet.

        `pods_of` is how many pods of a group would have to hear them. Who has started, or is
        promised nothing any more, is not in it.
        """
        passed = max(0.0, now_seconds - self._as_of)
        self._as_of = now_seconds
        self._room = min(PODS_AT_ONCE, self._room + passed * PODS_PER_SECOND)
        known = {promise.group: promise.start_seconds for promise in promises}
        before = {name: told for name, told in self._told.items() if name in known}
        self._told = before
        for name, start in known.items():
            told = before.get(name)
            if told is not None and not _matters(told, start):
                continue
            pods = pods_of(name)
            if not pods or self._room <= 0:
                continue
            self._room -= pods
            since = now_seconds if told is None else told.since
            self._told[name] = _Told(since, start, words_of(start))
        return {name: told.words if (told := self._told.get(name)) else None for name in known}


def _matters(told: _Told, start: float | None) -> bool:
    if told.start is None or start is None:
        return told.start is not start
    least = max(SMALLEST_MOVE_SECONDS, SMALLEST_MOVE_SHARE * (start - told.since))
    return abs(start - told.start) >= least
