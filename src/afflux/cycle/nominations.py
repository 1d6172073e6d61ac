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
from afflux.plan.plan import Plan


class Nominations:
    """The nominations that stand, and the evicted tasks that have not ended yet."""

    def __init__(self) -> None:
        self._current: dict[str, tuple[Placement, ...]] = {}
        self._ending: set[str] = set()

    def add_to(self, standing: StandingReservations, state: State) -> StandingReservations:
        """What a decision begins with."""
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

    def restore(self, group: str, places: Iterable[Placement], ending: Iterable[str]) -> None:
        """A nomination that was made before a restart."""
        self._current[group] = tuple(places)
        self._ending.update(ending)

    def replace(self, plan: Plan) -> None:
        """These are the nominations from now on."""
        where = {each.task.id: each for each in plan.nominations}
        self._current = {
            group.key: tuple(where[task.id] for task in group.tasks) for group in plan.nominated
        }
        self._ending.update(each.task.id for each in plan.evictions)
