"""Shape (b), Quincy: tasks prefer machines that hold their data, else take any, through the racks.

    task -> machine (0 to 3 preferred) -> sink               task -> unscheduled -> sink
    task -> cluster -> rack of 40 -> machine                 running task -> its machine

A task pays for the data that is not on its machine, in the worst case all of it, and for the load
of the machine. A running task that moves pays for a new copy as well.
"""

import numpy as np

from bench.solver.network_columns import Ints, empty_columns, spans
from bench.solver.shapes import Setting, Tasks, hand_out

SLOTS = 12
RACK = 40
PREFERRED = 3
STEP = 25
MOVE = 500
MAX_DATA = 10_000
WAIT = 30_000  # more than any placement
OLDEST = 10_000  # added by age
PREEMPTION = 5_000

_SINK, _UNSCHEDULED, _CLUSTER, _FIRST_MACHINE = 0, 1, 2, 3


class Quincy:
    """The cluster and its network."""

    def __init__(self, setting: Setting) -> None:
        self._rng = rng = np.random.default_rng(setting.seed)
        self._pinned = setting.pinned
        self._tasks = Tasks(setting, SLOTS, rng)
        machines = setting.machines
        self.tasks = tasks = self._tasks.count
        racks = -(-machines // RACK)
        self._noise = rng.integers(0, STEP, machines)
        self._wait = np.zeros(tasks, np.int64)
        self._data = np.zeros(tasks, np.int64)
        self._liked = np.full((PREFERRED, tasks), -1, np.int64)
        self._fetched = np.zeros((PREFERRED, tasks), np.int64)
        self._set_tasks(np.arange(tasks))
        self.touched = machines

        first_rack = _FIRST_MACHINE + machines
        first_task = first_rack + racks
        self._task_nodes = task_nodes = np.arange(first_task, first_task + tasks)
        (
            self._in,
            self._out,
            self._across,
            self._rest,
            self._via,
            self._leave,
            self._stay,
            *self._like,
        ) = spans(machines, machines, racks, 1, *[tasks] * (3 + PREFERRED))
        self.columns = columns = empty_columns(first_task + tasks, self._like[-1].stop)
        columns.supply[task_nodes] = 1
        columns.supply[_SINK] = -tasks
        machine_nodes = np.arange(_FIRST_MACHINE, first_rack)
        rack_of = first_rack + np.arange(machines) // RACK
        columns.tail[self._in] = rack_of
        columns.head[self._in] = machine_nodes
        columns.tail[self._out] = machine_nodes
        columns.head[self._out] = _SINK
        columns.capacity[self._out] = SLOTS
        columns.tail[self._across] = _CLUSTER
        columns.head[self._across] = np.arange(first_rack, first_task)
        columns.capacity[self._across] = SLOTS * np.bincount(rack_of - first_rack)
        columns.cost[self._across] = rng.integers(0, 2 * STEP, racks)
        columns.tail[self._rest] = _UNSCHEDULED
        columns.head[self._rest] = _SINK
        columns.capacity[self._rest] = tasks
        for span in (self._via, self._leave, self._stay, *self._like):
            columns.tail[span] = task_nodes
            columns.capacity[span] = 1
        columns.head[self._via] = _CLUSTER
        columns.head[self._leave] = _UNSCHEDULED
        self._write()

    def place(self, flow: Ints) -> None:
        """Move tasks as in the flow."""
        machines = np.arange(self._noise.size)
        found = hand_out(
            flow[self._via] == 1,
            flow[self._stay] == 1,
            self._tasks.machine,
            np.repeat(machines, flow[self._in]),
        )
        for liked, span in zip(self._liked, self._like, strict=True):
            found = np.where(flow[span] == 1, liked, found)
        self._tasks.move(found)

    def churn(self, share: float) -> None:
        """Some tasks leave, as many arrive; changed machines get new prices."""
        rows = self._tasks.replace(share, self._rng)
        self.columns.renewed[:] = False
        self.columns.renewed[self._task_nodes[rows]] = True
        self._set_tasks(rows)
        touched = np.flatnonzero(self._tasks.touched)
        self._noise[touched] = self._rng.integers(0, STEP, touched.size)
        self._tasks.touched[:] = False
        self.touched = touched.size
        self._write()

    def _set_tasks(self, rows: Ints) -> None:
        """New tasks: their data, the machines that hold part of it, their age."""
        rng, number = self._rng, rows.size
        data = np.clip(rng.lognormal(7.0, 1.0, number), 100, MAX_DATA)
        self._data[rows] = data
        self._wait[rows] = WAIT + rng.integers(0, OLDEST, number)
        preferred = rng.integers(0, PREFERRED + 1, number)
        for place in range(PREFERRED):
            machine = rng.integers(0, self._noise.size, number)
            self._liked[place, rows] = np.where(place < preferred, machine, -1)
            self._fetched[place, rows] = data * rng.uniform(0.0, 0.8, number)

    def _write(self) -> None:
        """The state as columns."""
        columns, tasks = self.columns, self._tasks
        load, running = tasks.load, tasks.running
        price = STEP * load + self._noise
        columns.cost[self._in] = price
        columns.capacity[self._in] = SLOTS - load if self._pinned else SLOTS
        columns.implied[self._out] = load if self._pinned else 0

        movable = ~running if self._pinned else np.ones_like(running)
        move = np.where(running, MOVE + self._data // 4, 0)
        columns.present[self._via] = columns.present[self._leave] = movable
        columns.cost[self._via] = self._data + move
        columns.cost[self._leave] = self._wait + np.where(running, PREEMPTION, 0)
        for liked, fetched, span in zip(self._liked, self._fetched, self._like, strict=True):
            columns.present[span] = movable & (liked >= 0)
            columns.head[span] = np.where(liked >= 0, liked + _FIRST_MACHINE, _SINK)
            columns.cost[span] = fetched + price[liked] + move
        columns.present[self._stay] = running
        columns.lower[self._stay] = running if self._pinned else 0
        columns.head[self._stay] = np.where(running, tasks.machine + _FIRST_MACHINE, _SINK)
        columns.cost[self._stay] = price[tasks.machine]
