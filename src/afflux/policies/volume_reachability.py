"""Volume places: a task runs only where all its volumes can be reached or made."""

import numpy as np

from afflux.cluster.machines import BoolColumn, Machines
from afflux.model.places import Places
from afflux.model.task import Shape
from afflux.policies.policy import Policy


class VolumePlaces(Policy):
    """Admits machines that every one of a task's places includes; each has its own reason."""

    reason = "node(s) were out of reach of a volume"

    def admits(self, shape: Shape, machines: Machines) -> BoolColumn:
        chosen = np.ones(len(machines), bool)
        for places in shape.places:
            chosen &= included(places, machines)
        return chosen


def included(places: Places, machines: Machines) -> BoolColumn:
    """The machines that match one of the terms."""
    found = np.zeros(len(machines), bool)
    for term in places.terms:
        found |= machines.matching(term)
    return found
