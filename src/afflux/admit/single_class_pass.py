"""Who fits when, as long as all who wait are of one class: room over time is a number.

That is exact. Whatever machines are taken, in the order of their starts every promise finds as many
with room as were counted; so machines are chosen last, when somebody asks for them.
"""

from collections.abc import Sequence

from afflux.admit.commitment import Commitment, Start, run_of
from afflux.admit.horizon import Kept
from afflux.admit.witness import seats_by_counting
from afflux.cluster.machines import Column
from afflux.model.group import Group
from afflux.model.task import Shape


class Counting:
    """One class of tasks in one pass."""

    def __init__(self, shape: Shape, kept: Kept, now_seconds: float) -> None:
        self.shape = shape
        self.started: dict[str, Group] = {}
        self.promised: dict[str, tuple[Group, Start]] = {}
        self._kept = kept
        self._timeline = kept.timeline
        self._now = now_seconds
        self._at_once: Start = (now_seconds, True)

    def start(self, group: Group) -> bool:
        """Whether the group can start at once; then it does."""
        run = run_of(group)
        if not self._timeline.fits(len(group.tasks), run, self._at_once):
            return False
        self._timeline.take(len(group.tasks), run, self._at_once)
        self.started[group.name] = group
        return True

    def promise(self, group: Group, not_after: float) -> bool:
        """Promise the group the earliest start there is, if that is not later than this."""
        run = run_of(group)
        start = self._timeline.earliest(len(group.tasks), run, self._now)
        if start is None or start[0] > not_after:
            return False
        self._timeline.take(len(group.tasks), run, start)
        self.promised[group.name] = (group, start)
        return True

    def hold(self, group: Group, start_seconds: float, *, surely: bool = False) -> bool:
        """Promise the group this start, if it still fits then; `surely` it does."""
        run = run_of(group)
        start: Start = (start_seconds, False)
        if not surely and not self._timeline.fits(len(group.tasks), run, start):
            return False
        self._timeline.take(len(group.tasks), run, start)
        self.promised[group.name] = (group, start)
        return True

    def let_go(self, group: Group) -> float | None:
        """Take back what the group was promised in this pass; when it was to start."""
        own = self.promised.pop(group.name, None)
        if own is None:
            return None
        run = run_of(group)
        self._timeline.take(-len(group.tasks), run, own[1])
        return own[1][0]

    def commitments(self) -> list[Commitment]:
        """All promises, without machines."""
        return [
            Commitment(group, start, start[0] + run_of(group), ())
            for group, start in self.promised.values()
        ]

    def seated(self, room: Column, started: Sequence[Commitment]) -> list[Commitment]:
        """All promises with machines, given the room there is and where the others start."""
        promised = self.commitments()
        rows = seats_by_counting(room, self._kept.growth, started, promised)
        return [
            Commitment(each.group, each.start, each.end, tuple((self.shape, r, ()) for r in mine))
            for each, mine in zip(promised, rows, strict=True)
        ]
