"""Small random clusters and workloads, for comparison with the exact optimum."""

from dataclasses import dataclass

import numpy as np

from afflux.model.machine import Machine
from afflux.model.resources import resources
from afflux.model.task import Shape, Task
from afflux.model.waiting_group import WaitingGroup

RESOURCES = ("cpu", "memory", "example.com/unit")


@dataclass(frozen=True)
class Instance:
    """Machines that are empty, and groups in queue order."""

    machines: tuple[Machine, ...]
    groups: tuple[WaitingGroup, ...]


def random_instance(
    seed: int, load: float, gangs: bool, largest_machines: int = 12, largest_tasks: int = 40
) -> Instance:
    """Requests add up to about `load` of the capacity in the scarcest resource."""
    rng = np.random.default_rng(seed)
    machine_count = int(rng.integers(3, largest_machines + 1))
    dimensions = int(rng.integers(1, len(RESOURCES) + 1))
    capacity = rng.integers(8, 33, size=(machine_count, dimensions)) * 1000
    class_count = int(rng.integers(1, 9))
    shares = rng.uniform(0.03, 0.45, size=(class_count, dimensions))
    requests = np.maximum(1, (shares * capacity.mean(axis=0)).astype(np.int64))
    chosen: list[int] = []
    used = np.zeros(dimensions)
    while len(chosen) < largest_tasks and (used / capacity.sum(axis=0)).max(initial=0) < load:
        pick = int(rng.integers(class_count))
        chosen.append(pick)
        used += requests[pick]
    shapes = [
        Shape(resources([*zip(RESOURCES, map(int, row), strict=False), ("pods", 1)]))
        for row in requests
    ]
    machines = tuple(
        Machine(f"m{i}", resources([*zip(RESOURCES, map(int, row), strict=False), ("pods", 110)]))
        for i, row in enumerate(capacity)
    )
    priorities = [0, 0, 0, 10] if rng.random() < 0.5 else [0]
    groups: list[WaitingGroup] = []
    position = 0
    while position < len(chosen):
        size = int(rng.integers(2, 6)) if gangs and rng.random() < 0.3 else 1
        members = chosen[position : position + size]
        name = f"g{len(groups)}"
        tasks = tuple(
            Task(f"{name}.{i}", f"{name}.{i}", shapes[pick]) for i, pick in enumerate(members)
        )
        groups.append(WaitingGroup(name, tasks, int(rng.choice(priorities))))
        position += size
    groups.sort(key=lambda group: -group.priority)
    return Instance(machines, tuple(groups))
