"""The only place where the parts are put together."""

from collections.abc import Sequence

from afflux.admit.strategies import find_strategy
from afflux.cluster.state import State
from afflux.config import DEFAULT_STRATEGY, Settings, parse_spec
from afflux.cycle.optimising import Optimising
from afflux.cycle.ports import Scheduler
from afflux.policies.policy import Weighted
from afflux.policies.registry import constraints, make_policy
from afflux.sim.pod_by_pod import PodByPod
from afflux.sim.replay import Contestant

POD_BY_POD = "pod-by-pod"


def scheduler(settings: Settings, state: State) -> Scheduler:
    """A scheduler with these settings over this cluster."""
    return Optimising(
        state,
        find_strategy(settings.strategy, settings.origin),
        constraints(),
        [
            Weighted(make_policy(policy.name, policy.args, settings.origin), policy.weight)
            for policy in settings.policies
        ],
    )


def contestant(name: str, settings: Settings) -> Contestant:
    """A scheduler to simulate; a wrong setting is found here, not in the middle of a simulation."""
    scheduler(settings, State())
    return Contestant(name, lambda state: scheduler(settings, state))


def contestants(specs: Sequence[str], strategy: str = DEFAULT_STRATEGY) -> list[Contestant]:
    """The schedulers that were named on the command line."""
    found: list[Contestant] = []
    for spec in specs:
        if spec == POD_BY_POD:
            found.append(Contestant(spec, lambda _: PodByPod(), whole_groups=False))
        else:
            found.append(contestant(spec, parse_spec(spec, f"scheduler {spec!r}", strategy)))
    return found
