"""Exponential backoff with jitter, for retries."""

import random

# A longer Retry-After of the server is cut to this.
MAX_RETRY_AFTER_SECONDS = 60.0


class Backoff:
    """Pauses that double from `initial_seconds` to `max_seconds`.

    Each pause is drawn at random from the upper half of its length, so that replicas that failed
    at the same time do not retry at the same time.
    """

    def __init__(self, initial_seconds: float, max_seconds: float) -> None:
        self._initial_seconds = initial_seconds
        self._max_seconds = max_seconds
        self._next_seconds = initial_seconds

    def wait_seconds(self, at_least: float | None = None) -> float:
        """The next pause; at least the Retry-After of the server, up to MAX_RETRY_AFTER_SECONDS."""
        drawn = self._next_seconds * random.uniform(0.5, 1.0)
        self._next_seconds = min(self._next_seconds * 2, self._max_seconds)
        if at_least is None or at_least <= drawn:
            return drawn
        # With jitter too: all clients were given the same Retry-After.
        return min(at_least, MAX_RETRY_AFTER_SECONDS) * random.uniform(1.0, 1.25)

    def reset(self) -> None:
        """Start again with the shortest pause, after a success."""
        self._next_seconds = self._initial_seconds
