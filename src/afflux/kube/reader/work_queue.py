"""Work queue: a queue of keys in which all updates of one key are one item.

Watches add keys, not objects; the consumer looks up the newest object of a key. A pod that changed
ten times during a cycle is processed once, and a key that is added while it is being processed is
processed again. Keys come out in the order in which they were first added.
"""

import asyncio
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class WorkQueue(Generic[K]):
    """Keys of changed objects."""

    def __init__(self) -> None:
        self._waiting: dict[K, None] = {}
        self._has_keys = asyncio.Event()
        self._taken = False

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, key: K) -> None:
        self._waiting[key] = None
        self._has_keys.set()

    def put_deleted(self, key: K) -> None:
        """The object of this key was deleted. Before the first `take` the key is just removed.

        A replica that waits for leadership would otherwise keep a key for every pod there ever was.
        """
        if self._taken:
            self.put(key)
        else:
            self._waiting.pop(key, None)

    def take(self) -> list[K]:
        """All keys that were added since the last call, each once."""
        self._taken = True
        keys = list(self._waiting)
        self._waiting.clear()
        self._has_keys.clear()
        return keys

    async def wait(self) -> None:
        await self._has_keys.wait()
