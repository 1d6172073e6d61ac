"""Load spreading: each task on a machine makes the next one cost more (Firmament's Octopus model,
OSDI 2016)."""

from dataclasses import dataclass

import numpy as np

from afflux.cluster.machines import Column, Machines
from afflux.model.task import Shape
from afflux.policies.policy import Policy


@dataclass(frozen=True)
class LoadSpreading(Policy):
    """Each task on a machine raises the cost of the next one by `per_task`."""

    per_task: int = 100

    def cost(self, shape: Shape, machines: Machines) -> Column:
        return self.per_task * machines.running

    def slope(self, shape: Shape, machines: Machines) -> Column:
        return np.full(len(machines), self.per_task, np.int64)
