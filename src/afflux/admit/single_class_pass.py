"""When groups can start, as long as all groups of a pass are of one class.

Room over time is then a number of tasks, and counting is exact: if the numbers suffice, then every
reservation, in the order of the starts, finds machines. So machines are chosen last, and only if
they are asked for.
"""

from collections.abc import Sequence

from afflux.admit.planned_run import PlannedRun, Start, expected_run_seconds
from afflux.admit.room_over_time import RoomOfClass
from afflux.admit.single_class_machines import assign_rows
from afflux.cluster.machines import Column
from afflux.model.reservation import Reservation, StandingReservations
from afflux.model.task import Shape
from afflux.model.waiting_group import WaitingGroup
from afflux.plan.waiting_demand import ClassOf


class SingleClassPass:
    """The groups of one class that were started or got a reservation in one pass."""

    def __init__(self, shape: Shape, room: RoomOfClass, now_seconds: float) -> None:
        self.shape = shape
        self.started: dict[str, WaitingGroup] = {}
        self.reserved: dict[str, tuple[WaitingGroup, Start]] = {}
        self._growth = room.growth
        self._timeline = room.timeline
        self._now = now_seconds
        self._at_once: Start = (now_seconds, True)

    def start(self, group: WaitingGroup) -> bool:
        """Start the group at once, if it fits."""
        run = expected_run_seconds(group)
        if not self._timeline.fits(len(group.tasks), run, self._at_once):
            return False
        self._timeline.take(len(group.tasks), run, self._at_once)
        self.started[group.key] = group
        return True

    def reserve(self, group: WaitingGroup, not_after: float) -> bool:
        """Reserve the earliest start for the group, if it is not later than `not_after`."""
        run = expected_run_seconds(group)
        start = self._timeline.earliest(len(group.tasks), run, self._now)
        if start is None or start[0] > not_after:
            return False
        self._timeline.take(len(group.tasks), run, start)
        self.reserved[group.key] = (group, start)
        return True

    def renew(
        self, group: WaitingGroup, start_seconds: float, *, surely_fits: bool = False
    ) -> bool:
        """Reserve this start for the group, if it fits; with `surely_fits` that is not checked."""
        run = expected_run_seconds(group)
        start: Start = (start_seconds, False)
        if not surely_fits and not self._timeline.fits(len(group.tasks), run, start):
            return False
        self._timeline.take(len(group.tasks), run, start)
        self.reserved[group.key] = (group, start)
        return True

    def release(self, group: WaitingGroup) -> float | None:
        """Cancel the reservation that the group got in this pass; returns its start."""
        own = self.reserved.pop(group.key, None)
        if own is None:
            return None
        self._timeline.take(-len(group.tasks), expected_run_seconds(group), own[1])
        return own[1][0]

    def reservations(self, earlier: StandingReservations) -> list[Reservation]:
        """All reservations, without machines; those that stand unchanged are the same objects."""
        before = earlier.reservations
        found: list[Reservation] = []
        for name, (_, start) in self.reserved.items():
            reservation = before.get(name)
            if reservation is None or reservation.start_seconds != start[0]:
                reservation = Reservation(name, start[0])
            found.append(reservation)
        return found

    def planned_runs(self) -> list[PlannedRun]:
        """All reservations, without machines."""
        return [
            PlannedRun(group, start, start[0] + expected_run_seconds(group), ())
            for group, start in self.reserved.values()
        ]

    def with_machines(
        self, room: Column, started: Sequence[PlannedRun], class_of: ClassOf
    ) -> list[PlannedRun]:
        """All reservations with machines, given the room now and where started groups run."""
        reserved = self.planned_runs()
        assigned = assign_rows(room, self._growth, started, reserved)
        return [
            PlannedRun(
                run.group,
                run.start,
                run.end,
                tuple(
                    (class_of(task), row, ())
                    for task, row in zip(run.group.tasks, rows, strict=False)
                ),
            )
            for run, rows in zip(reserved, assigned, strict=True)
        ]
