"""State: the machines, the tasks on them, and the assumed placements not yet confirmed.

Every row has the version of its last change, so that caches of values per machine can be brought
up to date for the changed rows only.
"""

from collections.abc import Iterable, Iterator
from copy import copy
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from afflux.cluster.disk_table import DiskChange, DiskTable
from afflux.cluster.image_columns import ImageColumns
from afflux.cluster.label_columns import LabelColumns
from afflux.cluster.machines import Machines
from afflux.cluster.relation_index import RelationIndex, relations_while_running
from afflux.cluster.relation_overlay import RelationOverlay
from afflux.cluster.resource_table import ResourceTable
from afflux.cluster.task_room import choose_devices
from afflux.model.devices import take_devices
from afflux.model.disks import DiskReport, Normalise
from afflux.model.eviction_terms import EvictionTerms
from afflux.model.machine import Machine
from afflux.model.task import Shape, Task


@dataclass(frozen=True, slots=True)
class PlacedTask:
    """A task that occupies a machine: the machine's row and the devices of which it has shares. The
    disk table has its disks.

    `counted_shape` has the requests as they are added to `used`. Usually they are those of the
    task; they are cut where the sum of absurd requests would not fit 64 bits. `until_seconds` is
    when the task is expected to end, None if it runs without end. A task without `terms` is never
    evicted.
    """

    task: Task
    row: int
    devices: tuple[int, ...]
    counted_shape: Shape
    until_seconds: float | None = None
    terms: EvictionTerms | None = None


class State:
    """Rows are machines; the row of a removed machine is reused for the next new one."""

    def __init__(self, machines: Iterable[Machine] = ()) -> None:
        self.rows: dict[str, int] = {}
        self.resource_table = ResourceTable()
        self.running: NDArray[np.int64] = np.zeros(0, np.int64)
        self.changed: NDArray[np.int64] = np.zeros(0, np.int64)
        self.present: NDArray[np.bool_] = np.zeros(0, bool)
        self.schedulable: NDArray[np.bool_] = np.zeros(0, bool)
        self.free_devices: list[tuple[int, ...]] = []
        self.disks = DiskTable()
        self.labels = LabelColumns()
        self.version = 0
        self.machines_version = 0  # the version of the last change to machines, without their tasks
        self._machines: list[Machine | None] = []
        self.images = ImageColumns(self._machines)
        self._free_rows: list[int] = []
        self._placed: dict[str, PlacedTask] = {}
        self._on_row: list[dict[str, None]] = []
        # In an overlay, the rows whose tasks differ from those of the state below.
        self._own_rows: set[int] | None = None
        # By disruption budget, how many of its tasks may be evicted now.
        self.disruptions_allowed: dict[str, int] = {}
        # The placed tasks whose requirements hold while they run.
        self.required_during_execution: dict[str, None] = {}
        self.relations = RelationIndex(
            lambda: ((placed.task.labels, placed.row) for placed in self._placed.values())
        )
        for machine in machines:
            self.set_machine(machine)

    def __len__(self) -> int:
        """The number of rows, those of removed machines included."""
        return len(self._machines)

    def machine(self, row: int) -> Machine | None:
        """The machine of a row, None if it was removed."""
        return self._machines[row]

    def name_of(self, row: int) -> str:
        machine = self._machines[row]
        if machine is None:
            raise LookupError(f"row {row} is not a machine any more")
        return machine.name

    def machines(self) -> Iterator[tuple[int, Machine]]:
        """The machines that exist, with their rows."""
        return ((row, m) for row, m in enumerate(self._machines) if m is not None)

    def view(self, rows: NDArray[np.intp] | None = None) -> Machines:
        """Columns over these rows, or over all."""
        return Machines(self, slice(None) if rows is None else rows)

    @property
    def resource_names(self) -> list[str]:
        """The resources that have a column, in the order of the columns."""
        return self.resource_table.names

    @property
    def capacity(self) -> NDArray[np.int64]:
        """What tasks may use together, per machine and resource."""
        return self.resource_table.capacity

    @property
    def used(self) -> NDArray[np.int64]:
        """What running and assumed tasks request, per machine and resource."""
        return self.resource_table.used

    def requests(self, shape: Shape) -> NDArray[np.int64]:
        """The requests of a shape that waits, as a row in the order of `resource_names`."""
        return self.resource_table.requests(shape, self.present)

    def use(self, shape: Shape) -> NDArray[np.int64]:
        """What a running task of a shape uses, as a row in the order of `resource_names`."""
        return self.resource_table.use(shape)

    def used_of(self, row: int, resource: str) -> int:
        """What running and assumed tasks use of one resource on a machine."""
        return self.resource_table.used_of(row, resource)

    def overlay(self) -> "State":
        """A state that begins as this one, in which tasks can be placed and removed while this one
        stays as it is. Neither machines nor this state may change as long as it is used."""
        other = copy(self)
        other.resource_table = self.resource_table.copy()
        other.running, other.changed = self.running.copy(), self.changed.copy()
        other.free_devices = self.free_devices.copy()
        other.required_during_execution = self.required_during_execution.copy()
        other.relations = RelationOverlay(self.relations)
        other.disks = self.disks.overlay()
        other._placed = self._placed.copy()
        # The tasks of a machine are copied when they change (`_tasks_of`).
        other._on_row = self._on_row.copy()
        other._own_rows = set()
        return other

    def set_budget(self, name: str, allowed: int | None) -> None:
        """So many tasks of a disruption budget may be evicted now; None if it is gone."""
        if allowed is None:
            self.disruptions_allowed.pop(name, None)
        else:
            self.disruptions_allowed[name] = allowed

    def set_machine(self, machine: Machine) -> int:
        """Add a machine or replace its description; its tasks stay."""
        row = self.rows.get(machine.name)
        if row is not None and self._machines[row] == machine:
            return row
        if row is None:
            row = self._free_rows.pop() if self._free_rows else self._grow()
            self.rows[machine.name] = row
            self.free_devices[row] = machine.free_devices()
            self.disks.join(machine.name, row)
        else:
            self._resize_devices(row, machine)
        self.drop_unused_columns()
        self.present[row] = True
        table = self.resource_table
        table.set_capacity(row, [(table.column(n, self.present), a) for n, a in machine.capacity])
        self.schedulable[row] = not machine.unschedulable
        self.images.set(row, self._machines[row], machine)
        self._machines[row] = machine
        self.labels.set(row, machine)
        self._mark_changed(row)
        self.machines_version = self.version
        return row

    def remove_machine(self, name: str) -> list[Task]:
        """Remove a machine; returns the tasks that were on it."""
        row = self.rows.pop(name)
        lost = [placed.task for placed in self.placed_on(row)]
        for task in lost:
            placed = self._placed.pop(task.id)
            self.required_during_execution.pop(task.id, None)
            self.resource_table.remove_use(row, placed.counted_shape)
            self.relations.remove(task, row)
        self._on_row[row].clear()
        self.disks.leave(name)
        self.resource_table.clear(row)
        self.running[row] = 0
        self.present[row] = False
        self.schedulable[row] = False
        self.free_devices[row] = ()
        self.images.set(row, self._machines[row], None)
        self._machines[row] = None
        self.labels.set(row, None)
        self._free_rows.append(row)
        self._mark_changed(row)
        self.machines_version = self.version
        return lost

    def place(
        self,
        task: Task,
        machine: str,
        devices: tuple[int, ...] | None = None,
        until_seconds: float | None = None,
        *,
        disks: tuple[str, ...] = (),
        terms: EvictionTerms | None = None,
    ) -> None:
        """Put a task on a machine; assumed, bound and running tasks are treated alike.

        `devices` are those of a placement: the devices of which it has shares, then a disk for each
        volume. Without them the task keeps the devices that it already has on this machine, or
        takes the fullest ones that fit. `disks` has the ids of its disks, if they are known from
        elsewhere.
        """
        row = self.rows[machine]
        shape = task.shape
        if devices is not None and shape.disks is not None:
            count = shape.devices.count if shape.devices else 0
            disks = disks or self.disks.names(machine, devices[count:])
            devices = devices[:count]
        placed = self._placed.get(task.id)
        if placed is not None:
            held = placed.task.shape
            if placed.row == row and held.requests_same_as(shape):
                is_there = not disks or self.disks.is_said_to_be_on(task.id, disks)
                if is_there and devices in (None, placed.devices):
                    # An assumed placement is confirmed: the machine has not changed.
                    self._confirm(placed, task, until_seconds, terms)
                    return
            if placed.row == row and devices is None and held.devices == shape.devices:
                devices = placed.devices
            if placed.row == row and held.disks == shape.disks:
                disks = disks or self.disks.disks_of(task.id)
        self.drop_unused_columns()
        self.remove(task.id)
        if task.shape.devices is None:
            devices = ()
        else:
            if devices is None:
                devices = choose_devices(self.free_devices[row], task.shape.devices) or ()
            free = self.free_devices[row]
            self.free_devices[row] = take_devices(free, devices, task.shape.devices.milli)
        if task.shape.disks is not None:
            self.disks.place(task.id, task.shape.disks, machine, row, disks)
        counted, table = task.shape, self.resource_table
        if (countable := table.countable(row, counted.requests)) != counted.requests:
            counted = replace(counted, requests=countable)
        table.add_use(row, counted)
        self.running[row] += 1
        self._placed[task.id] = PlacedTask(task, row, devices, counted, until_seconds, terms)
        self._tasks_of(row)[task.id] = None
        self._note_required(task)
        self.relations.place(task, row)
        self._mark_changed(row)

    def _confirm(
        self,
        placed: PlacedTask,
        task: Task,
        until_seconds: float | None,
        terms: EvictionTerms | None,
    ) -> None:
        """A task is where it was and takes what it took; its description may have changed."""
        self._placed[task.id] = replace(placed, task=task, until_seconds=until_seconds, terms=terms)
        has_changed = self._note_required(task) or placed.until_seconds != until_seconds
        has_changed = has_changed or placed.terms != terms
        if self._are_related_otherwise(placed.task, task):
            self.relations.remove(placed.task, placed.row)
            self.relations.place(task, placed.row)
            has_changed = True
        if has_changed:
            self._mark_changed(placed.row)

    def remove(self, task_id: str) -> PlacedTask | None:
        """Take a task off its machine: it ended, was deleted, or its binding failed.

        Returns what it occupied, None for an unknown task.
        """
        placed = self._placed.pop(task_id, None)
        if placed is None:
            return None
        del self._tasks_of(placed.row)[task_id]
        self.required_during_execution.pop(task_id, None)
        if placed.task.shape.devices is not None:
            self.free_devices[placed.row] = take_devices(
                self.free_devices[placed.row], placed.devices, -placed.task.shape.devices.milli
            )
        if placed.task.shape.disks is not None:
            self.disks.remove(task_id)
        self.resource_table.remove_use(placed.row, placed.counted_shape)
        self.running[placed.row] -= 1
        self.relations.remove(placed.task, placed.row)
        self._mark_changed(placed.row)
        return placed

    def set_disks(self, report: DiskReport) -> DiskChange:
        """Replace the report of a machine's disks. One that comes before its machine is kept."""
        row = self.rows.get(report.machine)
        return self._note_disks(row, self.disks.set_report(report, row))

    def remove_disks(self, machine: str) -> DiskChange:
        """The disks of a machine are not known any more."""
        return self._note_disks(self.rows.get(machine), self.disks.remove_report(machine))

    def set_normalisers(self, models: frozenset[str], normalise: Normalise) -> DiskChange:
        """From now on requests are converted by this function, which answers otherwise than before
        for disks of these models."""
        rows = self.disks.set_normalise(models, normalise)
        for row in rows:
            self._mark_changed(row)
        return DiskChange(more=bool(rows), less=bool(rows))

    def machine_of(self, task_id: str) -> str | None:
        """The name of the machine a task occupies."""
        placed = self._placed.get(task_id)
        machine = self._machines[placed.row] if placed else None
        return machine.name if machine else None

    def placed_task(self, task_id: str) -> PlacedTask | None:
        """The placement of a task, None if it is on no machine."""
        return self._placed.get(task_id)

    def placed_on(self, row: int) -> Iterator[PlacedTask]:
        """The tasks on a machine."""
        return (self._placed[task_id] for task_id in self._on_row[row])

    def _tasks_of(self, row: int) -> dict[str, None]:
        """The ids of the tasks on a machine, to be changed."""
        if self._own_rows is not None and row not in self._own_rows:
            self._own_rows.add(row)
            self._on_row[row] = self._on_row[row].copy()
        return self._on_row[row]

    def _note_required(self, task: Task) -> bool:
        """Returns whether the requirements of this task did not hold while it ran, or do not any
        more."""
        before = task.id in self.required_during_execution
        if task.required_during_execution:
            self.required_during_execution[task.id] = None
        else:
            self.required_during_execution.pop(task.id, None)
        return before != task.required_during_execution

    def _are_related_otherwise(self, before: Task, now: Task) -> bool:
        """Whether constraints between tasks see these two descriptions of a task differently."""
        if relations_while_running(before) != relations_while_running(now):
            return True
        return before.labels != now.labels

    def _note_disks(self, row: int | None, change: DiskChange) -> DiskChange:
        if row is not None and (change.more or change.less):
            self._mark_changed(row)
        return change

    def _mark_changed(self, row: int) -> None:
        self.version += 1
        self.changed[row] = self.version

    def drop_unused_columns(self) -> None:
        """Drop the columns of resources that are not needed any more, once there are many. The
        indices of columns change: not to be called while a round is planned."""
        if self.resource_table.needs_cleanup:
            stated = {name for _, m in self.machines() for name, _ in m.capacity}
            self.resource_table.drop_unused_columns(stated)

    def _grow(self) -> int:
        row = len(self._machines)
        self._machines.append(None)
        self._on_row.append({})
        self.free_devices.append(())
        if row == len(self.running):
            more = max(64, row)
            self.resource_table.grow(more)
            self.running = np.pad(self.running, (0, more))
            self.changed = np.pad(self.changed, (0, more))
            self.present = np.pad(self.present, (0, more))
            self.schedulable = np.pad(self.schedulable, (0, more))
        return row

    def _resize_devices(self, row: int, machine: Machine) -> None:
        free = self.free_devices[row]
        if machine.devices < len(free):
            lost = set(range(machine.devices, len(free)))
            for placed in list(self.placed_on(row)):
                if lost.intersection(placed.devices):
                    kept = tuple(i for i in placed.devices if i not in lost)
                    self._placed[placed.task.id] = replace(placed, devices=kept)
        self.free_devices[row] = free[: machine.devices] + machine.free_devices()[len(free) :]
