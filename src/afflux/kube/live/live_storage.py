"""Storage objects on their shelves, and the pods and nodes to be looked at when one changes.

A volume that was chosen for a pod is not to be had any more, and its node has one less. But as long
as the pod is only assumed there, the cycle counts it with the volume it asked for: until the pod is
looked at again, its node counts as having that volume still.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from afflux.kube import objects
from afflux.kube.live.queueing import KeyedQueue
from afflux.kube.live.shelves import Key, Shelf, name_of
from afflux.kube.volumes.choosing import Choice
from afflux.kube.volumes.needs import Blocked
from afflux.kube.volumes.regions import HOSTNAME
from afflux.kube.volumes.storage import Storage, StorageObject, task_id
from afflux.kube.volumes.together import Chosen, Short
from afflux.model.errors import InputError
from afflux.model.implied import is_volume
from afflux.model.placement import Placement

# A pod, where it goes, and the labels of the node there.
Going = tuple[objects.Pod, Placement, Mapping[str, str]]

_log = logging.getLogger(__name__)


class Disks:
    """Claims, volumes, classes, drivers and capacities as the watches tell them."""

    def __init__(self, changes: KeyedQueue[Key]) -> None:
        self.claims: Shelf[objects.PersistentVolumeClaim] = Shelf("claim", changes)
        self.volumes: Shelf[objects.PersistentVolume] = Shelf("volume", changes)
        self.classes: Shelf[objects.StorageClass] = Shelf("storage class", changes)
        self.csi_nodes: Shelf[objects.CSINode] = Shelf("CSI node", changes)
        self.csi_drivers: Shelf[objects.CSIDriver] = Shelf("CSI driver", changes)
        self.capacities: Shelf[objects.CSIStorageCapacity] = Shelf("CSI capacity", changes)
        self.storage = Storage()
        # Set, and replaced by a new one, whenever a storage object has changed.
        self.news = asyncio.Event()
        self._changes = changes
        self._known: dict[Key, StorageObject] = {}
        self._pod_names: dict[str, str] = {}
        self._host_of: dict[str, str] = {}
        self._nodes: dict[str, set[str]] = {}
        # What assumed pods were given, by node and pod; and nodes for which that has changed.
        self._given: dict[str, dict[str, dict[str, int]]] = {}
        self._given_on: dict[str, str] = {}
        self._touched: set[str] = set()

    @property
    def shelves(self) -> list[Shelf[Any]]:
        """All of them."""
        return [
            self.claims,
            self.volumes,
            self.classes,
            self.csi_nodes,
            self.csi_drivers,
            self.capacities,
        ]

    # --- What the watches say

    def look_again(self, changed: Mapping[str, Iterable[str]]) -> list[str]:
        """Look at storage objects that have changed; the names of the pods this concerns."""
        pods: dict[str, None] = {}
        for shelf in self.shelves:
            for name in changed.get(shelf.kind, ()):
                pods.update(dict.fromkeys(self._look_at((shelf.kind, name), shelf.get(name))))
                self.tell()
        return list(pods)

    def _look_at(self, key: Key, item: StorageObject | None) -> list[str]:
        before = self._known.pop(key, None)
        if item is None:
            return self._names(self.storage.remove(before)) if before is not None else []
        self._known[key] = item
        try:
            return self._names(self.storage.set(item))
        except InputError as error:
            _log.error("%s %s cannot be used: %s", *key, error)
            return []

    def set_pod(self, name: str, pod: objects.Pod) -> list[str]:
        """A pod is there; the names of the others this concerns."""
        if not pod.spec.volumes:
            return []
        self._give_no_more(task_id(pod))
        self._pod_names[task_id(pod)] = name
        try:
            concerned = self._names(self.storage.set(pod))
        except InputError as error:
            _log.error("the volumes of pod %s cannot be counted: %s", name, error)
            return []
        return [other for other in concerned if other != name]

    def remove_pod(self, uid: str) -> list[str]:
        """A pod is over; the names of the others this concerns."""
        self._give_no_more(uid)
        if self._pod_names.pop(uid, None) is None:
            return []
        return self._names(self.storage.remove_pod(uid))

    # --- Nodes

    def set_node(self, node: objects.Node) -> None:
        """A node is there, or has changed."""
        name, host = node.metadata.name or "", (node.metadata.labels or {}).get(HOSTNAME, "")
        if self._host_of.get(name) != host:
            self.remove_node(name)
            self._host_of[name] = host
            self._nodes.setdefault(host, set()).add(name)

    def remove_node(self, name: str) -> None:
        """A node is gone."""
        host = self._host_of.pop(name, None)
        if host is not None:
            self._nodes[host].remove(name)
            if not self._nodes[host]:
                del self._nodes[host]

    def volumes_on(self, node: objects.Node) -> dict[str, int]:
        """The volumes that a node has, as far as the cycle counts them, as resources."""
        counts = self.storage.volumes_on(node.metadata.labels or {})
        for given in self._given.get(node.metadata.name or "", {}).values():
            for resource, amount in given.items():
                counts[resource] = counts.get(resource, 0) + amount
        return counts

    def take_touched_nodes(self) -> list[str]:
        """The nodes that may have other volumes than the last time."""
        touched, self._touched = self._touched, set()
        for host in self.storage.supply.stock.take_touched():
            touched |= self._nodes.get(host, set())
        return sorted(touched)

    def _give(self, placement: Placement) -> None:
        taken = {name: n for name, n in placement.task.shape.requests if is_volume(name)}
        if taken:
            self._given.setdefault(placement.machine, {})[placement.task.id] = taken
            self._given_on[placement.task.id] = placement.machine
            self._touched.add(placement.machine)

    def _give_no_more(self, uid: str) -> None:
        node = self._given_on.pop(uid, None)
        if node is not None:
            del self._given[node][uid]
            if not self._given[node]:
                del self._given[node]
            self._touched.add(node)

    def _names(self, uids: Iterable[str]) -> list[str]:
        return [self._pod_names[uid] for uid in uids if uid in self._pod_names]

    def tell(self) -> None:
        """Have those who wait for their volumes look again."""
        self.news.set()
        self.news = asyncio.Event()

    # --- What the scheduler does

    def choose(
        self, pod: objects.Pod, placement: Placement, labels: Mapping[str, str]
    ) -> tuple[Choice, ...] | Blocked:
        """Volumes for the claims of a pod on its node; nobody else gets them from now on."""
        choices = self.storage.choose(pod, placement.machine, labels)
        if not isinstance(choices, Blocked):
            self._give(placement)
            self._look_at_pods(self.storage.assume(choices))
        return choices

    def choose_together(self, going: Sequence[Going]) -> Chosen | Short:
        """The same for pods that start together: for all of them, or for none."""
        found = self.storage.choose_together(_seen_from_nodes(going))
        if not isinstance(found, Short):
            for _, placement, _ in going:
                self._give(placement)
            choices = tuple(choice for each in found.values() for choice in each)
            self._look_at_pods(self.storage.assume(choices))
        return found

    def concede(self, going: Sequence[Going], short: Short) -> bool:
        """Have some of these pods look for other volumes; whether there is anything new to try.

        They are about to be given back, and so looked at again.
        """
        return self.storage.concede(_seen_from_nodes(going), short)

    def concede_no_more(self, pods: Iterable[str]) -> None:
        """These pods may have any volumes again."""
        self._look_at_pods(self.storage.concede_no_more(pods))

    def forget(self, choices: tuple[Choice, ...]) -> None:
        """What was chosen is written, or came to nothing."""
        self._look_at_pods(self.storage.forget(choices))

    def wrote(
        self, shelf: Shelf[Any], item: objects.PersistentVolumeClaim | objects.PersistentVolume
    ) -> None:
        """We changed this object ourselves; the watch will say so later."""
        shelf.changed(item)
        self._look_at_pods_named(self._look_at((shelf.kind, name_of(item)), item))

    def _look_at_pods(self, uids: Iterable[str]) -> None:
        self._look_at_pods_named(self._names(uids))

    def _look_at_pods_named(self, names: Iterable[str]) -> None:
        for name in names:
            self._changes.put(("pod", name))


def _seen_from_nodes(
    going: Sequence[Going],
) -> list[tuple[objects.Pod, str, Mapping[str, str]]]:
    return [(pod, placement.machine, labels) for pod, placement, labels in going]
