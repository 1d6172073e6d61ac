"""Who fits when, if those who wait are of several classes that share machines.

Counting each class alone says when nobody can fit. Whether a group really does is searched for on
the machines as they will be, at those times at which something ends.
"""

import math
from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from afflux._core import Timeline
from afflux.admit.commitment import Commitment, Start, run_of
from afflux.admit.horizon import Horizon
from afflux.admit.packing import Packing
from afflux.model.group import Group
from afflux.model.task import Shape

# Times that are tried for a group one by one; after that every second, fourth, eighth... is.
# For one who has a promise, fewer: it may hope for the next pass.
TRIED_IN_TURN = 16
TRIED_TO_IMPROVE = 4
# What one pass may spend on it, in machines looked at: about three seconds. Who is not reached
# keeps what it was promised, or waits for the next pass. As much again is for those whose promise
# cannot be kept: they are promised another start in any case, but not the earliest one for long.
MOST_EFFORT = 3_000_000
OF_EACH_TRY = 200


class Searching:
    """Several classes in one pass."""

    def __init__(
        self, horizon: Horizon, packing: Packing, shapes: Iterable[Shape], now_seconds: float
    ) -> None:
        self.started: dict[str, Commitment] = {}
        self.promised: dict[str, Commitment] = {}
        self._packing = packing
        self._now = now_seconds
        self._effort_left = MOST_EFFORT
        self._effort_for_slips = MOST_EFFORT
        # When something ends, each time once, in order; and how many do then.
        self._ending: Counter[float] = Counter(packing.ends())
        self._ends = sorted(self._ending)
        self._timelines: dict[Shape, Timeline] = {
            shape: horizon.begin(shape, now_seconds).timeline for shape in shapes
        }

    def knows(self, group: Group) -> bool:
        """Whether the classes of a group are among those of this pass."""
        return all(shape in self._timelines for shape, _ in group.shapes)

    def adopt(self, started: Iterable[Group], promised: Iterable[Commitment]) -> list[Group]:
        """Go on with what was found by counting, for one class: everybody finds machines.

        Whoever does not after all is returned.
        """
        for group in started:
            self.start(group)
        promised = list(promised)
        found = self._kept(promised) or self._packing.rearrange([*self.started.values()], promised)
        if found is None:
            # Rather a later start for one of them than none for all.
            return [
                each.group
                for each in promised
                if not self.hold(each) and not self.promise_again(each.group)
            ]
        for each in found:
            if each.group.name not in self.started:
                self._promise(each)
        return []

    def _kept(self, promised: Iterable[Commitment]) -> list[Commitment] | None:
        """All of them on the machines they have, if they can stay: other classes count on that."""
        placed = list(self.started.values())
        for each in promised:
            seats = self._packing.keep(each, placed) if each.seats else None
            if seats is None:
                return None
            placed.append(Commitment(each.group, each.start, each.end, seats))
        return placed

    def start(self, group: Group) -> bool:
        """Whether the group can start at once; then it does."""
        start: Start = (self._now, True)
        if not self._has_room(group, start):
            return False
        found = self._packing.start(group, self._now + run_of(group), self._committed())
        if found is None:
            return False
        self._take(group, start)
        self._ends_then(self._now + run_of(group))
        self.started[group.name] = next(each for each in found if each.group is group)
        self.reseat(found)
        return True

    def promise(self, group: Group, not_after: float) -> bool:
        """Promise the group the earliest start found, if that is not later than this."""
        most = math.inf if not_after == math.inf else TRIED_TO_IMPROVE
        for number, at in enumerate(self._candidates(group, TRIED_IN_TURN)):
            if at > not_after or number >= most or self.is_exhausted:
                return False
            self._effort_left -= self._of_each_try
            if self._promise_at(group, at):
                return True
        return False

    def promise_again(self, group: Group) -> bool:
        """Promise a group another start, whose promise cannot be kept. Whatever the others have
        cost there is one, unless it waits for work without end."""
        in_turn = TRIED_IN_TURN if self._effort_for_slips > 0 else 0
        for at in self._candidates(group, in_turn):
            self._effort_for_slips -= self._of_each_try
            if self._promise_at(group, at):
                return True
        return False

    def _candidates(self, group: Group, in_turn: int) -> Iterator[float]:
        """When the group might start: so many times at which something ends one by one, then every
        second, fourth, eighth..., and the last one in any case."""
        tried, stride = 0, 1
        at = self._earliest(group, self._now)
        while at is not None:
            yield at
            tried += 1
            stride *= 2 if tried > in_turn else 1
            later = self._after(at, stride)
            at = None if later is None else self._earliest(group, later)

    def _promise_at(self, group: Group, at: float) -> bool:
        found = self._packing.reserve(group, (at, False), at + run_of(group), self._committed())
        if found is None:
            return False
        self._promise(next(each for each in found if each.group is group))
        self.reseat(found)
        return True

    @property
    def _of_each_try(self) -> int:
        return OF_EACH_TRY + self._packing.machines

    @property
    def is_exhausted(self) -> bool:
        """Whether nobody further is searched for in this pass."""
        return self._effort_left <= 0

    def hold(self, promise: Commitment) -> bool:
        """Promise a group what it was promised before, on the same machines, if that still holds.

        Without machines, on any.
        """
        if not self._has_room(promise.group, promise.start):
            return False
        others = self._committed()
        if promise.seats:
            seats = self._packing.keep(promise, others)
            if seats is not None:
                self._promise(Commitment(promise.group, promise.start, promise.end, seats))
                return True
        found = self._packing.reserve(promise.group, promise.start, promise.end, others)
        if found is None:
            return False
        self._promise(next(each for each in found if each.group is promise.group))
        self.reseat(found)
        return True

    def may_start(self, group: Group) -> bool:
        """Whether a group that has a promise might start at once, as far as counting can tell."""
        own = self.let_go(group)
        has_room = self._has_room(group, (self._now, True))
        if own is not None:
            self._promise(own)
        return has_room

    def let_go(self, group: Group) -> Commitment | None:
        """Take back what the group was promised in this pass."""
        own = self.promised.pop(group.name, None)
        if own is not None:
            for shape, count in group.shapes:
                self._timelines[shape].take(-count, run_of(group), own.start)
            self._ends_no_more(own.end)
        return own

    def take_back(self, own: Commitment) -> None:
        """What the group was promised in this pass holds after all."""
        self._promise(own)

    def reseat(self, commitments: Iterable[Commitment]) -> None:
        """Promises keep their times, but may have got other machines."""
        for commitment in commitments:
            if commitment.group.name in self.promised:
                self.promised[commitment.group.name] = commitment

    def rearranged(self, started: Sequence[Commitment]) -> bool:
        """Whether all promises hold if those who start have these seats; they then fit to it."""
        found = self._packing.rearrange(started, self.promised.values())
        self.reseat(found or ())
        return found is not None

    def _committed(self) -> list[Commitment]:
        return [*self.started.values(), *self.promised.values()]

    def _promise(self, commitment: Commitment) -> None:
        self._take(commitment.group, commitment.start)
        self._ends_then(commitment.end)
        self.promised[commitment.group.name] = commitment

    def _take(self, group: Group, start: Start) -> None:
        for shape, count in group.shapes:
            self._timelines[shape].take(count, run_of(group), start)

    def _has_room(self, group: Group, start: Start) -> bool:
        run = run_of(group)
        return all(self._timelines[shape].fits(n, run, start) for shape, n in group.shapes)

    def _earliest(self, group: Group, not_before: float) -> float | None:
        """When there is room for every class, each counted alone."""
        # Each class moves the start on, until all of them agree on one.
        at, agreed = not_before, False
        while not agreed:
            agreed = True
            for shape, count in group.shapes:
                found = self._timelines[shape].earliest(count, run_of(group), at)
                if found is None:
                    return None
                if found[0] > at:
                    at, agreed = found[0], False
        return at

    def _after(self, at: float, stride: int) -> float | None:
        """The stride-th next time at which something ends, or the last one there is."""
        place = bisect_right(self._ends, at)
        if place == len(self._ends):
            return None
        return self._ends[min(place + stride, len(self._ends)) - 1]

    def _ends_then(self, end: float) -> None:
        """One more that is there until then."""
        if not self._ending[end] and end < math.inf:
            insort(self._ends, end)
        self._ending[end] += 1

    def _ends_no_more(self, end: float) -> None:
        self._ending[end] -= 1
        if not self._ending[end] and end < math.inf:
            del self._ends[bisect_left(self._ends, end)]
