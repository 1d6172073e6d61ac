"""What a run showed, and what follows from that: pure arithmetic over plain values."""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import cast

import msgspec

from bench.kube.plans import Plan

STREAM, BACKLOG = "stream", "backlog"
MODES = (STREAM, BACKLOG)

# The names under which the CPU time of processes is kept.
SCHEDULER, API_SERVER, ETCD, LOAD = "scheduler", "kube-apiserver", "etcd", "load"


@dataclass(frozen=True, slots=True)
class Imbalance:
    """Over all machines, of the part that is requested: standard deviation, and most less least."""

    cpu_deviation: float
    cpu_range: float
    memory_deviation: float
    memory_range: float


@dataclass(frozen=True, slots=True)
class Run:
    """One workload, one scheduler, one way of measuring. None: not known, because it failed."""

    nodes: int
    workload: str
    mode: str
    scheduler: str
    pods: int
    placed: int = 0
    seconds: float | None = None
    """From the first pod's creation, or from when the scheduler leads, to the last binding."""
    first_seconds: float | None = None
    """The same, to the first binding."""
    create_seconds: float | None = None
    """How long the pods took to be created."""
    p50_seconds: float | None = None
    p99_seconds: float | None = None
    """From a pod's creation to its binding; in a backlog from when the scheduler leads."""
    cpu_seconds: Mapping[str, float] = field(default_factory=dict[str, float])
    """Of each process, from before the first creation until the scheduler had nothing to do."""
    peak_bytes: int | None = None
    """The most memory of the scheduler's process, from its start."""
    events: int | None = None
    """How many events there are in the end."""
    settle_seconds: float | None = None
    """How long after the last binding the scheduler was busy, most likely with events. It takes
    0.8 s to see that it is not; None if some pods found no place."""
    imbalance: Imbalance | None = None
    turn: int = 0
    """Of those who had this workload in this mode, when this one had it."""
    stolen: float | None = None
    """CPU time that others took during the run, by all there was: what spoils the figures."""
    complaints: Sequence[str] = ()

    @property
    def pods_per_second(self) -> float | None:
        """Placed by seconds."""
        return self.placed / self.seconds if self.placed and self.seconds else None

    @property
    def cpu_per_thousand(self) -> float | None:
        """CPU seconds of the scheduler for a thousand pods that were placed."""
        return self.cpu_of(SCHEDULER)

    def cpu_of(self, part: str) -> float | None:
        """CPU seconds of a process for a thousand pods that were placed."""
        if not self.placed or part not in self.cpu_seconds:
            return None
        return 1000 * self.cpu_seconds[part] / self.placed


@dataclass(frozen=True, slots=True)
class Seen:
    """What the load generator noted of one pod after the other; -1 is never."""

    appeared: Sequence[float]
    bound: Sequence[float]
    nodes: Sequence[str]


def quantile(values: Sequence[float], share: float) -> float | None:
    """The smallest value that is not less than this share of all; None of none."""
    if not values:
        return None
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def waits(seen: Seen, since: float | None) -> list[float]:
    """How long each pod with a machine waited for it, since a moment or since it appeared."""
    return [
        bound - (appeared if since is None else since)
        for appeared, bound in zip(seen.appeared, seen.bound, strict=True)
        if bound >= 0
    ]


def imbalance(plan: Plan, where: Mapping[str, str]) -> Imbalance:
    """Of the plan's machines, with its pods where they are."""
    cpu = {each.name: 0 for each in plan.machines}
    memory = dict(cpu)
    for pod, name in plan.placed(where):
        cpu[name] += plan.classes[pod.class_name].cpu_milli
        memory[name] += plan.classes[pod.class_name].memory_mib
    cpu_shares = [cpu[each.name] / each.cpu_milli for each in plan.machines]
    memory_shares = [memory[each.name] / each.memory_mib for each in plan.machines]
    return Imbalance(
        statistics.pstdev(cpu_shares),
        max(cpu_shares) - min(cpu_shares),
        statistics.pstdev(memory_shares),
        max(memory_shares) - min(memory_shares),
    )


@dataclass(frozen=True, slots=True)
class Middle:
    """The runs of one scheduler on one workload, of which the median counts."""

    runs: Sequence[Run]

    @property
    def pods(self) -> int:
        """How many pods there were to place."""
        return self.runs[0].pods

    @property
    def placed(self) -> float | None:
        """How many found a place."""
        return middle(run.placed for run in self.runs)

    @property
    def pods_per_second(self) -> float | None:
        """How fast."""
        return middle(run.pods_per_second for run in self.runs)

    @property
    def p50_seconds(self) -> float | None:
        """The median wait."""
        return middle(run.p50_seconds for run in self.runs)

    @property
    def p99_seconds(self) -> float | None:
        """The wait that one in a hundred exceeds."""
        return middle(run.p99_seconds for run in self.runs)

    @property
    def peak_bytes(self) -> float | None:
        """The most memory."""
        return middle(run.peak_bytes for run in self.runs)

    @property
    def events(self) -> float | None:
        """How many events were posted."""
        return middle(run.events for run in self.runs)

    @property
    def cpu_deviation(self) -> float | None:
        """Imbalance of processors."""
        return middle(run.imbalance.cpu_deviation for run in self.runs if run.imbalance)

    @property
    def cpu_range(self) -> float | None:
        """Imbalance of processors between the fullest machine and the emptiest."""
        return middle(run.imbalance.cpu_range for run in self.runs if run.imbalance)

    @property
    def memory_deviation(self) -> float | None:
        """Imbalance of memory."""
        return middle(run.imbalance.memory_deviation for run in self.runs if run.imbalance)

    @property
    def memory_range(self) -> float | None:
        """Imbalance of memory between the fullest machine and the emptiest."""
        return middle(run.imbalance.memory_range for run in self.runs if run.imbalance)

    @property
    def complaints(self) -> list[str]:
        """What is wrong with any of them."""
        return [complaint for run in self.runs for complaint in run.complaints]

    def cpu_of(self, part: str) -> float | None:
        """CPU seconds of a process for a thousand pods that were placed."""
        return middle(run.cpu_of(part) for run in self.runs)


Key = tuple[int, str, str, str]
"""Nodes, workload, mode, scheduler."""


def middles(runs: Iterable[Run]) -> dict[Key, Middle]:
    """The runs that belong together, in the order in which they first ran."""
    grouped: dict[Key, list[Run]] = {}
    for run in runs:
        grouped.setdefault((run.nodes, run.workload, run.mode, run.scheduler), []).append(run)
    return {key: Middle(found) for key, found in grouped.items()}


def middle(values: Iterable[float | None]) -> float | None:
    """The median of what is known."""
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def share(one: float | None, other: float | None) -> float | None:
    """One by the other."""
    return None if one is None or not other else one / other


def as_dict(run: Run) -> dict[str, object]:
    """For JSON, with what follows from the figures, rounded to what they are worth."""
    kept: dict[str, object] = asdict(run)
    kept |= {"pods_per_second": run.pods_per_second, "cpu_per_thousand": run.cpu_per_thousand}
    return {name: _rounded(value) for name, value in kept.items()}


def from_dict(kept: object) -> Run:
    """The run that was kept."""
    return msgspec.convert(kept, Run)


def _rounded(value: object) -> object:
    if isinstance(value, float):
        return round(value, 5)
    if isinstance(value, dict):
        parts = cast("dict[str, object]", value)
        return {name: _rounded(part) for name, part in parts.items()}
    return value
