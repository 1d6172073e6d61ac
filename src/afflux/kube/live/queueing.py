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

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, key: K) -> None:
        """This key has changed."""
        self._waiting[key] = None
        self._filled.set()

    def take(self) -> list[K]:
        """Everything that has changed since the last time, each key once."""
        keys = list(self._waiting)
        self._waiting.clear()
        self._filled.clear()
        return keys

    async def wait(self) -> None:
        """Sleep until there is something to take."""
        await self._filled.wait()
