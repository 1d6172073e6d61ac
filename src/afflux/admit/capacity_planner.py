"""The planner of free capacity over time: does a group fit now, else when, else never.

One planner serves one pass over the queues. Every group that starts or gets a reservation takes
its room from its start to its expected end, and the groups after it see only what is left. So a
group that would still run when a reservation begins does not get the room of that reservation.

As long as all groups of a pass are of one class, the planner counts (`single_class_pass`). With
the first group of another class it goes on with a search on machines (`multi_class_pass`).
"""

import math
from collections.abc import Iterable, Mapping, Sequence

from afflux.admit.group_classes import GroupClasses
from afflux.admit.multi_class_pass import MultiClassPass
from afflux.admit.planned_members import PlannedMembers
from afflux.admit.planned_run import Assignment, PlannedRun, expected_run_seconds
from afflux.admit.planning_inputs import PlanningInputs
from afflux.admit.room_at_instant import RoomAtInstant
from afflux.admit.single_class_pass import SingleClassPass
from afflux.cluster.task_class import TaskClass
from afflux.model.placement import Placement
from afflux.model.reservation import Reservation, StandingReservations
from afflux.model.waiting_group import WaitingGroup

NO_QUEUES: Mapping[str, frozenset[int]] = {}


class Planner:
    """Answers the questions of strategies in one pass, and remembers the answers.

    `groups` are all groups of the pass, `earlier` the reservations that stand when it begins.
    `asked_by` names groups that several queues have to ask for, with the numbers of the queues.
    """

    def __init__(
        self,
        inputs: PlanningInputs,
        groups: Sequence[WaitingGroup],
        earlier: StandingReservations,
        now_seconds: float,
        *,
        asked_by: Mapping[str, frozenset[int]] = NO_QUEUES,
    ) -> None:
        self._inputs = inputs
        self._asked_by = asked_by
        self._has_asked: dict[str, set[int]] = {}
        self._queue = 0
        # Whether a group waits because it requires tasks that neither run nor start.
        self.left_without_company = False
        self._groups = groups
        self._group_classes = GroupClasses(inputs.state.relations, groups)
        self._earlier = earlier
        self._members = PlannedMembers(inputs.state, self._group_classes, earlier)
        self._now = now_seconds
        # Whether every reservation can be renewed without a check: all went as expected so far.
        self._as_expected = earlier.as_expected
        # The results of counting, and of the search that replaces it.
        self._single_class: SingleClassPass | None = None
        self._multi_class: MultiClassPass | None = None
        # Whether a group got no reservation because its class is not in the search. The groups
        # behind it get no new reservation, so that they do not take its room.
        self._is_full = False
        self.without_reservation: list[WaitingGroup] = []
        # The groups that wait for work without end.
        self._unknown_starts: dict[str, WaitingGroup] = {}
        # The groups that this pass has no time or memory for; some of them can never start.
        self.not_examined: set[str] = set()

    # For strategies.

    def begin_queue(self, number: int) -> None:
        """The questions that follow are asked for this queue."""
        self._queue = number

    def start(self, group: WaitingGroup) -> bool:
        """Start the group at once, if it fits, and if all queues that have to have asked for it."""
        if not self._is_asked_by_all(group):
            return False
        return self._start(group)

    def _start(self, group: WaitingGroup) -> bool:
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
            self.not_examined.add(group.key)
            return False
        before = multi_class.release(group)
        is_due = self._earlier.start_of(group.key) == self._now
        if before is None and is_due and self._renew(group):
            before = multi_class.release(group)
        if self._may_move(multi_class, before) and multi_class.start(group, before):
            return True
        if before is not None:
            multi_class.restore(before)
        return False

    def reserve(self, group: WaitingGroup) -> Reservation | None:
        """Reserve the earliest start for the group, never a later one than it had before.

        The start is unknown if the group waits for work without end. None if the group can never
        start, or if this pass has no time or memory for it.
        """
        if not self._is_asked_by_all(group):
            return None
        single_class = self._as_single_class(group)
        if single_class is not None:
            return self._reserve_by_counting(single_class, group)
        return self._reserve_by_search(self._as_multi_class(), group)

    def _reserve_by_search(
        self, multi_class: MultiClassPass, group: WaitingGroup
    ) -> Reservation | None:
        if not multi_class.covers(group) or (self._is_full and not self.had_reservation(group)):
            self._leave_out(group)
            return None
        before = multi_class.release(group)
        if before is None and self._renew(group):
            before = multi_class.release(group)
        if before is not None:
            may_move = self._may_move(multi_class, before)
            if not may_move or not multi_class.reserve(group, before.start[0]):
                multi_class.restore(before)
        elif self.had_reservation(group):
            if not multi_class.reserve_delayed(group):
                return self._unknown_start(group)
        elif not multi_class.reserve(group, math.inf):
            if multi_class.is_exhausted:
                self.not_examined.add(group.key)
                return None
            return self._unknown_start(group)
        return Reservation(group.key, multi_class.reserved[group.key].start[0])

    def renew(self, groups: Sequence[WaitingGroup]) -> None:
        """Keep the earlier reservations of these groups, as far as that is possible.

        If a reservation cannot be kept, because something takes longer than expected, its group
        gets the next start there is, before the groups behind it keep theirs: a delay of a second
        must not move the first group behind all others.
        """
        reserved = [group for group in groups if self.had_reservation(group)]
        if any(map(self._group_classes.has_rules, reserved)):
            self._renew_together(reserved)
            # A group may need those that start before it.
            reserved.sort(key=lambda group: self._earlier.start_of(group.key) or self._now)
        for group in reserved:
            if not self._is_reserved(group) and not self._renew(group):
                self.reserve(group)

    def confirm(self, group: WaitingGroup) -> bool:
        """Keep the earlier reservation of the group, if nothing unexpected has happened.

        If True, the reservation stands, and there is no earlier start to look for.
        """
        start = self._earlier.start_of(group.key)
        if not self._earlier.as_expected or start is None or start <= self._now:
            return False
        single_class = self._single_class if self._multi_class is None else None
        if single_class is not None and group.key in single_class.reserved:
            # Most groups come here after `renew`: nothing is left to do.
            return True
        single_class = self._as_single_class(group)
        if single_class is None:
            multi_class = self._as_multi_class()
            if group.key not in multi_class.reserved and not self._renew(group):
                return False
            # The search may have missed room that is there now, and no event would point it out.
            return not multi_class.may_fit_now(group)
        return single_class.renew(group, start, surely_fits=self._as_expected)

    def admit_without_reservation(self, groups: Iterable[WaitingGroup]) -> None:
        """Let the optimiser start those of these groups that fit now, on room that is neither
        taken nor reserved. Nothing is reserved for the others."""
        self.without_reservation += filter(self._is_asked_by_all, groups)

    def had_reservation(self, group: WaitingGroup) -> bool:
        """Whether a start was reserved for the group before this pass."""
        return self._earlier.start_of(group.key) is not None

    def infeasible_reason(self, group: WaitingGroup) -> str | None:
        """Why the group can never start, None if it may one day."""
        return self._inputs.feasibility.infeasible_reason(group)

    # For the optimiser.

    def start_beside_reservations(self) -> None:
        """Start those of the groups admitted without reservation whose tasks count for the
        constraints of a reservation, if they fit and leave it in place. The others of them wait:
        what the optimiser plans for the rest does not look at these constraints."""
        if self._multi_class is None or not self._multi_class.reserved:
            return
        reserved = [run.group for run in self._multi_class.reserved.values()]
        groups, self.without_reservation = self.without_reservation, []
        for group in groups:
            if not self._group_classes.concerns(group, reserved):
                self.without_reservation.append(group)
            else:
                self._start(group)

    def started(self) -> list[WaitingGroup]:
        """All groups that start."""
        if self._multi_class is not None:
            return [run.group for run in self._multi_class.started.values()]
        return list(self._single_class.started.values()) if self._single_class is not None else []

    def placements(self) -> tuple[Placement, ...]:
        """The places that the planner found for all groups that start."""
        runs = self._as_multi_class().started.values()
        return tuple(each for run in runs for each in self._members.placements(run))

    def keeps_reservations(self, placements: Sequence[Placement]) -> bool:
        """Whether all reservations can be kept if the groups that start are placed like this."""
        if self._multi_class is None or not self._multi_class.reserved:
            return True
        return self._multi_class.rearrange(self._started_on(placements))

    def reservations(
        self, placements: Sequence[Placement], *, with_machines: bool = True
    ) -> list[Reservation]:
        """All reservations, given where the groups that start are placed."""
        if self._multi_class is None and not with_machines:
            counted = self._single_class.reservations(self._earlier) if self._single_class else []
            return self._with_unknown_starts(counted)
        known = map(self._members.reservation, self._reserved_runs(placements))
        return self._with_unknown_starts(list(known))

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
        started = self._started_on(placements)
        return self._single_class.with_machines(room, started, self._group_classes.class_of)

    def _with_unknown_starts(self, known: list[Reservation]) -> list[Reservation]:
        """These reservations, and those of unknown start, unless their groups got a start later."""
        found = {each.group for each in known} | {group.key for group in self.started()}
        unknown = [Reservation(name, None) for name in self._unknown_starts if name not in found]
        return known + unknown

    def _started_on(self, placements: Sequence[Placement]) -> list[PlannedRun]:
        return self._members.runs_at_once(self.started(), placements, self._now)

    # Reservations.

    def _reserve_by_counting(
        self, single_class: SingleClassPass, group: WaitingGroup
    ) -> Reservation | None:
        own = single_class.release(group)
        if own is None and self._renew(group):
            own = single_class.release(group)
        if single_class.reserve(group, math.inf if own is None else own):
            start = single_class.reserved[group.key][1][0]
            self._note_start(group, start)
            return Reservation(group.key, start)
        if own is None:
            return self._unknown_start(group)
        single_class.renew(group, own, surely_fits=True)
        return Reservation(group.key, own)

    def _renew(self, group: WaitingGroup) -> bool:
        """Keep the earlier reservation of the group, if it has one that can be kept."""
        start = self._earlier.start_of(group.key)
        if start is None or start < self._now:
            return False
        single_class = self._as_single_class(group)
        if single_class is not None:
            return single_class.renew(group, start, surely_fits=self._as_expected)
        earlier = PlannedRun(group, (start, False), start + expected_run_seconds(group), ())
        multi_class = self._as_multi_class()
        return multi_class.covers(group) and multi_class.renew(
            self._members.on_earlier_machines(earlier)
        )

    def _is_asked_by_all(self, group: WaitingGroup) -> bool:
        """Note that the queue asks for this group; whether all queues have that have to."""
        queues = self._asked_by.get(group.key)
        if queues is None:
            return True
        asked = self._has_asked.setdefault(group.key, set())
        asked.add(self._queue)
        return asked.issuperset(queues)

    def _is_reserved(self, group: WaitingGroup) -> bool:
        """Whether the search has a reservation for the group."""
        return self._multi_class is not None and group.key in self._multi_class.reserved

    def _renew_together(self, groups: Iterable[WaitingGroup]) -> None:
        """Keep the earlier reservations of these groups on their machines, if all can stay."""
        multi_class = self._as_multi_class()
        earlier: list[PlannedRun] = []
        for group in groups:
            start = self._earlier.start_of(group.key)
            if start is None or start < self._now or not multi_class.covers(group):
                continue
            end = start + expected_run_seconds(group)
            run = self._members.on_earlier_machines(PlannedRun(group, (start, False), end, ()))
            if not run.assignments:
                return
            earlier.append(run)
        multi_class.renew_together(earlier)

    def _may_move(self, multi_class: MultiClassPass, before: PlannedRun | None) -> bool:
        """Whether a group may start at another time than this run, which has been released."""
        return before is None or before.start[0] == self._now or not multi_class.is_needed(before)

    def _note_start(self, group: WaitingGroup, start_seconds: float) -> None:
        """The group starts at this time. If its reservation said otherwise, it may have taken room
        from reservations that have not been renewed yet."""
        self._as_expected &= self._earlier.start_of(group.key) == start_seconds

    def _unknown_start(self, group: WaitingGroup) -> Reservation | None:
        if self.infeasible_reason(group) is not None:
            return None
        if self._multi_class is not None and self._multi_class.lacks_company(group):
            # The group waits for other groups, not for work that ends.
            self.left_without_company = True
            return None
        self._unknown_starts[group.key] = group
        return Reservation(group.key, None)

    def _leave_out(self, group: WaitingGroup) -> None:
        """The class of the group is not in the search; a later pass may have room for it."""
        self.not_examined.add(group.key)
        self._is_full = self._is_full or self.infeasible_reason(group) is None

    # Counting or search.

    def _as_single_class(self, group: WaitingGroup) -> SingleClassPass | None:
        """Counting for the class of the group, None if a search is needed."""
        if self._multi_class is not None or len(group.shapes) != 1:
            return None
        if self._group_classes.has_rules(group):
            return None
        shape = group.shapes[0][0]
        single_class = self._single_class
        if single_class is None and shape.room_adds_up:
            room = self._inputs.room_over_time.begin_pass(shape, self._now)
            single_class = self._single_class = SingleClassPass(shape, room, self._now)
        if single_class is None:
            return None
        is_same = shape is single_class.shape or shape == single_class.shape
        return single_class if is_same else None

    def _as_multi_class(self) -> MultiClassPass:
        """The search, which from now on is used for all groups."""
        if self._multi_class is None:
            inputs, single_class, classes = self._inputs, self._single_class, self._classes()
            # A resource that no group has asked for before becomes a column of the state.
            for each in classes:
                inputs.state.requests(each.shape)
            ends = inputs.expected_ends.read(self._now)
            group_classes = self._group_classes
            room = RoomAtInstant(
                inputs.state,
                inputs.pricing,
                list(classes),
                group_classes,
                expected_ends=ends,
                now_seconds=self._now,
            )
            self._multi_class = MultiClassPass(
                inputs.room_over_time, room, classes, group_classes, self._now
            )
            if single_class is not None:
                reserved = [
                    self._members.on_earlier_machines(run) for run in single_class.planned_runs()
                ]
                started = single_class.started.values()
                for group in self._multi_class.take_over(started, reserved):
                    self._unknown_start(group)
        return self._multi_class

    def _classes(self) -> dict[TaskClass, None]:
        """The classes of the search: `max_classes` in queue order, and on top those of all groups
        with a reservation, which could not be kept otherwise."""
        classes: dict[TaskClass, None] = {}
        classes_of = self._group_classes.classes
        if self._single_class is not None:
            known = [*self._single_class.started.values()]
            known += [group for group, _ in self._single_class.reserved.values()]
            for group in known:
                classes.update(dict.fromkeys(classes_of(group)))
        for group in self._groups:
            if len(classes) >= self._inputs.max_classes:
                break
            more = [each for each in classes_of(group) if each not in classes]
            # A group that can never start is skipped, but a search needs at least one class.
            if more and (self.infeasible_reason(group) is None or not classes):
                classes.update(dict.fromkeys(more))
        for group in self._groups:
            if self.had_reservation(group):
                classes.update(dict.fromkeys(classes_of(group)))
        return classes
