"""The runs of the benchmark and their order.

All schedulers run a workload one after the other, so that a slow hour of the machine affects all
of them; the first scheduler changes from one workload to the next.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from bench.kube.constraint_workloads import CONSTRAINT_WORKLOADS
from bench.kube.results import STREAM, Run
from bench.kube.schedulers import NULL_EVENTS
from bench.kube.workloads import WORKLOADS

# The default workloads, and those of `make bench-constraints`.
ALL_WORKLOADS = WORKLOADS | CONSTRAINT_WORKLOADS
DEFAULT_PODS = WORKLOADS["plain"].pods
MIN_PODS = 10


@dataclass(frozen=True, slots=True)
class Selection:
    """The requested runs. `pods` is for the plain workload; the others scale in proportion.

    Without `modes` each workload runs in its own modes.
    """

    nodes: Sequence[int]
    workloads: Sequence[str]
    schedulers: Sequence[str]
    modes: Sequence[str] | None = None
    pods: int = DEFAULT_PODS
    repeats: int = 1


def pods_of(workload: str, pods: int) -> int:
    """The number of pods of a workload if the plain workload has `pods`."""
    return max(MIN_PODS, ALL_WORKLOADS[workload].pods * pods // DEFAULT_PODS)


def planned_runs(chosen: Selection) -> list[Run]:
    """All runs in order, without measurements yet."""
    found: list[Run] = []
    cases = [
        (nodes, workload, mode)
        for _ in range(chosen.repeats)
        for nodes in chosen.nodes
        for workload in chosen.workloads
        for mode in chosen.modes or ALL_WORKLOADS[workload].modes
    ]
    for number, (nodes, workload, mode) in enumerate(cases):
        there = [name for name in chosen.schedulers if _takes_part(name, workload, mode)]
        first = number % max(1, len(there))
        pods = pods_of(workload, chosen.pods)
        found += [
            Run(nodes, workload, mode, name, pods, turn=turn)
            for turn, name in enumerate((*there[first:], *there[:first]), start=1)
        ]
    return found


def _takes_part(scheduler: str, workload: str, mode: str) -> bool:
    """The null binder with events runs only one workload: events cost the same with each."""
    return scheduler != NULL_EVENTS or (workload == "plain" and mode == STREAM)
