"""What a scheduler answers."""

from collections.abc import Sequence
from typing import Protocol

from afflux.cluster.state import State
from afflux.model.group import Group
from afflux.model.promise import Standing
from afflux.model.task import Shape
from afflux.plan.rounds import Round
from afflux.policies.policy import Policy


class Scheduler(Protocol):
    """Decides for everybody who waits at once."""

    def policies_of(self, shape: Shape) -> Sequence[Policy]:
        """What may refuse a machine to a class, for explanations."""
        ...

    def decide(
        self,
        state: State,
        queue: Sequence[Group],
        now_seconds: float,
        standing: Standing,
    ) -> Round:
        """A plan for some of the groups, which come in queue order; the state is not changed.

        `standing` is what was promised before.
        """
        ...
