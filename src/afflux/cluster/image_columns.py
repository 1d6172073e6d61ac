"""Images on machines as columns, for the images that some class asks about.

How widely an image is spread is a figure of the whole cluster: a policy that uses it says so
(`Policy.figures`), and its prices are asked for again when the figure changes. Large clusters
round it, so that one more machine with an image does not make every price of a class old.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from afflux.model.machine import Machine

_NONE: Mapping[str, int] = {}
Rows = NDArray[np.intp] | slice

# Columns kept; the others can be made again from the machines at any time.
KEPT_IMAGES = 512
# Up to so many machines shares are exact, beyond that they are rounded down to such parts.
STEPS = 128


class ImageColumns:
    """Per image a column of its size on each machine, 0 where it is not; longer than need be."""

    def __init__(self, machines: Sequence[Machine | None]) -> None:
        self._machines = machines
        self._columns: OrderedDict[str, NDArray[np.int64]] = OrderedDict()
        self._spread: dict[str, int] = {}

    def set(self, row: int, before: Machine | None, now: Machine | None) -> None:
        """Row `row` was one machine and is another (None: nothing)."""
        had = before.images if before else _NONE
        has = now.images if now else _NONE
        if had == has:
            return
        for name in {name for name, _ in had.items() ^ has.items()}:
            column = self._columns.get(name)
            if column is None:
                continue
            if row >= len(column):
                column = self._columns[name] = np.pad(column, (0, max(64, row)))
            column[row] = has.get(name, 0)
            self._spread[name] += (name in has) - (name in had)

    def bytes_of(self, name: str, rows: Rows) -> NDArray[np.int64]:
        """The size of an image on each machine, 0 where it is not."""
        return self._column(name)[rows]

    def share(self, name: str, machines: int) -> Fraction:
        """The share of all `machines` that have an image."""
        self._column(name)
        spread = self._spread[name]
        if machines <= STEPS:
            return Fraction(spread, max(1, machines))
        return Fraction(spread * STEPS // machines, STEPS)

    def _column(self, name: str) -> NDArray[np.int64]:
        column = self._columns.get(name)
        if column is None:
            column = np.array([m.images.get(name, 0) if m else 0 for m in self._machines], np.int64)
            self._columns[name] = column
            self._spread[name] = sum(name in m.images for m in self._machines if m)
            if len(self._columns) > KEPT_IMAGES:
                oldest, _ = self._columns.popitem(last=False)
                del self._spread[oldest]
        elif len(column) < len(self._machines):
            # Machines have joined that do not have it.
            missing = len(self._machines) - len(column)
            column = self._columns[name] = np.pad(column, (0, missing + len(column)))
        self._columns.move_to_end(name)
        return column
