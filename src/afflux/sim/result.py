"""What a simulation leaves behind; everything shown or measured is derived from it."""

from dataclasses import dataclass

from afflux.model.task import Task
from afflux.sim.workload import Workload


@dataclass(frozen=True, slots=True)
class Run:
    """One task's life. It holds its machine from `bound` to `end` and works from `start` on.

    `bound` and `start` differ only where a scheduler places members of a group one by one: the
    group's work begins when its last member is placed. `start` None: it never began to work.
    `end` None: it was still running (or holding its machine) when the simulation stopped.
    """

    task: Task
    group: str
    submit: float
    bound: float | None
    start: float | None
    end: float | None
    machine: str | None


@dataclass(frozen=True, slots=True)
class CycleTiming:
    """When a cycle ran on the virtual clock, how long it really took, and what it faced."""

    at: float
    seconds: float
    waiting: int
    placed: int


@dataclass(frozen=True, slots=True)
class Promised:
    """A group that was promised a start before it had one.

    `at` is when it was first promised anything, `first` the start it was promised then, `earliest`
    the best it ever was; `broken` says why it started later than first promised, or None.
    """

    group: str
    at: float
    first: float
    earliest: float
    broken: str | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """One workload under one scheduler.

    `unknown` are the groups that were only ever told that nobody can know when they start.
    """

    scheduler: str
    workload: Workload
    runs: tuple[Run, ...]
    cycles: tuple[CycleTiming, ...]
    ended_at: float
    promised: tuple[Promised, ...] = ()
    unknown: frozenset[str] = frozenset()
    preemptions: int = 0
    migrations: int = 0
