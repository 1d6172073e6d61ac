"""The order of waiting groups: priority, then when a group became ready, then when it was added.

Within a priority, the rest of a group of which some members run already goes first: those members
may work for nothing until the rest has started too.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from itertools import count

from afflux.model.group import Group

_Key = tuple[float, bool, float, int]


class WaitingQueue:
    """Waiting groups by name. A group that is added again keeps its place.

    Groups with a blocked task wait as well, but are not considered.
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
        """All waiting groups: first those that are considered, in queue order, then the others."""
        yield from self._groups
        yield from (group for _, group in self._blocked.values())

    def add(self, group: Group) -> None:
        """Add a group that has all its members, or replace it in its place."""
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
        """Remove a group that was placed or withdrawn, if it waits."""
        self._blocked.pop(name, None)
        entry = self._waiting.pop(name, None)
        if entry is not None:
            place = bisect_left(self._keys, entry[0])
            del self._keys[place], self._groups[place]

    def discard_all(self, names: Iterable[str]) -> None:
        gone = set(names)
        if len(gone) < 64:
            for name in gone:
                self.discard(name)
            return
        rest = [entry for name, entry in self._waiting.items() if name not in gone]
        rest.sort(key=lambda entry: entry[0])
        self._waiting = {group.name: (key, group) for key, group in rest}
        self._keys = [key for key, _ in rest]
        self._groups = [group for _, group in rest]
        for name in gone:
            self._blocked.pop(name, None)

    def considered(self) -> list[Group]:
        """The groups that may be placed, in queue order."""
        return self._groups

    def get(self, name: str) -> Group | None:
        """The waiting group of this name, None if there is none."""
        entry = self._waiting.get(name) or self._blocked.get(name)
        return entry[1] if entry else None

    def _number(self, name: str) -> int:
        """The sequence number of a waiting group, or the next one."""
        if name in self._waiting:
            return self._waiting[name][0][-1]
        return self._blocked[name][0] if name in self._blocked else next(self._sequence)
