"""The measurements of a run, and medians and ratios of runs."""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import cast

import msgspec

from bench.kube.plans import Plan

STREAM, BACKLOG = "stream", "backlog"
MODES = (STREAM, BACKLOG)

# The names of the processes whose CPU time is measured.
SCHEDULER, API_SERVER, ETCD, LOAD = "scheduler", "kube-apiserver", "etcd", "load"


@dataclass(frozen=True, slots=True)
class Imbalance:
    """Standard deviation and range, over all machines, of the requested share of a machine."""

    cpu_deviation: float
    cpu_range: float
    memory_deviation: float
    memory_range: float


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a workload with a scheduler in a mode. None: unknown, because the run failed."""

    nodes: int
    workload: str
    mode: str
    scheduler: str
    pods: int
    placed: int = 0
    seconds: float | None = None
    """From the first creation (backlog: from when the scheduler leads) to the last binding."""
    first_seconds: float | None = None
    """The same, to the first binding."""
    create_seconds: float | None = None
    """The time to create the pods."""
    p50_seconds: float | None = None
    p99_seconds: float | None = None
    """From a pod's creation (backlog: from when the scheduler leads) to its binding."""
    cpu_seconds: Mapping[str, float] = field(default_factory=dict[str, float])
    """Of each process, from before the first creation until the scheduler was idle."""
    peak_bytes: int | None = None
    """The peak memory of the scheduler's process."""
    events: int | None = None
    """The number of events at the end."""
    settle_seconds: float | None = None
    """How long the scheduler was busy after the last binding, probably with events. Detecting that
    it is idle takes 0.8 s of this. None if some pods were not placed."""
    imbalance: Imbalance | None = None
    turn: int = 0
    """The position of this run among the schedulers on this workload and mode, from 1."""
    stolen: float | None = None
    """The share of the machine's CPU time that other processes used during the run."""
    complaints: Sequence[str] = ()

    @property
    def pods_per_second(self) -> float | None:
        """Placed pods per second."""
        return self.placed / self.seconds if self.placed and self.seconds else None

    @property
    def cpu_per_thousand(self) -> float | None:
        """CPU seconds of the scheduler per 1,000 placed pods."""
        return self.cpu_of(SCHEDULER)

    def cpu_of(self, part: str) -> float | None:
        """CPU seconds of a process per 1,000 placed pods."""
        if not self.placed or part not in self.cpu_seconds:
            return None
        return 1000 * self.cpu_seconds[part] / self.placed


@dataclass(frozen=True, slots=True)
class Seen:
    """The load generator's report: one entry per pod, -1 for never."""

    appeared: Sequence[float]
    bound: Sequence[float]
    nodes: Sequence[str]


def quantile(values: Sequence[float], share: float) -> float | None:
    """The smallest value that is at least this share of all values; None without values."""
    if not values:
        return None
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def waits(seen: Seen, since: float | None) -> list[float]:
    """The wait of each bound pod, from `since` or from when the pod appeared."""
    return [
        bound - (appeared if since is None else since)
        for appeared, bound in zip(seen.appeared, seen.bound, strict=True)
        if bound >= 0
    ]


def imbalance(plan: Plan, where: Mapping[str, str]) -> Imbalance:
    """The imbalance of the plan's machines if its pods are on these machines."""
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
class Median:
    """The medians over the runs of one scheduler on one workload."""

    runs: Sequence[Run]

    @property
    def pods(self) -> int:
        """The number of pods to place."""
        return self.runs[0].pods

    @property
    def placed(self) -> float | None:
        """The number of placed pods."""
        return middle(run.placed for run in self.runs)

    @property
    def pods_per_second(self) -> float | None:
        """Placed pods per second."""
        return middle(run.pods_per_second for run in self.runs)

    @property
    def p50_seconds(self) -> float | None:
        """The median of the waits."""
        return middle(run.p50_seconds for run in self.runs)

    @property
    def p99_seconds(self) -> float | None:
        """The 99th percentile of the waits."""
        return middle(run.p99_seconds for run in self.runs)

    @property
    def peak_bytes(self) -> float | None:
        """The peak memory."""
        return middle(run.peak_bytes for run in self.runs)

    @property
    def events(self) -> float | None:
        """The number of posted events."""
        return middle(run.events for run in self.runs)

    @property
    def cpu_deviation(self) -> float | None:
        """The standard deviation of requested CPU."""
        return middle(run.imbalance.cpu_deviation for run in self.runs if run.imbalance)

    @property
    def cpu_range(self) -> float | None:
        """The difference of requested CPU between the fullest and the emptiest machine."""
        return middle(run.imbalance.cpu_range for run in self.runs if run.imbalance)

    @property
    def memory_deviation(self) -> float | None:
        """The standard deviation of requested memory."""
        return middle(run.imbalance.memory_deviation for run in self.runs if run.imbalance)

    @property
    def memory_range(self) -> float | None:
        """The difference of requested memory between the fullest and the emptiest machine."""
        return middle(run.imbalance.memory_range for run in self.runs if run.imbalance)

    @property
    def complaints(self) -> list[str]:
        """The complaints of all runs."""
        return [complaint for run in self.runs for complaint in run.complaints]

    def cpu_of(self, part: str) -> float | None:
        """CPU seconds of a process per 1,000 placed pods."""
        return middle(run.cpu_of(part) for run in self.runs)


Key = tuple[int, str, str, str]
"""Nodes, workload, mode, scheduler."""


def medians(runs: Iterable[Run]) -> dict[Key, Median]:
    """The runs by case and scheduler, in the order of their first run."""
    grouped: dict[Key, list[Run]] = {}
    for run in runs:
        grouped.setdefault((run.nodes, run.workload, run.mode, run.scheduler), []).append(run)
    return {key: Median(found) for key, found in grouped.items()}


def middle(values: Iterable[float | None]) -> float | None:
    """The median of the known values."""
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def share(one: float | None, other: float | None) -> float | None:
    """The quotient of two figures; None if one is unknown or the divisor is 0."""
    return None if one is None or not other else one / other


def as_dict(run: Run) -> dict[str, object]:
    """A run as JSON values, rounded, with derived figures."""
    kept: dict[str, object] = asdict(run)
    kept |= {"pods_per_second": run.pods_per_second, "cpu_per_thousand": run.cpu_per_thousand}
    return {name: _rounded(value) for name, value in kept.items()}


def from_dict(kept: object) -> Run:
    """The run of such a dictionary."""
    return msgspec.convert(kept, Run)


def _rounded(value: object) -> object:
    if isinstance(value, float):
        return round(value, 5)
    if isinstance(value, dict):
        parts = cast("dict[str, object]", value)
        return {name: _rounded(part) for name, part in parts.items()}
    return value
