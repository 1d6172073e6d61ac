"""Node affinity: selectors and required terms admit machines, missed preferred terms cost."""

import numpy as np

from afflux.cluster.machines import BoolColumn, Column, Machines
from afflux.model import reason
from afflux.model.selectors import ANYWHERE
from afflux.model.task import Shape
from afflux.policies.policy import OMEGA, Policy


class NodeAffinity(Policy):
    """A machine that matches no preferred term costs OMEGA, one that matches all costs 0."""

    reason = reason.AFFINITY

    def admits(self, shape: Shape, machines: Machines) -> BoolColumn:
        if shape.affinity is ANYWHERE:
            return np.ones(len(machines), bool)
        return machines.admitted(shape.affinity)

    def cost(self, shape: Shape, machines: Machines) -> Column:
        missed = np.zeros(len(machines), np.int64)
        total = sum(weight for weight, _ in shape.affinity.preferred)
        for weight, term in shape.affinity.preferred:
            missed += weight * ~machines.matching(term)
        return missed * OMEGA // max(1, total)
