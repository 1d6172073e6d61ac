"""The half-bound groups, and since when each of them is half-bound.

A group is half-bound if some of its members are bound, but fewer than it needs, and the others
exist and wait. The time counts from the last bind of a member. While another bind of the group is
in progress, the group is not reported; if that bind fails, the time has not been interrupted.

Pure: no clock, no network. An adapter rolls back groups that stay half-bound.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from heapq import heappop, heappush

from afflux.groups.group import Group
from afflux.groups.group_id import GroupKey


@dataclass(frozen=True, slots=True)
class HalfBoundGroup:
    """A group that needs `size` members, of which only `bound`, by uid, are bound.

    `name` is what people see. `bind_in_progress` says that another member is being bound. With
    `is_circle` it is no group, but tasks that require each other.
    """

    key: GroupKey
    name: str
    size: int
    bound: frozenset[str]
    bind_in_progress: bool = False
    since_seconds: float = 0.0
    is_circle: bool = False


def half_bound_of(group: Group) -> HalfBoundGroup | None:
    """The group as a half-bound one; None if it is not.

    A group that was fully bound once, or may have been, is never half-bound again; later members
    are scheduled one by one.
    """
    size = group.complete_size
    in_progress = any(
        each.entry.sent_to and not each.entry.machine for each in group.members.values()
    )
    # A member that is being bound counts for `is_whole`; if its bind fails, the group has been
    # half-bound all the time.
    is_enough = group.is_whole and not in_progress
    if not group.bound or group.peak_bound >= size or is_enough or group.may_have_been_whole:
        return None
    return HalfBoundGroup(group.key, group.id.shown, size, frozenset(group.bound), in_progress)


class HalfBoundGroups:
    """The half-bound groups; each is reported once it has been half-bound for `after_seconds`."""

    def __init__(self, after_seconds: float) -> None:
        self.after_seconds = after_seconds
        # Called when `next_seconds` may have changed.
        self.on_change: Callable[[], None] = lambda: None
        self._groups: dict[str, HalfBoundGroup] = {}
        # As they were reported; a group that has changed since is reported again.
        self._reported: dict[str, HalfBoundGroup] = {}
        # A heap by time, each entry once: the binds of a group may fail very often before it is
        # due. An entry is valid if it is the current due time of its group.
        self._due: list[tuple[float, str]] = []
        self._is_scheduled: set[tuple[float, str]] = set()

    def set(self, group: HalfBoundGroup, now_seconds: float) -> None:
        before = self._groups.get(group.key)
        newly_bound = before is None or group.bound - before.bound
        since = now_seconds if newly_bound or before is None else before.since_seconds
        group = replace(group, since_seconds=since)
        if group == before:
            return
        self._groups[group.key] = group
        self._schedule(group)

    def remove(self, key: GroupKey) -> None:
        self._groups.pop(key, None)
        self._reported.pop(key, None)

    def retry(self, group: HalfBoundGroup, now_seconds: float) -> None:
        """The rollback of the group failed: if the group has not changed, its time starts again."""
        if self._groups.get(group.key) == group:
            self._reported.pop(group.key, None)
            self._groups[group.key] = replace(group, since_seconds=now_seconds)
            self._schedule(self._groups[group.key])

    def next_seconds(self) -> float | None:
        """When `take` will return the next group, None if no group is due at any time."""
        while self._due:
            due, key = self._due[0]
            group = self._groups.get(key)
            if group is not None and self._due_seconds(group) == due:
                return due
            self._pop()
        return None

    def take(self, now_seconds: float) -> list[HalfBoundGroup]:
        """The groups that have been half-bound for too long; each once, unless it changes."""
        found: list[HalfBoundGroup] = []
        while (due := self.next_seconds()) is not None and due <= now_seconds:
            group = self._groups[self._pop()]
            self._reported[group.key] = group
            found.append(group)
        return found

    def _due_seconds(self, group: HalfBoundGroup) -> float | None:
        if group.bind_in_progress or self._reported.get(group.key) == group:
            return None
        return group.since_seconds + self.after_seconds

    def _schedule(self, group: HalfBoundGroup) -> None:
        due = self._due_seconds(group)
        if due is not None and (due, group.key) not in self._is_scheduled:
            heappush(self._due, (due, group.key))
            self._is_scheduled.add((due, group.key))
            self.on_change()

    def _pop(self) -> GroupKey:
        due, key = heappop(self._due)
        self._is_scheduled.remove((due, key))
        return key
