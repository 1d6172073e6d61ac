"""The only place where the parts are put together."""

from collections.abc import Sequence

from afflux.admit.strategies import find_strategy
from afflux.cluster.state import State
from afflux.config import DEFAULT_STRATEGY, PolicySettings, Settings, parse_spec
from afflux.cycle.optimising import Optimising
from afflux.cycle.ports import Scheduler
from afflux.model.errors import InputError
from afflux.policies.policy import Weighted
from afflux.policies.registry import constraints, make_policy
from afflux.sim.pod_by_pod import PodByPod
from afflux.sim.replay import Contestant

POD_BY_POD = "pod-by-pod"


def scheduler(settings: Settings, state: State) -> Scheduler:
    """A scheduler with these settings over this cluster."""
    if any(policy.name == POD_BY_POD for policy in settings.policies):
        raise InputError(
            f"{settings.origin}: {POD_BY_POD} is not a policy; expected it alone, without a"
            " strategy, as something to simulate"
        )
    return Optimising(
        state,
        find_strategy(settings.strategy, settings.origin),
        constraints(),
        [
            Weighted(make_policy(policy.name, policy.args, settings.origin), policy.weight)
            for policy in settings.policies
        ],
    )


def contestant(settings: Settings, name: str | None = None) -> Contestant:
    """A scheduler to simulate; a wrong setting is found here, not in the middle of a simulation."""
    if settings.policies == (PolicySettings(POD_BY_POD),) and settings.strategy == DEFAULT_STRATEGY:
        return Contestant(POD_BY_POD, lambda _: PodByPod(), whole_groups=False)
    scheduler(settings, State())
    if name is None:
        policies = "+".join(policy.name for policy in settings.policies)
        name = f"{policies}@{settings.strategy}"
    return Contestant(name, lambda state: scheduler(settings, state))


def contestants(specs: Sequence[str], strategy: str | None = None) -> list[Contestant]:
    """The schedulers that were named on the command line.

    `strategy` is for those that name none of their own; then it becomes part of their name.
    """
    found: list[Contestant] = []
    for spec in specs:
        bare = spec == POD_BY_POD or "@" in spec or strategy is None
        name = spec if bare else f"{spec}@{strategy}"
        found.append(contestant(parse_spec(name), name))
        if any(other.name == name for other in found[:-1]):
            raise InputError(f"--compare: {name!r:.80} is named twice; expected different names")
    return found
