"""Which pods and controllers belong to the groups whose deadline has passed.

Pure: no clock, no network. Looks at pods only; owner_chain.py reads the owners of their
controllers, and deadline_cleanup.py deletes.
"""

import math
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from afflux.kube import objects
from afflux.kube.group_claims import claimed_group
from afflux.kube.live.group_deadlines import OverdueGroup, controller_of
from afflux.kube.objects import OwnerReference
from afflux.kube.pods import created_seconds


@dataclass(slots=True)
class VictimGroup:
    """An overdue group: its live pods and the controllers of its pods, both by uid."""

    overdue: OverdueGroup
    pods: dict[str, objects.Pod] = field(default_factory=dict[str, objects.Pod])
    controllers: dict[str, OwnerReference] = field(default_factory=dict[str, OwnerReference])


@dataclass(slots=True)
class DeadlineVictims:
    """The overdue groups, each pod in one of them; `uids` are all pods that may be deleted."""

    groups: list[VictimGroup] = field(default_factory=list[VictimGroup])
    uids: set[str] = field(default_factory=set[str])

    def remaining(self, blocked_controllers: AbstractSet[str]) -> list[OverdueGroup]:
        """The groups that still have pods, and for each of `blocked_controllers` without such a
        group the first group that it controls."""
        found = [group for group in self.groups if group.pods]
        named = {uid for group in found for uid in group.controllers}
        for group in self.groups:
            if not group.pods and (group.controllers.keys() & blocked_controllers) - named:
                found.append(group)
                named.update(group.controllers)
        return [group.overdue for group in found]

    def contains(self, pod: objects.Pod) -> bool:
        """Whether the pod is deleted, or may be deleted together with its controller."""
        return (pod.metadata.uid or "") in self.uids


class _PodIndex:
    """Live pods by uid, group and controller, so that no group searches all pods."""

    def __init__(self, pods: Iterable[objects.Pod]) -> None:
        self._by_uid: dict[str, objects.Pod] = {}
        self._by_group: dict[str, list[objects.Pod]] = {}
        # Only pods without a group.
        self._by_controller: dict[str, list[objects.Pod]] = {}
        for pod in pods:
            self._by_uid[pod.metadata.uid or ""] = pod
            if (group := claimed_group(pod)) is not None:
                self._by_group.setdefault(group, []).append(pod)
            elif (owner := controller_of(pod)) is not None:
                self._by_controller.setdefault(owner.uid or "", []).append(pod)

    def members(self, overdue: OverdueGroup) -> Iterator[objects.Pod]:
        """The pods of the group. A later pod of the same group name, from another controller,
        belongs to the next group of that name."""
        if overdue.group is None:
            yield from (self._by_uid[uid] for uid in overdue.pods if uid in self._by_uid)
            return
        controllers = {ref.uid for ref in overdue.controllers}
        for pod in self._by_group.get(overdue.group, ()):
            owner = controller_of(pod)
            controlled = owner is not None and owner.uid in controllers
            if controlled or created_seconds(pod) <= overdue.at_seconds:
                yield pod

    def replacements(self, controller: str, at_seconds: float) -> Iterator[objects.Pod]:
        """The pods without a group that this controller created at that time or later."""
        for pod in self._by_controller.get(controller, ()):
            if created_seconds(pod) >= math.floor(at_seconds):
                yield pod


def find_victims(
    overdue_groups: Iterable[OverdueGroup], our_pods: Iterable[objects.Pod]
) -> DeadlineVictims:
    """The pods, among these live ones, that are deleted with these groups."""
    found, pods = DeadlineVictims(), _PodIndex(our_pods)
    # The first deadline of the pods without a group, by controller.
    first_deadline: dict[str, float] = {}
    for overdue in overdue_groups:
        controllers = {ref.uid or "": ref for ref in overdue.controllers}
        group = VictimGroup(overdue, controllers=controllers)
        found.groups.append(group)
        if overdue.group is None:
            for uid in group.controllers:
                first_deadline[uid] = min(overdue.at_seconds, first_deadline.get(uid, math.inf))
        for pod in pods.members(overdue):
            uid, owner = pod.metadata.uid or "", controller_of(pod)
            if uid not in found.uids:
                group.pods[uid] = pod
            if owner is not None:
                group.controllers[owner.uid or ""] = owner
            found.uids.add(uid)
    for uid, at_seconds in first_deadline.items():
        found.uids.update(pod.metadata.uid or "" for pod in pods.replacements(uid, at_seconds))
    return found
