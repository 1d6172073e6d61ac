"""CPU and memory: prefer the machines that would be used least and most evenly.

The cost model follows the CPU-memory model of Poseidon and Firmament (OSDI 2016).

With f the used fraction of a resource after the task has been placed,

    cost = omega * (f_cpu + f_memory) / 2  +  omega * variance(f_cpu, f_memory)

and each further task of the class on the same machine adds omega * (d_cpu + d_memory) / 2, d being
the fraction that one task takes. Requests count, not measured use; a container without a request
counts as in kube-scheduler, so that tasks without requests spread, too. How many tasks fit, within
the machine's pod limit too, is counted exactly by `task_room`.
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
    """`omega` is the cost of a fully used machine."""

    omega: int = OMEGA

    def cost(self, shape: Shape, machines: Machines) -> Column:
        cpu = _fraction(machines.scored_use(CPU) + _amount(shape, CPU), machines.capacity(CPU))
        memory = _fraction(
            machines.scored_use(MEMORY) + _amount(shape, MEMORY), machines.capacity(MEMORY)
        )
        variance = ((cpu - memory) / 2) ** 2
        return np.rint(self.omega * ((cpu + memory) / 2 + variance)).astype(np.int64)

    def slope(self, shape: Shape, machines: Machines) -> Column:
        cpu = _fraction(_amount(shape, CPU), machines.capacity(CPU))
        memory = _fraction(_amount(shape, MEMORY), machines.capacity(MEMORY))
        slope = np.rint(self.omega * (cpu + memory) / 2).astype(np.int64)
        # Small tasks on large machines spread as well.
        return np.maximum(slope, 1) if self.omega and (cpu + memory).any() else slope


def _amount(shape: Shape, resource: str) -> int:
    """What a task counts for in costs."""
    return amount_of(shape.requests, resource) + amount_of(shape.unrequested, resource)


def _fraction(part: Column | int, whole: Column) -> NDArray[np.float64]:
    """part / whole, at most 1; 0 / 0 is 0."""
    return np.minimum(np.asarray(part, np.float64) / np.maximum(whole, 1), 1.0)
