"""Object stores: the newest version of every object of one kind, as its watch delivers them."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from afflux.kube import objects
from afflux.kube.reader.work_queue import WorkQueue

T = TypeVar("T", bound=objects.Object)

Key = tuple[str, str]
"""The kind of an object, and its name or namespace/name."""


def name_of(item: objects.Object) -> str:
    """namespace/name, or the name alone for cluster-scoped kinds."""
    return _full_name(item.metadata)


def _full_name(metadata: objects.Metadata) -> str:
    return f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name or ""


@dataclass(frozen=True, slots=True)
class Departure(Generic[T]):
    """An object that has left its store, or would have if it had been there: its last version, the
    version before that was in the store (None if there was none), and whether it was deleted."""

    last: T
    known: T | None
    deleted: bool


class ObjectStore(Generic[T]):
    """The store that a watch fills; every change adds the object's key to the work queue.

    With `relevant_part`, only changes of that part of an object count: the status of a ReplicaSet
    changes with each of its pods. Objects for which `is_over` is true are not kept. A new version
    for which `is_patient` is true need not wake the consumer at once.
    """

    def __init__(
        self,
        kind: str,
        changes: WorkQueue[Key],
        relevant_part: Callable[[T], object] | None = None,
        is_over: Callable[[T], bool] | None = None,
        is_patient: Callable[[T], bool] | None = None,
    ) -> None:
        self.kind = kind
        self._is_over = is_over
        self._is_patient = is_patient
        self._relevant_part = relevant_part
        # Set after the first complete list, as client-go's HasSynced.
        self.synced = asyncio.Event()
        self.watch_events = 0
        self.lists = 0
        # Called for every object of the store that was deleted or is over, and with every further
        # version of objects that are over.
        self.on_departure: Callable[[Departure[T]], None] | None = None
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
        before, over = self._items, dict[str, T]()
        self._items = {}
        for item in items:
            kept = over if self._is_over is not None and self._is_over(item) else self._items
            kept[name_of(item)] = item
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
            if known is not None and known.metadata.uid != item.metadata.uid:
                self._depart(known, known, deleted=True)
        for name, known in before.items():
            self._changes.put_deleted((self.kind, name))
            if name not in over:
                self._depart(known, known, deleted=True)
        for name, item in over.items():
            self._depart(item, before.get(name), deleted=False)
        self.lists += 1
        self.synced.set()

    def changed(self, item: T) -> None:
        name = name_of(item)
        known = self._items.get(name)
        if known is not None and _is_older(item, known):
            # A version that this process wrote or read itself may be ahead of the watch.
            return
        self.watch_events += 1
        if self._is_over is not None and self._is_over(item):
            if self._items.pop(name, None) is not None:
                self._changes.put_deleted((self.kind, name))
            self._depart(item, known, deleted=False)
            return
        self._items[name] = item
        if known is not None and known.metadata.uid != item.metadata.uid:
            self._depart(known, known, deleted=True)
        if known is None:
            self._changes.put((self.kind, name))
        elif self._is_relevant(known, item):
            is_patient = self._is_patient is not None and self._is_patient(item)
            self._changes.put((self.kind, name), is_patient=is_patient)

    def deleted(self, item: T) -> None:
        name = name_of(item)
        known = self._items.get(name)
        if known is not None and _is_older(item, known):
            # A newer object of the same name is known already.
            return
        self.watch_events += 1
        if self._items.pop(name, None) is None:
            return
        self._changes.put_deleted((self.kind, name))
        self._depart(item, known, deleted=True)

    def _depart(self, last: T, known: T | None, *, deleted: bool) -> None:
        if self.on_departure is None:
            return
        if known is not None and known.metadata.uid != last.metadata.uid:
            # An object of the same name has taken its place.
            self.on_departure(Departure(known, known, deleted=True))
            known = None
        self.on_departure(Departure(last, known, deleted))

    def _is_relevant(self, before: T, now: T) -> bool:
        """Whether the change from one version to another counts."""
        if self._relevant_part is None or before.metadata.uid != now.metadata.uid:
            return True
        return self._relevant_part(before) != self._relevant_part(now)


def _is_older(item: objects.Object, known: objects.Object) -> bool:
    return objects.is_older(item.metadata.resource_version, known.metadata.resource_version)
