"""A result as NumPy columns: one row per task, per group and per machine.

Metrics and reports are both computed from these columns. A time that does not exist (a task that
never started) is NaN here, and is never printed as such.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from afflux.model.devices import WHOLE_MILLI
from afflux.model.machine import Machine
from afflux.model.resources import PODS
from afflux.model.task import Shape
from afflux.sim.result import Result, Run
from afflux.sim.workload import Workload

DEVICES = "devices"

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class ResultColumns:
    """`until` is when a task released its machine; NaN if it never held one.

    `row` is the machine's index in the workload, -1 without a machine. `amounts` and `capacities`
    are per resource; `devices` are thousandths of a device. Pod slots are left out: they are a
    limit, not a resource to utilise.
    """

    submit: Floats
    bound: Floats
    start: Floats
    end: Floats
    until: Floats
    row: Ints
    group: Ints
    amounts: dict[str, Floats]
    capacities: dict[str, Floats]
    groups: "Groups"
    ended_at: float

    @cached_property
    def held(self) -> Bools:
        """Which tasks ever held a machine."""
        return (self.row >= 0) & ~np.isnan(self.bound)

    @cached_property
    def working_from(self) -> Floats:
        """When a task that held a machine began to work; `until` if it never did."""
        return np.where(np.isnan(self.start), self.until, self.start)

    @property
    def first_submit(self) -> float:
        """When the first task arrived, 0 if none did."""
        return float(self.submit.min()) if self.submit.size else 0.0

    @property
    def last_end(self) -> float | None:
        """When the last machine was released or the simulation stopped; None if none was held."""
        return float(self.until[self.held].max()) if self.held.any() else None

    def total(self, resource: str) -> float:
        """The capacity of all machines together."""
        return float(self.capacities[resource].sum())


@dataclass(frozen=True)
class Groups:
    """A group starts when its last member starts, and ends when its last member ends.

    `endless` groups have no run time in the workload and therefore no slowdown. `queue` numbers the
    queues.
    """

    names: tuple[str, ...]
    size: Ints
    priority: Ints
    queue: Ints
    endless: Bools
    submit: Floats
    start: Floats
    end: Floats

    @property
    def wait(self) -> Floats:
        """Seconds from submission to start, NaN if it never started."""
        return self.start - self.submit

    @property
    def slowdown(self) -> Floats:
        """Bounded slowdown: max(1, (wait + run) / max(run, 10 s)); NaN if it did not end."""
        run = self.end - self.start
        return np.maximum(1.0, (self.wait + run) / np.maximum(run, 10.0))


def columns(result: Result) -> ResultColumns:
    """The columns of a result, its tasks in the order of their submission."""
    runs = in_submission_order(result)
    machines = result.workload.machines
    rows = {machine.name: row for row, machine in enumerate(machines)}
    names = {name: index for index, name in enumerate(dict.fromkeys(run.group for run in runs))}
    start = _times(run.start for run in runs)
    end = _times(run.end for run in runs)
    bound = _times(run.start if run.bound is None else run.bound for run in runs)
    group = np.array([names[run.group] for run in runs], dtype=np.int64)
    submit = np.array([run.submit for run in runs], dtype=np.float64)
    capacities = _capacities(machines)
    row = [-1 if run.machine is None else rows.get(run.machine, -1) for run in runs]
    held_until = np.where(np.isnan(end), max(result.ended_at, 0.0), end)
    return ResultColumns(
        submit=submit,
        bound=bound,
        start=start,
        end=end,
        until=np.where(np.isnan(bound), np.nan, held_until),
        row=np.array(row, dtype=np.int64),
        group=group,
        amounts=_amounts([run.task.shape for run in runs], tuple(capacities)),
        capacities=capacities,
        groups=_groups(result.workload, tuple(names), group, submit=submit, start=start, end=end),
        ended_at=result.ended_at,
    )


def in_submission_order(result: Result) -> list[Run]:
    """The runs in the order in which the workload submits their tasks."""
    submissions = result.workload.submissions
    tasks = (task.id for submission in submissions for task in submission.group.tasks)
    place = {task: index for index, task in enumerate(tasks)}
    return sorted(result.runs, key=lambda run: place.get(run.task.id, len(place)))


def _times(values: Iterable[float | None]) -> Floats:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def _capacities(machines: tuple[Machine, ...]) -> dict[str, Floats]:
    """Per resource that any machine has, the capacity of every machine."""
    names = {name for machine in machines for name, _ in machine.capacity} - {PODS}
    found = {name: np.zeros(len(machines)) for name in sorted(names)}
    for row, machine in enumerate(machines):
        for name, amount in machine.capacity:
            if name != PODS:
                found[name][row] = amount
    devices = np.array([machine.devices * WHOLE_MILLI for machine in machines], dtype=np.float64)
    if devices.any():
        found[DEVICES] = devices
    return found


def _amounts(shapes: list[Shape], names: tuple[str, ...]) -> dict[str, Floats]:
    """Per resource the request of each task; shape objects shared by tasks are read once."""
    distinct = {id(shape): shape for shape in shapes}
    place = {key: index for index, key in enumerate(distinct)}
    column = {name: index for index, name in enumerate(names)}
    table = np.zeros((len(distinct), len(names)))
    for key, shape in distinct.items():
        for name, amount in shape.requests:
            if name in column:
                table[place[key], column[name]] = amount
        if shape.devices is not None and DEVICES in column:
            table[place[key], column[DEVICES]] = shape.devices.count * shape.devices.milli
    of_task = np.array([place[id(shape)] for shape in shapes], dtype=np.int64)
    return {name: table[of_task, index] for name, index in column.items()}


def _groups(
    workload: Workload,
    names: tuple[str, ...],
    group: Ints,
    *,
    submit: Floats,
    start: Floats,
    end: Floats,
) -> Groups:
    known = {submission.group.key: submission for submission in workload.submissions}
    found = [known.get(name) for name in names]
    count = len(names)
    endless = [s is not None and s.run_seconds is None for s in found]
    queues = [s.group.queue if s else "" for s in found]
    numbers = {name: number for number, name in enumerate(dict.fromkeys(queues))}
    return Groups(
        names=names,
        size=np.bincount(group, minlength=count).astype(np.int64),
        priority=np.array([s.group.priority if s else 0 for s in found], dtype=np.int64),
        queue=np.array([numbers[name] for name in queues], dtype=np.int64),
        endless=np.array(endless, dtype=np.bool_),
        submit=_latest(submit, group, count),
        start=_latest(start, group, count),
        end=_latest(end, group, count),
    )


def _latest(values: Floats, group: Ints, count: int) -> Floats:
    """Per group the largest value of its members, NaN if any of them has none."""
    latest = np.full(count, -np.inf)
    np.maximum.at(latest, group, np.where(np.isnan(values), np.inf, values))
    return np.where(np.isinf(latest), np.nan, latest)
