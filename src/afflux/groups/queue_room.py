"""Room in queues that take a limited number of waiting groups: an index over the register."""

from collections import Counter
from collections.abc import Iterable, Mapping
from heapq import heapify, heappop, heappush

from afflux.groups.group_id import GroupKey
from afflux.queue.rules import QueueRules

# Entries of a heap for groups that do not wait for room any more, besides as many as do.
_SPARE_ENTRIES = 1_000


class QueueRoom:
    """Which groups are in each queue, and which wait for room there.

    A group that can never start on the cluster as it is stays in its queue and does not count. The
    groups without room are let in by when they became ready.
    """

    def __init__(self, rules: Mapping[str, QueueRules]) -> None:
        self._rules = {name: each for name, each in rules.items() if each.max_groups is not None}
        self._queue_of: dict[GroupKey, str] = {}
        self._counted: Counter[str] = Counter()
        self._unsatisfiable: set[GroupKey] = set()
        self._outside: dict[GroupKey, tuple[str, float]] = {}
        # By when they became ready. A heap may hold groups that do not wait for room any more.
        self._heaps: dict[str, list[tuple[float, GroupKey]]] = {name: [] for name in self._rules}

    def enter(self, key: GroupKey, queue: str, ready_seconds: float) -> str | None:
        """Say why the group has to wait outside of its queue; None if it is in it.

        `admit_next` lets groups in, once all that is known was looked at: so the first by readiness
        comes first, whatever the order in which the groups were looked at.
        """
        if self._queue_of.get(key) == queue:
            return None
        rules = self._rules.get(queue)
        if rules is None:
            self.leave(key)
            return None
        if self._outside.get(key) != (queue, ready_seconds):
            self.leave(key)
            self._outside[key] = queue, ready_seconds
            heap = self._heap(queue)
            heappush(heap, (ready_seconds, key))
            if len(heap) > 2 * len(self._outside) + _SPARE_ENTRIES:
                # A full queue takes none from the heap, however often groups come and go.
                self._heaps[queue] = self._waiting_for(queue)
        return f"queue {queue} is full: {rules.max_groups} groups wait in it"

    def hold_place(self, key: GroupKey, queue: str) -> None:
        """Count a group that needs no room: members of it run, and the others have to follow."""
        self._outside.pop(key, None)
        if self._queue_of.get(key) != queue:
            self.leave(key)
            if queue in self._rules:
                self._let_in(key, queue)

    def leave(self, key: GroupKey) -> None:
        """The group does not wait any more."""
        self._outside.pop(key, None)
        if key in self._queue_of:
            self._count(key, -1)
            del self._queue_of[key]
            self._unsatisfiable.discard(key)

    def note_changed(self, key: GroupKey) -> None:
        """The group has changed, and may be able to start now."""
        if key in self._unsatisfiable:
            self._unsatisfiable.remove(key)
            self._count(key, 1)

    def set_unsatisfiable(self, keys: Iterable[GroupKey]) -> bool:
        """These groups can never start. Returns whether a group may now enter a queue."""
        if not self._rules:
            return False
        now = {key for key in keys if key in self._queue_of}
        for key in self._unsatisfiable - now:
            self._unsatisfiable.remove(key)
            self._count(key, 1)
        for key in now - self._unsatisfiable:
            self._count(key, -1)
            self._unsatisfiable.add(key)
        return self._next_admissible() is not None

    def admit_next(self) -> GroupKey | None:
        """Let in a group that waits outside and for which its queue has room; None if none does."""
        found = self._next_admissible()
        if found is not None:
            queue, _ = self._outside.pop(found)
            self._let_in(found, queue)
        return found

    def _waiting_for(self, queue: str) -> list[tuple[float, GroupKey]]:
        """A heap of the groups that wait for room in this queue."""
        each = self._outside.items()
        found = [(ready, key) for key, (their_queue, ready) in each if their_queue == queue]
        heapify(found)
        return found

    def _next_admissible(self) -> GroupKey | None:
        for queue in self._rules:
            heap = self._heap(queue)
            if heap and self._has_room(queue):
                return heap[0][1]
        return None

    def _let_in(self, key: GroupKey, queue: str) -> None:
        self._queue_of[key] = queue
        self._count(key, 1)

    def _count(self, key: GroupKey, change: int) -> None:
        if key not in self._unsatisfiable:
            self._counted[self._queue_of[key]] += change

    def _has_room(self, queue: str) -> bool:
        limit = self._rules[queue].max_groups
        return limit is None or self._counted[queue] < limit

    def _heap(self, queue: str) -> list[tuple[float, GroupKey]]:
        """The heap of a queue, the first of it valid."""
        heap = self._heaps[queue]
        while heap and self._outside.get(heap[0][1]) != (queue, heap[0][0]):
            heappop(heap)
        return heap
