"""Nominations from cycle to cycle: the places that are held for groups whose victims still end.

A group is nominated when tasks are evicted for it. It waits in the queue until they have ended; its
places are held against all groups but those of a higher priority. A nomination ends when the group
starts or is withdrawn, and when its places cannot become free any more.
"""

from collections.abc import Iterable
from dataclasses import replace

from afflux.cluster.state import State
from afflux.model.placement import Placement
from afflux.model.reservation import StandingReservations
from afflux.model.waiting_group import WaitingGroup
from afflux.plan.plan import Plan


class Nominations:
    """The nominations that stand, and the evicted tasks that have not ended yet."""

    def __init__(self) -> None:
        self._current: dict[str, tuple[Placement, ...]] = {}
        self._ending: set[str] = set()
        # Of tasks that were nominated before this process started, their machines.
        self._earlier: dict[str, str] = {}

    def add_to(
        self, standing: StandingReservations, state: State, queue: Iterable[WaitingGroup]
    ) -> StandingReservations:
        """What a decision about these groups begins with."""
        if self._earlier:
            for group in queue:
                self._restore(group, state)
        self._ending = {each for each in self._ending if state.placed_task(each) is not None}
        if not self._current and not self._ending:
            return standing
        return replace(standing, nominations=dict(self._current), ending=frozenset(self._ending))

    def current(self) -> tuple[Placement, ...]:
        """The places that are held."""
        return tuple(each for places in self._current.values() for each in places)

    def note_not_evicted(self, task_id: str) -> None:
        """An eviction failed: the task stays."""
        self._ending.discard(task_id)

    def discard(self, group: str) -> None:
        """The group does not wait any more."""
        self._current.pop(group, None)

    def note_nominated(self, task_id: str, machine: str) -> None:
        """A task was nominated before this process started."""
        self._earlier[task_id] = machine

    def _restore(self, group: WaitingGroup, state: State) -> None:
        """The nomination of a group before a restart. The tasks that leave its machines then are
        its victims."""
        where = [self._earlier.pop(task.id, None) for task in group.tasks]
        rows = [state.rows.get(machine) for machine in where if machine is not None]
        if group.key in self._current or None in where or None in rows:
            return
        pairs = zip(group.tasks, where, strict=True)
        self._current[group.key] = tuple(Placement(task, at) for task, at in pairs if at)
        for row in rows:
            if row is not None:
                leaving = (held.task for held in state.placed_on(row) if held.task.labels.ending)
                self._ending.update(task.id for task in leaving)

    def replace(self, plan: Plan) -> None:
        """These are the nominations from now on."""
        where = {each.task.id: each for each in plan.nominations}
        self._current = {
            group.key: tuple(where[task.id] for task in group.tasks) for group in plan.nominated
        }
        self._ending.update(each.task.id for each in plan.evictions)
