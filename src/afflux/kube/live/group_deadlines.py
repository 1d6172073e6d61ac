"""Deadlines: which group's time is over, and when.

A group is over when the deadline of its last running member is; a member without one has no end,
and neither has its group. A controller replaces what the kubelet has stopped, and each replacement
has a deadline of its own: so from the moment when the first member's is over, those who join do not
move the group's any more. Otherwise it would never end.

Pure: no clock, no network. What is done about a group that is over is in cleaning.py.
"""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from afflux.kube import objects
from afflux.kube.decoding import namespace
from afflux.kube.grouping import claimed_group

# Fewer than that are not worth looking through.
FEW_ENTRIES = 1000


@dataclass(frozen=True, slots=True)
class Over:
    """A group whose time was over at `at_seconds`: its pods by uid, and who controls them.

    `name` is namespace/name; `group` is the same if its pods name it, and None for a pod that is a
    group by itself.
    """

    name: str
    group: str | None
    at_seconds: float
    pods: frozenset[str]
    controllers: tuple[objects.OwnerReference, ...] = ()

    @property
    def namespace(self) -> str:
        """Where it is."""
        return self.name.partition("/")[0]


@dataclass(slots=True)
class _Running:
    """A group, from when its first pod ran until none does."""

    name: str
    group: str | None
    # Of the pods that run, when their deadline is over.
    over: dict[str, float | None] = field(default_factory=dict[str, "float | None"])
    # All that ever did, and their controllers by uid.
    pods: set[str] = field(default_factory=set[str])
    controllers: dict[str, objects.OwnerReference] = field(
        default_factory=dict[str, objects.OwnerReference]
    )
    settled: float | None = None
    # How many of `over` have no end; the others by it, the last and the first of them at the head.
    # An entry counts if it is still the pod's.
    endless: int = 0
    last: list[tuple[float, str]] = field(default_factory=list[tuple[float, str]])
    first: list[tuple[float, str]] = field(default_factory=list[tuple[float, str]])

    def set(self, uid: str, end: float | None) -> None:
        """A pod runs, and is over then."""
        self.drop(uid)
        self.over[uid] = end
        if end is None:
            self.endless += 1
            return
        heappush(self.last, (-end, uid))
        heappush(self.first, (end, uid))
        if len(self.first) > FEW_ENTRIES + 2 * len(self.over):
            ends = [(each, pod) for pod, each in self.over.items() if each is not None]
            self.first, self.last = ends, [(-each, pod) for each, pod in ends]
            heapify(self.first)
            heapify(self.last)

    def drop(self, uid: str) -> None:
        """A pod does not run any more."""
        if uid in self.over and self.over.pop(uid) is None:
            self.endless -= 1

    def due(self) -> float | None:
        """When it is over, None without end."""
        if self.settled is not None:
            return self.settled
        while self.last and self.over.get(self.last[0][1]) != -self.last[0][0]:
            heappop(self.last)
        return -self.last[0][0] if self.last and not self.endless else None

    def settle(self, now_seconds: float) -> None:
        """If the deadline of one is over, that of the group does not move any more."""
        while self.first and self.over.get(self.first[0][1]) != self.first[0][0]:
            heappop(self.first)
        if self.settled is None and self.first and self.first[0][0] <= now_seconds:
            self.settled = self.due()


class Deadlines:
    """The running groups of which one member at least has a deadline or shares a group's name."""

    def __init__(self) -> None:
        # Set when the next deadline may be another one.
        self.changed = asyncio.Event()
        self._groups: dict[str, _Running] = {}
        self._key_of: dict[str, str] = {}
        # Who was reported already, and still is there.
        self._reported: set[str] = set()
        # By time; an entry counts if it is still the group's. The others are left behind when there
        # are too many of them: who says he may run for years and ends today is not kept for years.
        self._due: list[tuple[float, str]] = []

    def runs(self, pod: objects.Pod, over_seconds: float | None, now_seconds: float) -> None:
        """A pod of ours runs; its deadline is over then, None if it has none or has not begun."""
        uid, group = pod.metadata.uid or "", claimed_group(pod)
        key = f"group {group}" if group else f"pod {uid}"
        if self._key_of.get(uid, key) != key:
            self.left(uid, now_seconds)
        if uid in self._reported or (group is None and over_seconds is None):
            return
        running = self._groups.get(key)
        if running is None:
            running = self._groups[key] = _Running(
                group or f"{namespace(pod)}/{pod.metadata.name or ''}", group
            )
        if uid not in running.over:
            running.settle(now_seconds)
        elif running.over[uid] == over_seconds:
            return
        running.set(uid, over_seconds)
        running.pods.add(uid)
        self._key_of[uid] = key
        owner = controller(pod)
        if owner is not None:
            running.controllers[owner.uid or ""] = owner
        self._note(key, running)

    def left(self, uid: str, now_seconds: float) -> None:
        """A pod has ended, is being deleted or gone."""
        self._reported.discard(uid)
        key = self._key_of.pop(uid, None)
        if key is None:
            return
        running = self._groups[key]
        running.settle(now_seconds)
        running.drop(uid)
        due = running.due()
        if not running.over and (due is None or due > now_seconds):
            # All have ended before their time: there is nothing to clean up.
            del self._groups[key]
            return
        self._note(key, running)

    def next_seconds(self) -> float | None:
        """When to look again, None if nothing has an end."""
        while self._due:
            due, key = self._due[0]
            running = self._groups.get(key)
            if running is not None and running.due() == due:
                return due
            heappop(self._due)
        return None

    def take(self, now_seconds: float) -> list[Over]:
        """The groups that are over; each is reported once."""
        found: list[Over] = []
        while (due := self.next_seconds()) is not None and due <= now_seconds:
            key = heappop(self._due)[1]
            running = self._groups.pop(key)
            for uid in running.over:
                del self._key_of[uid]
                self._reported.add(uid)
            found.append(
                Over(
                    running.name,
                    running.group,
                    due,
                    frozenset(running.pods),
                    tuple(running.controllers.values()),
                )
            )
        return found

    def are_there(self, uids: Collection[str]) -> bool:
        """Whether any of these was reported and still runs."""
        return not self._reported.isdisjoint(uids)

    def _note(self, key: str, running: _Running) -> None:
        due = running.due()
        if due is not None:
            heappush(self._due, (due, key))
            if len(self._due) > FEW_ENTRIES + 2 * len(self._groups):
                self._due = [
                    (end, each)
                    for each, one in self._groups.items()
                    if (end := one.due()) is not None
                ]
                heapify(self._due)
            self.changed.set()


def controller(item: objects.Object) -> objects.OwnerReference | None:
    """Who makes another one of this if it goes away."""
    return next((ref for ref in item.metadata.owner_references or () if ref.controller), None)
