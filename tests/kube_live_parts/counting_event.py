"""An event that counts how often its waiter has come back to it."""

import asyncio

from small_api import until


class CountingEvent(asyncio.Event):
    """For a loop that waits on it, and in between does all that is due."""

    def __init__(self) -> None:
        super().__init__()
        self.waits = 0

    async def wait(self) -> bool:
        self.waits += 1
        return await super().wait()

    async def wake_and_wait(self) -> None:
        """Wake the loop, and wait until it has done what is due and waits again."""
        await until(lambda: self.waits > 0)
        before = self.waits
        self.set()
        await until(lambda: self.waits > before and not self.is_set())
