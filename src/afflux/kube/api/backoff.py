"""How fast requests leave, and how long to wait before one is tried again."""

import asyncio
import math
import random

# A server that asks for more patience than this is asked again all the same.
LONGEST_PATIENCE_SECONDS = 60.0


class Pace:
    """A bound on requests per second, with bursts. A rate of 0 is no bound.

    A request takes its place at once and sleeps until it is due: first come, first served.
    """

    def __init__(self, per_second: float, burst: int) -> None:
        self._gap_seconds = 1.0 / per_second if per_second > 0 else 0.0
        self._burst = burst if burst > 0 else max(1, math.ceil(per_second))
        # When the bucket would be full again.
        self._full_at = 0.0

    @property
    def is_bound(self) -> bool:
        """Whether there is anything to wait for."""
        return self._gap_seconds > 0

    async def turn(self) -> None:
        """Wait until the next request may leave."""
        wait_seconds = self.reserve(asyncio.get_running_loop().time())
        if wait_seconds > 0:
            await asyncio.sleep(wait_seconds)

    def reserve(self, now: float) -> float:
        """Take the next place; how many seconds from now it is due."""
        self._full_at = max(self._full_at, now) + self._gap_seconds
        return max(0.0, self._full_at - now - self._burst * self._gap_seconds)


class Backoff:
    """Waits that double from `first` to `longest`, each drawn from its upper half.

    The draw keeps replicas that failed together from coming back together.
    """

    def __init__(self, first_seconds: float, longest_seconds: float) -> None:
        self._first_seconds = first_seconds
        self._longest_seconds = longest_seconds
        self._next_seconds = first_seconds

    def wait_seconds(self, at_least: float | None = None) -> float:
        """The next wait, not shorter than what the server asked for, within reason."""
        drawn = self._next_seconds * random.uniform(0.5, 1.0)
        self._next_seconds = min(self._next_seconds * 2, self._longest_seconds)
        if at_least is None or at_least <= drawn:
            return drawn
        # Not all at the very moment the server named either.
        return min(at_least, LONGEST_PATIENCE_SECONDS) * random.uniform(1.0, 1.25)

    def reset(self) -> None:
        """It worked: begin again with the shortest."""
        self._next_seconds = self._first_seconds
