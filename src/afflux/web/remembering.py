"""Answers that are asked for again and again, remembered for a moment.

Whoever asks while an answer is on its way waits for that one: a hundred people who look at the same
queue cost one look. Not here: what may be remembered, and for whom.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Remembering(Generic[K, V]):
    """Answers by question, each for so many seconds, at most so many of them."""

    def __init__(
        self, seconds: float, most: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._seconds = seconds
        self._most = most
        self._clock = clock
        # In the order in which they were asked for, so that the oldest is the first.
        self._answers: dict[K, tuple[float, asyncio.Future[V]]] = {}

    async def answer(self, question: K, find_out: Callable[[], Awaitable[V]]) -> V:
        """The answer to this; failures are not remembered."""
        self._forget_old()
        known = self._answers.get(question)
        if known is None:
            found = asyncio.ensure_future(find_out())
            self._answers[question] = (self._clock() + self._seconds, found)
            found.add_done_callback(lambda done: self._forget_failure(question, done))
        else:
            found = known[1]
        # One who leaves early must not take the answer away from the others.
        return await asyncio.shield(found)

    def _forget_old(self) -> None:
        now = self._clock()
        for question, (until, _) in list(self._answers.items()):
            if until > now and len(self._answers) < self._most:
                return
            del self._answers[question]

    def _forget_failure(self, question: K, done: asyncio.Future[V]) -> None:
        known = self._answers.get(question)
        failed = done.cancelled() or done.exception() is not None
        if failed and known is not None and known[1] is done:
            del self._answers[question]
