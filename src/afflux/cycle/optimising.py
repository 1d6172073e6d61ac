"""The scheduler of this project: admit, price, connect, solve and plan for all groups at once.

Cost and memory grow with the number of classes times the number of machines. Where thousands of
tasks are all different, groups are taken in queue order in several rounds, each with as many
classes as can be held at once.
"""

from collections.abc import Iterator, Sequence

from afflux.admit.strategies import Strategy
from afflux.cluster.state import State
from afflux.model.group import Group
from afflux.model.task import Shape
from afflux.network.pricing import Pricing, Profiles
from afflux.plan.rounds import Round, plan_round
from afflux.policies.policy import Policy

# Classes times machines that one round may have, about 100 MB; and classes at the least.
CELLS = 2_000_000
FEWEST_CLASSES = 64


class Optimising:
    """One strategy and a set of policies for each profile over one cluster."""

    def __init__(
        self,
        state: State,
        strategy: Strategy,
        constraints: Sequence[Policy],
        policies: Profiles,
    ) -> None:
        self._strategy = strategy
        self._pricing = Pricing(state, constraints, policies)

    def policies_of(self, shape: Shape) -> Sequence[Policy]:
        """What may refuse a machine to a class, in the order in which it is asked."""
        return self._pricing.policies_of(shape)

    def decide(self, state: State, queue: Sequence[Group]) -> Round:
        """The best plan found for those whom the strategy admits."""
        admission = self._strategy(state, self._pricing, queue)
        best = self._plan(state, admission.groups)
        if admission.witness is not None and len(best.placed) < len(admission.groups):
            return Round(admission.witness, tuple(admission.groups), best.solves)
        return best

    def _plan(self, state: State, groups: Sequence[Group]) -> Round:
        rounds: list[Round] = []
        try:
            for part in _parts(
                groups, most_classes=max(FEWEST_CLASSES, CELLS // max(1, len(state)))
            ):
                if rounds:
                    # Later rounds see what the earlier ones have taken.
                    for placement in rounds[-1].placements:
                        state.place(placement.task, placement.machine, placement.devices)
                rounds.append(plan_round(state, self._pricing, part))
        finally:
            for earlier in rounds[:-1]:
                for placement in earlier.placements:
                    state.remove(placement.task.id)
        return rounds[0] if len(rounds) == 1 else _joined(rounds)


def _parts(groups: Sequence[Group], most_classes: int) -> Iterator[Sequence[Group]]:
    """The groups in order, in parts of so many classes at most; one group is never divided."""
    first = 0
    classes: set[Shape] = set()
    for number, group in enumerate(groups):
        more = classes.union(shape for shape, _ in group.shapes)
        if len(more) > most_classes and number > first:
            yield groups[first:number]
            first = number
            more = {shape for shape, _ in group.shapes}
        classes = more
    yield groups[first:]


def _joined(rounds: Sequence[Round]) -> Round:
    """One round for all: what was placed first is a given for those after it."""
    return Round(
        placements=tuple(placement for each in rounds for placement in each.placements),
        placed=tuple(group for each in rounds for group in each.placed),
        solves=sum(each.solves for each in rounds),
        cost=_sum([each.cost for each in rounds]),
        bound=_sum([each.bound for each in rounds]),
    )


def _sum(figures: Sequence[int | None]) -> int | None:
    known = [figure for figure in figures if figure is not None]
    return sum(known) if len(known) == len(figures) else None
