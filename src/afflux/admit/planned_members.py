"""The members of planned runs: which task gets which machine, as placements and reservations."""

from collections.abc import Iterable, Sequence

from afflux.admit.group_classes import GroupClasses
from afflux.admit.planned_run import Assignment, PlannedRun, expected_run_seconds
from afflux.cluster.state import State
from afflux.cluster.task_class import TaskClass
from afflux.model.placement import Placement
from afflux.model.reservation import Reservation, StandingReservations
from afflux.model.task import Task
from afflux.model.waiting_group import WaitingGroup


class PlannedMembers:
    """Translates between runs, which know classes and rows, and tasks and machines by name."""

    def __init__(
        self, state: State, group_classes: GroupClasses, earlier: StandingReservations
    ) -> None:
        self._state = state
        self._class_of = group_classes.class_of
        self._earlier = earlier

    def placements(self, run: PlannedRun) -> list[Placement]:
        """A placement for each member."""
        name_of = self._state.name_of
        return [Placement(task, name_of(row), devices) for task, (_, row, devices) in self._of(run)]

    def reservation(self, run: PlannedRun) -> Reservation:
        """The reservation of the group of a run, with a machine for each member."""
        name_of = self._state.name_of
        machines = tuple((task.id, name_of(row)) for task, (_, row, _) in self._of(run))
        return Reservation(run.group.key, run.start[0], machines)

    def runs_at_once(
        self, groups: Iterable[WaitingGroup], placements: Sequence[Placement], now_seconds: float
    ) -> list[PlannedRun]:
        """Those of the groups that all have a placement, as runs that start now."""
        rows, class_of = self._state.rows, self._class_of
        where = {p.task.id: (class_of(p.task), rows[p.machine], p.devices) for p in placements}
        return [
            PlannedRun(
                group,
                (now_seconds, True),
                now_seconds + expected_run_seconds(group),
                tuple(where[task.id] for task in group.tasks),
            )
            for group in groups
            if all(task.id in where for task in group.tasks)
        ]

    def on_earlier_machines(self, run: PlannedRun) -> PlannedRun:
        """The run on the machines of the group's earlier reservation, if it had the same start."""
        group = run.group
        reservation = self._earlier.reservations.get(group.key)
        if reservation is None or reservation.start_seconds != run.start[0]:
            return run
        rows, where = self._state.rows, dict(reservation.machines)
        assignments: list[Assignment] = [
            (self._class_of(task), rows[where[task.id]], ())
            for task in group.tasks
            if where.get(task.id) in rows
        ]
        if len(assignments) != len(group.tasks):
            return run
        return PlannedRun(group, run.start, run.end, tuple(assignments))

    def _of(self, run: PlannedRun) -> list[tuple[Task, Assignment]]:
        """The assignment of each member: in order, within each class."""
        free: dict[TaskClass, list[Assignment]] = {}
        for assignment in reversed(run.assignments):
            free.setdefault(assignment[0], []).append(assignment)
        return [(task, free[self._class_of(task)].pop()) for task in run.group.tasks]
