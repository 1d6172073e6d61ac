"""Which pods and controllers belong to the groups whose deadline has passed.

Of a group's pods these are the ones whose own deadline has passed, and those that claim the same
controller and the same terms as one of them: its replacements, and members that wait. What the
controllers do not confirm is withdrawn.

Pure: no clock, no network. Looks at pods only; owner_chain.py reads the owners of their
controllers, and deadline_cleanup.py deletes.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from afflux.kube import objects
from afflux.kube.group_deadlines import OverdueGroup
from afflux.kube.objects import OwnerReference
from afflux.kube.pod_claims import PodClaims, controller_of, pod_claims
from afflux.kube.pods import created_seconds


@dataclass(slots=True)
class VictimGroup:
    """An overdue group: its live pods by uid, and the controllers of its pods."""

    overdue: OverdueGroup
    pods: dict[str, objects.Pod] = field(default_factory=dict[str, objects.Pod])
    controllers: set[OwnerReference] = field(default_factory=set[OwnerReference])


@dataclass(slots=True)
class DeadlineVictims:
    """The overdue groups, each pod in one of them; `uids` are all pods that may be deleted."""

    groups: list[VictimGroup] = field(default_factory=list[VictimGroup])
    uids: set[str] = field(default_factory=set[str])

    def remaining(self, blocked_controllers: AbstractSet[OwnerReference]) -> list[OverdueGroup]:
        """The groups that still have pods, and for each of `blocked_controllers` without such a
        group the first group that it controls."""
        found = [group for group in self.groups if group.pods]
        named = {ref for group in found for ref in group.controllers}
        for group in self.groups:
            if not group.pods and (group.controllers & blocked_controllers) - named:
                found.append(group)
                named.update(group.controllers)
        return [group.overdue for group in found]

    def contains(self, pod: objects.Pod) -> bool:
        """Whether the pod is deleted, or may be deleted together with its controller."""
        return (pod.metadata.uid or "") in self.uids


class _PodIndex:
    """Live pods by uid and by claims, so that no group searches all pods. Claims are only indexed
    for these controllers."""

    def __init__(
        self, pods: Iterable[objects.Pod], controllers: AbstractSet[OwnerReference]
    ) -> None:
        self._by_uid: dict[str, objects.Pod] = {}
        self._by_claims: dict[PodClaims, list[objects.Pod]] = {}
        for pod in pods:
            self._by_uid[pod.metadata.uid or ""] = pod
            if controller_of(pod) in controllers:
                self._by_claims.setdefault(pod_claims(pod), []).append(pod)

    def members(self, overdue: OverdueGroup) -> Iterator[objects.Pod]:
        """The live pods of the group; of a single pod only itself."""
        for uid in overdue.claims:
            if uid in self._by_uid:
                yield self._by_uid[uid]
        if not overdue.id.alone:
            for claims in set(overdue.claims.values()):
                for pod in self._by_claims.get(claims, ()):
                    if pod.metadata.uid not in overdue.claims:
                        yield pod

    def replacements(self, claims: PodClaims, at_seconds: float) -> Iterator[objects.Pod]:
        """The pods with these claims that the controller created at that time or later."""
        for pod in self._by_claims.get(claims, ()):
            if created_seconds(pod) >= math.floor(at_seconds):
                yield pod


def find_victims(
    overdue_groups: Iterable[OverdueGroup], our_pods: Iterable[objects.Pod]
) -> DeadlineVictims:
    """The pods, among these live ones, that are deleted with these groups."""
    overdue_groups = list(overdue_groups)
    found = DeadlineVictims([VictimGroup(each, {}, each.controllers) for each in overdue_groups])
    pods = _PodIndex(our_pods, {ref for group in found.groups for ref in group.controllers})
    # The first deadline of the pods without a group, by their claims.
    first_deadline: dict[PodClaims, float] = {}
    for group in found.groups:
        overdue = group.overdue
        if overdue.id.alone:
            for claims in overdue.claims.values():
                earlier = first_deadline.get(claims, math.inf)
                first_deadline[claims] = min(overdue.at_seconds, earlier)
        for pod in pods.members(overdue):
            uid = pod.metadata.uid or ""
            if uid not in found.uids:
                group.pods[uid] = pod
            found.uids.add(uid)
    for claims, at_seconds in first_deadline.items():
        found.uids.update(pod.metadata.uid or "" for pod in pods.replacements(claims, at_seconds))
    return found


def withdraw_unconfirmed(
    victims: DeadlineVictims, objection: Callable[[PodClaims], str | None]
) -> list[tuple[objects.Pod, str]]:
    """Remove the controllers that confirm no claim of the overdue pods, and the pods that claim
    them otherwise than confirmed. `objection` says why a controller does not confirm a claim, None
    if it does. Returns the removed pods with the reasons."""
    withdrawn: list[tuple[objects.Pod, str]] = []
    for group in victims.groups:
        confirmed: set[PodClaims] = set()
        reasons: dict[PodClaims, str] = {}
        for claims in group.overdue.claims.values():
            if claims.controller is None or claims in confirmed:
                continue
            why = objection(claims)
            if why is None:
                confirmed.add(claims)
            else:
                reasons.setdefault(claims, why)
        group.controllers &= {each.controller for each in confirmed}
        for uid, pod in list(group.pods.items()):
            claims = pod_claims(pod)
            if claims.controller is not None and claims not in confirmed:
                del group.pods[uid]
                victims.uids.discard(uid)
                withdrawn.append((pod, reasons.get(claims) or "its owner has changed"))
    return withdrawn
