"""State: the machines, what runs on them, and what has been assumed but not yet confirmed.

Every row carries the version of its last change, so that whoever keeps figures per machine can
bring them up to date for the few rows that changed.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from afflux.cluster.amounts import Amounts
from afflux.cluster.images import ImageColumns
from afflux.cluster.labels import LabelColumns
from afflux.cluster.machines import Machines
from afflux.model.devices import choose_devices, take_devices
from afflux.model.machine import Machine
from afflux.model.task import Shape, Task


@dataclass(frozen=True, slots=True)
class Held:
    """What a running task holds: its row, its shape, its devices.

    `counted` is as much of the shape as could be counted: absurd requests of thousands of tasks add
    up to more than 64 bits hold, and their machine is full long before. `until_seconds` is when it
    is expected to let go, None without end.
    """

    task: Task
    row: int
    devices: tuple[int, ...]
    counted: Shape
    until_seconds: float | None = None


# Where counting ends: half of what 64 bits hold.
_CEILING = 1 << 62


class State:
    """Rows are machines; a row outlives its machine and is used again for the next one."""

    def __init__(self, machines: Iterable[Machine] = ()) -> None:
        self.rows: dict[str, int] = {}
        self.amounts = Amounts()
        self.running: NDArray[np.int64] = np.zeros(0, np.int64)
        self.changed: NDArray[np.int64] = np.zeros(0, np.int64)
        self.present: NDArray[np.bool_] = np.zeros(0, bool)
        self.schedulable: NDArray[np.bool_] = np.zeros(0, bool)
        self.free_devices: list[tuple[int, ...]] = []
        self.labels = LabelColumns()
        self.version = 0
        self.described = 0  # the version of the last change to what machines are, not what they run
        self._machines: list[Machine | None] = []
        self.images = ImageColumns(self._machines)
        self._spare: list[int] = []
        self._held: dict[str, Held] = {}
        self._on_row: list[dict[str, None]] = []
        for machine in machines:
            self.set_machine(machine)

    def __len__(self) -> int:
        """The number of rows, machines that are gone included."""
        return len(self._machines)

    def machine(self, row: int) -> Machine | None:
        """The machine of a row, None if it is gone."""
        return self._machines[row]

    def name_of(self, row: int) -> str:
        """The name of the machine in a row."""
        machine = self._machines[row]
        if machine is None:
            raise LookupError(f"row {row} is not a machine any more")
        return machine.name

    def machines(self) -> Iterator[tuple[int, Machine]]:
        """The machines there are, with their rows."""
        return ((row, m) for row, m in enumerate(self._machines) if m is not None)

    def view(self, rows: NDArray[np.intp] | None = None) -> Machines:
        """Columns over these rows, or over all."""
        return Machines(self, slice(None) if rows is None else rows)

    @property
    def resource_names(self) -> list[str]:
        """Every resource that has a column, in their order."""
        return self.amounts.names

    @property
    def capacity(self) -> NDArray[np.int64]:
        """What tasks may use together, per machine and resource."""
        return self.amounts.capacity

    @property
    def used(self) -> NDArray[np.int64]:
        """What running and assumed tasks have asked for, per machine and resource."""
        return self.amounts.used

    def requests(self, shape: Shape) -> NDArray[np.int64]:
        """What a shape asks for, as a row in the order of `resource_names`."""
        return self.amounts.requests(shape, self.present)

    def set_machine(self, machine: Machine) -> int:
        """Add a machine or replace what is known of it; what runs there stays."""
        row = self.rows.get(machine.name)
        if row is not None and self._machines[row] == machine:
            return row
        if row is None:
            row = self._spare.pop() if self._spare else self._grow()
            self.rows[machine.name] = row
            self.free_devices[row] = machine.free_devices()
        else:
            self._resize_devices(row, machine)
        self._sweep()
        self.present[row] = True
        self.amounts.set_capacity(
            row, [(self.amounts.column(n, self.present), a) for n, a in machine.capacity]
        )
        self.schedulable[row] = not machine.unschedulable
        self.images.set(row, self._machines[row], machine)
        self._machines[row] = machine
        self.labels.set(row, machine)
        self._touch(row)
        self.described = self.version
        return row

    def remove_machine(self, name: str) -> list[Task]:
        """The machine is gone; returns the tasks that were on it."""
        row = self.rows.pop(name)
        lost = [held.task for held in self.held_on(row)]
        for task in lost:
            del self._held[task.id]
        self._on_row[row].clear()
        self.amounts.clear(row)
        self.running[row] = 0
        self.present[row] = False
        self.schedulable[row] = False
        self.free_devices[row] = ()
        self.images.set(row, self._machines[row], None)
        self._machines[row] = None
        self.labels.set(row, None)
        self._spare.append(row)
        self._touch(row)
        self.described = self.version
        return lost

    def place(
        self,
        task: Task,
        machine: str,
        devices: tuple[int, ...] | None = None,
        until_seconds: float | None = None,
    ) -> None:
        """The task occupies this machine from now on (assumed, bound or running: all the same).

        Where nobody decided which devices it takes, it keeps those it holds there already, or takes
        the tightest that fit.
        """
        row = self.rows[machine]
        held = self._held.get(task.id)
        same = held is not None and held.row == row and held.task.shape.takes_as(task.shape)
        if held is not None and same and devices in (None, held.devices):
            # A placement that was assumed is confirmed: nothing has changed there.
            self._held[task.id] = replace(held, task=task, until_seconds=until_seconds)
            if held.until_seconds != until_seconds:
                self._touch(row)
            return
        self._sweep()
        requests = self.requests(task.shape)  # may add a column to what is used
        if held is not None:
            same = held.row == row and held.task.shape.devices == task.shape.devices
            if devices is None and same:
                devices = held.devices
            self.remove(task.id)
        if task.shape.devices is None:
            devices = ()
        else:
            if devices is None:
                devices = choose_devices(self.free_devices[row], task.shape.devices) or ()
            self.free_devices[row] = take_devices(
                self.free_devices[row], devices, task.shape.devices.milli
            )
        counted = task.shape
        if bool((self.used[row] > _CEILING - requests).any()):
            counted = self._countable(row, task.shape)
            requests = self.requests(counted)
        self.used[row] += requests
        self.running[row] += 1
        self._held[task.id] = Held(task, row, devices, counted, until_seconds)
        self._on_row[row][task.id] = None
        self._touch(row)

    def remove(self, task_id: str) -> Held | None:
        """The task has ended, was deleted, or its binding failed; unknown tasks are no matter.

        Returns what it held.
        """
        held = self._held.pop(task_id, None)
        if held is None:
            return None
        del self._on_row[held.row][task_id]
        if held.task.shape.devices is not None:
            self.free_devices[held.row] = take_devices(
                self.free_devices[held.row], held.devices, -held.task.shape.devices.milli
            )
        self.used[held.row] -= self.requests(held.counted)
        self.running[held.row] -= 1
        self._touch(held.row)
        return held

    def _countable(self, row: int, shape: Shape) -> Shape:
        """The shape with no more requests than can be counted on this machine."""
        names, used = self.resource_names, self.used[row]
        return replace(
            shape,
            requests=tuple(
                (name, min(amount, _CEILING - int(used[names.index(name)])))
                for name, amount in shape.requests
            ),
        )

    def where(self, task_id: str) -> str | None:
        """The name of the machine a task occupies."""
        held = self._held.get(task_id)
        machine = self._machines[held.row] if held else None
        return machine.name if machine else None

    def held(self, task_id: str) -> Held | None:
        """What a task holds, None if it is nowhere."""
        return self._held.get(task_id)

    def held_on(self, row: int) -> Iterator[Held]:
        """What tasks hold of a machine."""
        return (self._held[task_id] for task_id in self._on_row[row])

    def _touch(self, row: int) -> None:
        self.version += 1
        self.changed[row] = self.version

    def _sweep(self) -> None:
        if self.amounts.wants_sweep:
            self.amounts.sweep({name for _, m in self.machines() for name, _ in m.capacity})

    def _grow(self) -> int:
        row = len(self._machines)
        self._machines.append(None)
        self._on_row.append({})
        self.free_devices.append(())
        if row == len(self.running):
            more = max(64, row)
            self.amounts.grow(more)
            self.running = np.pad(self.running, (0, more))
            self.changed = np.pad(self.changed, (0, more))
            self.present = np.pad(self.present, (0, more))
            self.schedulable = np.pad(self.schedulable, (0, more))
        return row

    def _resize_devices(self, row: int, machine: Machine) -> None:
        free = self.free_devices[row]
        if machine.devices < len(free):
            lost = set(range(machine.devices, len(free)))
            for held in list(self.held_on(row)):
                if lost.intersection(held.devices):
                    kept = tuple(i for i in held.devices if i not in lost)
                    self._held[held.task.id] = replace(held, devices=kept)
        self.free_devices[row] = free[: machine.devices] + machine.free_devices()[len(free) :]
