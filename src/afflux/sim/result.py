"""The result of a simulation; all metrics and reports are derived from it."""

from dataclasses import dataclass

from afflux.model.task import Task
from afflux.sim.workload import Workload


@dataclass(frozen=True, slots=True)
class Run:
    """The run of one task. It holds its machine from `bound` to `end` and works from `start` on.

    `bound` and `start` differ only if a scheduler places members of a group one by one: the group's
    work begins when its last member is placed. `start` is None if the task never began to work;
    `end` is None if it still held its machine when the simulation stopped. `disks` has the disk of
    each volume, by its index on the machine; empty if the scheduler does not know disks.
    """

    task: Task
    group: str
    submit: float
    bound: float | None
    start: float | None
    end: float | None
    machine: str | None
    disks: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class CycleTiming:
    """When a cycle ran (virtual time), how long it took (real time), and its numbers of tasks."""

    at: float
    seconds: float
    waiting: int
    placed: int


@dataclass(frozen=True, slots=True)
class ReservationRecord:
    """The reservations of a group that did not start at once.

    `made_at` is when it got its first reservation, `first_start` the start reserved then,
    `earliest_start` the earliest start that was ever reserved. `broken` is the cause if the group
    started later than `first_start`, otherwise None.
    """

    group: str
    made_at: float
    first_start: float
    earliest_start: float
    broken: str | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """One workload under one scheduler.

    `start_unknown` are the groups whose reservations never had a start time. `preemptions` counts
    evicted tasks, `work_lost_seconds` is for how long they had run. `runs` has their last runs.
    """

    scheduler: str
    workload: Workload
    runs: tuple[Run, ...]
    cycles: tuple[CycleTiming, ...]
    ended_at: float
    reservations: tuple[ReservationRecord, ...] = ()
    start_unknown: frozenset[str] = frozenset()
    preemptions: int = 0
    work_lost_seconds: float = 0.0
    migrations: int = 0
