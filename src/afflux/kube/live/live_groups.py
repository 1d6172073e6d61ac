"""Groups of pods, kept up to date pod by pod; reports to the cycle which groups are ready.

A change of a pod evaluates only its own group again. The groups that were reported are remembered,
so that only differences are reported. The position of a group in the queue is when it first became
ready. The group keeps it through retries and changes, as long as one of its pods exists. When none
is left the group is finished, and the next group of the same name is another group.
"""

import logging
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from heapq import heappop, heappush

from afflux.cycle.events import Event, GroupReady, GroupWithdrawn
from afflux.kube.group_claims import Member, PodGroups, PodShortage, claimed_group, groups
from afflux.kube.live.half_bound import HalfBoundGroup, HalfBoundGroups
from afflux.kube.run_time import EXPECTED_SECONDS_KEY
from afflux.model.group import Group
from afflux.queue.quorum import ONE_QUEUE, GroupingResult, HeldBackTask
from afflux.queue.rules import QueueRules

# Creation times are whole seconds; this keeps the order in which groups of one second were ready.
_TIE_SECONDS = 1e-6

_log = logging.getLogger(__name__)


class LiveGroups:
    """Pending and running pods by the group they name; a pod that names none is a group of one.

    If `half_bound` is given, the half-bound groups are reported to it.
    """

    def __init__(
        self,
        rules: Mapping[str, QueueRules] = ONE_QUEUE,
        shortage: PodShortage | None = None,
        half_bound: HalfBoundGroups | None = None,
    ) -> None:
        self.pod_groups = PodGroups({}, {})
        # The pending pods that the cycle may not consider, by uid, with the reason; those of them
        # that need a change by the user; and those evaluated since the last `take_held_back`.
        self.held_back: dict[str, HeldBackTask] = {}
        self.refused: set[str] = set()
        self._newly_held_back: dict[str, None] = {}
        self._rules = rules
        self._shortage = shortage
        self._half_bound = half_bound
        self._key_of: dict[str, str] = {}
        self._members: dict[str, dict[str, Member]] = {}
        self._reported: dict[str, dict[str, Group]] = {}
        self._by_name: dict[str, Group] = {}
        self._ready_pods: set[str] = set()
        self._first_ready: dict[str, float] = {}
        # Of the pods that are scheduled one by one, by uid.
        self._positions: dict[str, float] = {}
        # The bound pods of each group, and the largest number at any time. Assumed pods do not
        # count, as their binds may fail.
        self._bound: dict[str, set[str]] = {}
        self._max_bound: dict[str, int] = {}
        # The sizes of the groups of which all members exist, and the groups to check for being
        # half-bound.
        self._complete_sizes: dict[str, int] = {}
        self._half_bound_changes: dict[str, None] = {}
        # The groups that have begun: the cycle placed some members, together with others. Before
        # the first pass, all groups with running members. Adding a running pod to a group does not
        # make the group begun.
        self._placed: set[str] = set()
        self._first_pass_done = False
        self._restored_positions: dict[str, float] = {}
        self._changed: dict[str, None] = {}
        # To be reported to the cycle even if nothing has changed.
        self._report_again: set[str] = set()
        self._ready_count = 0
        # How many groups wait in each queue.
        self._waiting_in: Counter[str] = Counter()
        # Those of them that can never start on the cluster as it is, with their queue: they do not
        # count towards `max_groups`.
        self._unsatisfiable: dict[str, str] = {}
        self._unsatisfiable_in: Counter[str] = Counter()
        # The groups that found their queue full, with the queue, and per queue in a heap by when
        # they became ready. A heap may hold groups that do not wait for room any more.
        self._without_room: dict[str, str] = {}
        self._admission_heaps: dict[str, list[tuple[float, str]]] = {}

    def restore_positions(
        self, uids: Iterable[str], ready_seconds: float, *, single: bool = False
    ) -> None:
        """The group of these pods became ready at that time, before this process started.

        With `single` the time is that of each pod itself. A member of a group has no time of its
        own: it may have been created long after the others.
        """
        for uid in uids:
            self._restored_positions[uid] = ready_seconds
            if single:
                self._positions[uid] = ready_seconds

    def restore_bound_count(self, group: str, bound: int) -> None:
        """So many pods of this group (namespace/name) were bound before this process started."""
        self._max_bound[f"group {group}"] = bound

    def set(self, member: Member) -> None:
        uid = member.task.id
        group = claimed_group(member.pod)
        key = f"group {group}" if group else f"pod {uid}"
        if self._key_of.get(uid, key) != key:
            self.remove(uid)
        if group and member.pod.spec.node_name:
            bound = self._bound.setdefault(key, set())
            bound.add(uid)
            self._max_bound[key] = max(len(bound), self._max_bound.get(key, 0))
            self._half_bound_changes[key] = None
        known = self._members.setdefault(key, {})
        if uid in known and _is_unchanged(known[uid], member):
            return
        if member.running and group and self._was_placed(key, known.get(uid)):
            self._placed.add(key)
        known[uid] = member
        self._key_of[uid] = key
        self._changed[key] = None

    def remove(self, uid: str) -> None:
        """A pod is gone, or belongs to another scheduler now."""
        key = self._key_of.pop(uid, None)
        if key is None:
            return
        members = self._members[key]
        del members[uid]
        self._bound.get(key, set[str]()).discard(uid)
        if not members:
            # The group is finished. Later pods of the same name are another group.
            self._first_ready.pop(key, None)
            self._bound.pop(key, None)
            self._max_bound.pop(key, None)
            self._placed.discard(key)
        self._clear_held_back(uid)
        self._restored_positions.pop(uid, None)
        self._positions.pop(uid, None)
        self._changed[key] = None

    def mark_changed(self, group: str) -> None:
        """Something about this group other than its pods has changed: evaluate it again."""
        if f"group {group}" in self._members:
            self._changed[f"group {group}"] = None

    def report_again(self, uid: str) -> None:
        """Report the group of this pod again, as the cycle does not know it any more."""
        key = self._key_of.get(uid)
        if key is not None:
            self._report_again.add(key)
            self._changed[key] = None

    def waiting_group(self, name: str) -> Group | None:
        """The group of this name, if it was reported to the cycle as waiting."""
        return self._by_name.get(name)

    def set_unsatisfiable(self, names: AbstractSet[str]) -> bool:
        """The groups of these names can never start on the cluster as it is: they keep their
        positions but do not count towards `max_groups`. Returns whether a group may now enter a
        queue that was full."""
        if all(queue.max_groups is None for queue in self._rules.values()):
            return False
        self._unsatisfiable = {}
        for name in names:
            group = self._by_name.get(name)
            key = None if group is None else self._key_of.get(group.tasks[0].id)
            if group is not None and key is not None and self._reported[key].keys() <= names:
                self._unsatisfiable[key] = group.queue
        self._unsatisfiable_in = Counter(self._unsatisfiable.values())
        return any(
            self._admission_heap(name) and self._has_room(self._rules[name])
            for name in self._admission_heaps
        )

    def take_held_back(self) -> list[HeldBackTask]:
        """The pods found to be held back since the last call, with the reasons."""
        held = [self.held_back[uid] for uid in self._newly_held_back if uid in self.held_back]
        self._newly_held_back.clear()
        return held

    def take_events(self, now_seconds: float = 0.0) -> list[Event]:
        """The changes since the last call: withdrawn groups first, as their names may be reused."""
        withdrawn: list[Event] = []
        ready: list[Event] = []
        while self._changed or self._admit_next():
            changed, self._changed = self._changed, {}
            for key in changed:
                before, now = self._evaluate(key)
                withdrawn += [GroupWithdrawn(name) for name in before if name not in now]
                report_again = key in self._report_again
                ready += [
                    GroupReady(group)
                    for name, group in now.items()
                    if report_again or before.get(name) != group
                ]
        self._report_again.clear()
        self._update_half_bound(now_seconds)
        self._first_pass_done = True
        return withdrawn + ready

    def _update_half_bound(self, now_seconds: float) -> None:
        to_check, self._half_bound_changes = self._half_bound_changes, {}
        if self._half_bound is None:
            return
        for key in to_check:
            group, bound = key.removeprefix("group "), self._bound.get(key, set[str]())
            size = self._complete_sizes.get(key, 0)
            # A group that was fully bound once is never half-bound again; later members are
            # scheduled one by one.
            if bound and self._max_bound.get(key, 0) < size:
                members = self._members[key].items()
                bind_in_progress = any(each.running and uid not in bound for uid, each in members)
                half_bound = HalfBoundGroup(group, size, frozenset(bound), bind_in_progress)
                self._half_bound.set(half_bound, now_seconds)
            else:
                self._half_bound.remove(group)

    def _evaluate(self, key: str) -> tuple[dict[str, Group], dict[str, Group]]:
        """The groups of these pods as they were reported, and as they are now. An exception keeps
        only these pods waiting."""
        members = list(self._members.get(key, {}).values())
        max_bound = self._max_bound.get(key, 0)
        try:
            found = groups(members, self.pod_groups, self._rules, self._shortage, max_bound)
            return self._update(key, found)
        except Exception as error:
            _log.exception("%s could not be evaluated", key)
            why = f"an error of the scheduler ({type(error).__name__}), see its log"
            waiting = [(each.task, why) for each in members if not each.running]
            return self._update(key, GroupingResult(waiting=waiting))

    def _update(self, key: str, found: GroupingResult) -> tuple[dict[str, Group], dict[str, Group]]:
        """Store which of these pods may be placed, and why the others may not."""
        members = self._members.get(key, {})
        self._complete_sizes.pop(key, None)
        for size in found.complete_sizes.values():
            self._complete_sizes[key] = size
        self._half_bound_changes[key] = None
        for uid in members:
            self._clear_held_back(uid)
        for held in found.waiting:
            self._hold_back(held)
        for held in found.refused:
            self._hold_back(held, refused=True)
        ready = self._admitted(key, found.ready)
        before = self._reported.get(key, {})
        self._ready_pods -= {name for name, group in before.items() if _is_single_pod(group)}
        for group in ready:
            if _is_single_pod(group):
                self._ready_pods.add(group.name)
                if group.name not in before:
                    self.mark_changed(group.name)
        inheriting = _inheriting(ready, sum(found.missing_members.values()))
        placed = [self._with_position(key, group, inheriting) for group in ready]
        now = {group.name: group for group in placed}
        self._set_reported(key, before, now)
        if not members:
            self._members.pop(key, None)
        return before, now

    def _admitted(self, key: str, ready: list[Group]) -> list[Group]:
        """The groups for which their queue has room. Members of a group that has begun always
        have room."""
        self._without_room.pop(key, None)
        if not ready:
            return ready
        if key not in self._first_ready:
            self._first_ready[key] = self._ready_seconds(key, ready)
        queue = self._rules[ready[0].queue]
        known = key in self._reported or self._has_begun(key)
        if known or queue.max_groups is None:
            return ready
        heap = self._admission_heap(queue.name)
        is_first = not heap or (self._first_ready[key], key) <= heap[0]
        if is_first and self._has_room(queue):
            return ready
        self._without_room[key] = queue.name
        heappush(heap, (self._first_ready[key], key))
        why = f"queue {queue.name} is full: {queue.max_groups} groups wait in it"
        for group in ready:
            for task in group.tasks:
                self._hold_back((task, why), refused=True)
        return []

    def _admit_next(self) -> bool:
        """Mark a group that found its queue full for evaluation, if the queue has room now."""
        for name in self._admission_heaps:
            heap = self._admission_heap(name)
            if heap and self._has_room(self._rules[name]):
                self._changed[heap[0][1]] = None
                return True
        return False

    def _has_room(self, queue: QueueRules) -> bool:
        waiting = self._waiting_in[queue.name] - self._unsatisfiable_in[queue.name]
        return queue.max_groups is None or waiting < queue.max_groups

    def _admission_heap(self, queue: str) -> list[tuple[float, str]]:
        """The heap of the groups that wait for room in this queue, the first of them valid."""
        heap = self._admission_heaps.setdefault(queue, [])
        while heap and not self._waits_for_room(queue, *heap[0]):
            heappop(heap)
        return heap

    def _waits_for_room(self, queue: str, ready_seconds: float, key: str) -> bool:
        return self._without_room.get(key) == queue and self._first_ready.get(key) == ready_seconds

    def _was_placed(self, key: str, before: Member | None) -> bool:
        """Whether a running pod was placed by the cycle together with others."""
        if before is None:
            return not self._first_pass_done
        reported = self._reported.get(key, {}).values()
        return not before.running and any(len(group.tasks) > 1 for group in reported)

    def _has_begun(self, key: str) -> bool:
        """Whether members of the group were placed and run, so that the others have to follow."""
        members = self._members[key].values()
        return key in self._placed and any(member.running for member in members)

    def _ready_seconds(self, key: str, ready: list[Group]) -> float:
        restored = self._restored_positions
        known = [restored[uid] for uid in self._members[key] if uid in restored]
        if known:
            return min(known)
        self._ready_count += 1
        newest = max(group.ready_seconds for group in ready)
        return newest + self._ready_count * _TIE_SECONDS

    def _with_position(self, key: str, group: Group, inheriting: Collection[str]) -> Group:
        # A pod and a group may have the same name, but names in the queue are unique.
        name_taken = not _is_single_pod(group) and group.name in self._ready_pods
        name = f"{group.name} (group)" if name_taken else group.name
        begun = not _is_single_pod(group) and self._has_begun(key)
        position = self._first_ready[key]
        if key.startswith("group ") and _is_single_pod(group):
            if group.name not in inheriting:
                position = max(position, group.ready_seconds)
            # A pod keeps an earlier position that it once had.
            uid = group.tasks[0].id
            position = self._positions[uid] = min(position, self._positions.get(uid, position))
        return replace(group, name=name, ready_seconds=position, begun=begun)

    def _set_reported(self, key: str, before: dict[str, Group], now: dict[str, Group]) -> None:
        for name, group in before.items():
            # Another key may have the name by now.
            if self._by_name.get(name) is group:
                del self._by_name[name]
        self._by_name.update(now)
        if (queue := self._unsatisfiable.pop(key, None)) is not None:
            # It has changed, and may be able to start now.
            self._unsatisfiable_in[queue] -= 1
        self._waiting_in.subtract({group.queue for group in before.values()})
        self._waiting_in.update({group.queue for group in now.values()})
        if now:
            self._reported[key] = now
        else:
            self._reported.pop(key, None)

    def _hold_back(self, held: HeldBackTask, *, refused: bool = False) -> None:
        uid = held[0].id
        self.held_back[uid] = held
        self._newly_held_back[uid] = None
        if refused:
            self.refused.add(uid)

    def _clear_held_back(self, uid: str) -> None:
        self.held_back.pop(uid, None)
        self.refused.discard(uid)


def _inheriting(ready: Sequence[Group], lacking: int) -> frozenset[str]:
    """The pods scheduled one by one that get the group's position in the queue: the oldest of them,
    as many as the group lacks. The others are queued by their creation time; otherwise one idle
    pod could reserve a position for thousands."""
    late = [group for group in ready if _is_single_pod(group)]
    late.sort(key=lambda group: (group.ready_seconds, group.name))
    return frozenset(group.name for group in late[: max(0, lacking - (len(ready) - len(late)))])


def _is_single_pod(group: Group) -> bool:
    return len(group.tasks) == 1 and group.name == group.tasks[0].name


def _is_unchanged(before: Member, now: Member) -> bool:
    """Whether nothing has changed that matters for a group."""
    return (
        before.task == now.task
        and before.running == now.running
        and before.priority == now.priority
        and before.pod.metadata.labels == now.pod.metadata.labels
        and _expected_run(before) == _expected_run(now)
        and before.pod.spec.scheduling_group == now.pod.spec.scheduling_group
        and before.pod.spec.active_deadline_seconds == now.pod.spec.active_deadline_seconds
    )


def _expected_run(member: Member) -> str | None:
    return (member.pod.metadata.annotations or {}).get(EXPECTED_SECONDS_KEY)
