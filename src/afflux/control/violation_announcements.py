"""Violation announcements: tells which running tasks do not meet their requirements any more.

A task whose requirements hold while it runs gets an event when it comes to violate them; the metric
has the number of violating tasks, and the ledger, for `afflux group`, the violation until it ends.
Repairing it is left to the user.

The state is judged after a cycle in which it has changed, in the thread of the cycle. Judging takes
at most a small share of the time: where it would take more, it comes later.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from time import monotonic

from afflux.control.adapter import Notices
from afflux.plan.standing_violations import CONSTRAINT_KINDS, StandingViolations, Violation
from afflux.web.scheduler_metrics import Metrics

MAX_JUDGING_SHARE = 0.05

Judge = Callable[[Callable[[], Sequence[Violation]]], Awaitable[Sequence[Violation]]]
"""Runs a function where it may read the state: in the thread of the cycle."""


class ViolationAnnouncements:
    """Announces when violations begin; called by the control loop after each cycle."""

    def __init__(
        self,
        notices: Notices,
        metrics: Metrics,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._notices = notices
        self._metrics = metrics
        self._clock = clock
        # When the state may be judged again, and the time for which a cycle was asked for that.
        self._next_at = 0.0
        self._asked_for: float | None = None
        # The violations that were announced last, by uid.
        self._known: dict[str, Violation] = {}
        metrics.violated(dict.fromkeys(CONSTRAINT_KINDS, 0))

    async def update(
        self, violations: StandingViolations, judge: Judge, wake_in: Callable[[float], None]
    ) -> Sequence[Violation] | None:
        """Judge the state if it has changed, and announce new violations.

        Returns all violations if they differ from those before, else None. If it is too early to
        judge again, `wake_in` is asked for a cycle in so many seconds.
        """
        if not violations.is_stale:
            return None
        began = self._clock()
        if began < self._next_at:
            if self._asked_for != self._next_at:
                self._asked_for = self._next_at
                wake_in(self._next_at - began)
            return None
        found = await judge(violations.current)
        now = self._clock()
        self._next_at = now + (now - began) / MAX_JUDGING_SHARE
        return self._announce(found)

    def _announce(self, found: Sequence[Violation]) -> Sequence[Violation] | None:
        now = {each.task.id: each for each in found}
        counts = Counter(kind for each in found for kind in each.kinds)
        self._metrics.violated({kind: counts[kind] for kind in CONSTRAINT_KINDS})
        for uid, violation in now.items():
            known = self._known.get(uid)
            if known is None or _text(known) != _text(violation):
                self._notices.event(violation.task, "violation", _text(violation))
        has_changed = now != self._known
        self._known = now
        return found if has_changed else None


def _text(violation: Violation) -> str:
    return f"{violation.machine} does not meet the pod's requirements: {violation.why}"
