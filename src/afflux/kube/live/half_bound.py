"""Halves: which groups are half-bound, and since when.

A group is half-bound if some of its members are bound, fewer than it needs, and the others are
there and wait. Its time counts from when the last of them was bound. While a binding of one of them
is on its way nobody knows yet what it is; if that comes to nothing its time has gone on.

Pure: no clock, no network. What is done about a group that stays half-bound is in taking_back.py.
"""

import asyncio
from dataclasses import dataclass, replace
from heapq import heappop, heappush


@dataclass(frozen=True, slots=True)
class Half:
    """A group, by namespace/name, that needs `size` members of which only these pods are bound."""

    group: str
    size: int
    bound: frozenset[str]
    under_way: bool = False
    since_seconds: float = 0.0

    @property
    def namespace(self) -> str:
        """Where it is."""
        return self.group.partition("/")[0]


class Halves:
    """The groups that are half-bound, of which each is reported after so many seconds."""

    def __init__(self, after_seconds: float) -> None:
        self.after_seconds = after_seconds
        # Set when the next one to report may be another one.
        self.changed = asyncio.Event()
        self._groups: dict[str, Half] = {}
        # Of these it was said, and nothing has changed since.
        self._reported: dict[str, Half] = {}
        # By time; an entry counts if it is still the group's.
        self._due: list[tuple[float, str]] = []

    def set(self, half: Half, now_seconds: float) -> None:
        """A group is half-bound, now or still."""
        before = self._groups.get(half.group)
        newly_bound = before is None or half.bound - before.bound
        since = now_seconds if newly_bound or before is None else before.since_seconds
        half = replace(half, since_seconds=since)
        if half == before:
            return
        self._groups[half.group] = half
        self._note(half)

    def remove(self, group: str) -> None:
        """A group is not half-bound, or not any more."""
        self._groups.pop(group, None)
        self._reported.pop(group, None)

    def again(self, half: Half, now_seconds: float) -> None:
        """What was to be done about a group has failed: if it is as it was, it waits anew."""
        if self._groups.get(half.group) == half:
            self._reported.pop(half.group, None)
            self._groups[half.group] = replace(half, since_seconds=now_seconds)
            self._note(self._groups[half.group])

    def next_seconds(self) -> float | None:
        """When to look again, None if nothing is half-bound."""
        while self._due:
            due, group = self._due[0]
            half = self._groups.get(group)
            if half is not None and self._due_seconds(half) == due:
                return due
            heappop(self._due)
        return None

    def take(self, now_seconds: float) -> list[Half]:
        """The groups that were half-bound for too long; each once, unless something changes."""
        found: list[Half] = []
        while (due := self.next_seconds()) is not None and due <= now_seconds:
            half = self._groups[heappop(self._due)[1]]
            self._reported[half.group] = half
            found.append(half)
        return found

    def _due_seconds(self, half: Half) -> float | None:
        if half.under_way or self._reported.get(half.group) == half:
            return None
        return half.since_seconds + self.after_seconds

    def _note(self, half: Half) -> None:
        due = self._due_seconds(half)
        if due is not None:
            heappush(self._due, (due, half.group))
            self.changed.set()
