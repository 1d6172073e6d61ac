"""Storage objects on their shelves, and the pods that have to be looked at when one changes."""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from typing import Any

from afflux.kube import objects
from afflux.kube.live.queueing import KeyedQueue
from afflux.kube.live.shelves import Key, Shelf, name_of
from afflux.kube.volumes.choosing import Choice
from afflux.kube.volumes.needs import Blocked
from afflux.kube.volumes.storage import Storage, StorageObject, task_id
from afflux.model.errors import InputError

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
                self._tell()
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
        self._pod_names[task_id(pod)] = name
        try:
            concerned = self._names(self.storage.set(pod))
        except InputError as error:
            _log.error("the volumes of pod %s cannot be counted: %s", name, error)
            return []
        return [other for other in concerned if other != name]

    def remove_pod(self, uid: str) -> list[str]:
        """A pod is over; the names of the others this concerns."""
        if self._pod_names.pop(uid, None) is None:
            return []
        return self._names(self.storage.remove_pod(uid))

    def _names(self, uids: Iterable[str]) -> list[str]:
        return [self._pod_names[uid] for uid in uids if uid in self._pod_names]

    def _tell(self) -> None:
        self.news.set()
        self.news = asyncio.Event()

    # --- What the scheduler does

    def choose(
        self, pod: objects.Pod, node: str, labels: Mapping[str, str]
    ) -> tuple[Choice, ...] | Blocked:
        """Volumes for the claims of a pod on this node; nobody else gets them from now on."""
        choices = self.storage.choose(pod, node, labels)
        if not isinstance(choices, Blocked):
            self._look_at_pods(self.storage.assume(choices))
        return choices

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
