"""Load-spreading: a machine costs more the more tasks it runs (seed 1; Firmament's Octopus)."""

from dataclasses import dataclass

import numpy as np

from afflux.cluster.machines import Column, Machines
from afflux.model.task import Shape
from afflux.policies.policy import Policy


@dataclass(frozen=True)
class LoadSpreading(Policy):
    """Every task that runs on a machine makes the next one there `per_task` dearer."""

    per_task: int = 100

    def cost(self, shape: Shape, machines: Machines) -> Column:
        return self.per_task * machines.running

    def slope(self, shape: Shape, machines: Machines) -> Column:
        return np.full(len(machines), self.per_task, np.int64)
