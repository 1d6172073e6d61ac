"""Shape (c), CPU and memory: classes of equal tasks, each to every machine that is large enough.

    class -> machine (new units) -> sink (12 unit arcs)      class -> unscheduled -> sink
    class -> machine (units that run there)

A class pays for the load of a machine, and for uneven use of CPU and memory with the task, as the
policy of this name does. For units that run there, the cost of a move is subtracted. Waiting
costs more for older units, so a class has an arc for each age, and one for units that run.
"""

import numpy as np

from bench.solver.network_columns import Columns, Flags, Ints, empty_columns, spans
from bench.solver.shapes import PENDING_SHARE, Setting

CLASSES = 100
SLOTS = 12
CPU_MILLI = 250 * 2 ** np.arange(8)
MEMORY_MIB = 512 * 2 ** np.arange(8)
# CPU and memory of machines, from small to large, and how common they are.
MACHINE_CPU_MILLI = np.array([8_000, 16_000, 32_000, 64_000])
MACHINE_MEMORY_MIB = np.array([32_768, 32_768, 131_072, 262_144])
MACHINE_SHARE = np.array([0.2, 0.3, 0.3, 0.2])

OMEGA = 10_000  # the cost of a fully used machine
MOVE = 3_000
SLOT = (300, 700)  # the cost of each further unit on a machine
WAIT = 25_000  # more than any placement
AGES = 4
OLDER = 4_000  # added for each age
PREEMPTION = 9_000

_SINK, _UNSCHEDULED, _FIRST_CLASS = 0, 1, 2
_FIRST_MACHINE = _FIRST_CLASS + CLASSES


class CpuMemory:
    """The cluster and its network; a pair is a class and a machine that can hold it."""

    def __init__(self, setting: Setting) -> None:
        self._rng = rng = np.random.default_rng(setting.seed)
        self._pinned = setting.pinned
        machines = setting.machines
        self._requests = np.stack(
            [rng.choice(CPU_MILLI, CLASSES), rng.choice(MEMORY_MIB, CLASSES)], axis=1
        )
        # Small tasks are common, large ones rare.
        size = (self._requests / [CPU_MILLI[-1], MEMORY_MIB[-1]]).max(axis=1)
        self._share = size**-0.8 / (size**-0.8).sum()
        kind = rng.choice(MACHINE_SHARE.size, machines, p=MACHINE_SHARE)
        self._sizes = np.stack([MACHINE_CPU_MILLI[kind], MACHINE_MEMORY_MIB[kind]], axis=1)
        fits = (self._requests[:, None, :] <= self._sizes[None, :, :]).all(axis=2)
        self._class, self._machine = np.nonzero(fits)
        self._pair = np.full((CLASSES, machines), -1, np.int64)
        self._pair[fits] = np.arange(self._class.size)
        self._value = rng.integers(0, 2_000, CLASSES)  # waiting costs differ by class
        self._slope = rng.integers(*SLOT, machines)

        self.tasks = tasks = round(setting.load * machines * SLOTS)
        pending = round(PENDING_SHARE * tasks)
        self._running = self._start(tasks - pending)
        self._waiting = np.zeros((CLASSES, AGES), np.int64)
        self._arrive(pending)
        self._changed = np.ones(machines, np.bool_)
        self.touched = machines
        self.columns = self._connect(machines, tasks)
        self._write()

    def place(self, flow: Ints) -> None:
        """Move tasks as in the flow; preempted tasks wait like new ones."""
        running = flow[self._enter] + flow[self._stay]
        waits = flow[self._leave].reshape(CLASSES, AGES + 1)
        self._waiting = waits[:, :AGES].copy()
        self._waiting[:, 0] += waits[:, AGES]
        self._changed[self._machine[running != self._running]] = True
        self._running = running

    def churn(self, share: float) -> None:
        """Some tasks leave, as many arrive; changed machines get new prices."""
        units = np.concatenate([self._running, self._waiting.ravel()])
        ends = np.cumsum(units)
        number = round(share * int(ends[-1]))
        gone = np.searchsorted(ends, self._rng.choice(ends[-1], number, replace=False), "right")
        units -= np.bincount(gone, minlength=units.size)
        pairs = self._running.size
        self._changed[self._machine[gone[gone < pairs]]] = True
        self._running = units[:pairs]
        self._waiting = units[pairs:].reshape(CLASSES, AGES)
        self._arrive(number)
        changed = np.flatnonzero(self._changed)
        self._slope[changed] = self._rng.integers(*SLOT, changed.size)
        self.touched = changed.size
        self._write()

    def _start(self, number: int) -> Ints:
        """Units that run at the beginning, by pair.

        Slots are drawn at random, then classes, machine by machine until they fit together.
        """
        rng, machines = self._rng, self._slope.size
        machine = rng.permutation(machines * SLOTS)[:number] // SLOTS
        kind = np.zeros(number, np.int64)
        again = np.arange(number)
        while again.size:
            kind[again] = rng.choice(CLASSES, again.size, p=self._share)
            used = self._usage(machine[again], self._requests[kind[again]])
            over: Flags = np.any(used > self._sizes, axis=1)
            again = again[over[machine[again]]]
        return np.bincount(self._pair[kind, machine], minlength=self._class.size)

    def _usage(self, machine: Ints, requests: Ints) -> Ints:
        """The requests of each resource on each machine."""
        columns = [np.bincount(machine, of, self._slope.size) for of in requests.T]
        return np.stack(columns, axis=1).astype(np.int64)

    def _arrive(self, number: int) -> None:
        kinds = self._rng.choice(CLASSES, number, p=self._share)
        np.add.at(self._waiting, (kinds, self._rng.integers(0, AGES, number)), 1)

    def _connect(self, machines: int, tasks: int) -> Columns:
        """The columns that are the same in every round."""
        pairs = self._class.size
        self._enter, self._stay, self._slots, self._leave, self._rest = spans(
            pairs, pairs, machines * SLOTS, CLASSES * (AGES + 1), 1
        )
        columns = empty_columns(_FIRST_MACHINE + machines, self._rest.stop)
        machine_nodes = np.arange(_FIRST_MACHINE, _FIRST_MACHINE + machines)
        columns.supply[_SINK] = -tasks
        for span in (self._enter, self._stay):
            columns.tail[span] = _FIRST_CLASS + self._class
            columns.head[span] = _FIRST_MACHINE + self._machine
        columns.tail[self._slots] = np.repeat(machine_nodes, SLOTS)
        columns.head[self._slots] = _SINK
        columns.capacity[self._slots] = 1
        columns.tail[self._leave] = _FIRST_CLASS + np.repeat(np.arange(CLASSES), AGES + 1)
        columns.head[self._leave] = _UNSCHEDULED
        costs = WAIT + np.array([*(OLDER * age for age in range(AGES)), PREEMPTION])
        columns.cost[self._leave] = (costs + self._value[:, None]).ravel()
        columns.tail[self._rest] = _UNSCHEDULED
        columns.head[self._rest] = _SINK
        columns.capacity[self._rest] = tasks
        return columns

    def _write(self) -> None:
        """The state as columns; only changed machines get new prices."""
        columns, machines = self.columns, self._slope.size
        load = np.bincount(self._machine, self._running, machines).astype(np.int64)
        by_class = np.bincount(self._class, self._running, CLASSES).astype(np.int64)
        columns.supply[_FIRST_CLASS:_FIRST_MACHINE] = by_class + self._waiting.sum(axis=1)
        last = np.zeros_like(by_class) if self._pinned else by_class
        columns.capacity[self._leave] = np.column_stack([self._waiting, last]).ravel()

        columns.present[self._stay] = self._running > 0
        columns.lower[self._stay] = self._running if self._pinned else 0
        columns.capacity[self._stay] = self._running
        slot = np.arange(SLOTS)
        columns.cost[self._slots] = (self._slope[:, None] * slot).ravel()
        columns.implied[self._slots] = (slot < load[:, None]).ravel() if self._pinned else 0

        pairs = np.flatnonzero(self._changed[self._machine])
        machine = self._machine[pairs]
        requests, sizes = self._requests[self._class[pairs]], self._sizes[machine]
        held = self._running[:, None] * self._requests[self._class]
        used = self._usage(self._machine, held)[machine]
        cpu, memory = np.minimum((used + requests) / sizes, 1.0).T
        cost = np.rint(OMEGA * ((cpu + memory) / 2 + ((cpu - memory) / 2) ** 2)).astype(np.int64)
        room = np.maximum(sizes - used, 0) if self._pinned else sizes
        slots = SLOTS - load[machine] if self._pinned else SLOTS
        columns.capacity[self._enter][pairs] = np.minimum((room // requests).min(axis=1), slots)
        columns.cost[self._enter][pairs] = cost
        columns.cost[self._stay][pairs] = np.maximum(cost - MOVE, 0)
        self._changed[:] = False
