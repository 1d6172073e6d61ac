"""Turns: whom one cycle looks at, where a queue has a depth.

Who waits for work without end is in nobody's way: those behind it are looked at as if it were not
there. But it has to be looked at too, or it would not start when the work ends after all; and where
thousands wait like this, not all of them in every cycle. Those at the head always are, so that who
came first has the first choice. Of the others each has its turn.
"""

from collections.abc import Collection, Sequence
from heapq import nsmallest

from afflux.admit.satisfying import Satisfying
from afflux.model.group import Group
from afflux.model.promise import Standing
from afflux.queue.rules import QueueRules


class Turns:
    """Remembers who was looked at when."""

    def __init__(self, satisfying: Satisfying) -> None:
        self._satisfying = satisfying
        # Cycles are counted: the last one, the last one with news, and when a group was last
        # looked at.
        self._number = 0
        self._since = 0
        self._last: dict[str, int] = {}

    def whom(
        self, groups: Sequence[Group], rules: QueueRules, standing: Standing
    ) -> Sequence[Group]:
        """So many of one queue from the first on, and behind them those who were promised a start
        before others came ahead.

        Who can never start does not count. Nor does who was told that nobody knows when, unless
        machines are held for it: of those come as many on top.
        """
        depth = rules.depth
        if depth is None or len(groups) <= depth:
            return groups
        unknown = _unknown(rules, standing)
        within = self._within(groups, depth, unknown)
        waiting = [group for group in groups[:within] if group.name in unknown]
        share = max(1, depth // 2)
        turn = nsmallest(share, waiting[share:], key=lambda group: self._last.get(group.name, 0))
        passed = unknown.difference(group.name for group in (*waiting[:share], *turn))
        return [
            *(group for group in groups[:within] if group.name not in passed),
            *(group for group in groups[within:] if _has_time(group, standing)),
        ]

    def looked_at(
        self, groups: Sequence[Group], waiting: Sequence[Group], standing: Standing
    ) -> None:
        """A cycle is over, in which these were, of all who wait."""
        self._number += 1
        if standing.has_news:
            self._since = self._number
        last = self._last | dict.fromkeys((group.name for group in groups), self._number)
        self._last = {group.name: last[group.name] for group in waiting if group.name in last}

    def are_to_come(self, groups: Sequence[Group], rules: QueueRules, standing: Standing) -> bool:
        """Whether the next cycle would look at somebody of this queue who has not been looked at
        since there were news."""
        if rules.depth is None:
            return False
        within = self._within(groups, rules.depth, _unknown(rules, standing))
        return any(self._last.get(group.name, 0) < self._since for group in groups[:within])

    def _within(self, groups: Sequence[Group], depth: int, unknown: Collection[str]) -> int:
        """How many groups there are up to the last one that counts."""
        counted = 0
        for number, group in enumerate(groups):
            if counted == depth:
                return number
            if group.name not in unknown:
                counted += self._satisfying.complaint(group) is None
        return len(groups)


def _has_time(group: Group, standing: Standing) -> bool:
    promise = standing.promises.get(group.name)
    return promise is not None and promise.start_seconds is not None


def _unknown(rules: QueueRules, standing: Standing) -> frozenset[str]:
    """Who was told that nobody knows when, and is in nobody's way."""
    if rules.holds_for_endless:
        return frozenset()
    promises = standing.promises.items()
    return frozenset(name for name, each in promises if each.start_seconds is None)
