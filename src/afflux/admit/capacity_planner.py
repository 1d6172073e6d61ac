"""The planner of free capacity over time: does a group fit now, else when, else never.

One planner serves one pass over the queues. Every group that starts or gets a reservation takes
its room from its start to its expected end, and the groups after it see only what is left. So a
group that would still run when a reservation begins does not get the room of that reservation.

As long as all groups of a pass are of one class, the planner counts (`single_class_pass`). With
the first group of another class it goes on with a search on machines (`multi_class_pass`).
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from afflux.admit.expected_ends import ExpectedEndsReader
from afflux.admit.feasibility import Feasibility
from afflux.admit.multi_class_pass import MultiClassPass
from afflux.admit.planned_run import Assignment, PlannedRun, expected_run_seconds
from afflux.admit.room_at_instant import RoomAtInstant
from afflux.admit.room_over_time import RoomOverTime
from afflux.admit.single_class_pass import SingleClassPass
from afflux.cluster.state import State
from afflux.model.group import Group
from afflux.model.placement import Placement
from afflux.model.reservation import Reservation, StandingReservations
from afflux.model.task import Shape, Task
from afflux.network.pricing import Pricing


@dataclass(frozen=True, slots=True)
class PlanningInputs:
    """The inputs of one planning pass. `max_classes` bounds the search."""

    state: State
    pricing: Pricing
    room_over_time: RoomOverTime
    expected_ends: ExpectedEndsReader
    feasibility: Feasibility
    max_classes: int


class Planner:
    """Answers the questions of strategies in one pass, and remembers the answers.

    `groups` are all groups of the pass, `earlier` the reservations that stand when it begins.
    """

    def __init__(
        self,
        inputs: PlanningInputs,
        groups: Sequence[Group],
        earlier: StandingReservations,
        now_seconds: float,
    ) -> None:
        self._inputs = inputs
        self._groups = groups
        self._earlier = earlier
        self._now = now_seconds
        # Whether every reservation can be renewed without a check: all went as expected so far.
        self._as_expected = earlier.as_expected
        # The results of counting, and of the search that replaces it.
        self._single_class: SingleClassPass | None = None
        self._multi_class: MultiClassPass | None = None
        # Whether a group got no reservation because its class is not in the search. The groups
        # behind it get no new reservation, so that they do not take its room.
        self._is_full = False
        self.without_reservation: list[Group] = []
        # The groups that wait for work without end.
        self._unknown_starts: dict[str, Group] = {}
        # The groups that this pass has no time or memory for; some of them can never start.
        self.not_examined: set[str] = set()

    # For strategies.

    def start(self, group: Group) -> bool:
        """Start the group at once, if it fits."""
        single_class = self._as_single_class(group)
        if single_class is not None:
            own = single_class.release(group)
            if single_class.start(group):
                self._note_start(group, self._now)
                return True
            if own is not None:
                single_class.renew(group, own, surely_fits=True)
            return False
        multi_class = self._as_multi_class()
        if not multi_class.covers(group):
            self.not_examined.add(group.name)
            return False
        before = multi_class.release(group)
        if multi_class.start(group):
            return True
        if before is not None:
            multi_class.restore(before)
        return False

    def reserve(self, group: Group) -> Reservation | None:
        """Reserve the earliest start for the group, never a later one than it had before.

        The start is unknown if the group waits for work without end. None if the group can never
        start, or if this pass has no time or memory for it.
        """
        single_class = self._as_single_class(group)
        if single_class is not None:
            return self._reserve_by_counting(single_class, group)
        multi_class = self._as_multi_class()
        if not multi_class.covers(group) or (self._is_full and not self.had_reservation(group)):
            self._leave_out(group)
            return None
        before = multi_class.release(group)
        if before is None and self._renew(group):
            before = multi_class.release(group)
        if before is not None:
            if not multi_class.reserve(group, before.start[0]):
                multi_class.restore(before)
        elif self.had_reservation(group):
            if not multi_class.reserve_delayed(group):
                return self._unknown_start(group)
        elif not multi_class.reserve(group, math.inf):
            if multi_class.is_exhausted:
                self.not_examined.add(group.name)
                return None
            return self._unknown_start(group)
        return Reservation(group.name, multi_class.reserved[group.name].start[0])

    def renew(self, groups: Iterable[Group]) -> None:
        """Keep the earlier reservations of these groups, as far as that is possible.

        If a reservation cannot be kept, because something takes longer than expected, its group
        gets the next start there is, before the groups behind it keep theirs: a delay of a second
        must not move the first group behind all others.
        """
        for group in groups:
            if not self._renew(group) and self.had_reservation(group):
                self.reserve(group)

    def confirm(self, group: Group) -> bool:
        """Keep the earlier reservation of the group, if nothing unexpected has happened.

        If True, the reservation stands, and there is no earlier start to look for.
        """
        start = self._earlier.start_of(group.name)
        if not self._earlier.as_expected or start is None or start <= self._now:
            return False
        single_class = self._single_class if self._multi_class is None else None
        if single_class is not None and group.name in single_class.reserved:
            # Most groups come here after `renew`: nothing is left to do.
            return True
        single_class = self._as_single_class(group)
        if single_class is None:
            multi_class = self._as_multi_class()
            if group.name not in multi_class.reserved and not self._renew(group):
                return False
            # The search may have missed room that is there now, and no event would point it out.
            return not multi_class.may_fit_now(group)
        return single_class.renew(group, start, surely_fits=self._as_expected)

    def admit_without_reservation(self, groups: Iterable[Group]) -> None:
        """Let the optimiser start those of these groups that fit now, on room that is neither
        taken nor reserved. Nothing is reserved for the others."""
        self.without_reservation += groups

    def had_reservation(self, group: Group) -> bool:
        """Whether a start was reserved for the group before this pass."""
        return self._earlier.start_of(group.name) is not None

    def infeasible_reason(self, group: Group) -> str | None:
        """Why the group can never start, None if it may one day."""
        return self._inputs.feasibility.infeasible_reason(group)

    # For the optimiser.

    def started(self) -> list[Group]:
        """All groups that start."""
        if self._multi_class is not None:
            return [run.group for run in self._multi_class.started.values()]
        return list(self._single_class.started.values()) if self._single_class is not None else []

    def placements(self) -> tuple[Placement, ...]:
        """The places that the planner found for all groups that start."""
        name_of = self._inputs.state.name_of
        return tuple(
            Placement(task, name_of(row), devices)
            for run in self._as_multi_class().started.values()
            for task, (_, row, devices) in _by_member(run)
        )

    def keeps_reservations(self, placements: Sequence[Placement]) -> bool:
        """Whether all reservations can be kept if the groups that start are placed like this."""
        if self._multi_class is None or not self._multi_class.reserved:
            return True
        return self._multi_class.rearrange(self._started_at(placements))

    def reservations(
        self, placements: Sequence[Placement], *, with_machines: bool = True
    ) -> list[Reservation]:
        """All reservations, given where the groups that start are placed."""
        if self._multi_class is None and not with_machines:
            return self._with_unknown_starts(self._counted_reservations())
        names = self._inputs.state.name_of
        known = [
            Reservation(
                run.group.name,
                run.start[0],
                tuple((task.id, names(row)) for task, (_, row, _) in _by_member(run)),
            )
            for run in self._reserved_runs(placements)
        ]
        return self._with_unknown_starts(known)

    def reserved(self, placements: Sequence[Placement]) -> list[Assignment]:
        """All room that is reserved, whenever it is used."""
        return [each for run in self._reserved_runs(placements) for each in run.assignments]

    def _reserved_runs(self, placements: Sequence[Placement]) -> Iterable[PlannedRun]:
        if self._multi_class is not None:
            return self._multi_class.reserved.values()
        if self._single_class is None or not self._single_class.reserved:
            return ()
        prices = self._inputs.pricing.prices(self._single_class.shape)
        room = prices.by_machine(prices.room)
        return self._single_class.with_machines(room, self._started_at(placements))

    def _with_unknown_starts(self, known: list[Reservation]) -> list[Reservation]:
        """These reservations, and those of unknown start, unless their groups got a start later."""
        found = {each.group for each in known} | {group.name for group in self.started()}
        unknown = [Reservation(name, None) for name in self._unknown_starts if name not in found]
        return known + unknown

    def _counted_reservations(self) -> list[Reservation]:
        if self._single_class is None:
            return []
        before = self._earlier.reservations
        found: list[Reservation] = []
        for name, (_, start) in self._single_class.reserved.items():
            reservation = before.get(name)
            if reservation is None or reservation.start_seconds != start[0]:
                reservation = Reservation(name, start[0])
            found.append(reservation)
        return found

    def _started_at(self, placements: Sequence[Placement]) -> list[PlannedRun]:
        """The groups that start, on the machines of these placements."""
        rows = self._inputs.state.rows
        where = {p.task.id: (p.task.shape, rows[p.machine], p.devices) for p in placements}
        return [
            PlannedRun(
                group,
                (self._now, True),
                self._now + expected_run_seconds(group),
                tuple(where[task.id] for task in group.tasks),
            )
            for group in self.started()
            if all(task.id in where for task in group.tasks)
        ]

    # Reservations.

    def _reserve_by_counting(
        self, single_class: SingleClassPass, group: Group
    ) -> Reservation | None:
        own = single_class.release(group)
        if own is None and self._renew(group):
            own = single_class.release(group)
        if single_class.reserve(group, math.inf if own is None else own):
            start = single_class.reserved[group.name][1][0]
            self._note_start(group, start)
            return Reservation(group.name, start)
        if own is None:
            return self._unknown_start(group)
        single_class.renew(group, own, surely_fits=True)
        return Reservation(group.name, own)

    def _renew(self, group: Group) -> bool:
        """Keep the earlier reservation of the group, if it has one that can be kept."""
        start = self._earlier.start_of(group.name)
        if start is None or start < self._now:
            return False
        single_class = self._as_single_class(group)
        if single_class is not None:
            return single_class.renew(group, start, surely_fits=self._as_expected)
        earlier = PlannedRun(group, (start, False), start + expected_run_seconds(group), ())
        multi_class = self._as_multi_class()
        return multi_class.covers(group) and multi_class.renew(self._on_earlier_machines(earlier))

    def _note_start(self, group: Group, start_seconds: float) -> None:
        """The group starts at this time. If its reservation said otherwise, it may have taken room
        from reservations that have not been renewed yet."""
        self._as_expected &= self._earlier.start_of(group.name) == start_seconds

    def _on_earlier_machines(self, run: PlannedRun) -> PlannedRun:
        """The run on the machines of the group's earlier reservation, if it had the same start."""
        group = run.group
        reservation = self._earlier.reservations.get(group.name)
        if reservation is None or reservation.start_seconds != run.start[0]:
            return run
        rows, where = self._inputs.state.rows, dict(reservation.machines)
        assignments: list[Assignment] = [
            (task.shape, rows[where[task.id]], ())
            for task in group.tasks
            if where.get(task.id) in rows
        ]
        if len(assignments) != len(group.tasks):
            return run
        return PlannedRun(group, run.start, run.end, tuple(assignments))

    def _unknown_start(self, group: Group) -> Reservation | None:
        if self.infeasible_reason(group) is not None:
            return None
        self._unknown_starts[group.name] = group
        return Reservation(group.name, None)

    def _leave_out(self, group: Group) -> None:
        """The class of the group is not in the search; a later pass may have room for it."""
        self.not_examined.add(group.name)
        self._is_full = self._is_full or self.infeasible_reason(group) is None

    # Counting or search.

    def _as_single_class(self, group: Group) -> SingleClassPass | None:
        """Counting for the class of the group, None if a search is needed."""
        if self._multi_class is not None or len(group.shapes) != 1:
            return None
        shape = group.shapes[0][0]
        single_class = self._single_class
        if single_class is None and shape.devices is None:
            room = self._inputs.room_over_time.begin_pass(shape, self._now)
            single_class = self._single_class = SingleClassPass(shape, room, self._now)
        if single_class is None:
            return None
        is_same = shape is single_class.shape or shape == single_class.shape
        return single_class if is_same else None

    def _as_multi_class(self) -> MultiClassPass:
        """The search, which from now on is used for all groups."""
        if self._multi_class is None:
            inputs, single_class, shapes = self._inputs, self._single_class, self._classes()
            # A resource that no group has asked for before becomes a column of the state.
            for shape in shapes:
                inputs.state.requests(shape)
            ends = inputs.expected_ends.read(self._now)
            room = RoomAtInstant(inputs.state, inputs.pricing, list(shapes), ends, self._now)
            self._multi_class = MultiClassPass(inputs.room_over_time, room, shapes, self._now)
            if single_class is not None:
                reserved = [self._on_earlier_machines(run) for run in single_class.planned_runs()]
                started = single_class.started.values()
                for group in self._multi_class.take_over(started, reserved):
                    self._unknown_start(group)
        return self._multi_class

    def _classes(self) -> dict[Shape, None]:
        """The classes of the search: `max_classes` in queue order, and on top those of all groups
        with a reservation, which could not be kept otherwise."""
        shapes: dict[Shape, None] = {}
        if self._single_class is not None:
            shapes[self._single_class.shape] = None
        for group in self._groups:
            if len(shapes) >= self._inputs.max_classes:
                break
            more = [shape for shape, _ in group.shapes if shape not in shapes]
            # A group that can never start is skipped, but a search needs at least one class.
            if more and (self.infeasible_reason(group) is None or not shapes):
                shapes.update(dict.fromkeys(more))
        for group in self._groups:
            if self.had_reservation(group):
                shapes.update(dict.fromkeys(shape for shape, _ in group.shapes))
        return shapes


def _by_member(run: PlannedRun) -> list[tuple[Task, Assignment]]:
    """The assignment of each member: in order, within each class."""
    free: dict[Shape, list[Assignment]] = {}
    for assignment in reversed(run.assignments):
        free.setdefault(assignment[0], []).append(assignment)
    return [(task, free[task.shape].pop()) for task in run.group.tasks]
