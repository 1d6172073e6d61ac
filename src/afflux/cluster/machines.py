"""Machines as columns: the view of the cluster that policies get.

A view may hold any subset of rows; a policy answers for each row independently of the others.
"""

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from afflux.cluster.disk_columns import DiskColumns
from afflux.cluster.task_room import FreeCapacity
from afflux.model.selectors import NodeAffinity, Term
from afflux.model.taints import Taint
from afflux.model.task import Shape

if TYPE_CHECKING:
    from collections.abc import Callable

    from afflux.cluster.state import State

Column = NDArray[np.int64]
BoolColumn = NDArray[np.bool_]


class Machines:
    """Columns over a subset of rows. Callers must not write into them."""

    def __init__(self, state: "State", rows: NDArray[np.intp] | slice) -> None:
        self._state = state
        # The arrays of the state have spare rows: a view over all rows leaves them out.
        self._rows = slice(0, len(state)) if isinstance(rows, slice) else rows
        self.count = len(state) if isinstance(rows, slice) else len(rows)

    def __len__(self) -> int:
        return self.count

    def capacity(self, resource: str) -> Column:
        """What tasks may use together."""
        return self._column(self._state.capacity, resource)

    def used(self, resource: str) -> Column:
        """What running and assumed tasks have asked for."""
        table = self._state.resource_table
        if table.index(resource) is None:
            return table.used_without_column(resource, len(self._state))[self._rows]
        return self._column(self._state.used, resource)

    def scored_use(self, resource: str) -> Column:
        """What running and assumed tasks count for in costs: what they have asked for, and what
        containers that ask for nothing are taken to use."""
        used, more = self.used(resource), self._state.resource_table.unrequested(resource)
        if more is None:
            return used
        rows = len(self._state)
        return used + np.pad(more, (0, max(0, rows - len(more))))[:rows][self._rows]

    @property
    def running(self) -> Column:
        """How many tasks run or are assumed there."""
        return self._state.running[self._rows]

    @property
    def present(self) -> BoolColumn:
        """Whether the row is a machine that still exists."""
        return self._state.present[self._rows]

    @property
    def schedulable(self) -> BoolColumn:
        """Whether the machine exists and is not cordoned."""
        return self._state.schedulable[self._rows]

    @property
    def capacities(self) -> NDArray[np.int64]:
        """All resources at once, in the order of the state's `resource_names`."""
        return self._state.capacity[self._rows]

    @property
    def free(self) -> NDArray[np.int64]:
        """Capacity less use; negative where a machine is overcommitted."""
        return self._state.capacity[self._rows] - self._state.used[self._rows]

    def free_of(self, columns: NDArray[np.intp]) -> NDArray[np.int64]:
        """The same for a few resources, by their index in the state's `resource_names`."""
        used = self._state.used
        if isinstance(self._rows, slice):
            return self.capacity_of(columns) - used[self._rows][:, columns]
        return self.capacity_of(columns) - used[self._rows[:, None], columns]

    def capacity_of(self, columns: NDArray[np.intp]) -> NDArray[np.int64]:
        """What tasks may use together of a few resources, by their index in `resource_names`."""
        if isinstance(self._rows, slice):
            return self._state.capacity[self._rows][:, columns]
        return self._state.capacity[self._rows[:, None], columns]

    @property
    def free_devices(self) -> list[tuple[int, ...]]:
        """Free thousandths of every device."""
        if isinstance(self._rows, slice):
            return self._state.free_devices[self._rows]
        return [self._state.free_devices[row] for row in self._rows]

    @property
    def disks(self) -> DiskColumns:
        """What is left of every disk; disks that take no stated request are left out."""
        return self._state.disks.columns(self._rows, len(self._state))

    def free_for(self, shape: Shape, columns: NDArray[np.intp]) -> FreeCapacity:
        """What is free of these resources and, if the shape asks for them, of devices and disks."""
        devices = () if shape.devices is None else self.free_devices
        disks = None if shape.disks is None else self.disks
        return FreeCapacity(self.free_of(columns), devices, disks)

    def admitted(self, affinity: NodeAffinity) -> BoolColumn:
        """Where the hard part of a node affinity holds."""
        return self._state.labels.admitted(affinity, self._rows, self.count)

    def matching(self, term: Term) -> BoolColumn:
        """Where one term of a node affinity holds."""
        return self._state.labels.matches(term, self._rows, self.count)

    def by_taints(self, verdict: "Callable[[tuple[Taint, ...]], int]") -> Column:
        """A value for each machine that depends only on its set of taints."""
        labels = self._state.labels
        return labels.by_taints(((t, verdict(t)) for t in labels.taint_sets), self._rows)

    def image_bytes(self, name: str) -> Column:
        """The size of an image on each machine, 0 where it is missing."""
        return self._state.images.bytes_of(name, self._rows)

    def image_share(self, name: str) -> Fraction:
        """The share of all machines, not only of these, that have an image."""
        return self._state.images.share(name, len(self._state.rows))

    def _column(self, table: NDArray[np.int64], resource: str) -> Column:
        column = self._state.resource_table.index(resource)
        if column is None:
            return np.zeros(self.count, np.int64)
        return table[self._rows, column]
