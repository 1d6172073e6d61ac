"""A token bucket: a limit on requests per second, with bursts."""

import asyncio
import math


class RateLimiter:
    """A limit on requests per second, with bursts. A `qps` of 0 means no limit.

    A request reserves its token at once and sleeps until the token is there, so that requests
    leave in the order in which they came.
    """

    def __init__(self, qps: float, burst: int) -> None:
        self._gap_seconds = 1.0 / qps if qps > 0 else 0.0
        self._burst = burst if burst > 0 else max(1, math.ceil(qps))
        # When the bucket would be full again.
        self._full_at = 0.0

    @property
    def is_limited(self) -> bool:
        return self._gap_seconds > 0

    async def wait(self) -> None:
        """Sleep until the next request may leave."""
        wait_seconds = self.reserve(asyncio.get_running_loop().time())
        if wait_seconds > 0:
            await asyncio.sleep(wait_seconds)

    def reserve(self, now: float) -> float:
        """Reserve the next token; returns the seconds from `now` until it is there."""
        self._full_at = max(self._full_at, now) + self._gap_seconds
        return max(0.0, self._full_at - now - self._burst * self._gap_seconds)
