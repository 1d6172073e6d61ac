"""Pods come and go one by one; here they are groups that the cycle hears about.

A change of one pod looks at its own group again and at no other. What the cycle was told is
remembered, so that it hears only of differences. A group's place in the queue is when it first
became ready: that is kept for as long as one of its pods is there, through retries and changes.
When none is left the group is finished, and whoever uses its name next is another group.
"""

import logging
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from heapq import heappop, heappush

from afflux.cycle.events import Event, GroupReady, GroupWithdrawn
from afflux.kube.grouping import Member, PodGroups, Shortage, claimed_group, groups
from afflux.kube.lasting import EXPECTED
from afflux.kube.live.halves import Half, Halves
from afflux.model.group import Group
from afflux.queue.quorum import ONE_QUEUE, Gathered, Held
from afflux.queue.rules import QueueRules

# Creation times are whole seconds; within one, groups keep the order in which they became ready.
_TIE_SECONDS = 1e-6

_log = logging.getLogger(__name__)


class Gathering:
    """Pending and running pods by the group they name; a pod that names none is its own.

    `halves` are told which groups are half-bound, if anybody wants to know.
    """

    def __init__(
        self,
        rules: Mapping[str, QueueRules] = ONE_QUEUE,
        shortage: Shortage | None = None,
        halves: Halves | None = None,
    ) -> None:
        self.pod_groups = PodGroups({}, {})
        # The pending pods that the cycle may not consider, by uid, with the reason; those of them
        # who will not be unless somebody changes something; and those who were looked at since
        # somebody last asked.
        self.held_back: dict[str, Held] = {}
        self.refused: set[str] = set()
        self._newly_held: dict[str, None] = {}
        self._rules = rules
        self._shortage = shortage
        self._halves = halves
        self._key_of: dict[str, str] = {}
        self._members: dict[str, dict[str, Member]] = {}
        self._told: dict[str, dict[str, Group]] = {}
        self._by_name: dict[str, Group] = {}
        self._pods_ready: set[str] = set()
        self._first_ready: dict[str, float] = {}
        # Of those who start on their own, by uid.
        self._places: dict[str, float] = {}
        # How many are bound, and were at once. What was only assumed may come to nothing.
        self._bound: dict[str, set[str]] = {}
        self._most_bound: dict[str, int] = {}
        # How many the groups need whose members are all there; and whose halves are to be counted.
        self._whole: dict[str, int] = {}
        self._to_count: dict[str, None] = {}
        # Groups of which some were placed, as one of several, by the cycle; before the first look,
        # all of which some run. To name a group while one runs does not make its rest the first.
        self._placed: set[str] = set()
        self._has_looked = False
        self._restored: dict[str, float] = {}
        self._touched: dict[str, None] = {}
        # Of whom the cycle has to hear even if nothing about them is new.
        self._again: set[str] = set()
        self._became_ready = 0
        # How many groups wait in each queue; and who found theirs full, in a line by when they
        # became ready. A line may name some who are not in it any more.
        self._waiting_in: Counter[str] = Counter()
        # Of those the ones that can never start as things are, with their queue: they take no room.
        self._passed_over: dict[str, str] = {}
        self._passed_in: Counter[str] = Counter()
        self._turned_away: dict[str, str] = {}
        self._lines: dict[str, list[tuple[float, str]]] = {}

    def restore(self, uids: Iterable[str], ready_seconds: float, *, alone: bool = False) -> None:
        """The group of these pods became ready then, before this process was there.

        With `alone` each had that place by itself. Who was only named in a group has none of its
        own: it may have come long after the others.
        """
        for uid in uids:
            self._restored[uid] = ready_seconds
            if alone:
                self._places[uid] = ready_seconds

    def restore_begun(self, group: str, bound: int) -> None:
        """Of this group, by namespace/name, so many were bound, before this process was there."""
        self._most_bound[f"group {group}"] = bound

    def set(self, member: Member) -> None:
        """A pod is there, or what is known of it has changed."""
        uid = member.task.id
        group = claimed_group(member.pod)
        key = f"group {group}" if group else f"pod {uid}"
        if self._key_of.get(uid, key) != key:
            self.remove(uid)
        if group and member.pod.spec.node_name:
            bound = self._bound.setdefault(key, set())
            bound.add(uid)
            self._most_bound[key] = max(len(bound), self._most_bound.get(key, 0))
            self._to_count[key] = None
        known = self._members.setdefault(key, {})
        if uid in known and _same(known[uid], member):
            return
        if member.running and group and self._was_placed(key, known.get(uid)):
            self._placed.add(key)
        known[uid] = member
        self._key_of[uid] = key
        self._touched[key] = None

    def remove(self, uid: str) -> None:
        """A pod is gone, or not ours any more."""
        key = self._key_of.pop(uid, None)
        if key is None:
            return
        members = self._members[key]
        del members[uid]
        self._bound.get(key, set[str]()).discard(uid)
        if not members:
            # Finished. Whoever comes next under this name, even at once, is another group.
            self._first_ready.pop(key, None)
            self._bound.pop(key, None)
            self._most_bound.pop(key, None)
            self._placed.discard(key)
        self._release(uid)
        self._restored.pop(uid, None)
        self._places.pop(uid, None)
        self._touched[key] = None

    def touch(self, group: str) -> None:
        """Something about this group other than its pods has changed."""
        if f"group {group}" in self._members:
            self._touched[f"group {group}"] = None

    def tell_again(self, uid: str) -> None:
        """The cycle does not know any more that the group of this pod waits, if it does."""
        key = self._key_of.get(uid)
        if key is not None:
            self._again.add(key)
            self._touched[key] = None

    def waiting(self, name: str) -> Group | None:
        """The group of this name, if the cycle was told that it waits."""
        return self._by_name.get(name)

    def pass_over(self, names: AbstractSet[str]) -> bool:
        """The groups of these names can never start as things are: they keep their places in the
        queue but take nobody else's. Whether somebody may join because of that."""
        if all(queue.most_groups is None for queue in self._rules.values()):
            return False
        self._passed_over = {}
        for name in names:
            group = self._by_name.get(name)
            key = None if group is None else self._key_of.get(group.tasks[0].id)
            if group is not None and key is not None and self._told[key].keys() <= names:
                self._passed_over[key] = group.queue
        self._passed_in = Counter(self._passed_over.values())
        return any(self._line(name) and self._has_room(self._rules[name]) for name in self._lines)

    def take_held_back(self) -> list[Held]:
        """Who was found to be held back since the last time, with the reason."""
        held = [self.held_back[uid] for uid in self._newly_held if uid in self.held_back]
        self._newly_held.clear()
        return held

    def drain(self, now_seconds: float = 0.0) -> list[Event]:
        """What the cycle has to hear: first who left, as a name may have gone to somebody else."""
        withdrawn: list[Event] = []
        ready: list[Event] = []
        while self._touched or self._invite():
            touched, self._touched = self._touched, {}
            for key in touched:
                before, now = self._look_again(key)
                withdrawn += [GroupWithdrawn(name) for name in before if name not in now]
                again = key in self._again
                ready += [
                    GroupReady(group)
                    for name, group in now.items()
                    if again or before.get(name) != group
                ]
        self._again.clear()
        self._count_halves(now_seconds)
        self._has_looked = True
        return withdrawn + ready

    def _count_halves(self, now_seconds: float) -> None:
        to_count, self._to_count = self._to_count, {}
        if self._halves is None:
            return
        for key in to_count:
            group, bound = key.removeprefix("group "), self._bound.get(key, set[str]())
            size = self._whole.get(key, 0)
            # Who has been whole once is not half: those who come later start on their own.
            if bound and self._most_bound.get(key, 0) < size:
                members = self._members[key].items()
                under_way = any(each.running and uid not in bound for uid, each in members)
                self._halves.set(Half(group, size, frozenset(bound), under_way), now_seconds)
            else:
                self._halves.remove(group)

    def _look_again(self, key: str) -> tuple[dict[str, Group], dict[str, Group]]:
        """What the cycle was told about these pods, and what is true now.

        A defect keeps only these waiting.
        """
        members = list(self._members.get(key, {}).values())
        most_bound = self._most_bound.get(key, 0)
        try:
            return self._settle(
                key, groups(members, self.pod_groups, self._rules, self._shortage, most_bound)
            )
        except Exception as error:
            _log.exception("%s could not be looked at", key)
            why = f"an error of the scheduler ({type(error).__name__}), of which its log says more"
            waiting = [(each.task, why) for each in members if not each.running]
            return self._settle(key, Gathered(waiting=waiting))

    def _settle(self, key: str, gathered: Gathered) -> tuple[dict[str, Group], dict[str, Group]]:
        """Make it so: who of these pods may be placed, and why not the others."""
        members = self._members.get(key, {})
        self._whole.pop(key, None)
        for size in gathered.whole.values():
            self._whole[key] = size
        self._to_count[key] = None
        for uid in members:
            self._release(uid)
        for held in gathered.waiting:
            self._hold(held)
        for held in gathered.refused:
            self._hold(held, refused=True)
        ready = self._admitted(key, gathered.ready)
        before = self._told.get(key, {})
        self._pods_ready -= {name for name, group in before.items() if _named_after_pod(group)}
        for group in ready:
            if _named_after_pod(group):
                self._pods_ready.add(group.name)
                if group.name not in before:
                    self.touch(group.name)
        heirs = _heirs(ready, sum(gathered.lacking.values()))
        now = {group.name: group for group in (self._in_place(key, g, heirs) for g in ready)}
        self._remember(key, before, now)
        if not members:
            self._members.pop(key, None)
        return before, now

    def _admitted(self, key: str, ready: list[Group]) -> list[Group]:
        """Those for whom their queue has room; the rest of a group that has started always has."""
        self._turned_away.pop(key, None)
        if not ready:
            return ready
        if key not in self._first_ready:
            self._first_ready[key] = self._ready_seconds(key, ready)
        queue = self._rules[ready[0].queue]
        known = key in self._told or self._has_begun(key)
        if known or queue.most_groups is None:
            return ready
        line = self._line(queue.name)
        is_first = not line or (self._first_ready[key], key) <= line[0]
        if is_first and self._has_room(queue):
            return ready
        self._turned_away[key] = queue.name
        heappush(line, (self._first_ready[key], key))
        why = f"queue {queue.name} is full: {queue.most_groups} groups wait in it"
        for group in ready:
            for task in group.tasks:
                self._hold((task, why), refused=True)
        return []

    def _invite(self) -> bool:
        """Whether somebody who found a queue full may look again: who became ready first."""
        for name in self._lines:
            line = self._line(name)
            if line and self._has_room(self._rules[name]):
                self._touched[line[0][1]] = None
                return True
        return False

    def _has_room(self, queue: QueueRules) -> bool:
        waiting = self._waiting_in[queue.name] - self._passed_in[queue.name]
        return queue.most_groups is None or waiting < queue.most_groups

    def _line(self, queue: str) -> list[tuple[float, str]]:
        """Who waits for room in this queue, the first of them at its head."""
        line = self._lines.setdefault(queue, [])
        while line and not self._is_in_line(queue, *line[0]):
            heappop(line)
        return line

    def _is_in_line(self, queue: str, ready_seconds: float, key: str) -> bool:
        return self._turned_away.get(key) == queue and self._first_ready.get(key) == ready_seconds

    def _was_placed(self, key: str, before: Member | None) -> bool:
        """Whether a pod that runs does so because the cycle has placed it with others."""
        if before is None:
            return not self._has_looked
        told = self._told.get(key, {}).values()
        return not before.running and any(len(group.tasks) > 1 for group in told)

    def _has_begun(self, key: str) -> bool:
        """Whether some of the group were placed and run, so that the rest has to follow."""
        members = self._members[key].values()
        return key in self._placed and any(member.running for member in members)

    def _ready_seconds(self, key: str, ready: list[Group]) -> float:
        known = [self._restored[uid] for uid in self._members[key] if uid in self._restored]
        if known:
            return min(known)
        self._became_ready += 1
        newest = max(group.ready_seconds for group in ready)
        return newest + self._became_ready * _TIE_SECONDS

    def _in_place(self, key: str, group: Group, heirs: Collection[str]) -> Group:
        # A pod and a group may have the same name; the queue knows both by it.
        clash = not _named_after_pod(group) and group.name in self._pods_ready
        name = f"{group.name} (group)" if clash else group.name
        begun = not _named_after_pod(group) and self._has_begun(key)
        place = self._first_ready[key]
        if key.startswith("group ") and _named_after_pod(group):
            if group.name not in heirs:
                place = max(place, group.ready_seconds)
            # Who once had a place keeps it, however many others have come since.
            uid = group.tasks[0].id
            place = self._places[uid] = min(place, self._places.get(uid, place))
        return replace(group, name=name, ready_seconds=place, begun=begun)

    def _remember(self, key: str, before: dict[str, Group], now: dict[str, Group]) -> None:
        for name, group in before.items():
            # Unless another key has the name by now.
            if self._by_name.get(name) is group:
                del self._by_name[name]
        self._by_name.update(now)
        if (queue := self._passed_over.pop(key, None)) is not None:
            # It has changed; whether it can start now, somebody will say.
            self._passed_in[queue] -= 1
        self._waiting_in.subtract({group.queue for group in before.values()})
        self._waiting_in.update({group.queue for group in now.values()})
        if now:
            self._told[key] = now
        else:
            self._told.pop(key, None)

    def _hold(self, held: Held, *, refused: bool = False) -> None:
        uid = held[0].id
        self.held_back[uid] = held
        self._newly_held[uid] = None
        if refused:
            self.refused.add(uid)

    def _release(self, uid: str) -> None:
        self.held_back.pop(uid, None)
        self.refused.discard(uid)


def _heirs(ready: Sequence[Group], lacking: int) -> frozenset[str]:
    """Who of those that start on their own goes where the group was in the queue: as many as it
    lacks, the oldest of them. More than it needs wait from when they came, or one idle pod could
    keep a place for thousands."""
    late = [group for group in ready if _named_after_pod(group)]
    late.sort(key=lambda group: (group.ready_seconds, group.name))
    return frozenset(group.name for group in late[: max(0, lacking - (len(ready) - len(late)))])


def _named_after_pod(group: Group) -> bool:
    return len(group.tasks) == 1 and group.name == group.tasks[0].name


def _same(before: Member, now: Member) -> bool:
    """Whether nothing has changed that a group could notice."""
    return (
        before.task == now.task
        and before.running == now.running
        and before.priority == now.priority
        and before.pod.metadata.labels == now.pod.metadata.labels
        and _expected(before) == _expected(now)
        and before.pod.spec.scheduling_group == now.pod.spec.scheduling_group
        and before.pod.spec.active_deadline_seconds == now.pod.spec.active_deadline_seconds
    )


def _expected(member: Member) -> str | None:
    return (member.pod.metadata.annotations or {}).get(EXPECTED)
