"""One cold cycle: 1,000 empty machines, 10,000 waiting tasks of 50 classes."""

import time
from dataclasses import dataclass

import numpy as np

from afflux.admit.strategies import flow
from afflux.cluster.state import State
from afflux.cycle.events import GroupReady
from afflux.cycle.interfaces import Scheduler
from afflux.cycle.loop import Cycle
from afflux.cycle.optimiser import Optimiser
from afflux.model.machine import Machine
from afflux.model.resources import resources
from afflux.model.task import Shape, Task
from afflux.model.waiting_group import WaitingGroup
from afflux.policies.cpu_memory import CpuMemory
from afflux.policies.policy import Weighted
from afflux.policies.registry import constraints
from afflux.queue.rules import QueueRules
from afflux.sim.pod_by_pod import PodByPod

GIB = 2**30


@dataclass(frozen=True)
class ColdCycle:
    """Seconds for one cycle, check included, the tasks placed, and the gap to the bound."""

    scheduler: str
    load: float
    seconds: float
    placed: int
    tasks: int
    solves: int
    gap: float | None


def workload(
    machine_count: int, task_count: int, class_count: int, load: float, seed: int = 1
) -> tuple[list[Machine], list[WaitingGroup]]:
    """Machines of two sizes and tasks whose CPU requests add up to `load` of the cluster's."""
    rng = np.random.default_rng(seed)
    machines = [
        Machine(
            f"m{i}",
            resources({"cpu": 64_000 if i % 4 == 0 else 32_000, "memory": 128 * GIB, "pods": 110}),
        )
        for i in range(machine_count)
    ]
    cpu = rng.lognormal(0.0, 0.7, class_count)
    memory = rng.lognormal(0.0, 0.7, class_count)
    capacity = sum(dict(m.capacity)["cpu"] for m in machines)
    cpu *= load * capacity / task_count / cpu.mean()
    memory *= load * machine_count * 128 * GIB / task_count / memory.mean()
    shapes = [
        Shape(resources({"cpu": int(c), "memory": int(m), "pods": 1}))
        for c, m in zip(cpu, memory, strict=True)
    ]
    groups = [
        WaitingGroup(f"t{i}", (Task(f"t{i}", f"t{i}", shapes[i % class_count]),))
        for i in range(task_count)
    ]
    return machines, groups


def measure(
    machine_count: int = 1_000, task_count: int = 10_000, class_count: int = 50
) -> list[ColdCycle]:
    """Our scheduler and the pod-by-pod peer, at three loads."""
    found: list[ColdCycle] = []
    for load in (0.5, 0.9, 1.1):
        machines, groups = workload(machine_count, task_count, class_count, load)
        for name in ("cpu-memory", "pod-by-pod"):
            state = State(machines)
            scheduler: Scheduler = (
                PodByPod()
                if name == "pod-by-pod"
                else Optimiser(
                    state, [(QueueRules(), flow)], constraints(), [Weighted(CpuMemory())]
                )
            )
            cycle = Cycle(state, scheduler)
            began = time.perf_counter()
            outcome = cycle.run([GroupReady(group) for group in groups])
            seconds = time.perf_counter() - began
            assert outcome.decision is not None
            plan = outcome.decision.plan
            found.append(
                ColdCycle(
                    name, load, seconds, len(plan.placements), task_count, plan.solves, plan.gap
                )
            )
    return found
