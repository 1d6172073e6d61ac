"""The planner of free capacity over time: does a group fit now, else when, else never.

One planner serves one pass over the queues. Whoever starts and whoever is promised a start takes
what it needs from then until its expected end, and everybody after sees only what is left: a group
that would outlive a promise leaves alone what the promise needs.

As long as all who wait are of one class, counting room over time is exact, whatever machines are
chosen in the end. With several classes counting says when nobody can fit, and the same search as in
a round whether a group really does, on which machines.
"""

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from afflux.admit.horizon import Horizon, Kept
from afflux.admit.packing import Commitment, Packing, Seat, Start
from afflux.admit.satisfying import Satisfying
from afflux.admit.witness import seats_by_counting
from afflux.cluster.state import State
from afflux.model.group import Group
from afflux.model.placement import Placement
from afflux.model.promise import Promise
from afflux.model.task import Shape, Task
from afflux.network.pricing import Pricing

# Times that are tried for a group one by one; after that every second, fourth, eighth... is.
TRIED_IN_TURN = 16


@dataclass(frozen=True, slots=True)
class Outlook:
    """What a planner knows of the world."""

    state: State
    pricing: Pricing
    horizon: Horizon
    satisfying: Satisfying


class Planner:
    """`groups` are all who may be asked about, `kept` what was promised before, by group."""

    def __init__(
        self,
        outlook: Outlook,
        groups: Iterable[Group],
        kept: Mapping[str, Promise],
        now_seconds: float,
    ) -> None:
        self._outlook = outlook
        self._kept = kept
        self._now = now_seconds
        self._shapes = list(dict.fromkeys(shape for group in groups for shape, _ in group.shapes))
        self._rooms: dict[Shape, Kept] = {}
        self.by_counting = len(self._shapes) == 1 and self._shapes[0].devices is None
        self._packing: Packing | None = None
        # Everybody who starts at once, and everybody who is promised a start, by group.
        self.started: dict[str, Commitment] = {}
        self.promised: dict[str, Commitment] = {}
        # Who was let in without a place of its own: the optimiser decides whether there is one.
        self.open: list[Group] = []
        # Who waits for work without end; and who can never start, with the reason.
        self.unknown: dict[str, Group] = {}
        self.never: dict[str, str] = {}

    def let_in(self, groups: Iterable[Group]) -> None:
        """Whoever of them finds a place may start; nobody else waits for them."""
        self.open += groups

    def hold(self, groups: Iterable[Group]) -> None:
        """Hold on to what these groups were promised, as far as that is still possible."""
        for group in groups:
            kept = self._still_kept(group)
            if kept is not None:
                self._promise(kept)

    def start(self, group: Group) -> bool:
        """Whether the group can start at once; then it does."""
        own = self._let_go(group)
        start: Start = (self._now, True)
        run = _run(group)
        if all(self._room(shape).timeline.fits(n, run, start) for shape, n in group.shapes):
            found = self._seats_at_once(group, self._now + run)
            if found is not None:
                self._take(group, start)
                self.started[group.name] = _own(found, group)
                self._reseat(found)
                return True
        if own is not None:
            self._promise(own)
        return False

    def reserve(self, group: Group) -> Promise | None:
        """Promise the group the earliest start there is, never a later one than it was promised.

        Without a time if it waits for work without end; None if it can never start.
        """
        own = self._let_go(group) or self._still_kept(group)
        not_after = own.start[0] if own is not None else math.inf
        if not self._find(group, not_after):
            if own is None:
                return self._without_time(group)
            self._promise(own)
        return Promise(group.name, self.promised[group.name].start[0])

    def complaint(self, group: Group) -> str | None:
        """Why the group can never start, None if it may one day."""
        reason = self._outlook.satisfying.complaint(group)
        if reason is not None:
            self.never[group.name] = reason
        return reason

    def witness(self) -> tuple[Placement, ...]:
        """A place for everybody who starts."""
        placements: list[Placement] = []
        for name, commitment in self.started.items():
            seats = commitment.seats
            if self.by_counting:
                found = self._packed().start(commitment.group, commitment.end, ())
                if found is None:
                    raise AssertionError(f"there was room for {name}, but no machine has it")
                seats = found[0].seats
            for task, (_, row, devices) in _seated(commitment.group, seats):
                placements.append(Placement(task, self._outlook.state.name_of(row), devices))
        return tuple(placements)

    def keeps_promises(self, placements: Sequence[Placement]) -> bool:
        """Whether every promise holds if those who start are placed like this.

        Promises then have seats for it.
        """
        if self.by_counting or not self.promised:
            return True
        found = self._packed().rearrange(self._placed(placements), self.promised.values())
        if found is None:
            return False
        self._reseat(found)
        return True

    def promises(self, placements: Sequence[Placement], *, seated: bool = True) -> list[Promise]:
        """All promises, given where those who start are placed; `seated` with their witness."""
        if self.by_counting and seated and self.promised:
            self._seat(self._placed(placements))
        names = self._outlook.state.name_of
        known = [
            Promise(
                name,
                commitment.start[0],
                tuple(
                    (task.id, names(row))
                    for task, (_, row, _) in _seated(commitment.group, commitment.seats)
                ),
            )
            for name, commitment in self.promised.items()
        ]
        return known + [Promise(name, None) for name in self.unknown]

    def held(self) -> Iterable[Seat]:
        """What is promised, wherever and whenever: who has no place of its own keeps off it."""
        return (seat for commitment in self.promised.values() for seat in commitment.seats)

    def _find(self, group: Group, not_after: float) -> bool:
        """Promise the earliest start that is not later than this, if there is one."""
        start = self._earliest(group, self._now)
        if self.by_counting:
            if start is None or start[0] > not_after:
                return False
            self._promise(Commitment(group, start, start[0] + _run(group), ()))
            return True
        run, tried, stride = _run(group), 0, 1
        while start is not None and start[0] <= not_after:
            # What is free at once was tried before; here something has to end first.
            start = (start[0], False)
            found = self._packed().reserve(group, start, start[0] + run, self._committed())
            if found is not None:
                self._take(group, start)
                self.promised[group.name] = _own(found, group)
                self._reseat(found)
                return True
            tried += 1
            stride *= 2 if tried > TRIED_IN_TURN else 1
            after = self._after(start[0], stride)
            start = self._earliest(group, after) if after is not None else None
        return False

    def _earliest(self, group: Group, not_before: float) -> Start | None:
        """When there is room for every class by counting."""
        run = _run(group)
        if len(group.shapes) == 1:
            shape, count = group.shapes[0]
            return self._room(shape).timeline.earliest(count, run, not_before)
        # Each class moves the start on, until all of them agree on one.
        at, agreed = not_before, False
        while not agreed:
            agreed = True
            for shape, count in group.shapes:
                found = self._room(shape).timeline.earliest(count, run, at)
                if found is None:
                    return None
                if found[0] > at:
                    at, agreed = found[0], False
        return at, False

    def _after(self, at: float, stride: int) -> float | None:
        """The stride-th next time at which something ends."""
        ends = sorted(
            {end for end in self._packed().ends() if end > at}
            | {c.end for c in self.promised.values() if at < c.end < math.inf}
            | {c.end for c in self.started.values() if at < c.end < math.inf}
        )
        if not ends:
            return None
        return ends[min(stride, len(ends)) - 1] if stride <= len(ends) else None

    def _still_kept(self, group: Group) -> Commitment | None:
        """What the group was promised, if that still holds."""
        kept = self._kept.get(group.name)
        if kept is None or kept.start_seconds is None or kept.start_seconds < self._now:
            return None
        start: Start = (kept.start_seconds, False)
        run = _run(group)
        if not all(self._room(shape).timeline.fits(n, run, start) for shape, n in group.shapes):
            return None
        promise = Commitment(group, start, start[0] + run, ())
        if self.by_counting:
            return promise
        rows = self._outlook.state.rows
        where = dict(kept.machines)
        if any(where.get(task.id) not in rows for task in group.tasks):
            return None
        wanted = tuple((task.shape, rows[where[task.id]], ()) for task in group.tasks)
        promise = Commitment(group, start, promise.end, wanted)
        seats = self._packed().keep(promise, self._committed())
        return None if seats is None else Commitment(group, start, promise.end, seats)

    def _without_time(self, group: Group) -> Promise | None:
        if self.complaint(group) is not None:
            return None
        self.unknown[group.name] = group
        return Promise(group.name, None)

    def _promise(self, commitment: Commitment) -> None:
        self._take(commitment.group, commitment.start)
        self.promised[commitment.group.name] = commitment

    def _let_go(self, group: Group) -> Commitment | None:
        own = self.promised.pop(group.name, None)
        if own is not None:
            for shape, count in group.shapes:
                self._room(shape).timeline.take(-count, _run(group), own.start)
        return own

    def _take(self, group: Group, start: Start) -> None:
        for shape, count in group.shapes:
            self._room(shape).timeline.take(count, _run(group), start)

    def _seats_at_once(self, group: Group, end: float) -> Sequence[Commitment] | None:
        if self.by_counting:
            return (Commitment(group, (self._now, True), end, ()),)
        return self._packed().start(group, end, self._committed())

    def _reseat(self, commitments: Iterable[Commitment]) -> None:
        """Promises keep their times, but may have got other machines."""
        for commitment in commitments:
            if commitment.group.name in self.promised:
                self.promised[commitment.group.name] = commitment

    def _committed(self) -> list[Commitment]:
        return [*self.started.values(), *self.promised.values()]

    def _room(self, shape: Shape) -> Kept:
        room = self._rooms.get(shape)
        if room is None:
            room = self._rooms[shape] = self._outlook.horizon.begin(shape, self._now)
        return room

    def _packed(self) -> Packing:
        if self._packing is None:
            outlook = self._outlook
            self._packing = Packing(outlook.state, outlook.pricing, self._shapes, self._now)
        return self._packing

    def _placed(self, placements: Sequence[Placement]) -> list[Commitment]:
        """Those who start, on the machines they were given."""
        rows = self._outlook.state.rows
        where = {p.task.id: (p.task.shape, rows[p.machine], p.devices) for p in placements}
        return [
            Commitment(c.group, c.start, c.end, tuple(where[task.id] for task in c.group.tasks))
            for c in self.started.values()
            if all(task.id in where for task in c.group.tasks)
        ]

    def _seat(self, started: Sequence[Commitment]) -> None:
        shape = self._shapes[0]
        room = self._outlook.pricing.prices(shape).room
        promised = list(self.promised.values())
        seats = seats_by_counting(room, self._room(shape).growth, started, promised)
        for commitment, rows in zip(promised, seats, strict=True):
            self.promised[commitment.group.name] = Commitment(
                commitment.group,
                commitment.start,
                commitment.end,
                tuple((shape, row, ()) for row in rows),
            )


def _run(group: Group) -> float:
    return math.inf if group.run_seconds is None else group.run_seconds


def _own(commitments: Iterable[Commitment], group: Group) -> Commitment:
    return next(each for each in commitments if each.group.name == group.name)


def _seated(group: Group, seats: Iterable[Seat]) -> list[tuple[Task, Seat]]:
    """Which member takes which seat: in order, within each class."""
    free: dict[Shape, list[Seat]] = {}
    for seat in seats:
        free.setdefault(seat[0], []).append(seat)
    return [(task, free[task.shape].pop(0)) for task in group.tasks if free.get(task.shape)]
