"""Volume reachability: a task runs only where its volumes can be reached or provisioned."""

import numpy as np

from afflux.cluster.machines import BoolColumn, Machines
from afflux.model.reachability import Reachability
from afflux.model.task import Shape
from afflux.policies.policy import Policy


class VolumeReachability(Policy):
    """Admits machines that match all reachability rules of a task; each rule has its own reason."""

    reason = "node(s) were out of reach of a volume"

    def admits(self, shape: Shape, machines: Machines) -> BoolColumn:
        chosen = np.ones(len(machines), bool)
        for reachability in shape.reachability:
            chosen &= reachable_machines(reachability, machines)
        return chosen


def reachable_machines(reachability: Reachability, machines: Machines) -> BoolColumn:
    """The machines that match one of the terms."""
    found = np.zeros(len(machines), bool)
    for term in reachability.terms:
        found |= machines.matching(term)
    return found
