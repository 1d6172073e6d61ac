"""Noticing that the loop is stuck, which from outside looks like having nothing to do."""

import time


class Watchdog:
    """Knows when the cycle that is running began."""

    def __init__(self, stuck_after_seconds: float) -> None:
        self._stuck_after_seconds = stuck_after_seconds
        self._began_at: float | None = None

    def begin(self) -> None:
        """A cycle begins."""
        self._began_at = time.monotonic()

    def end(self) -> None:
        """It has ended; until the next one nothing is expected."""
        self._began_at = None

    def complaint(self) -> str | None:
        """What is wrong, if something is."""
        began_at = self._began_at
        if began_at is None:
            return None
        running_seconds = time.monotonic() - began_at
        if running_seconds <= self._stuck_after_seconds:
            return None
        return (
            f"a cycle has been running for {running_seconds:.0f} s,"
            f" expected at most {self._stuck_after_seconds:g} s"
        )
