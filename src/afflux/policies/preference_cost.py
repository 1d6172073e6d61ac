"""What the preferences of a task cost where they are not met, on one scale for all kinds of them.

There are three kinds: preferred node affinity, preferred affinity to other tasks (and against
them), and topology spread with ScheduleAnyway. With W the sum of the weights that a task states of
one kind, missing everything of that kind costs

    full_cost(W) = OMEGA * (2 + W / 50)

and missing a part of it costs that part. The first term is kube-scheduler's: each kind is scaled to
the same range and counts twice as much as balancing, whatever the weights are. The second one
compares pods: of two pods that want the same machine, the one that states more has more to lose.
"""

from afflux.policies.policy import OMEGA

# The weight of a spread constraint with ScheduleAnyway, which states none: that of the strongest
# term.
SPREAD_WEIGHT = 100

_WEIGHTS_PER_OMEGA = 50


def full_cost(weight: int) -> int:
    """The cost of missing preferences of one kind whose weights add up to `weight`."""
    return 2 * OMEGA + OMEGA * weight // _WEIGHTS_PER_OMEGA if weight else 0
