"""Rate-limited logging: each message is logged at most once per interval."""

import logging
from collections.abc import Callable
from time import monotonic
from typing import Any

DEFAULT_INTERVAL_SECONDS = 10.0


class RateLimitedLog(logging.LoggerAdapter[logging.Logger]):
    """Logs each warning and error at most once per interval, with the number of those left out.

    Messages are the same if they differ in arguments only, which may come from a client.
    """

    def __init__(
        self,
        logger: logging.Logger,
        interval_seconds: float = DEFAULT_INTERVAL_SECONDS,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        super().__init__(logger, {})
        self._interval_seconds = interval_seconds
        self._clock = clock
        # By message: when it was last logged, and how many were left out since.
        self._logged: dict[str, tuple[float, int]] = {}

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        """Log the message unless it was logged within the interval."""
        if level < logging.WARNING:
            super().log(level, msg, *args, **kwargs)
            return
        text, now = str(msg), self._clock()
        since, left_out = self._logged.get(text, (-self._interval_seconds, 0))
        if now - since < self._interval_seconds:
            self._logged[text] = since, left_out + 1
            return
        self._logged[text] = now, 0
        more = f" (and {left_out} more like this)" if left_out else ""
        super().log(level, text + more, *args, **kwargs)
