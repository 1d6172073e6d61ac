"""The keyed queue: all updates of one key are one item, whoever sends them.

Watchers put keys, never contents: whoever takes a key looks the newest object up. So a pod that
changed ten times while a cycle ran costs one look, and a key put while it is being worked on is
worked on again. Keys come out in the order in which they first went in.
"""

import asyncio
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class KeyedQueue(Generic[K]):
    """Keys that somebody has to look at."""

    def __init__(self) -> None:
        self._waiting: dict[K, None] = {}
        self._filled = asyncio.Event()
        self._taken = False

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, key: K) -> None:
        """This key has changed."""
        self._waiting[key] = None
        self._filled.set()

    def put_gone(self, key: K) -> None:
        """What this key stands for is gone: no news to those who have never taken anything.

        A replica that waits for its turn would otherwise remember every pod there ever was.
        """
        if self._taken:
            self.put(key)
        else:
            self._waiting.pop(key, None)

    def take(self) -> list[K]:
        """Everything that has changed since the last time, each key once."""
        self._taken = True
        keys = list(self._waiting)
        self._waiting.clear()
        self._filled.clear()
        return keys

    async def wait(self) -> None:
        """Sleep until there is something to take."""
        await self._filled.wait()
