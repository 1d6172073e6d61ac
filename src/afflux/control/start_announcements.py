"""Start announcements: what the tasks of a waiting group say about its reserved start, and when.

Reservations move in every cycle, with everything that ends early or late. Writing each move to
every task would load the cluster for nothing: only moves that matter to people are announced, at a
limited rate for all groups together. A group whose announcement has to wait keeps its old text.
No clock and no network here.
"""

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from afflux.cycle.inspection_types import to_datetime
from afflux.model.reservation import Reservation

# A start that moved by less than this is not announced again; nor is one that moved by less than
# this share of the time between the first announcement and the start.
MIN_MOVE_SECONDS = 60.0
MIN_MOVE_SHARE = 0.1
# The rate and burst of a token bucket of announced tasks; each takes an event and a condition. The
# last group of a burst may exceed it.
TASKS_PER_SECOND = 10.0
MAX_BURST_TASKS = 1_000.0

UNKNOWN = "When it starts is unknown: it waits for work without end."
_PREFIX = "Promised to start by"
_TEXT_AT_END = re.compile(rf"(?:{re.escape(UNKNOWN)}|{_PREFIX} [0-9-]{{10}} [0-9:]{{5}} UTC\.)\Z")


@dataclass(frozen=True, slots=True)
class _Announced:
    """The last announcement of a group; `start` is None if unknown, `since` is the first's time."""

    since: float
    start: float | None
    text: str


def start_text(start_seconds: float | None) -> str:
    """The text for a reserved start; times are rounded up to the next full minute."""
    if start_seconds is None:
        return UNKNOWN
    return f"{_PREFIX} {to_datetime(math.ceil(start_seconds / 60) * 60):%Y-%m-%d %H:%M} UTC."


def start_text_in(message: str) -> str:
    """The start text at the end of a message, which an earlier leader may have written."""
    found = _TEXT_AT_END.search(message)
    return found[0] if found else ""


class StartAnnouncements:
    """The announcements of all waiting groups."""

    def __init__(self) -> None:
        self._announced: dict[str, _Announced] = {}
        self._tokens = MAX_BURST_TASKS
        self._as_of = -math.inf

    def announce(
        self,
        reservations: Iterable[Reservation],
        tasks_of: Callable[[str], int],
        now_seconds: float,
    ) -> dict[str, str | None]:
        """The text for every group with a reservation; None if its first announcement has to wait.

        `tasks_of` returns how many tasks of a group would get the text. Groups without a
        reservation are not in the result.
        """
        passed = max(0.0, now_seconds - self._as_of)
        self._as_of = now_seconds
        self._tokens = min(MAX_BURST_TASKS, self._tokens + passed * TASKS_PER_SECOND)
        starts = {reservation.group: reservation.start_seconds for reservation in reservations}
        before = {name: each for name, each in self._announced.items() if name in starts}
        self._announced = before
        for name, start in starts.items():
            last = before.get(name)
            if last is not None and not _matters(last, start):
                continue
            tasks = tasks_of(name)
            if not tasks or self._tokens <= 0:
                continue
            self._tokens -= tasks
            since = now_seconds if last is None else last.since
            self._announced[name] = _Announced(since, start, start_text(start))
        return {name: last.text if (last := self._announced.get(name)) else None for name in starts}


def _matters(last: _Announced, start: float | None) -> bool:
    if last.start is None or start is None:
        return last.start is not start
    min_move = max(MIN_MOVE_SECONDS, MIN_MOVE_SHARE * (start - last.since))
    return abs(start - last.start) >= min_move
