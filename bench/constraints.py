"""Cycles with constraints between pods, without an API server: `python -m bench.constraints`.

The workloads are those that `make bench-constraints` also runs on a real API server. Pods and
machines are read from their manifests first; the time is that of one cycle, its check included.
Each workload runs in a process of its own; memory is the growth of the process's peak.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random

import msgspec

from afflux.admit.strategies import flow
from afflux.cli.text_table import format_table
from afflux.cluster.state import State
from afflux.cycle.events import GroupReady
from afflux.cycle.loop import Cycle
from afflux.cycle.optimiser import Optimiser
from afflux.kube import objects
from afflux.kube.nodes import machine
from afflux.kube.pods import task
from afflux.model.waiting_group import WaitingGroup
from afflux.policies.cpu_memory import CpuMemory
from afflux.policies.policy import Weighted
from afflux.policies.registry import constraints
from afflux.queue.rules import QueueRules
from bench.kube.constraint_workloads import CONSTRAINT_WORKLOADS
from bench.kube.plans import Plan, as_json, complaints

MACHINES = 5_000


@dataclass(frozen=True)
class ConstrainedCycle:
    """Seconds of one whole cycle, the memory it added, the pods it placed, and broken rules."""

    workload: str
    pods: int
    placed: int
    seconds: float
    memory_mib: float
    imbalance: float
    """Pods on the fullest machine less those on the emptiest."""
    complaints: list[str]


def measure(machines: int) -> list[ConstrainedCycle]:
    """Every workload, one after the other."""
    found: list[ConstrainedCycle] = []
    for name in CONSTRAINT_WORKLOADS:
        program = [sys.executable, "-m", "bench.constraints", "--one", name]
        program += ["--machines", str(machines)]
        done = subprocess.run(program, stdout=subprocess.PIPE, check=True, text=True)
        found.append(msgspec.json.decode(done.stdout, type=ConstrainedCycle))
    return found


def _one(name: str, machines: int) -> ConstrainedCycle:
    workload = CONSTRAINT_WORKLOADS[name]
    plan = workload.plan(machines, workload.pods, Random(1))
    manifests = json.loads(as_json(plan, 0, 1))
    nodes = msgspec.convert(manifests["nodes"], list[objects.Node])
    state = State(map(machine, nodes))
    policies = [Weighted(CpuMemory())]
    cycle = Cycle(state, Optimiser(state, [(QueueRules(), flow)], constraints(), policies))
    waiting = [GroupReady(each) for each in _groups(plan, manifests["classes"])]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.perf_counter()
    outcome = cycle.run(waiting)
    seconds = time.perf_counter() - began
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    names = {placement.task.id: placement.machine for placement in outcome.placements}
    pods_on = {each.name: 0 for each in plan.machines}
    for placed_on in names.values():
        pods_on[placed_on] += 1
    return ConstrainedCycle(
        workload=name,
        pods=len(plan.pods),
        placed=len(names),
        seconds=seconds,
        memory_mib=grown / 1024,
        imbalance=max(pods_on.values()) - min(pods_on.values()),
        complaints=complaints(plan, names),
    )


def _groups(plan: Plan, classes: Mapping[str, object]) -> list[WaitingGroup]:
    found: list[WaitingGroup] = []
    for pod in plan.pods:
        read = msgspec.convert(classes[pod.class_name], objects.Pod)
        named = msgspec.structs.replace(read.metadata, name=pod.name, uid=pod.name)
        own = task(msgspec.structs.replace(read, metadata=named))
        if own.blocked:
            raise ValueError(f"{pod.name}: {own.blocked}")
        found.append(WaitingGroup(pod.name, (own,)))
    return found


def main() -> int:
    """Prints a table; the exit code is 1 if a rule was broken or a pod was not placed."""
    parser = argparse.ArgumentParser(prog="python -m bench.constraints")
    parser.add_argument("--machines", type=int, default=MACHINES)
    parser.add_argument("--one", choices=CONSTRAINT_WORKLOADS, help="print one workload as JSON")
    parser.add_argument("--json", metavar="FILE", help="also write the figures to a file")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(asdict(_one(options.one, options.machines))))
        return 0
    found = measure(options.machines)
    header = ["workload", "pods", "placed", "seconds", "MiB", "imbalance"]
    rows = [
        [
            each.workload,
            f"{each.pods:,}",
            f"{each.placed:,}",
            f"{each.seconds:.2f}",
            f"{each.memory_mib:.0f}",
            f"{each.imbalance:.0f}",
        ]
        for each in found
    ]
    print(f"one cycle, {options.machines:,} empty machines in 3 zones")
    print(format_table(header, rows))
    wrong = [complaint for each in found for complaint in each.complaints]
    print(*wrong, sep="\n", end="\n" if wrong else "")
    if options.json:
        figures = [asdict(each) for each in found]
        Path(options.json).write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    return 1 if wrong or any(each.placed < each.pods for each in found) else 0


if __name__ == "__main__":
    sys.exit(main())
