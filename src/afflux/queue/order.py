"""The order of waiting groups: priority, then when a group became ready, then when it was added.

Within a priority, the rest of a group of which some members run already goes first: those members
may work for nothing until the rest has started too.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from itertools import count

from afflux.model.waiting_group import WaitingGroup

_Order = tuple[float, bool, float, int]


class WaitingQueue:
    """Waiting groups by key. A group that is added again keeps its place.

    Groups with a blocked task wait as well, but are not considered.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, tuple[_Order, WaitingGroup]] = {}
        self._order: list[_Order] = []
        self._groups: list[WaitingGroup] = []
        self._blocked: dict[str, tuple[int, WaitingGroup]] = {}
        self._sequence = count()
        # The groups that are considered and have a task that does something on disks.
        self._on_disks: set[str] = set()

    def __len__(self) -> int:
        return len(self._waiting) + len(self._blocked)

    def __contains__(self, key: object) -> bool:
        return key in self._waiting or key in self._blocked

    def __iter__(self) -> Iterator[WaitingGroup]:
        """All waiting groups: first those that are considered, in queue order, then the others."""
        yield from self._groups
        yield from (group for _, group in self._blocked.values())

    def add(self, group: WaitingGroup) -> None:
        """Add a group that has all its members, or replace it in its place."""
        number = self._number(group.key)
        self.discard(group.key)
        if any(task.blocked for task in group.tasks):
            self._blocked[group.key] = (number, group)
            return
        order = (-group.priority, not group.begun, group.ready_seconds, number)
        self._waiting[group.key] = (order, group)
        insort(self._order, order)
        self._groups.insert(bisect_left(self._order, order), group)
        if any(shape.disks is not None for shape, _ in group.shapes):
            self._on_disks.add(group.key)

    def discard(self, key: str) -> None:
        """Remove a group that was placed or withdrawn, if it waits."""
        self._on_disks.discard(key)
        self._blocked.pop(key, None)
        entry = self._waiting.pop(key, None)
        if entry is not None:
            place = bisect_left(self._order, entry[0])
            del self._order[place], self._groups[place]

    def discard_all(self, keys: Iterable[str]) -> None:
        gone = set(keys)
        if len(gone) < 64:
            for key in gone:
                self.discard(key)
            return
        rest = [entry for key, entry in self._waiting.items() if key not in gone]
        rest.sort(key=lambda entry: entry[0])
        self._waiting = {group.key: (order, group) for order, group in rest}
        self._order = [order for order, _ in rest]
        self._groups = [group for _, group in rest]
        for key in gone:
            self._blocked.pop(key, None)
        self._on_disks -= gone

    def considered(self) -> list[WaitingGroup]:
        """The groups that may be placed, in queue order."""
        return self._groups

    @property
    def uses_disks(self) -> bool:
        """Whether a task that may be placed does something on disks."""
        return bool(self._on_disks)

    def get(self, key: str) -> WaitingGroup | None:
        """The waiting group of this key, None if there is none."""
        entry = self._waiting.get(key) or self._blocked.get(key)
        return entry[1] if entry else None

    def _number(self, key: str) -> int:
        """The sequence number of a waiting group, or the next one."""
        if key in self._waiting:
            return self._waiting[key][0][-1]
        return self._blocked[key][0] if key in self._blocked else next(self._sequence)
