"""The queue: by priority, then by when a group first became ready, then by when it was added."""

from collections.abc import Iterable
from itertools import count

from afflux.model.group import Group


class Queue:
    """Waiting groups by name; a group keeps its place however often it is added again."""

    def __init__(self, groups: Iterable[Group] = ()) -> None:
        self._waiting: dict[str, tuple[tuple[float, float, int], Group]] = {}
        self._sequence = count()
        self._ordered: list[Group] | None = None
        for group in groups:
            self.add(group)

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, group: Group) -> None:
        """A group that has all its members joins, or is replaced in its place."""
        before = self._waiting.get(group.name)
        number = before[0][2] if before else next(self._sequence)
        key = (-group.priority, group.ready_seconds, number)
        self._waiting[group.name] = (key, group)
        self._ordered = None

    def discard(self, name: str) -> None:
        """A group was placed or is no longer wanted."""
        if self._waiting.pop(name, None) is not None:
            self._ordered = None

    def ordered(self) -> list[Group]:
        """All waiting groups, first come first in each priority."""
        if self._ordered is None:
            entries = sorted(self._waiting.values(), key=lambda entry: entry[0])
            self._ordered = [group for _, group in entries]
        return self._ordered
