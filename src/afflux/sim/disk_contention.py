"""Contention for disks: how much of what tasks wanted to do on disks they could not do.

A disk is busy by what its tasks take of it together, normalised for its model, over what it offers:
the largest of the ratios for reading, for writing and for both. While that is at most 1, every task
gets the throughput that it wants; beyond that every task gets the same share of it, 1 / busy. The
run times of tasks stay as they are: the work that is not done is counted as lost.

Where the scheduler did not choose a disk for a volume, the volume is on the disk of its machine
that is least busy when the task begins to work, which is better than chance.
"""

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from afflux.model.disks import Bandwidth, Disk, Normalise, VolumeIO
from afflux.sim.result import Result, Run
from afflux.sim.result_columns import Bools, Floats


@dataclass(frozen=True)
class DiskContention:
    """Times in which the tasks of a disk stayed the same: bytes per second that they wanted, and
    that they lost. `slowed_tasks` ever got less than they wanted, of `tasks` that use disks."""

    starts: Floats
    stops: Floats
    wanted: Floats
    lost: Floats
    tasks: int
    slowed_tasks: int

    @property
    def wanted_bytes(self) -> float:
        return float((self.stops - self.starts) @ self.wanted)

    @property
    def lost_share(self) -> float | None:
        """The share of the wanted bytes that was lost; None if none were wanted."""
        wanted = self.wanted_bytes
        return float((self.stops - self.starts) @ self.lost) / wanted if wanted else None

    @property
    def contended(self) -> Bools:
        return self.lost > 0


def disk_contention(result: Result) -> DiskContention | None:
    """None if the machines of the workload have no disks."""
    disks = result.workload.disks
    if not disks.reports:
        return None
    on_machine: dict[str, list[Run]] = {}
    for run in result.runs:
        if run.machine is not None and run.start is not None and run.task.shape.disks is not None:
            on_machine.setdefault(run.machine, []).append(run)
    rows: list[_Interval] = []
    slowed: set[str] = set()
    for report in disks.reports:
        used = [_UsedDisk(disk) for disk in report.disks]
        _replay(on_machine.get(report.machine, ()), used, disks.normalise, result.ended_at)
        for each in used:
            rows += each.intervals
            slowed |= each.slowed
    table = np.array(rows, dtype=np.float64).reshape(-1, 4)
    tasks = sum(map(len, on_machine.values()))
    return DiskContention(*table.T, tasks=tasks, slowed_tasks=len(slowed))


# Start, stop, wanted and lost bytes per second.
_Interval = tuple[float, float, float, float]


@dataclass(slots=True)
class _UsedDisk:
    """A disk while its tasks come and go: what each of them takes, and what it wants."""

    disk: Disk
    since: float = 0.0
    volumes: dict[tuple[str, int], tuple[Bandwidth, int]] = field(
        default_factory=dict[tuple[str, int], tuple[Bandwidth, int]]
    )
    intervals: list[_Interval] = field(default_factory=list[_Interval])
    slowed: set[str] = field(default_factory=set[str])

    def busy(self, *more: Bandwidth) -> float:
        taken = [*(each for each, _ in self.volumes.values()), *more]
        offered = self.disk.left
        return max(
            sum(each.read for each in taken) / max(1, offered.read),
            sum(each.write for each in taken) / max(1, offered.write),
            sum(each.total for each in taken) / max(1, offered.total),
        )

    def close(self, now: float) -> None:
        """What was on the disk until now stays the same no longer."""
        if self.volumes and now > self.since:
            wanted = float(sum(bytes_per_second for _, bytes_per_second in self.volumes.values()))
            busy = self.busy()
            lost = wanted * (1 - 1 / busy) if busy > 1 else 0.0
            self.intervals.append((self.since, now, wanted, lost))
            if lost:
                self.slowed.update(task for task, _ in self.volumes)
        self.since = now


def _replay(
    runs: Iterable[Run], disks: list[_UsedDisk], normalise: Normalise, ended_at: float
) -> None:
    """The tasks of one machine in the order of time; at one time, ends come before starts."""
    ends: list[tuple[float, str, Run]] = []

    def finish(until: float) -> None:
        while ends and ends[0][0] <= until:
            at, _, run = heapq.heappop(ends)
            for disk in disks:
                own = [key for key in disk.volumes if key[0] == run.task.id]
                if own:
                    disk.close(at)
                for key in own:
                    del disk.volumes[key]

    for run in sorted(runs, key=lambda run: (run.start or 0.0, run.task.id)):
        start = run.start or 0.0
        finish(start)
        for number, volume in enumerate(_volumes(run)):
            chosen = run.disks[number] if number < len(run.disks) else None
            disk, taken = _disk_for(volume, chosen, disks, normalise)
            disk.close(start)
            disk.volumes[run.task.id, number] = taken, volume.read + volume.write
        heapq.heappush(ends, (ended_at if run.end is None else run.end, run.task.id, run))
    finish(float("inf"))


def _volumes(run: Run) -> Iterator[VolumeIO]:
    request = run.task.shape.disks
    return iter(() if request is None else request.volumes)


def _disk_for(
    volume: VolumeIO, chosen: int | None, disks: list[_UsedDisk], normalise: Normalise
) -> tuple[_UsedDisk, Bandwidth]:
    """The chosen disk, or the one that would be least busy; and what the volume takes there."""
    taken = [
        normalise(each.disk.model, volume) or Bandwidth(volume.read, volume.write, 0)
        for each in disks
    ]
    if chosen is None:
        chosen = min(range(len(disks)), key=lambda index: disks[index].busy(taken[index]))
    return disks[chosen], taken[chosen]
