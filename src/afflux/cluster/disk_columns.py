"""Disks as columns: what every disk of some machines has left, and its model."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from afflux.cluster.normalised_requests import Amounts, Taken
from afflux.model.disks import DiskRequest

NO_DISK = -1
# The first rows of new columns.
_MIN_ROWS = 64


@dataclass(frozen=True, slots=True)
class DiskColumns:
    """The disks of some machines, in the order of their reports.

    `left` has read, write and total of each; `model` the number of its model, NO_DISK where there
    is none. A machine whose disks are not known, or take no stated request, has none. `taken` says
    what a request takes of each model.
    """

    left: NDArray[np.int64]
    model: NDArray[np.int32]
    taken: Callable[[DiskRequest], Taken]

    @property
    def table(self) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """As the core takes them."""
        return np.ascontiguousarray(self.left), np.ascontiguousarray(self.model)

    def copied(self) -> "DiskColumns":
        """The same, to be changed."""
        return DiskColumns(self.left.copy(), self.model.copy(), self.taken)

    def of_row(self, row: int, moments: int = 1) -> "DiskColumns":
        """The disks of one machine, so many times, to be changed."""
        left = np.repeat(self.left[[row]], moments, axis=0)
        return DiskColumns(left, np.repeat(self.model[[row]], moments, axis=0), self.taken)

    def of_rows(self, rows: NDArray[np.intp]) -> "DiskColumns":
        """The disks of some of the machines."""
        return DiskColumns(self.left[rows], self.model[rows], self.taken)

    def take(self, row: int, request: DiskRequest, disks: Sequence[int]) -> None:
        """Take what the volumes of a request take of these disks, one for each; none if the disks
        are not known."""
        volumes, _ = self.taken(request)
        for by_model, disk in zip(volumes, disks, strict=False):
            amounts = by_model[int(self.model[row, disk])]
            if amounts is not None:
                self.left[row, disk] -= np.array(amounts)

    def give_back(self, rows: slice | int, charges: Sequence[tuple[int, Amounts]]) -> None:
        """Add these amounts to these disks of one machine, or of several moments."""
        for disk, amounts in charges:
            if disk < self.left.shape[1]:
                self.left[rows, disk] += np.array(amounts)


class DiskArrays:
    """The arrays behind the columns. They are as wide as the machine with the most disks needed."""

    def __init__(self) -> None:
        self.left = np.zeros((0, 0, 3), np.int64)
        self.model = np.zeros((0, 0), np.int32)

    def set(self, row: int, disks: Sequence[tuple[int, Amounts]]) -> None:
        """Set the models of a machine's disks, and what they have left."""
        if row >= len(self.model) or len(disks) > self.model.shape[1]:
            if not disks:
                return
            self._grow(row + 1, len(disks))
        self.left[row] = 0
        self.model[row] = NO_DISK
        for index, (number, amounts) in enumerate(disks):
            self.model[row, index] = number
            self.left[row, index] = amounts

    def columns(
        self, rows: NDArray[np.intp] | slice, machines: int, taken: Callable[[DiskRequest], Taken]
    ) -> DiskColumns:
        """The columns of these rows; `machines` is the number of rows of the state."""
        if len(self.model) < machines:
            self._grow(machines, self.model.shape[1])
        return DiskColumns(self.left[rows], self.model[rows], taken)

    def _grow(self, rows: int, disks: int) -> None:
        before, width = self.model.shape
        more_rows = max(_MIN_ROWS, rows, 2 * before) - before if rows > before else 0
        more = (0, max(0, disks - width))
        self.left = np.pad(self.left, ((0, more_rows), more, (0, 0)))
        self.model = np.pad(self.model, ((0, more_rows), more), constant_values=NO_DISK)
