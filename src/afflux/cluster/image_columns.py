"""Images on machines as columns, built for the images that policies ask about.

The share of machines that have an image depends on the whole cluster: a policy that uses it puts
it into its `Policy.cache_key`, and its costs are computed again when the share changes. In large
clusters the share is rounded, so that one more machine with an image rarely changes it.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from afflux.model.machine import Machine

_NONE: Mapping[str, int] = {}
Rows = NDArray[np.intp] | slice

# Columns in the cache; others are built again from the machines when needed.
MAX_CACHED_IMAGES = 512
# With at most this many machines shares are exact; otherwise they are rounded down to 128ths.
SHARE_STEPS = 128


class ImageColumns:
    """For each image its size on each machine, 0 where it is missing. Columns have spare rows."""

    def __init__(self, machines: Sequence[Machine | None]) -> None:
        self._machines = machines
        self._columns: OrderedDict[str, NDArray[np.int64]] = OrderedDict()
        self._spread: dict[str, int] = {}

    def set(self, row: int, before: Machine | None, now: Machine | None) -> None:
        """Row `row` changes from one machine to another; None stands for no machine."""
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
        """The size of an image on each machine, 0 where it is missing."""
        return self._column(name)[rows]

    def share(self, name: str, machines: int) -> Fraction:
        """The share of all `machines` that have an image."""
        self._column(name)
        spread = self._spread[name]
        if machines <= SHARE_STEPS:
            return Fraction(spread, max(1, machines))
        return Fraction(spread * SHARE_STEPS // machines, SHARE_STEPS)

    def _column(self, name: str) -> NDArray[np.int64]:
        column = self._columns.get(name)
        if column is None:
            column = np.array([m.images.get(name, 0) if m else 0 for m in self._machines], np.int64)
            self._columns[name] = column
            self._spread[name] = sum(name in m.images for m in self._machines if m)
            if len(self._columns) > MAX_CACHED_IMAGES:
                oldest, _ = self._columns.popitem(last=False)
                del self._spread[oldest]
        elif len(column) < len(self._machines):
            # The machines that were added since do not have it.
            missing = len(self._machines) - len(column)
            column = self._columns[name] = np.pad(column, (0, missing + len(column)))
        self._columns.move_to_end(name)
        return column
