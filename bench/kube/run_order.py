"""Which runs there are, and in which order.

All contestants have a workload one after the other, so that a slow hour of the machine meets all
of them; who begins changes from one workload to the next.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from bench.kube.contestants import NULL_EVENTS
from bench.kube.figures import STREAM, Run
from bench.kube.workloads import WORKLOADS

FULL = WORKLOADS["plain"].pods
FEWEST = 10


@dataclass(frozen=True, slots=True)
class Chosen:
    """What was asked for. `pods` is for the plain workload; the others have their part of it.

    Without `modes` each workload has its own.
    """

    nodes: Sequence[int]
    workloads: Sequence[str]
    schedulers: Sequence[str]
    modes: Sequence[str] | None = None
    pods: int = FULL
    repeats: int = 1


def pods_of(workload: str, pods: int) -> int:
    """How many pods a workload has when the plain one has so many."""
    return max(FEWEST, WORKLOADS[workload].pods * pods // FULL)


def blank_runs(chosen: Chosen) -> list[Run]:
    """All runs, in order, still to be made."""
    found: list[Run] = []
    cases = [
        (nodes, workload, mode)
        for _ in range(chosen.repeats)
        for nodes in chosen.nodes
        for workload in chosen.workloads
        for mode in chosen.modes or WORKLOADS[workload].modes
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
    """What events cost the API server is the same with every workload: one shows it."""
    return scheduler != NULL_EVENTS or (workload == "plain" and mode == STREAM)
