"""Depth rotation: selects the groups that one cycle examines, in a queue with a depth.

A group whose start is unknown (it waits for work without end) does not block the groups behind it,
so it does not count towards the depth. It still has to be examined from time to time, since the
work may end after all. Where thousands of groups wait like this, a cycle examines only some of
them: always the first ones, which keep the first choice, and of the others those that have not
been examined for longest.
"""

from collections.abc import Collection, Sequence
from heapq import nsmallest

from afflux.admit.feasibility import Feasibility
from afflux.model.reservation import StandingReservations
from afflux.model.waiting_group import WaitingGroup
from afflux.queue.rules import QueueRules


class DepthRotation:
    """Remembers in which cycle each group was examined last."""

    def __init__(self, feasibility: Feasibility) -> None:
        self._feasibility = feasibility
        # The number of the last cycle, of the last cycle with unblocking events, and of the cycle
        # in which each group was examined last.
        self._cycle = 0
        self._cycle_with_events = 0
        self._examined_in: dict[str, int] = {}

    def select(
        self, groups: Sequence[WaitingGroup], rules: QueueRules, earlier: StandingReservations
    ) -> Sequence[WaitingGroup]:
        """The groups of one queue that this cycle examines, in queue order.

        These are `depth` groups from the head, and all groups with a reserved start, however far
        back they are. Groups that can never start do not count. Unless the queue holds machines for
        work without end, groups whose start is unknown do not count either; at most `depth` of them
        are examined on top (two, if `depth` is 1).
        """
        depth = rules.depth
        if depth is None or len(groups) <= depth:
            return groups
        unknown = _unknown_starts(rules, earlier)
        reach = self._reach(groups, depth, unknown)
        waiting = [group for group in groups[:reach] if group.key in unknown]
        share = max(1, depth // 2)
        rotated = nsmallest(share, waiting[share:], key=self._last_examined)
        passed = unknown.difference(group.key for group in (*waiting[:share], *rotated))
        return [
            *(group for group in groups[:reach] if group.key not in passed),
            *(group for group in groups[reach:] if earlier.start_of(group.key) is not None),
        ]

    def record_examined(
        self,
        groups: Sequence[WaitingGroup],
        waiting: Sequence[WaitingGroup],
        earlier: StandingReservations,
    ) -> None:
        """A cycle is over; it examined these groups of all that wait."""
        self._cycle += 1
        if earlier.has_unblocking_events:
            self._cycle_with_events = self._cycle
        known = self._examined_in | dict.fromkeys((group.key for group in groups), self._cycle)
        self._examined_in = {g.key: known[g.key] for g in waiting if g.key in known}

    def has_pending(
        self, groups: Sequence[WaitingGroup], rules: QueueRules, earlier: StandingReservations
    ) -> bool:
        """Whether groups within reach of this queue have not been examined since the last
        unblocking event."""
        if rules.depth is None:
            return False
        reach = self._reach(groups, rules.depth, _unknown_starts(rules, earlier))
        return any(self._last_examined(group) < self._cycle_with_events for group in groups[:reach])

    def _last_examined(self, group: WaitingGroup) -> int:
        return self._examined_in.get(group.key, 0)

    def _reach(self, groups: Sequence[WaitingGroup], depth: int, unknown: Collection[str]) -> int:
        """The number of groups up to the last one that counts towards the depth."""
        counted = 0
        for number, group in enumerate(groups):
            if counted == depth:
                return number
            if group.key not in unknown:
                counted += self._feasibility.infeasible_reason(group) is None
        return len(groups)


def _unknown_starts(rules: QueueRules, earlier: StandingReservations) -> frozenset[str]:
    """The groups whose start is unknown, and which do not block the groups behind them."""
    if rules.hold_for_endless:
        return frozenset()
    reservations = earlier.reservations.items()
    return frozenset(name for name, each in reservations if each.start_seconds is None)
