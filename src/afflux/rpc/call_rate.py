"""The rate of calls of each client: calls beyond it are delayed, never refused, because clients of
Firmament exit when a call fails."""

import asyncio
import math
from collections.abc import Awaitable, Callable
from time import monotonic

# Of so many clients the rate is remembered.
_MAX_CLIENTS = 10_000


class CallRate:
    """Lets each client make so many calls a second; after a pause, those of one second at once."""

    def __init__(
        self,
        calls_per_second: float,
        clock: Callable[[], float] = monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._seconds_per_call = 1 / calls_per_second
        self._clock = clock
        self._sleep = sleep
        # By client, when its next call is due at this rate.
        self._due_at: dict[str, float] = {}

    async def wait(self, client: str) -> None:
        """Return when this call may be answered."""
        now = self._clock()
        # The client with the oldest call is forgotten first.
        due_at = max(self._due_at.pop(client, -math.inf), now - 1.0)
        self._due_at[client] = due_at + self._seconds_per_call
        if len(self._due_at) > _MAX_CLIENTS:
            del self._due_at[next(iter(self._due_at))]
        if due_at > now:
            await self._sleep(due_at - now)
