"""The deadlines of running groups.

The deadline of a group is the latest deadline of its running members; if one member has none, the
group has none. A controller replaces pods that the kubelet has stopped at their deadline, and each
replacement has a deadline of its own. So once the first member's deadline has passed, the group's
deadline is fixed and later members do not extend it.

Pure: no clock, no network. deadline_cleanup.py acts on overdue groups.
"""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from afflux.kube import objects
from afflux.kube.group_claims import claimed_group
from afflux.kube.objects import OwnerReference
from afflux.kube.pods import namespace

# A heap is rebuilt when it has this many stale entries, and more than half of it is stale.
MIN_STALE_ENTRIES = 1000


@dataclass(frozen=True, slots=True)
class OverdueGroup:
    """A group whose deadline passed at `at_seconds`: the uids of its pods, and their controllers.

    `name` is namespace/name. `group` is the same if the pods name a group; it is None for a single
    pod without a group.
    """

    name: str
    group: str | None
    at_seconds: float
    pods: frozenset[str]
    controllers: tuple[OwnerReference, ...] = ()

    @property
    def namespace(self) -> str:
        return self.name.partition("/")[0]


@dataclass(slots=True)
class _RunningGroup:
    """A group, from when its first pod runs until no pod of it runs."""

    name: str
    group: str | None
    # The deadlines of the running pods, by uid.
    deadlines: dict[str, float | None] = field(default_factory=dict[str, "float | None"])
    # All pods that ever ran, and their controllers by uid.
    pods: set[str] = field(default_factory=set[str])
    controllers: dict[str, OwnerReference] = field(default_factory=dict[str, OwnerReference])
    fixed_deadline: float | None = None
    # How many of `deadlines` are None; heaps of the others, with the latest (negated) and the
    # earliest first. An entry is valid if it is the pod's current deadline.
    unbounded: int = 0
    latest: list[tuple[float, str]] = field(default_factory=list[tuple[float, str]])
    earliest: list[tuple[float, str]] = field(default_factory=list[tuple[float, str]])

    def set(self, uid: str, deadline: float | None) -> None:
        self.remove(uid)
        self.deadlines[uid] = deadline
        if deadline is None:
            self.unbounded += 1
            return
        heappush(self.latest, (-deadline, uid))
        heappush(self.earliest, (deadline, uid))
        if len(self.earliest) > MIN_STALE_ENTRIES + 2 * len(self.deadlines):
            valid = [(each, pod) for pod, each in self.deadlines.items() if each is not None]
            self.earliest, self.latest = valid, [(-each, pod) for each, pod in valid]
            heapify(self.earliest)
            heapify(self.latest)

    def remove(self, uid: str) -> None:
        if uid in self.deadlines and self.deadlines.pop(uid) is None:
            self.unbounded -= 1

    def deadline(self) -> float | None:
        if self.fixed_deadline is not None:
            return self.fixed_deadline
        while self.latest and self.deadlines.get(self.latest[0][1]) != -self.latest[0][0]:
            heappop(self.latest)
        return -self.latest[0][0] if self.latest and not self.unbounded else None

    def fix_deadline(self, now_seconds: float) -> None:
        """Fix the group's deadline if the deadline of one of its pods has passed."""
        while self.earliest and self.deadlines.get(self.earliest[0][1]) != self.earliest[0][0]:
            heappop(self.earliest)
        if self.fixed_deadline is None and self.earliest and self.earliest[0][0] <= now_seconds:
            self.fixed_deadline = self.deadline()


class GroupDeadlines:
    """The running groups; single pods without a group only if they have a deadline."""

    def __init__(self) -> None:
        # Set when `next_seconds` may have changed.
        self.changed = asyncio.Event()
        self._groups: dict[str, _RunningGroup] = {}
        self._key_of: dict[str, str] = {}
        # The uids of the pods of reported groups that still run.
        self._reported: set[str] = set()
        # A heap by time. An entry is valid if it is the current deadline of its group. The heap is
        # rebuilt when most entries are stale: pods that could run for years may end today.
        self._due: list[tuple[float, str]] = []

    def set(self, pod: objects.Pod, deadline_seconds: float | None, now_seconds: float) -> None:
        """One of our pods runs; its deadline is None if it has none or has not started yet."""
        uid, group = pod.metadata.uid or "", claimed_group(pod)
        key = f"group {group}" if group else f"pod {uid}"
        if self._key_of.get(uid, key) != key:
            self.remove(uid, now_seconds)
        if uid in self._reported or (group is None and deadline_seconds is None):
            return
        running = self._groups.get(key)
        if running is None:
            name = group or f"{namespace(pod)}/{pod.metadata.name or ''}"
            running = self._groups[key] = _RunningGroup(name, group)
        if uid not in running.deadlines:
            running.fix_deadline(now_seconds)
        elif running.deadlines[uid] == deadline_seconds:
            return
        running.set(uid, deadline_seconds)
        running.pods.add(uid)
        self._key_of[uid] = key
        owner = controller_of(pod)
        if owner is not None:
            running.controllers[owner.uid or ""] = owner
        self._schedule(key, running)

    def remove(self, uid: str, now_seconds: float) -> None:
        """A pod has ended, is being deleted or is gone."""
        self._reported.discard(uid)
        key = self._key_of.pop(uid, None)
        if key is None:
            return
        running = self._groups[key]
        running.fix_deadline(now_seconds)
        running.remove(uid)
        deadline = running.deadline()
        if not running.deadlines and (deadline is None or deadline > now_seconds):
            # All pods ended before the deadline: there is nothing to clean up.
            del self._groups[key]
            return
        self._schedule(key, running)

    def next_seconds(self) -> float | None:
        """The next deadline, None if no group has one."""
        while self._due:
            due, key = self._due[0]
            running = self._groups.get(key)
            if running is not None and running.deadline() == due:
                return due
            heappop(self._due)
        return None

    def take(self, now_seconds: float) -> list[OverdueGroup]:
        """The groups whose deadline has passed; each is reported once."""
        found: list[OverdueGroup] = []
        while (due := self.next_seconds()) is not None and due <= now_seconds:
            key = heappop(self._due)[1]
            running = self._groups.pop(key)
            for uid in running.deadlines:
                del self._key_of[uid]
                self._reported.add(uid)
            found.append(
                OverdueGroup(
                    running.name,
                    running.group,
                    due,
                    frozenset(running.pods),
                    tuple(running.controllers.values()),
                )
            )
        return found

    def any_reported(self, uids: Collection[str]) -> bool:
        """Whether one of these pods was reported and still runs."""
        return not self._reported.isdisjoint(uids)

    def _schedule(self, key: str, running: _RunningGroup) -> None:
        deadline = running.deadline()
        if deadline is not None:
            heappush(self._due, (deadline, key))
            if len(self._due) > MIN_STALE_ENTRIES + 2 * len(self._groups):
                self._due = [
                    (due, each)
                    for each, one in self._groups.items()
                    if (due := one.deadline()) is not None
                ]
                heapify(self._due)
            self.changed.set()


def controller_of(item: objects.Object) -> OwnerReference | None:
    """The owner reference of the controller, which recreates the object when it is deleted."""
    return next((ref for ref in item.metadata.owner_references or () if ref.controller), None)
