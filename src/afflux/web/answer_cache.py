"""Bounded caches with expiry: of answers, and of keys that were seen recently.

Requests for an answer that is being computed wait for the same computation, so that a hundred
views of the same queue cost one query. Not here: what may be cached, and for which users.
"""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class AnswerCache(Generic[K, V]):
    """Answers by key; each expires after `ttl_seconds`, and the oldest of too many are dropped."""

    def __init__(
        self, ttl_seconds: float, max_entries: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._ttl_seconds = ttl_seconds
        self._max_entries = max_entries
        self._clock = clock
        # With the time of expiry, the oldest first.
        self._answers: dict[K, tuple[float, asyncio.Future[V]]] = {}

    async def get(self, key: K, compute: Callable[[], Awaitable[V]]) -> V:
        """The cached answer, or else a computed one; failures are not cached."""
        self._drop_expired()
        known = self._answers.get(key)
        if known is None:
            found = asyncio.ensure_future(compute())
            self._store(key, found)
            found.add_done_callback(lambda done: self._drop_failure(key, done))
        else:
            found = known[1]
        # A cancelled request must not cancel the computation for the others.
        return await asyncio.shield(found)

    def put(self, key: K, answer: V) -> None:
        """Cache an answer that was just computed elsewhere."""
        found = asyncio.get_running_loop().create_future()
        found.set_result(answer)
        self._store(key, found)

    def _store(self, key: K, found: asyncio.Future[V]) -> None:
        self._answers.pop(key, None)
        self._answers[key] = (self._clock() + self._ttl_seconds, found)
        if len(self._answers) > self._max_entries:
            del self._answers[next(iter(self._answers))]

    def _drop_expired(self) -> None:
        now = self._clock()
        while self._answers:
            key, (until, _) = next(iter(self._answers.items()))
            if until > now:
                return
            del self._answers[key]

    def _drop_failure(self, key: K, done: asyncio.Future[V]) -> None:
        known = self._answers.get(key)
        failed = done.cancelled() or done.exception() is not None
        if failed and known is not None and known[1] is done:
            del self._answers[key]


class RecentlySeen(Generic[K]):
    """Keys that were seen within `ttl_seconds`; of too many, the ones seen last."""

    def __init__(
        self, ttl_seconds: float, max_entries: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._ttl_seconds = ttl_seconds
        self._max_entries = max_entries
        self._clock = clock
        # With the time of expiry, the oldest first.
        self._seen: dict[K, float] = {}

    def __contains__(self, key: K) -> bool:
        return self._seen.get(key, -math.inf) > self._clock()

    def add(self, key: K) -> None:
        """The key was seen now."""
        self._seen.pop(key, None)
        self._seen[key] = self._clock() + self._ttl_seconds
        if len(self._seen) > self._max_entries:
            del self._seen[next(iter(self._seen))]

    def discard(self, key: K) -> None:
        self._seen.pop(key, None)
