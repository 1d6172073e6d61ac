"""The planner of free capacity over time: does a group fit now, else when, else never.

One planner serves one pass over the queues. Whoever starts and whoever is promised a start takes
what it needs from then until its expected end, and everybody after sees only what is left: a group
that would outlive a promise leaves alone what the promise needs.

It counts as long as all who are asked about are of one class, and searches from the first one on
who is not.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from afflux.admit.commitment import Commitment, Seat, run_of
from afflux.admit.counting import Counting
from afflux.admit.endings import Expecting
from afflux.admit.horizon import Horizon
from afflux.admit.packing import Packing
from afflux.admit.satisfying import Satisfying
from afflux.admit.searching import Searching
from afflux.cluster.state import State
from afflux.model.group import Group
from afflux.model.placement import Placement
from afflux.model.promise import Promise, Standing
from afflux.model.task import Shape, Task
from afflux.network.pricing import Pricing


@dataclass(frozen=True, slots=True)
class Outlook:
    """What a planner knows of the world; so many classes may be searched for at once."""

    state: State
    pricing: Pricing
    horizon: Horizon
    expecting: Expecting
    satisfying: Satisfying
    most_classes: int


class Planner:
    """`groups` are all who may be asked about, `standing` is what was promised before."""

    def __init__(
        self,
        outlook: Outlook,
        groups: Sequence[Group],
        standing: Standing,
        now_seconds: float,
    ) -> None:
        self._outlook = outlook
        self._groups = groups
        self._standing = standing
        self._now = now_seconds
        # Whether every promise can be kept without looking: nothing unexpected has happened.
        self._as_planned = standing.as_expected
        self._counting: Counting | None = None
        self._searching: Searching | None = None
        # Whether somebody could not be promised anything because of its class: nobody behind it is
        # promised what it might want.
        self._is_full = False
        # Who was let in without a place of its own: the optimiser decides whether there is one.
        self.open: list[Group] = []
        # Who waits for work without end; and who was asked about in vain: it can never start, or
        # there is more than can be looked at in one pass.
        self.unknown: dict[str, Group] = {}
        self.unreached: set[str] = set()

    def let_in(self, groups: Iterable[Group]) -> None:
        """Whoever of them finds a place may start; nobody else waits for them."""
        self.open += groups

    def hold(self, groups: Iterable[Group]) -> None:
        """Hold on to what these groups were promised, as far as that is still possible.

        Whose promise cannot be kept, because something takes longer than was thought, is promised
        the next start there is before those behind it hold on to theirs: a slip of a second must
        not put the first behind all the others.
        """
        for group in groups:
            if not self._hold(group) and self.was_promised(group):
                self.reserve(group)

    def was_promised(self, group: Group) -> bool:
        """Whether the group was promised a start before this pass."""
        promise = self._standing.promises.get(group.name)
        return promise is not None and promise.start_seconds is not None

    def stands(self, group: Group) -> bool:
        """Whether a promise stands, because nothing has happened that was not expected.

        Then there is no earlier start to look for.
        """
        standing = self._standing
        if not standing.as_expected:
            return False
        promise = standing.promises.get(group.name)
        if promise is None or promise.start_seconds is None or promise.start_seconds <= self._now:
            return False
        held = self._counting if self._searching is None else None
        if held is not None and group.name in held.promised:
            # Most are asked about after they were held: nothing has to be counted.
            return True
        counting = self._counted(group)
        if counting is None:
            searching = self._searched()
            if group.name not in searching.promised and not self._hold(group):
                return False
            # A search may have missed what is there; nothing would happen when its time has come.
            return not searching.may_start(group)
        return counting.hold(group, promise.start_seconds, surely=self._as_planned)

    def start(self, group: Group) -> bool:
        """Whether the group can start at once; then it does."""
        counting = self._counted(group)
        if counting is not None:
            own = counting.let_go(group)
            if counting.start(group):
                self._note(group, self._now)
                return True
            if own is not None:
                counting.hold(group, own, surely=True)
            return False
        searching = self._searched()
        if not searching.knows(group):
            self.unreached.add(group.name)
            return False
        before = searching.let_go(group)
        if searching.start(group):
            return True
        if before is not None:
            searching.take_back(before)
        return False

    def reserve(self, group: Group) -> Promise | None:
        """Promise the group the earliest start there is, never a later one than it was promised.

        Without a time if it waits for work without end; None if it can never start, or if there is
        more than can be looked at in one pass.
        """
        counting = self._counted(group)
        if counting is not None:
            return self._reserve_counted(counting, group)
        searching = self._searched()
        if not searching.knows(group) or (self._is_full and not self.was_promised(group)):
            self._refuse(group)
            return None
        before = searching.let_go(group)
        if before is None and self._hold(group):
            before = searching.let_go(group)
        if before is not None:
            if not searching.promise(group, before.start[0]):
                searching.take_back(before)
        elif self.was_promised(group):
            if not searching.promise_again(group):
                return self._without_time(group)
        elif not searching.promise(group, math.inf):
            if searching.is_exhausted:
                self.unreached.add(group.name)
                return None
            return self._without_time(group)
        return Promise(group.name, searching.promised[group.name].start[0])

    def _reserve_counted(self, counting: Counting, group: Group) -> Promise | None:
        own = counting.let_go(group)
        if own is None and self._hold(group):
            own = counting.let_go(group)
        if counting.promise(group, math.inf if own is None else own):
            start = counting.promised[group.name][1][0]
            self._note(group, start)
            return Promise(group.name, start)
        if own is None:
            return self._without_time(group)
        counting.hold(group, own, surely=True)
        return Promise(group.name, own)

    def complaint(self, group: Group) -> str | None:
        """Why the group can never start, None if it may one day."""
        return self._outlook.satisfying.complaint(group)

    def started(self) -> list[Group]:
        """Everybody who starts."""
        if self._searching is not None:
            return [commitment.group for commitment in self._searching.started.values()]
        return list(self._counting.started.values()) if self._counting is not None else []

    def witness(self) -> tuple[Placement, ...]:
        """A place for everybody who starts."""
        placements: list[Placement] = []
        for commitment in self._searched().started.values():
            for task, (_, row, devices) in _seated(commitment):
                placements.append(Placement(task, self._outlook.state.name_of(row), devices))
        return tuple(placements)

    def keeps_promises(self, placements: Sequence[Placement]) -> bool:
        """Whether every promise holds if those who start are placed like this."""
        if self._searching is None or not self._searching.promised:
            return True
        return self._searching.rearranged(self._placed(placements))

    def promises(self, placements: Sequence[Placement], *, seated: bool = True) -> list[Promise]:
        """All promises, given where those who start are placed; `seated` with their machines."""
        if self._searching is None and not seated:
            return self._with_unknown(self._counted_promises())
        names = self._outlook.state.name_of
        known = [
            Promise(
                each.group.name,
                each.start[0],
                tuple((task.id, names(row)) for task, (_, row, _) in _seated(each)),
            )
            for each in self._promised(placements)
        ]
        return self._with_unknown(known)

    def held(self, placements: Sequence[Placement]) -> list[Seat]:
        """What is promised, wherever and whenever: who has no place of its own keeps off it."""
        return [seat for each in self._promised(placements) for seat in each.seats]

    def _promised(self, placements: Sequence[Placement]) -> Iterable[Commitment]:
        if self._searching is not None:
            return self._searching.promised.values()
        if self._counting is None or not self._counting.promised:
            return ()
        room = self._outlook.pricing.prices(self._counting.shape).room
        return self._counting.seated(room, self._placed(placements))

    def _with_unknown(self, known: list[Promise]) -> list[Promise]:
        """These, and those who have no time; unless they were asked about again, and got one."""
        found = {each.group for each in known} | {group.name for group in self.started()}
        return known + [Promise(name, None) for name in self.unknown if name not in found]

    def _counted_promises(self) -> list[Promise]:
        if self._counting is None:
            return []
        before = self._standing.promises
        found: list[Promise] = []
        for name, (_, start) in self._counting.promised.items():
            promise = before.get(name)
            if promise is None or promise.start_seconds != start[0]:
                promise = Promise(name, start[0])
            found.append(promise)
        return found

    def _hold(self, group: Group) -> bool:
        """Hold on to what a group was promised before, if that still holds."""
        promise = self._standing.promises.get(group.name)
        if promise is None or promise.start_seconds is None or promise.start_seconds < self._now:
            return False
        counting = self._counted(group)
        if counting is not None:
            return counting.hold(group, promise.start_seconds, surely=self._as_planned)
        start = (promise.start_seconds, False)
        held = Commitment(group, start, start[0] + run_of(group), ())
        searching = self._searched()
        return searching.knows(group) and searching.hold(self._where_it_was(held))

    def _note(self, group: Group, start_seconds: float) -> None:
        """This group starts then. If that was not planned, it may have taken what others were
        promised who have not been asked about yet."""
        promise = self._standing.promises.get(group.name)
        self._as_planned &= promise is not None and promise.start_seconds == start_seconds

    def _where_it_was(self, promised: Commitment) -> Commitment:
        """On the machines that the group was promised for this start before, if it was."""
        group = promised.group
        promise = self._standing.promises.get(group.name)
        if promise is None or promise.start_seconds != promised.start[0]:
            return promised
        rows, where = self._outlook.state.rows, dict(promise.machines)
        seats: list[Seat] = [
            (task.shape, rows[where[task.id]], ())
            for task in group.tasks
            if where.get(task.id) in rows
        ]
        if len(seats) != len(group.tasks):
            return promised
        return Commitment(group, promised.start, promised.end, tuple(seats))

    def _without_time(self, group: Group) -> Promise | None:
        if self.complaint(group) is not None:
            return None
        self.unknown[group.name] = group
        return Promise(group.name, None)

    def _counted(self, group: Group) -> Counting | None:
        """Where the group is counted, None if it has to be searched for."""
        if self._searching is not None or len(group.shapes) != 1:
            return None
        shape = group.shapes[0][0]
        counting = self._counting
        if counting is None and shape.devices is None:
            kept = self._outlook.horizon.begin(shape, self._now)
            counting = self._counting = Counting(shape, kept, self._now)
        if counting is not None and (shape is counting.shape or shape == counting.shape):
            return counting
        return None

    def _searched(self) -> Searching:
        """From now on everybody is searched for, on machines."""
        if self._searching is None:
            outlook, counting = self._outlook, self._counting
            shapes = self._classes()
            # First what they ask for: a resource that nobody has named yet becomes a column.
            for shape in shapes:
                outlook.state.requests(shape)
            endings = outlook.expecting.endings(self._now)
            packing = Packing(outlook.state, outlook.pricing, list(shapes), endings, self._now)
            self._searching = Searching(outlook.horizon, packing, shapes, self._now)
            if counting is not None:
                counted = [self._where_it_was(each) for each in counting.commitments()]
                for group in self._searching.adopt(counting.started.values(), counted):
                    self._without_time(group)
        return self._searching

    def _classes(self) -> dict[Shape, None]:
        """As many as may be searched for, in the order of the queues: who goes first is looked at
        first. And those of all who were promised something: what is not known cannot be kept."""
        shapes: dict[Shape, None] = {}
        if self._counting is not None:
            shapes[self._counting.shape] = None
        for group in self._groups:
            if len(shapes) >= self._outlook.most_classes:
                break
            more = [shape for shape, _ in group.shapes if shape not in shapes]
            # Who can never start is in nobody's way; but a search is for one class at least.
            if more and (self.complaint(group) is None or not shapes):
                shapes.update(dict.fromkeys(more))
        for group in self._groups:
            if self.was_promised(group):
                shapes.update(dict.fromkeys(shape for shape, _ in group.shapes))
        return shapes

    def _refuse(self, group: Group) -> None:
        """The group waits for a pass that has room for its class, unless it waits for nothing."""
        self.unreached.add(group.name)
        self._is_full = self._is_full or self.complaint(group) is None

    def _placed(self, placements: Sequence[Placement]) -> list[Commitment]:
        """Those who start, on the machines they were given."""
        rows = self._outlook.state.rows
        where = {p.task.id: (p.task.shape, rows[p.machine], p.devices) for p in placements}
        return [
            Commitment(
                group,
                (self._now, True),
                self._now + run_of(group),
                tuple(where[task.id] for task in group.tasks),
            )
            for group in self.started()
            if all(task.id in where for task in group.tasks)
        ]


def _seated(commitment: Commitment) -> list[tuple[Task, Seat]]:
    """Which member takes which seat: in order, within each class."""
    free: dict[Shape, list[Seat]] = {}
    for seat in reversed(commitment.seats):
        free.setdefault(seat[0], []).append(seat)
    return [(task, free[task.shape].pop()) for task in commitment.group.tasks]
