"""Shape (a), load spreading: one aggregator, ten slots per machine at rising costs.

    task -> cluster -> machine (10 unit arcs) -> sink        task -> unscheduled -> sink
    running task -> its machine

The k-th slot that is left on a machine costs STEP * (running + k), and the machine's noise. A
running task pays for the slot it holds, so that it moves only if the gain on another machine
exceeds the cost of a move.
"""

import numpy as np

from bench.solver.network_columns import Ints, empty_columns, spans
from bench.solver.shapes import Setting, Tasks, hand_out

SLOTS = 10
STEP = 100
MOVE = 400
WAIT = 10_000  # more than any placement
OLDEST = 5_000  # added by age
PREEMPTION = 2_000

_SINK, _UNSCHEDULED, _CLUSTER, _FIRST_MACHINE = 0, 1, 2, 3


class LoadSpreading:
    """The cluster and its network."""

    def __init__(self, setting: Setting) -> None:
        self._rng = rng = np.random.default_rng(setting.seed)
        self._pinned = setting.pinned
        self._tasks = Tasks(setting, SLOTS, rng)
        machines = setting.machines
        self.tasks = tasks = self._tasks.count
        self._noise = rng.integers(0, STEP, machines)
        self._wait = WAIT + rng.integers(0, OLDEST, tasks)
        self._move = MOVE + rng.integers(0, STEP, tasks)
        self.touched = machines

        first_task = _FIRST_MACHINE + machines
        self._slots, self._out, self._rest, self._via, self._leave, self._stay = spans(
            machines * SLOTS, machines, 1, tasks, tasks, tasks
        )
        self.columns = columns = empty_columns(
            first_task + tasks, self._stay.stop, rising=self._slots, units=SLOTS
        )
        machine_nodes = np.arange(_FIRST_MACHINE, first_task)
        task_nodes = np.arange(first_task, first_task + tasks)
        self._task_nodes = task_nodes
        self._slot_machine = np.repeat(np.arange(machines), SLOTS)
        columns.supply[task_nodes] = 1
        columns.supply[_SINK] = -tasks
        columns.tail[self._slots] = _CLUSTER
        columns.head[self._slots] = np.repeat(machine_nodes, SLOTS)
        columns.tail[self._out] = machine_nodes
        columns.head[self._out] = _SINK
        columns.capacity[self._out] = SLOTS
        columns.tail[self._rest] = _UNSCHEDULED
        columns.head[self._rest] = _SINK
        columns.capacity[self._rest] = tasks
        for span, head in ((self._via, _CLUSTER), (self._leave, _UNSCHEDULED), (self._stay, 0)):
            columns.tail[span] = task_nodes
            columns.head[span] = head
            columns.capacity[span] = 1
        self._write()

    def place(self, flow: Ints) -> None:
        """Move tasks as in the flow."""
        self._tasks.move(
            hand_out(
                flow[self._via] == 1,
                flow[self._stay] == 1,
                self._tasks.machine,
                np.repeat(self._slot_machine, flow[self._slots]),
            )
        )

    def churn(self, share: float) -> None:
        """Some tasks leave, as many arrive; changed machines get new prices."""
        rows = self._tasks.replace(share, self._rng)
        self.columns.renewed[:] = False
        self.columns.renewed[self._task_nodes[rows]] = True
        self._wait[rows] = WAIT + self._rng.integers(0, OLDEST, rows.size)
        self._move[rows] = MOVE + self._rng.integers(0, STEP, rows.size)
        touched = np.flatnonzero(self._tasks.touched)
        self._noise[touched] = self._rng.integers(0, STEP, touched.size)
        self._tasks.touched[:] = False
        self.touched = touched.size
        self._write()

    def _write(self) -> None:
        """The state as columns."""
        columns, tasks = self.columns, self._tasks
        load, running = tasks.load, tasks.running
        position = load[:, None] + np.arange(SLOTS)
        columns.cost[self._slots] = (STEP * position + self._noise[:, None]).ravel()
        columns.capacity[self._slots] = (position < SLOTS).ravel() if self._pinned else 1
        columns.implied[self._out] = load if self._pinned else 0

        movable = ~running if self._pinned else np.ones_like(running)
        columns.present[self._via] = columns.present[self._leave] = movable
        columns.cost[self._via] = np.where(running, self._move, 0)
        columns.cost[self._leave] = self._wait + np.where(running, PREEMPTION, 0)
        columns.present[self._stay] = running
        columns.lower[self._stay] = running if self._pinned else 0
        columns.head[self._stay] = np.where(running, tasks.machine + _FIRST_MACHINE, _SINK)
        here = STEP * tasks.ranks() + self._noise[tasks.machine]
        columns.cost[self._stay] = np.where(running, here, 0)
