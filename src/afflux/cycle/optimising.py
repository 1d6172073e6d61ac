"""The scheduler of this project: admit, price, connect, solve and plan for all groups at once."""

from collections.abc import Sequence

from afflux.admit.strategies import Strategy
from afflux.cluster.state import State
from afflux.model.group import Group
from afflux.model.task import Shape
from afflux.network.pricing import Pricing, Profiles
from afflux.plan.rounds import Round, plan_round
from afflux.policies.policy import Policy


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
        best = plan_round(state, self._pricing, admission.groups)
        if admission.witness is not None and len(best.placed) < len(admission.groups):
            return Round(admission.witness, tuple(admission.groups), best.solves)
        return best
