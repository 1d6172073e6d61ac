"""An event loop whose clock tests can move on, so that timeouts end at once and only then.

Timeouts that are longer than any test takes end because the test says so, and never because the
machine is busy.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any


class MovableLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock is ahead by `moved_seconds`."""

    moved_seconds = 0.0

    def time(self) -> float:
        return super().time() + self.moved_seconds


def run_on_movable_loop(main: Coroutine[Any, Any, None]) -> None:
    """Run the coroutine in a new event loop whose clock `advance` moves."""
    with asyncio.Runner(loop_factory=MovableLoop) as runner:
        runner.run(main)


async def advance(seconds: float) -> None:
    """Move the clock of the running event loop, and let all timers fire that are due then."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, MovableLoop)
    loop.moved_seconds += seconds
    for _ in range(3):
        await asyncio.sleep(0)
