"""Leaving: who goes when the deadline of a group is over, as far as the pods themselves tell.

Pure: no clock, no network. Who is above the controllers of these pods is in owners.py; how they are
deleted, in cleaning.py.
"""

import math
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from afflux.kube import objects
from afflux.kube.decoding import created_seconds
from afflux.kube.grouping import claimed_group
from afflux.kube.live.deadlines import Over, controller


@dataclass(slots=True)
class Party:
    """A group that is over: its pods that are there, and who controls them or those before them.

    Both by uid.
    """

    over: Over
    pods: dict[str, objects.Pod] = field(default_factory=dict[str, objects.Pod])
    controllers: dict[str, objects.OwnerReference] = field(
        default_factory=dict[str, objects.OwnerReference]
    )


@dataclass(slots=True)
class Leaving:
    """The groups that go, each pod in one of them; and by uid all pods that may go with them."""

    parties: list[Party] = field(default_factory=list[Party])
    uids: set[str] = field(default_factory=set[str])

    def left(self, held: AbstractSet[str]) -> list[Over]:
        """The groups of which something is there: a pod; or, of those of one controller, the first
        if it is one of these."""
        found = [party for party in self.parties if party.pods]
        named = {uid for party in found for uid in party.controllers}
        for party in self.parties:
            if not party.pods and (party.controllers.keys() & held) - named:
                found.append(party)
                named.update(party.controllers)
        return [party.over for party in found]

    def is_leaving(self, pod: objects.Pod) -> bool:
        """Whether the pod goes, or may go if its controller does."""
        return (pod.metadata.uid or "") in self.uids


def leaving(groups: Iterable[Over], ours: Iterable[objects.Pod]) -> Leaving:
    """Who of these live pods goes when these groups do."""
    found, pods = Leaving(), list(ours)
    members: set[str] = set()
    for over in groups:
        above = {ref.uid or "": ref for ref in over.controllers}
        party = Party(over, controllers=dict(above))
        found.parties.append(party)
        for pod in pods:
            uid, owner = pod.metadata.uid or "", controller(pod)
            controlled = owner is not None and owner.uid in above
            if _is_member(pod, over, controlled=controlled):
                if uid not in members:
                    party.pods[uid] = pod
                if owner is not None:
                    party.controllers[owner.uid or ""] = owner
                members.add(uid)
            elif _is_replacement(pod, over, controlled=controlled):
                found.uids.add(uid)
    found.uids |= members
    return found


def _is_member(pod: objects.Pod, over: Over, *, controlled: bool) -> bool:
    """Whether the pod belongs to the group; who came later under its name is of the next one."""
    if over.group is None:
        return pod.metadata.uid in over.pods
    if claimed_group(pod) != over.group:
        return False
    return controlled or created_seconds(pod) <= over.at_seconds


def _is_replacement(pod: objects.Pod, over: Over, *, controlled: bool) -> bool:
    """Whether a pod without a group was made because the one of this deadline had been stopped."""
    return (
        over.group is None
        and controlled
        and claimed_group(pod) is None
        and created_seconds(pod) >= math.floor(over.at_seconds)
    )
