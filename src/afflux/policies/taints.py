"""Taints: hard ones refuse the machine, soft ones (PreferNoSchedule) raise its cost."""

import numpy as np

from afflux.cluster.machines import BoolColumn, Column, Machines
from afflux.model import reason
from afflux.model.taints import Taint, untolerated
from afflux.model.task import Shape
from afflux.policies.policy import OMEGA, Policy

# kube-scheduler weighs a soft taint three times as much as balancing.
_FIRST_SOFT_TAINT = 3 * OMEGA
_FURTHER_SOFT_TAINT = OMEGA // 10
_ALL_SOFT_TAINTS = 4 * OMEGA


class Taints(Policy):
    """The first untolerated soft taint costs three times OMEGA, each further one a tenth of OMEGA,
    all together at most four times OMEGA."""

    reason = reason.UNTOLERATED

    def admits(self, shape: Shape, machines: Machines) -> BoolColumn:
        return machines.by_taints(lambda taints: _count(taints, shape, soft=False)) == 0

    def cost(self, shape: Shape, machines: Machines) -> Column:
        soft = machines.by_taints(lambda taints: _count(taints, shape, soft=True))
        cost = _FIRST_SOFT_TAINT + _FURTHER_SOFT_TAINT * (soft - 1)
        return np.where(soft == 0, 0, np.minimum(cost, _ALL_SOFT_TAINTS))


def _count(taints: tuple[Taint, ...], shape: Shape, *, soft: bool) -> int:
    """How many untolerated taints are soft, or hard."""
    left = untolerated(taints, shape.tolerations)
    return sum((taint.effect == "PreferNoSchedule") == soft for taint in left)
