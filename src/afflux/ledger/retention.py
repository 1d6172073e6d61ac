"""Retention: the leader deletes old history, a bounded number of rows together with some batches.

It is part of a batch, because then the fence protects it and it costs no round trip of its own. The
number of rows is bounded, because a cycle may wait for the batch. Groups that have not ended are in
other tables and are never deleted by age.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Step = tuple[str, Mapping[str, Any]]

# One year, which accounting needs, and a month to close the accounts.
DEFAULT_HISTORY_DAYS = 400
# A hundred years, which keeps everything.
MAX_HISTORY_DAYS = 36_500
# Events serve to find the cause of a problem, not for accounting, and a pod that is refused again
# and again makes many.
EVENT_DAYS = 30
# Of each table, with one batch. No cluster ends more groups in every second of a day, and deleting
# them takes a millisecond, unless they have thousands of pods (docs/ledger.md).
MAX_ROWS = 100

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RetentionIntervals:
    """When old history is looked for."""

    # A new leader has more urgent things to write.
    initial_seconds: float = 60.0
    # While there is more to delete.
    busy_seconds: float = 1.0
    # After everything old was deleted.
    idle_seconds: float = 3_600.0


DEFAULT_INTERVALS = RetentionIntervals()


class Retention:
    """Decides when the leader deletes history, and which; `now` is a monotonic time in seconds."""

    def __init__(
        self,
        history_days: int = DEFAULT_HISTORY_DAYS,
        *,
        max_rows: int = MAX_ROWS,
        intervals: RetentionIntervals = DEFAULT_INTERVALS,
    ) -> None:
        self._history_days = history_days
        self._max_rows = max_rows
        self._intervals = intervals
        self._due = 0.0
        self._deleted_rows = 0

    def begin(self, now: float) -> None:
        """A leader has taken over."""
        self._due, self._deleted_rows = now + self._intervals.initial_seconds, 0

    def steps(self, now: float) -> list[Step]:
        """The deletions to send with the next batch; none before they are due.

        The next ones are due later even if these fail: a batch that fails, perhaps because of them,
        is retried without them.
        """
        if now < self._due:
            return []
        self._due = now + self._intervals.idle_seconds
        days = {
            "delete_old_history": self._history_days,
            # Events are not kept longer than the groups.
            "delete_old_events": min(self._history_days, EVENT_DAYS),
        }
        return [(name, {"days": days[name], "limit": self._max_rows}) for name in days]

    def deleted(self, rows: Sequence[int], now: float) -> None:
        """Each of the statements deleted so many rows; the maximum means that there may be more."""
        self._deleted_rows += sum(rows)
        if any(count >= self._max_rows for count in rows):
            self._due = now + self._intervals.busy_seconds
        elif self._deleted_rows:
            _log.info(
                "deleted %s old rows of history (older than %s days) and of events",
                self._deleted_rows,
                self._history_days,
            )
            self._deleted_rows = 0
