"""Object stores: the newest version of every object of one kind, as its watch delivers them."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar

from afflux.kube import objects
from afflux.kube.live.work_queue import WorkQueue

T = TypeVar("T", bound=objects.Object)

Key = tuple[str, str]
"""The kind of an object, and its name or namespace/name."""


def name_of(item: objects.Object) -> str:
    """namespace/name, or the name alone for cluster-scoped kinds."""
    return _full_name(item.metadata)


def _full_name(metadata: objects.Metadata) -> str:
    return f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name or ""


class ObjectStore(Generic[T]):
    """The store that a watch fills; every change adds the object's key to the work queue.

    With `relevant_part`, only changes of that part of an object count: the status of a ReplicaSet
    changes with each of its pods.
    """

    def __init__(
        self,
        kind: str,
        changes: WorkQueue[Key],
        relevant_part: Callable[[T], object] | None = None,
    ) -> None:
        self.kind = kind
        self._relevant_part = relevant_part
        # Set after the first complete list, as client-go's HasSynced.
        self.synced = asyncio.Event()
        self.watch_events = 0
        self.lists = 0
        # Called with the last known version of every deleted object.
        self.on_delete: Callable[[T], None] | None = None
        self._changes = changes
        self._items: dict[str, T] = {}

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[T]:
        return iter(self._items.values())

    def get(self, name: str) -> T | None:
        return self._items.get(name)

    def replaced(self, items: Sequence[T], unreadable: Sequence[objects.Metadata] = ()) -> None:
        """A complete list; `unreadable` objects were not decodable and keep their last version."""
        before, self._items = self._items, {name_of(item): item for item in items}
        for identity in unreadable:
            name = _full_name(identity)
            known = before.get(name)
            if known is not None and known.metadata.uid == identity.uid:
                self._items[name] = known
        for name, item in self._items.items():
            known = before.pop(name, None)
            if known is not None and known.metadata == item.metadata:
                continue
            if known is None or self._is_relevant(known, item):
                self._changes.put((self.kind, name))
        for name, gone in before.items():
            self._changes.put_deleted((self.kind, name))
            if self.on_delete is not None:
                self.on_delete(gone)
        self.lists += 1
        self.synced.set()

    def changed(self, item: T) -> None:
        name = name_of(item)
        known = self._items.get(name)
        if known is not None and _is_older(item, known):
            # A version that this process wrote or read itself may be ahead of the watch.
            return
        self._items[name] = item
        self.watch_events += 1
        if known is None or self._is_relevant(known, item):
            self._changes.put((self.kind, name))

    def deleted(self, item: T) -> None:
        name = name_of(item)
        known = self._items.get(name)
        if known is not None and _is_older(item, known):
            # A newer object of the same name is known already.
            return
        self._items.pop(name, None)
        self.watch_events += 1
        self._changes.put_deleted((self.kind, name))
        if self.on_delete is not None:
            self.on_delete(item)

    def _is_relevant(self, before: T, now: T) -> bool:
        """Whether the change from one version to another counts."""
        if self._relevant_part is None or before.metadata.uid != now.metadata.uid:
            return True
        return self._relevant_part(before) != self._relevant_part(now)


def _is_older(item: objects.Object, known: objects.Object) -> bool:
    return objects.is_older(item.metadata.resource_version, known.metadata.resource_version)
