"""Node affinity: selectors and required terms admit machines, missed preferred terms cost."""

import numpy as np

from afflux.cluster.machines import BoolColumn, Column, Machines
from afflux.model import reason
from afflux.model.selectors import ANYWHERE
from afflux.model.task import Shape
from afflux.policies.policy import Policy
from afflux.policies.preference_cost import full_cost


class NodeAffinity(Policy):
    """A machine that matches no preferred term has the full cost of a preference, one that matches
    all costs 0, others cost the share of the weights that they miss."""

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
        return missed * full_cost(total) // max(1, total)
