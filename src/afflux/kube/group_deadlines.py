"""The deadlines of running groups: an index over the register, which says what group a pod is in.

The deadline of a group is the latest deadline of its running members; if one member has none, the
group has none. A controller replaces pods that the kubelet has stopped at their deadline, and each
replacement has a deadline of its own. So once the first member's deadline has passed, the group's
deadline is fixed and later members do not extend it.

Labels are only claims: any author of pods may name any group. So an overdue group are those of its
pods whose own deadline has passed, and the pods that claim the same controller and terms as one of
them. The other pods of the group are watched further.

Pure: no clock, no network. live/deadline_cleanup.py acts on overdue groups.
"""

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from afflux.groups.group_id import GroupId, GroupKey
from afflux.kube import objects
from afflux.kube.objects import OwnerReference
from afflux.kube.pod_claims import PodClaims, pod_claims

# A heap is rebuilt when it has this many stale entries, and more than half of it is stale.
MIN_STALE_ENTRIES = 1000


@dataclass(frozen=True, slots=True)
class OverdueGroup:
    """A group whose deadline passed at `at_seconds`: the uids of its pods, without those that ended
    before their own deadline, and the claims of those whose own deadline has passed, by uid."""

    id: GroupId
    at_seconds: float
    pods: frozenset[str]
    claims: Mapping[str, PodClaims]

    @property
    def controllers(self) -> set[OwnerReference]:
        """The controllers that the overdue pods claim. Two different claims may have one uid."""
        refs = (each.controller for each in self.claims.values())
        return {ref for ref in refs if ref is not None}


@dataclass(slots=True)
class _RunningGroup:
    """A group, from when its first pod runs until no pod of it runs."""

    id: GroupId
    # The deadlines of the running pods, by uid.
    deadlines: dict[str, float | None] = field(default_factory=dict[str, "float | None"])
    # The claims of the running pods, and of those that have ended after their own deadline.
    claims: dict[str, PodClaims] = field(default_factory=dict[str, PodClaims])
    overran: dict[str, PodClaims] = field(default_factory=dict[str, PodClaims])
    fixed_deadline: float | None = None
    # How many of `deadlines` are None; heaps of the others, with the latest (negated) and the
    # earliest first. An entry is valid if it is the pod's current deadline.
    unbounded: int = 0
    latest: list[tuple[float, str]] = field(default_factory=list[tuple[float, str]])
    earliest: list[tuple[float, str]] = field(default_factory=list[tuple[float, str]])

    def set(self, uid: str, deadline: float | None, claims: PodClaims) -> None:
        self.remove(uid)
        self.claims[uid] = claims
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
        self.claims.pop(uid, None)
        if uid in self.deadlines and self.deadlines.pop(uid) is None:
            self.unbounded -= 1

    def end(self, uid: str, now_seconds: float) -> None:
        """A running pod has ended."""
        deadline = self.deadlines[uid]
        if deadline is not None and deadline <= now_seconds:
            self.overran[uid] = self.claims[uid]
        self.remove(uid)

    def overdue(self, at_seconds: float) -> OverdueGroup:
        passed = {
            uid: self.claims[uid]
            for uid, deadline in self.deadlines.items()
            if deadline is not None and deadline <= at_seconds
        }
        claims = self.overran | passed
        confirmable = {each for each in claims.values() if each.controller is not None}
        others = {
            uid
            for uid, each in self.claims.items()
            if uid not in passed and each not in confirmable
        }
        pods = (self.deadlines.keys() | self.overran.keys()) - others
        return OverdueGroup(self.id, at_seconds, frozenset(pods), claims)

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
        self._groups: dict[GroupKey, _RunningGroup] = {}
        self._key_of: dict[str, GroupKey] = {}
        # The uids of the pods of reported groups that still run.
        self._reported: set[str] = set()
        # A heap by time. An entry is valid if it is the current deadline of its group. The heap is
        # rebuilt when most entries are stale: pods that could run for years may end today.
        self._due: list[tuple[float, GroupKey]] = []

    def set(
        self,
        group: GroupId,
        pod: objects.Pod,
        deadline_seconds: float | None,
        now_seconds: float,
    ) -> None:
        """One of our pods runs, as a member of this group; its deadline is None if it has none or
        has not started yet."""
        uid, key = pod.metadata.uid or "", group.key
        if self._key_of.get(uid, key) != key:
            self.remove(uid, now_seconds)
        if uid in self._reported or (group.alone and deadline_seconds is None):
            return
        running = self._groups.get(key)
        if running is None:
            running = self._groups[key] = _RunningGroup(group)
        claims = pod_claims(pod)
        if uid not in running.deadlines:
            running.fix_deadline(now_seconds)
        elif running.deadlines[uid] == deadline_seconds:
            running.claims[uid] = claims
            return
        running.set(uid, deadline_seconds, claims)
        self._key_of[uid] = key
        self._schedule(key, running)

    def remove(self, uid: str, now_seconds: float) -> None:
        """A pod has ended, is being deleted or is gone."""
        self._reported.discard(uid)
        key = self._key_of.pop(uid, None)
        if key is None:
            return
        running = self._groups[key]
        running.fix_deadline(now_seconds)
        running.end(uid, now_seconds)
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
            overdue = running.overdue(due)
            found.append(overdue)
            rest = _RunningGroup(running.id)
            for uid, deadline in running.deadlines.items():
                if uid in overdue.pods:
                    del self._key_of[uid]
                    self._reported.add(uid)
                else:
                    rest.set(uid, deadline, running.claims[uid])
            if rest.deadlines:
                self._groups[key] = rest
                self._schedule(key, rest)
        return found

    def any_reported(self, uids: Collection[str]) -> bool:
        """Whether one of these pods was reported and still runs."""
        return not self._reported.isdisjoint(uids)

    def _schedule(self, key: GroupKey, running: _RunningGroup) -> None:
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
