"""Detects a stuck loop, which from outside looks like an idle one."""

from collections.abc import Callable
from time import monotonic


class Watchdog:
    """Measures the cycle that is running."""

    def __init__(
        self, stuck_after_seconds: float, *, clock: Callable[[], float] = monotonic
    ) -> None:
        self._stuck_after_seconds = stuck_after_seconds
        self._clock = clock
        self._began_at: float | None = None

    def begin(self) -> None:
        self._began_at = self._clock()

    def end(self) -> None:
        """The cycle has ended; nothing is checked until the next one begins."""
        self._began_at = None

    def complaint(self) -> str | None:
        """The reason why the check fails, None if it passes."""
        began_at = self._began_at
        if began_at is None:
            return None
        running_seconds = self._clock() - began_at
        if running_seconds <= self._stuck_after_seconds:
            return None
        return (
            f"a cycle has been running for {running_seconds:.0f} s,"
            f" expected at most {self._stuck_after_seconds:g} s"
        )
