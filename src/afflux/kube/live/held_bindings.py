"""Held bindings: placements that wait until the placements that they rest on are bound.

A placement rests on others if the required affinity of its pod fails without them. If one of these
is not bound, the placement fails as well, and so does what rests on it in turn.

Pure: no clock, no network. binder.py sends the bindings.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from afflux.control.adapter import RestsOn
from afflux.model.placement import Placement
from afflux.model.task import Task


@dataclass(frozen=True, slots=True)
class LostAnchor:
    """A placement that cannot be bound, because `anchor`, on which it rests, was not bound."""

    placement: Placement
    anchor: Task

    @property
    def reason(self) -> str:
        """The cause, which names no pod of another namespace: tenants must not learn its name."""
        space, _, _ = self.placement.task.name.partition("/")
        is_own = self.anchor.name.startswith(f"{space}/")
        named = f"pod {self.anchor.name}" if is_own else "a pod of another namespace"
        return f"{named}, on which it depends by required affinity, was not bound"


@dataclass(slots=True)
class _Held:
    """A placement, and the ids of the tasks that have to be bound before. While its volumes are
    prepared together with others, it is not ready either."""

    placement: Placement
    missing: set[str]
    is_preparing: bool


class HeldBindings:
    """The placements without an outcome, and those of them that are held back."""

    def __init__(self) -> None:
        self._open: dict[str, Placement] = {}
        # The placements that failed since the cycle began that decides the next ones.
        self._failed: dict[str, Task] = {}
        self._held: dict[str, _Held] = {}
        # By the id of a task, the held placements that rest on it.
        self._resting: dict[str, list[str]] = {}

    def __len__(self) -> int:
        """The number of placements that are held back."""
        return len(self._held)

    def begin_cycle(self) -> frozenset[str]:
        """The ids of the tasks without an outcome. The next placements may rest on them, also if
        they fail meanwhile."""
        self._failed.clear()
        return frozenset(self._open)

    def is_open(self, placement: Placement) -> bool:
        """Whether this placement has no outcome yet."""
        return self._open.get(placement.task.id) is placement

    def add(
        self, placements: Sequence[Placement], rests_on: RestsOn, preparing: Iterable[str]
    ) -> tuple[list[Placement], list[LostAnchor]]:
        """Placements that are to be bound; `preparing` are prepared together with others, by id.

        Returns those that can be bound now, and those that cannot be because a placement on which
        they rest has failed already.
        """
        self._open.update((each.task.id, each) for each in placements)
        preparing = frozenset(preparing)
        free: list[Placement] = []
        lost: list[LostAnchor] = []
        for placement in placements:
            task_id = placement.task.id
            anchors = rests_on.get(task_id, ())
            missing = {each for each in anchors if each in self._open}
            failed = next((self._failed[each] for each in anchors if each in self._failed), None)
            if failed is not None:
                lost.append(LostAnchor(placement, failed))
            elif missing or task_id in preparing:
                self._held[task_id] = _Held(placement, missing, task_id in preparing)
                for each in missing:
                    self._resting.setdefault(each, []).append(task_id)
            else:
                free.append(placement)
        return free, lost

    def prepared(self, placement: Placement) -> bool:
        """The preparation of this placement is over. Returns whether it can be bound now."""
        held = self._held.get(placement.task.id)
        if held is None:
            return True
        held.is_preparing = False
        if held.missing:
            return False
        del self._held[placement.task.id]
        return True

    def bound(self, placement: Placement) -> list[Placement]:
        """The pod is bound. Returns the placements that can be bound now."""
        task_id = placement.task.id
        self._open.pop(task_id, None)
        released: list[Placement] = []
        for resting in self._resting.pop(task_id, ()):
            held = self._held.get(resting)
            if held is None or task_id not in held.missing:
                continue
            held.missing.discard(task_id)
            if not held.missing and not held.is_preparing:
                del self._held[resting]
                released.append(held.placement)
        return released

    def failed(self, placement: Placement) -> list[LostAnchor]:
        """The pod is not bound. Returns the placements that fail with it: those that rest on it,
        directly or not."""
        lost: list[LostAnchor] = []
        failing = [placement]
        while failing:
            anchor = failing.pop()
            self._open.pop(anchor.task.id, None)
            self._held.pop(anchor.task.id, None)
            self._failed[anchor.task.id] = anchor.task
            for resting in self._resting.pop(anchor.task.id, ()):
                held = self._held.get(resting)
                if held is not None and anchor.task.id in held.missing:
                    lost.append(LostAnchor(held.placement, anchor.task))
                    failing.append(held.placement)
                    del self._held[resting]
        return lost

    def clear(self) -> list[Placement]:
        """Give up all placements that are held back; returns them."""
        held = [each.placement for each in self._held.values()]
        for placement in held:
            del self._open[placement.task.id]
        self._held.clear()
        self._resting.clear()
        return held
