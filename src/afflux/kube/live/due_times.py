"""Sleeping until the next of several due times, which may change meanwhile."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol


class DueTimes(Protocol):
    """Times at which something is due."""

    def next_seconds(self) -> float | None:
        """The next time, None if there is none."""


async def sleep_until_due(
    due_times: DueTimes, clock: Callable[[], float], changed: asyncio.Event
) -> None:
    """Return when the next time is reached, or when it may have changed, which the event says."""
    due = due_times.next_seconds()
    timeout_seconds = None if due is None else max(0.0, due - clock())
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout_seconds):
            await changed.wait()
    changed.clear()
