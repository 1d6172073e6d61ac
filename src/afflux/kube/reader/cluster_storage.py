"""ClusterStorage: the stores of storage objects, and which pods and nodes each change concerns.

A volume chosen for a pod is no longer available, so its node has one less. But while the pod is
only assumed on the node, the cycle still counts the volume that the pod asked for. So the node
counts as still having that volume until the pod is read again.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from afflux.kube import objects
from afflux.kube.reader.invalid_objects import OnInvalid, log_invalid
from afflux.kube.reader.object_store import Key, ObjectStore, name_of
from afflux.kube.reader.work_queue import WorkQueue
from afflux.kube.volumes.gang_volumes import Chosen, VolumeShortfall
from afflux.kube.volumes.node_sets import HOSTNAME
from afflux.kube.volumes.storage import PlacedPod, Storage, StorageObject, task_id
from afflux.kube.volumes.volume_choice import Choice
from afflux.kube.volumes.volume_needs import Blocked
from afflux.model.errors import InputError
from afflux.model.implied_resources import is_volume
from afflux.model.placement import Placement
from afflux.model.relations import Labels

# A pod, its placement, and the labels of that node.
PodPlacement = tuple[objects.Pod, Placement, Labels]

_log = logging.getLogger(__name__)


class ClusterStorage:
    """Claims, volumes, classes, drivers and capacities."""

    def __init__(self, changes: WorkQueue[Key], on_invalid: OnInvalid = log_invalid) -> None:
        self.claims = ObjectStore[objects.PersistentVolumeClaim]("claim", changes)
        self.volumes = ObjectStore[objects.PersistentVolume]("volume", changes)
        self.classes = ObjectStore[objects.StorageClass]("storage class", changes)
        self.csi_nodes = ObjectStore[objects.CSINode]("CSI node", changes)
        self.csi_drivers = ObjectStore[objects.CSIDriver]("CSI driver", changes)
        self.capacities = ObjectStore[objects.CSIStorageCapacity]("CSI capacity", changes)
        # The stores whose objects decide about pods.
        self._deciding: dict[type[objects.Object], ObjectStore[Any]] = {
            objects.PersistentVolumeClaim: self.claims,
            objects.PersistentVolume: self.volumes,
            objects.StorageClass: self.classes,
            objects.CSIDriver: self.csi_drivers,
            objects.CSIStorageCapacity: self.capacities,
        }
        # All stores; a CSINode changes its machine and no pod.
        self.stores = {objects.CSINode: self.csi_nodes, **self._deciding}
        self.storage = Storage()
        # Set, and replaced by a new event, whenever a storage object changes.
        self.changed = asyncio.Event()
        self._changes = changes
        self._on_invalid = on_invalid
        self._known: dict[Key, StorageObject] = {}
        self._pod_names: dict[str, str] = {}
        self._host_of: dict[str, str] = {}
        self._nodes: dict[str, set[str]] = {}
        # The volumes of assumed pods, by node and pod; and the nodes for which they changed.
        self._assumed: dict[str, dict[str, dict[str, int]]] = {}
        self._assumed_on: dict[str, str] = {}
        self._changed_nodes: set[str] = set()

    # --- Changes

    def sync(self, changed: Mapping[str, Iterable[str]]) -> list[str]:
        """Apply changed storage objects. Returns the names of the pods that they concern."""
        pods: dict[str, None] = {}
        for store in self._deciding.values():
            for name in changed.get(store.kind, ()):
                pods.update(dict.fromkeys(self._sync_object((store.kind, name), store.get(name))))
                self.notify_changed()
        return list(pods)

    def _sync_object(self, key: Key, item: StorageObject | None) -> list[str]:
        before = self._known.pop(key, None)
        if item is None:
            return self._pod_names_of(self.storage.remove(before)) if before is not None else []
        self._known[key] = item
        try:
            return self._pod_names_of(self.storage.set(item))
        except InputError as error:
            _log.error("%s %s cannot be used: %s", *key, self._on_invalid(*key, error))
            return []

    def set_pod(self, name: str, pod: objects.Pod) -> list[str]:
        """Add or update a pod. Returns the names of the other pods that this concerns."""
        if not pod.spec.volumes:
            return []
        self._forget_assumed(task_id(pod))
        self._pod_names[task_id(pod)] = name
        try:
            concerned = self._pod_names_of(self.storage.set(pod))
        except InputError as error:
            why = self._on_invalid("pod", name, error)
            _log.error("the volumes of pod %s cannot be counted: %s", name, why)
            return []
        return [other for other in concerned if other != name]

    def remove_pod(self, uid: str) -> list[str]:
        """A pod has ended. Returns the names of the other pods that this concerns."""
        self._forget_assumed(uid)
        if self._pod_names.pop(uid, None) is None:
            return []
        return self._pod_names_of(self.storage.remove_pod(uid))

    # --- Nodes

    def set_node(self, node: objects.Node) -> None:
        name, host = node.metadata.name or "", (node.metadata.labels or {}).get(HOSTNAME, "")
        if self._host_of.get(name) != host:
            self.remove_node(name)
            self._host_of[name] = host
            self._nodes.setdefault(host, set()).add(name)

    def remove_node(self, name: str) -> None:
        host = self._host_of.pop(name, None)
        if host is not None:
            self._nodes[host].remove(name)
            if not self._nodes[host]:
                del self._nodes[host]

    def volumes_on(self, node: objects.Node) -> dict[str, int]:
        """The node's free volumes of the kinds that the cycle counts, as resources."""
        counts = self.storage.volumes_on(node.metadata.labels or {})
        for taken in self._assumed.get(node.metadata.name or "", {}).values():
            for resource, amount in taken.items():
                counts[resource] = counts.get(resource, 0) + amount
        return counts

    def take_changed_nodes(self) -> list[str]:
        """The nodes whose volumes may have changed since the last call."""
        changed, self._changed_nodes = self._changed_nodes, set()
        for host in self.storage.cache.local_volumes.take_changed_hosts():
            changed |= self._nodes.get(host, set())
        return sorted(changed)

    def _assume(self, placement: Placement) -> None:
        taken = {name: n for name, n in placement.task.shape.requests if is_volume(name)}
        if taken:
            self._assumed.setdefault(placement.machine, {})[placement.task.id] = taken
            self._assumed_on[placement.task.id] = placement.machine
            self._changed_nodes.add(placement.machine)

    def _forget_assumed(self, uid: str) -> None:
        node = self._assumed_on.pop(uid, None)
        if node is not None:
            del self._assumed[node][uid]
            if not self._assumed[node]:
                del self._assumed[node]
            self._changed_nodes.add(node)

    def _pod_names_of(self, uids: Iterable[str]) -> list[str]:
        return [self._pod_names[uid] for uid in uids if uid in self._pod_names]

    def notify_changed(self) -> None:
        """Wake all binds that wait for their volumes."""
        self.changed.set()
        self.changed = asyncio.Event()

    # --- Calls of the scheduler

    def choose(
        self, pod: objects.Pod, placement: Placement, labels: Labels
    ) -> tuple[Choice, ...] | Blocked:
        """Choose volumes for the claims of a pod on its node and reserve them."""
        choices = self.storage.choose(pod, placement.machine, labels)
        if not isinstance(choices, Blocked):
            self._assume(placement)
            self._mark_tasks_changed(self.storage.assume(choices))
        return choices

    def choose_gang(self, pods: Sequence[PodPlacement]) -> Chosen | VolumeShortfall:
        """The same for the pods of a group: for all of them or for none."""
        found = self.storage.choose_gang(_seen_from_nodes(pods))
        if not isinstance(found, VolumeShortfall):
            for _, placement, _ in pods:
                self._assume(placement)
            choices = tuple(choice for each in found.values() for choice in each)
            self._mark_tasks_changed(self.storage.assume(choices))
        return found

    def avoid_shortfall(self, pods: Sequence[PodPlacement], shortfall: VolumeShortfall) -> bool:
        """Restrict some of these pods to other volumes. Returns whether this is worth a new try.
        The pods are about to be released, and so are read again."""
        return self.storage.avoid_shortfall(_seen_from_nodes(pods), shortfall)

    def end_avoidance(self, pods: Iterable[str]) -> None:
        self._mark_tasks_changed(self.storage.end_avoidance(pods))

    def forget(self, choices: tuple[Choice, ...]) -> None:
        """These choices have been written, or will not be."""
        self._mark_tasks_changed(self.storage.forget(choices))

    def set_written(
        self,
        store: ObjectStore[Any],
        item: objects.PersistentVolumeClaim | objects.PersistentVolume,
    ) -> None:
        """We have written this object; the watch will return it later."""
        store.changed(item)
        self._mark_pods_changed(self._sync_object((store.kind, name_of(item)), item))

    def _mark_tasks_changed(self, uids: Iterable[str]) -> None:
        self._mark_pods_changed(self._pod_names_of(uids))

    def _mark_pods_changed(self, names: Iterable[str]) -> None:
        for name in names:
            self._changes.put(("pod", name))


def _seen_from_nodes(pods: Sequence[PodPlacement]) -> list[PlacedPod]:
    return [(pod, placement.machine, labels) for pod, placement, labels in pods]
