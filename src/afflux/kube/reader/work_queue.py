"""Work queue: a queue of keys in which all updates of one key are one item.

Watches add keys, not objects; the consumer looks up the newest object of a key. A pod that changed
ten times during a cycle is processed once, and a key that is added while it is being processed is
processed again. Keys come out in the order in which they were first added.

A patient key wakes the consumer only some time after it has last taken keys: what arrives all the
time, and helps nothing that waits, is processed together.
"""

import asyncio
import math
from collections.abc import Callable, Hashable
from contextlib import suppress
from time import monotonic
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


# How long after the consumer has taken keys a patient one wakes it.
PATIENCE_SECONDS = 0.2


class WorkQueue(Generic[K]):
    """Keys of changed objects."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._waiting: dict[K, None] = {}
        self._has_keys = asyncio.Event()
        self._is_urgent = asyncio.Event()
        self._taken = False
        self._taken_seconds = -math.inf

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, key: K, *, is_patient: bool = False) -> None:
        self._waiting[key] = None
        self._has_keys.set()
        if not is_patient:
            self._is_urgent.set()

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
        self._taken_seconds = self._clock()
        keys = list(self._waiting)
        self._waiting.clear()
        self._has_keys.clear()
        self._is_urgent.clear()
        return keys

    async def wait(self) -> None:
        """Until there are keys to take. Without an urgent one, until `PATIENCE_SECONDS` have passed
        since the last `take`."""
        await self._has_keys.wait()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._taken_seconds + PATIENCE_SECONDS - self._clock()):
                await self._is_urgent.wait()
