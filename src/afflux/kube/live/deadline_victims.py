"""Leaving: who goes when the deadline of a group is over, as far as the pods themselves tell.

Pure: no clock, no network. Who is above the controllers of these pods is in owners.py; how they are
deleted, in cleaning.py.
"""

import math
from collections.abc import Iterable, Iterator
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


class _Pods:
    """Live pods by what may make them leave: for no group does one look through all of them."""

    def __init__(self, pods: Iterable[objects.Pod]) -> None:
        self._by_uid: dict[str, objects.Pod] = {}
        self._by_group: dict[str, list[objects.Pod]] = {}
        # Of those who name no group.
        self._by_controller: dict[str, list[objects.Pod]] = {}
        for pod in pods:
            self._by_uid[pod.metadata.uid or ""] = pod
            if (group := claimed_group(pod)) is not None:
                self._by_group.setdefault(group, []).append(pod)
            elif (owner := controller(pod)) is not None:
                self._by_controller.setdefault(owner.uid or "", []).append(pod)

    def members(self, over: Over) -> Iterator[objects.Pod]:
        """Who belongs to the group; who came later under its name is of the next one."""
        if over.group is None:
            yield from (self._by_uid[uid] for uid in over.pods if uid in self._by_uid)
            return
        above = {ref.uid for ref in over.controllers}
        for pod in self._by_group.get(over.group, ()):
            owner = controller(pod)
            controlled = owner is not None and owner.uid in above
            if controlled or created_seconds(pod) <= over.at_seconds:
                yield pod

    def replacements(self, owner: str, at_seconds: float) -> Iterator[objects.Pod]:
        """Pods without a group that this controller made because one had been stopped then."""
        for pod in self._by_controller.get(owner, ()):
            if created_seconds(pod) >= math.floor(at_seconds):
                yield pod


def leaving(groups: Iterable[Over], ours: Iterable[objects.Pod]) -> Leaving:
    """Who of these live pods goes when these groups do."""
    found, pods = Leaving(), _Pods(ours)
    # Of pods without a group, by their controller, when the first deadline was over.
    stopped: dict[str, float] = {}
    for over in groups:
        party = Party(over, controllers={ref.uid or "": ref for ref in over.controllers})
        found.parties.append(party)
        if over.group is None:
            for uid in party.controllers:
                stopped[uid] = min(over.at_seconds, stopped.get(uid, math.inf))
        for pod in pods.members(over):
            uid, owner = pod.metadata.uid or "", controller(pod)
            if uid not in found.uids:
                party.pods[uid] = pod
            if owner is not None:
                party.controllers[owner.uid or ""] = owner
            found.uids.add(uid)
    for uid, at_seconds in stopped.items():
        found.uids.update(pod.metadata.uid or "" for pod in pods.replacements(uid, at_seconds))
    return found
