"""Shelves: the newest object of every name, as a watch tells them, one shelf for each kind."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar

from afflux.kube import objects
from afflux.kube.live.queueing import KeyedQueue

T = TypeVar("T", bound=objects.Object)

Key = tuple[str, str]
"""The kind of an object and its name, with its namespace before it if it has one."""


def name_of(item: objects.Object) -> str:
    """namespace/name, or the name alone for kinds without namespaces."""
    return _full_name(item.metadata)


def _full_name(metadata: objects.Metadata) -> str:
    return f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name or ""


class Shelf(Generic[T]):
    """What a watch fills; every change puts the object's key into the queue."""

    def __init__(self, kind: str, changes: KeyedQueue[Key]) -> None:
        self.kind = kind
        # Set once everything that was there at the start has been seen.
        self.filled = asyncio.Event()
        self.seen = 0
        self.lists = 0
        # Told the last that is known of every object that is gone.
        self.heard_last: Callable[[T], None] | None = None
        self._changes = changes
        self._items: dict[str, T] = {}

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[T]:
        return iter(self._items.values())

    def get(self, name: str) -> T | None:
        """The object of this name, None if there is none."""
        return self._items.get(name)

    def replaced(self, items: Sequence[T], unread: Sequence[objects.Metadata] = ()) -> None:
        """A list: this is everything there is; who could not be read is as they were last known."""
        before, self._items = self._items, {name_of(item): item for item in items}
        for identity in unread:
            name = _full_name(identity)
            known = before.get(name)
            if known is not None and known.metadata.uid == identity.uid:
                self._items[name] = known
        for name, item in self._items.items():
            known = before.pop(name, None)
            if known is None or known.metadata != item.metadata:
                self._changes.put((self.kind, name))
        for name, gone in before.items():
            self._changes.put_gone((self.kind, name))
            if self.heard_last is not None:
                self.heard_last(gone)
        self.lists += 1
        self.filled.set()

    def changed(self, item: T) -> None:
        """An object was added or has changed."""
        name = name_of(item)
        known = self._items.get(name)
        if known is not None and _is_older(item, known):
            # What we wrote or read ourselves is known before the watch tells what came earlier.
            return
        self._items[name] = item
        self.seen += 1
        self._changes.put((self.kind, name))

    def deleted(self, item: T) -> None:
        """An object is gone."""
        name = name_of(item)
        known = self._items.get(name)
        if known is not None and _is_older(item, known):
            # One of the same name has been made since, and we know it already.
            return
        self._items.pop(name, None)
        self.seen += 1
        self._changes.put_gone((self.kind, name))
        if self.heard_last is not None:
            self.heard_last(item)


def _is_older(item: objects.Object, known: objects.Object) -> bool:
    """Whether one state of a name was before another; versions are numbers that only rise."""
    one, other = item.metadata.resource_version or "", known.metadata.resource_version or ""
    return one.isdecimal() and other.isdecimal() and int(one) < int(other)
