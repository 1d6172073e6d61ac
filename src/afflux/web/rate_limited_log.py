"""A log that nobody can flood: of what anybody may cause, one line in a while."""

import logging
from collections.abc import Callable
from time import monotonic
from typing import Any

SELDOM_SECONDS = 10.0


class Seldom(logging.LoggerAdapter[logging.Logger]):
    """Logs warnings and errors of one wording once in `seconds`, and how many there were between.

    The wording is the message without its arguments: those may come from whoever asks.
    """

    def __init__(
        self,
        logger: logging.Logger,
        seconds: float = SELDOM_SECONDS,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        super().__init__(logger, {})
        self._seconds = seconds
        self._clock = clock
        # By wording, when it was last logged, and how often it was not since.
        self._logged: dict[str, tuple[float, int]] = {}

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        """As every logger does, unless it was just said."""
        if level < logging.WARNING:
            super().log(level, msg, *args, **kwargs)
            return
        wording, now = str(msg), self._clock()
        since, left_out = self._logged.get(wording, (-self._seconds, 0))
        if now - since < self._seconds:
            self._logged[wording] = since, left_out + 1
            return
        self._logged[wording] = now, 0
        more = f" (and {left_out} more like this)" if left_out else ""
        super().log(level, wording + more, *args, **kwargs)
