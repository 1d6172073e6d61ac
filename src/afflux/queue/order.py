"""The queue: by priority, then by when a group first became ready, then by when it was added.

Among those of one priority, the rest of a group of which some run already goes first: until it has
started too, what runs of it works for nothing.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from itertools import count

from afflux.model.group import Group

_Key = tuple[float, bool, float, int]


class Queue:
    """Waiting groups by name; a group keeps its place however often it is added again.

    Groups with a task that must not be placed yet wait beside the others, without being considered.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, tuple[_Key, Group]] = {}
        self._keys: list[_Key] = []
        self._groups: list[Group] = []
        self._blocked: dict[str, tuple[int, Group]] = {}
        self._sequence = count()

    def __len__(self) -> int:
        return len(self._waiting) + len(self._blocked)

    def __contains__(self, name: object) -> bool:
        return name in self._waiting or name in self._blocked

    def __iter__(self) -> Iterator[Group]:
        """All waiting groups: those that are considered in queue order, then the others."""
        yield from self._groups
        yield from (group for _, group in self._blocked.values())

    def add(self, group: Group) -> None:
        """A group that has all its members joins, or is replaced in its place."""
        number = self._number(group.name)
        self.discard(group.name)
        if any(task.blocked for task in group.tasks):
            self._blocked[group.name] = (number, group)
            return
        key = (-group.priority, not group.begun, group.ready_seconds, number)
        self._waiting[group.name] = (key, group)
        insort(self._keys, key)
        self._groups.insert(bisect_left(self._keys, key), group)

    def discard(self, name: str) -> None:
        """A group was placed or is no longer wanted."""
        self._blocked.pop(name, None)
        entry = self._waiting.pop(name, None)
        if entry is not None:
            place = bisect_left(self._keys, entry[0])
            del self._keys[place], self._groups[place]

    def discard_all(self, names: Iterable[str]) -> None:
        """Many groups at once."""
        gone = set(names)
        if len(gone) < 64:
            for name in gone:
                self.discard(name)
            return
        kept = [entry for name, entry in self._waiting.items() if name not in gone]
        kept.sort(key=lambda entry: entry[0])
        self._waiting = {group.name: (key, group) for key, group in kept}
        self._keys = [key for key, _ in kept]
        self._groups = [group for _, group in kept]
        for name in gone:
            self._blocked.pop(name, None)

    def considered(self) -> list[Group]:
        """Groups to place, first come first in each priority."""
        return self._groups

    def get(self, name: str) -> Group | None:
        """The waiting group of this name, None if there is none."""
        entry = self._waiting.get(name) or self._blocked.get(name)
        return entry[1] if entry else None

    def _number(self, name: str) -> int:
        """When a group was first added, as a number; the next one for a group not waiting yet."""
        if name in self._waiting:
            return self._waiting[name][0][-1]
        return self._blocked[name][0] if name in self._blocked else next(self._sequence)
