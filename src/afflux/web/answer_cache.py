"""What is remembered for a while, and never more of it than there is room for.

Answers that are asked for again and again: whoever asks while one is on its way waits for that one,
so that a hundred people who look at the same queue cost one look. And who was seen lately. Not
here: what may be remembered, and for whom.
"""

import asyncio
import math
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
            self._put(question, found)
            found.add_done_callback(lambda done: self._forget_failure(question, done))
        else:
            found = known[1]
        # One who leaves early must not take the answer away from the others.
        return await asyncio.shield(found)

    def learn(self, question: K, answer: V) -> None:
        """This was found out elsewhere, just now."""
        found = asyncio.get_running_loop().create_future()
        found.set_result(answer)
        self._put(question, found)

    def _put(self, question: K, found: asyncio.Future[V]) -> None:
        self._answers.pop(question, None)
        self._answers[question] = (self._clock() + self._seconds, found)
        if len(self._answers) > self._most:
            del self._answers[next(iter(self._answers))]

    def _forget_old(self) -> None:
        now = self._clock()
        while self._answers:
            question, (until, _) = next(iter(self._answers.items()))
            if until > now:
                return
            del self._answers[question]

    def _forget_failure(self, question: K, done: asyncio.Future[V]) -> None:
        known = self._answers.get(question)
        failed = done.cancelled() or done.exception() is not None
        if failed and known is not None and known[1] is done:
            del self._answers[question]


class Lately(Generic[K]):
    """Those who were seen within so many seconds; of too many, the ones seen last."""

    def __init__(
        self, seconds: float, most: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._seconds = seconds
        self._most = most
        self._clock = clock
        # Until when, in the order in which they were seen.
        self._seen: dict[K, float] = {}

    def __contains__(self, one: K) -> bool:
        return self._seen.get(one, -math.inf) > self._clock()

    def saw(self, one: K) -> None:
        """They were here just now."""
        self._seen.pop(one, None)
        self._seen[one] = self._clock() + self._seconds
        if len(self._seen) > self._most:
            del self._seen[next(iter(self._seen))]

    def forget(self, one: K) -> None:
        """They are as others are."""
        self._seen.pop(one, None)
