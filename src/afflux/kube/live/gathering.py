"""Pods come and go one by one; here they are groups that the cycle hears about.

A change of one pod looks at its own group again and at no other. What the cycle was told is
remembered, so that it hears only of differences. A group's place in the queue is when it first
became ready: that is kept for as long as one of its pods is there, through retries and changes.
"""

from collections.abc import Iterable
from dataclasses import replace

from afflux.cycle.events import Event, GroupReady, GroupWithdrawn
from afflux.kube.grouping import Member, PodGroups, Waiting, claimed_group, groups
from afflux.model.group import Group

# Creation times are whole seconds; within one, groups keep the order in which they became ready.
_TIE_SECONDS = 1e-6


class Gathering:
    """Pending and running pods by the group they name; a pod that names none is its own."""

    def __init__(self) -> None:
        self.pod_groups = PodGroups({}, {})
        # The pending pods that the cycle may not consider, by uid, with the reason; and those of
        # them that were looked at since somebody last asked.
        self.held_back: dict[str, Waiting] = {}
        self._newly_held: dict[str, None] = {}
        self._key_of: dict[str, str] = {}
        self._members: dict[str, dict[str, Member]] = {}
        self._told: dict[str, dict[str, Group]] = {}
        self._pods_ready: set[str] = set()
        self._first_ready: dict[str, float] = {}
        self._restored: dict[str, float] = {}
        self._touched: dict[str, None] = {}
        self._became_ready = 0

    def restore(self, uids: Iterable[str], ready_seconds: float) -> None:
        """The group of these pods became ready then, before this process was there."""
        for uid in uids:
            self._restored[uid] = ready_seconds

    def set(self, member: Member) -> None:
        """A pod is there, or what is known of it has changed."""
        uid = member.task.id
        group = claimed_group(member.pod)
        key = f"group {group}" if group else f"pod {uid}"
        if self._key_of.get(uid, key) != key:
            self.remove(uid)
        known = self._members.setdefault(key, {})
        if uid in known and _same(known[uid], member):
            return
        known[uid] = member
        self._key_of[uid] = key
        self._touched[key] = None

    def remove(self, uid: str) -> None:
        """A pod is gone, or not ours any more."""
        key = self._key_of.pop(uid, None)
        if key is None:
            return
        del self._members[key][uid]
        self.held_back.pop(uid, None)
        self._restored.pop(uid, None)
        self._touched[key] = None

    def touch(self, group: str) -> None:
        """Something about this group other than its pods has changed."""
        if f"group {group}" in self._members:
            self._touched[f"group {group}"] = None

    def take_held_back(self) -> list[Waiting]:
        """Who was found to be held back since the last time, with the reason."""
        held = [self.held_back[uid] for uid in self._newly_held if uid in self.held_back]
        self._newly_held.clear()
        return held

    def drain(self) -> list[Event]:
        """What the cycle has to hear: first who left, as a name may have gone to somebody else."""
        withdrawn: list[Event] = []
        ready: list[Event] = []
        while self._touched:
            key = next(iter(self._touched))
            del self._touched[key]
            before, now = self._look_again(key)
            withdrawn += [GroupWithdrawn(name) for name in before if name not in now]
            ready += [GroupReady(group) for name, group in now.items() if before.get(name) != group]
        return withdrawn + ready

    def _look_again(self, key: str) -> tuple[dict[str, Group], dict[str, Group]]:
        """What the cycle was told about these pods, and what is true now."""
        members = self._members.get(key, {})
        ready, waiting = groups(members.values(), self.pod_groups)
        for uid in members:
            self.held_back.pop(uid, None)
        for held in waiting:
            self.held_back[held[0].id] = held
            self._newly_held[held[0].id] = None
        before = self._told.pop(key, {})
        now = {group.name: group for group in (self._in_place(key, group) for group in ready)}
        self._pods_ready -= {name for name, group in before.items() if _named_after_pod(group)}
        for name, group in now.items():
            if _named_after_pod(group):
                self._pods_ready.add(name)
                if name not in before:
                    self.touch(name)
        if now:
            self._told[key] = now
        if not members:
            self._members.pop(key, None)
            self._first_ready.pop(key, None)
        return before, now

    def _in_place(self, key: str, group: Group) -> Group:
        if key not in self._first_ready:
            known = [self._restored[uid] for uid in self._members[key] if uid in self._restored]
            self._became_ready += 1
            fresh = group.ready_seconds + self._became_ready * _TIE_SECONDS
            self._first_ready[key] = min(known, default=fresh)
        # A pod and a group may have the same name; the queue knows both by it.
        clash = not _named_after_pod(group) and group.name in self._pods_ready
        name = f"{group.name} (group)" if clash else group.name
        begun = not _named_after_pod(group) and self._has_begun(key)
        return replace(group, name=name, ready_seconds=self._first_ready[key], begun=begun)

    def _has_begun(self, key: str) -> bool:
        """Whether some of the group run already, so that the rest has to follow."""
        return any(member.running for member in self._members[key].values())


def _named_after_pod(group: Group) -> bool:
    return len(group.tasks) == 1 and group.name == group.tasks[0].name


def _same(before: Member, now: Member) -> bool:
    """Whether nothing has changed that a group could notice."""
    return (
        before.task == now.task
        and before.running == now.running
        and before.priority == now.priority
        and before.pod.metadata.labels == now.pod.metadata.labels
        and before.pod.spec.scheduling_group == now.pod.spec.scheduling_group
        and before.pod.spec.active_deadline_seconds == now.pod.spec.active_deadline_seconds
    )
