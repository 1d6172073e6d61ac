"""Rounds in which few pairs of a class and a machine can matter, each in a process of its own.

Unlike and pinned tasks make every task a class of its own. In a large cluster a few newcomers, or
a hundredth of the tasks replaced, meet machines that are nearly full. The state exists before
anything is measured; memory is the growth of the process's peak over it.
"""

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from afflux.admit.strategies import flow
from afflux.cluster.state import State
from afflux.cycle.events import Event, GroupReady, TaskEnded, TaskRuns
from afflux.cycle.loop import Cycle
from afflux.cycle.optimiser import Optimiser
from afflux.model.machine import Machine
from afflux.model.resources import resources
from afflux.model.selectors import NodeAffinity, Requirement, Term
from afflux.model.task import Shape, Task
from afflux.model.waiting_group import WaitingGroup
from afflux.policies.cpu_memory import CpuMemory
from afflux.policies.policy import Weighted
from afflux.policies.registry import constraints
from afflux.queue.rules import QueueRules

GIB = 2**30
CLASSES = 50
LARGE_MACHINES = 12_500
RUNNING = 150_000


@dataclass(frozen=True)
class SparseRound:
    """Seconds of one whole cycle, the memory it added, and the tasks it placed."""

    name: str
    seconds: float
    memory_mib: float
    placed: int
    tasks: int


def measure() -> list[SparseRound]:
    """Every scenario, one after the other."""
    found: list[SparseRound] = []
    for name in SCENARIOS:
        program = [sys.executable, "-m", "bench.sparse_rounds", name]
        done = subprocess.run(program, stdout=subprocess.PIPE, check=True, text=True)
        found.append(SparseRound(name, **json.loads(done.stdout)))
    return found


def _machines(count: int) -> list[Machine]:
    capacity = resources({"cpu": 32_000, "memory": 128 * GIB, "pods": 110})
    return [Machine(f"m{i}", capacity) for i in range(count)]


def _cycle(machines: list[Machine]) -> Cycle:
    state = State(machines)
    policies = [Weighted(CpuMemory())]
    return Cycle(state, Optimiser(state, [(QueueRules(), flow)], constraints(), policies))


def _ready(name: str, shape: Shape) -> GroupReady:
    return GroupReady(WaitingGroup(name, (Task(name, name, shape),)))


def _unlike() -> tuple[Cycle, list[Event]]:
    """5,000 tasks of 5,000 sizes on 1,000 machines, at nine tenths of the cluster."""
    rng = np.random.default_rng(1)
    cpu, memory = rng.lognormal(0.0, 0.7, (2, 5_000))
    cpu *= 0.9 * 1_000 * 32_000 / cpu.sum()
    memory *= 0.9 * 1_000 * 128 * GIB / memory.sum()
    shapes = (
        Shape(resources({"cpu": int(c), "memory": int(m), "pods": 1}))
        for c, m in zip(cpu, memory, strict=True)
    )
    return _cycle(_machines(1_000)), [_ready(f"t{i}", shape) for i, shape in enumerate(shapes)]


def _pinned() -> tuple[Cycle, list[Event]]:
    """5,000 tasks, each of which names the machine that it needs, on 5,000 machines."""
    asked = resources({"cpu": 1_000, "memory": GIB, "pods": 1})
    events: list[Event] = []
    for i in range(5_000):
        named = Term(names=(Requirement("metadata.name", "In", (f"m{i}",)),))
        events.append(_ready(f"t{i}", Shape(asked, affinity=NodeAffinity(required=(named,)))))
    return _cycle(_machines(5_000)), events


def _running_cluster() -> tuple[Cycle, list[Shape], list[Task]]:
    rng = np.random.default_rng(1)
    cycle = _cycle(_machines(LARGE_MACHINES))
    cpu = rng.integers(500, 4_000, CLASSES).tolist()
    memory = rng.integers(1, 17, CLASSES).tolist()
    shapes = [
        Shape(resources({"cpu": c, "memory": m * GIB, "pods": 1}))
        for c, m in zip(cpu, memory, strict=True)
    ]
    tasks = [Task(f"r{i}", f"r{i}", shapes[i % CLASSES]) for i in range(RUNNING)]
    cycle.run([TaskRuns(task, f"m{i % LARGE_MACHINES}") for i, task in enumerate(tasks)])
    cycle.run([_ready(f"first{i}", shape) for i, shape in enumerate(shapes)])
    return cycle, shapes, tasks


def _newcomers() -> tuple[Cycle, list[Event]]:
    """100 tasks of known classes come to 12,500 machines that run 150,000."""
    cycle, shapes, _ = _running_cluster()
    return cycle, [_ready(f"n{i}", shapes[i % CLASSES]) for i in range(100)]


def _churn() -> tuple[Cycle, list[Event]]:
    """A hundredth of the 150,000 tasks ends, and as many come."""
    cycle, shapes, tasks = _running_cluster()
    ended: list[Event] = [TaskEnded(task.id) for task in tasks[::100]]
    return cycle, [*ended, *(_ready(f"n{i}", shapes[i % CLASSES]) for i in range(len(ended)))]


SCENARIOS: dict[str, Callable[[], tuple[Cycle, list[Event]]]] = {
    "5,000 unlike tasks, 1,000 machines": _unlike,
    "5,000 pinned tasks, 5,000 machines": _pinned,
    "100 newcomers, 12,500 machines": _newcomers,
    "1% churn, 12,500 machines": _churn,
}


def main() -> None:
    """Run the scenario that the argument names and print its figures as JSON."""
    cycle, events = SCENARIOS[sys.argv[1]]()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.perf_counter()
    outcome = cycle.run(events)
    seconds = time.perf_counter() - began
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    tasks = sum(isinstance(event, GroupReady) for event in events)
    placed = len(outcome.placements)
    figures = {"seconds": seconds, "memory_mib": grown / 1024, "placed": placed, "tasks": tasks}
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
