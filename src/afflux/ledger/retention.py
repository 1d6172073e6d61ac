"""History has an end: what is older than it is kept for goes, some of it with a turn now and then.

With a turn, because the fence lets only the leader write, and because that costs no round trip of
its own. Some of it, because somebody may wait for that turn: the rest goes with later ones. Not
here: groups that have not ended. They are in other tables, and stay there however old they are.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

Step = tuple[str, Mapping[str, Any]]

# The accounts of a year, and a month to close them in.
USUAL_DAYS = 400
# A hundred years: for those who want to keep all of it.
MOST_DAYS = 36_500
# Words are for whoever looks for a cause, not for accounts, and a pod that is refused again and
# again makes many.
DAYS_OF_EVENTS = 30
# Rows of each table that go with one turn. In no cluster do as many groups end in every second of
# a day; and it is a millisecond's work, unless they have thousands of pods (docs/ledger.md).
MOST_AT_ONCE = 100
# A leader that has just taken over has more urgent things to write.
FIRST_PAUSE_SECONDS = 60.0
# Between two batches, as long as there is more.
SHORT_PAUSE_SECONDS = 1.0
# Until it is looked again, when nothing was left: days do not end more often.
LONG_PAUSE_SECONDS = 3_600.0

_log = logging.getLogger(__name__)


class Forgetting:
    """When the leader forgets next, and what; `now` is in seconds of a clock that only rises."""

    def __init__(self, history_days: int) -> None:
        self._history_days = history_days
        self._due = 0.0
        self._gone = 0

    def begin(self, now: float) -> None:
        """A leader has taken over."""
        self._due, self._gone = now + FIRST_PAUSE_SECONDS, 0

    def steps(self, now: float) -> list[Step]:
        """Statements for the turn that is being written; none if it is too early.

        They are put off as soon as they are handed out: if the turn fails, perhaps because of them,
        it is offered again without them.
        """
        if now < self._due:
            return []
        self._due = now + LONG_PAUSE_SECONDS
        days = {
            "forget_history": self._history_days,
            # No words about what nobody knows any more.
            "forget_events": min(self._history_days, DAYS_OF_EVENTS),
        }
        return [(name, {"days": days[name], "most": MOST_AT_ONCE}) for name in days]

    def forgot(self, rows: Sequence[int], now: float) -> None:
        """So many rows went by each of these statements; a full batch means that there are more."""
        self._gone += sum(rows)
        if any(count >= MOST_AT_ONCE for count in rows):
            self._due = now + SHORT_PAUSE_SECONDS
        elif self._gone:
            _log.info(
                "%s rows of history (%s days) and events went", self._gone, self._history_days
            )
            self._gone = 0
