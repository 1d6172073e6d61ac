"""Taints: hard ones refuse the machine, soft ones (PreferNoSchedule) raise its cost."""

import numpy as np

from afflux.cluster.machines import BoolColumn, Column, Machines
from afflux.model import reason
from afflux.model.taints import Taint, untolerated
from afflux.model.task import Shape
from afflux.policies.policy import OMEGA, Policy


class Taints(Policy):
    """Each untolerated soft taint costs a tenth of OMEGA, all together at most OMEGA."""

    reason = reason.UNTOLERATED

    def admits(self, shape: Shape, machines: Machines) -> BoolColumn:
        return machines.by_taints(lambda taints: _count(taints, shape, soft=False)) == 0

    def cost(self, shape: Shape, machines: Machines) -> Column:
        soft = machines.by_taints(lambda taints: _count(taints, shape, soft=True))
        return np.minimum(OMEGA, OMEGA // 10 * soft)


def _count(taints: tuple[Taint, ...], shape: Shape, *, soft: bool) -> int:
    """How many untolerated taints are soft, or hard."""
    left = untolerated(taints, shape.tolerations)
    return sum((taint.effect == "PreferNoSchedule") == soft for taint in left)
