"""CPU and memory: prefer machines that would be least and most evenly used (seeds 1 and 2).

With f the used fraction of a resource after the task has been placed,

    cost = omega * (f_cpu + f_memory) / 2  +  omega * variance(f_cpu, f_memory)

and each further task of the class on the same machine adds omega * (d_cpu + d_memory) / 2, d being
the fraction that one task takes. Only reservations count here. How many tasks fit at all, the
machine's own pod limit included, is counted exactly by the fit of every resource.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from afflux.cluster.machines import Column, Machines
from afflux.model.resources import CPU, MEMORY, amount_of
from afflux.model.task import Shape
from afflux.policies.policy import OMEGA, Policy


@dataclass(frozen=True)
class CpuMemory(Policy):
    """`omega` is what a wholly used machine costs."""

    omega: int = OMEGA

    def cost(self, shape: Shape, machines: Machines) -> Column:
        cpu = _fraction(machines.used(CPU) + amount_of(shape.requests, CPU), machines.capacity(CPU))
        memory = _fraction(
            machines.used(MEMORY) + amount_of(shape.requests, MEMORY), machines.capacity(MEMORY)
        )
        variance = ((cpu - memory) / 2) ** 2
        return np.rint(self.omega * ((cpu + memory) / 2 + variance)).astype(np.int64)

    def slope(self, shape: Shape, machines: Machines) -> Column:
        cpu = _fraction(amount_of(shape.requests, CPU), machines.capacity(CPU))
        memory = _fraction(amount_of(shape.requests, MEMORY), machines.capacity(MEMORY))
        return np.rint(self.omega * (cpu + memory) / 2).astype(np.int64)


def _fraction(part: Column | int, whole: Column) -> NDArray[np.float64]:
    """part / whole, where nothing of nothing is 0 and an overcommitted machine counts as full."""
    return np.minimum(np.asarray(part, np.float64) / np.maximum(whole, 1), 1.0)
