"""How often the account refuses what the flow network proposed, per kind of constraint.

The encodings of the network are there to make refusals rare. Each workload is one cycle on empty
machines in three zones.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from afflux.admit.strategies import flow
from afflux.cluster.state import State
from afflux.cycle.events import GroupReady
from afflux.cycle.loop import Cycle
from afflux.cycle.optimiser import Optimiser
from afflux.model.machine import Machine
from afflux.model.relations import (
    AffinityTerm,
    Relations,
    SpreadConstraint,
    TaskLabels,
    TaskSelector,
)
from afflux.model.resources import resources
from afflux.model.selectors import Requirement
from afflux.model.task import Shape, Task
from afflux.model.waiting_group import WaitingGroup
from afflux.policies.cpu_memory import CpuMemory
from afflux.policies.policy import Weighted
from afflux.policies.registry import constraints
from afflux.queue.rules import QueueRules

MACHINES = 1_000
TASKS = 3_000
ZONES = 3
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"


@dataclass(frozen=True)
class Refusals:
    """One cycle: tasks placed, and proposals refused, by kind of constraint."""

    workload: str
    tasks: int
    placed: int
    seconds: float
    refused: Mapping[str, int]


# The requirements of application number n.
_RelationsOf = Callable[[int], Relations]


def _selects(app: int) -> TaskSelector:
    return TaskSelector(("default",), labels=(Requirement("app", "In", (f"app-{app}",)),))


def _zone_affinity(app: int) -> Relations:
    return Relations(affinity=(AffinityTerm(_selects(app), ZONE),))


def _host_anti_affinity(app: int) -> Relations:
    return Relations(anti_affinity=(AffinityTerm(_selects(app), HOST),))


def _zone_spread(app: int) -> Relations:
    return Relations(spread=(SpreadConstraint(_selects(app), ZONE, 1),))


def _all_of_them(app: int) -> Relations:
    """Near the application before, apart on hosts, spread over zones."""
    apart, spread = _host_anti_affinity(app).anti_affinity, _zone_spread(app).spread
    near = () if app % 3 == 0 else (AffinityTerm(_selects(app - 1), ZONE),)
    return Relations(affinity=near, anti_affinity=apart, spread=spread)


def _none(app: int) -> Relations:
    del app
    return Relations()


# By name: the requirements, the number of applications, and the share of all CPU that is asked for.
WORKLOADS: Mapping[str, tuple[_RelationsOf, int, float]] = {
    "no constraints, load 1.1": (_none, 30, 1.1),
    "zone affinity": (_zone_affinity, 30, 0.5),
    "host anti-affinity": (_host_anti_affinity, 5, 0.5),
    "zone spread": (_zone_spread, 30, 0.5),
    "all of them": (_all_of_them, 30, 0.5),
    "all of them, load 0.95": (_all_of_them, 30, 0.95),
}


def measure(machines: int = MACHINES, tasks: int = TASKS) -> list[Refusals]:
    """Every workload, one cycle each."""
    return [_measure(name, machines, tasks) for name in WORKLOADS]


def _measure(name: str, machine_count: int, task_count: int) -> Refusals:
    relations_of, apps, load = WORKLOADS[name]
    state = State(_machine(number) for number in range(machine_count))
    policies = [Weighted(CpuMemory())]
    cycle = Cycle(state, Optimiser(state, [(QueueRules(), flow)], constraints(), policies))
    cpu = 64_000 * machine_count * load / task_count
    groups = [_group(n, n % apps, cpu, relations_of(n % apps)) for n in range(task_count)]
    began = time.perf_counter()
    decided = cycle.run([GroupReady(group) for group in groups]).decision
    seconds = time.perf_counter() - began
    assert decided is not None
    plan = decided.plan
    proposals = dict(plan.refused_proposals)
    return Refusals(name, task_count, len(plan.placements), seconds, proposals)


def _machine(number: int) -> Machine:
    name = f"m{number}"
    labels = {HOST: name, ZONE: f"zone-{number % ZONES}"}
    return Machine(name, resources({"cpu": 64_000, "pods": 110}), labels=labels)


def _group(number: int, app: int, mean_cpu: float, relations: Relations) -> WaitingGroup:
    name = f"t{number}"
    # Applications differ in size by up to half.
    cpu = int(mean_cpu * (0.75 + 0.5 * (app % 7) / 6))
    labels = TaskLabels("default", (("app", f"app-{app}"),))
    shape = Shape(resources({"cpu": cpu, "pods": 1}), relations=relations)
    return WaitingGroup(name, (replace(Task(name, name, shape), labels=labels),))
