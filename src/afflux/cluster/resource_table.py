"""Amounts: a table of what machines have and one of what is used, a column per resource.

Columns are added when a resource is first named and grown ahead of need. Every host port is a
resource: so that they do not pile up over months, columns that nobody has, uses or asked for of
late are dropped when there are many. Whoever holds on to rows or columns across a sweep must ask
again; sweeps come only with changes to the cluster, never while a round is being planned.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from afflux.model.implied import implied_capacity
from afflux.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS
from afflux.model.task import Shape

Table = NDArray[np.int64]

ALWAYS = (CPU, MEMORY, EPHEMERAL_STORAGE, PODS)
# So many columns are never too many; and so many figures of requests are kept, about 100 MB.
FEW_COLUMNS = 256
KEPT_REQUESTS = 12_000_000
# Room is made for so many columns more at a time, or a quarter of those there are.
SPARE_COLUMNS = 64


class Amounts:
    """`capacity` and `used` have a row per machine, in the order of `names` across."""

    def __init__(self) -> None:
        self.names: list[str] = [*ALWAYS]
        self._index: dict[str, int] = {name: column for column, name in enumerate(ALWAYS)}
        # What a machine has of each resource without stating it.
        self._implied: Table = np.zeros(8, np.int64)
        self._capacity: Table = np.zeros((0, 8), np.int64)
        self._used: Table = np.zeros((0, 8), np.int64)
        self.capacity: Table = self._capacity[:, :4]
        self.used: Table = self._used[:, :4]
        # Shapes asked about since the last sweep.
        self._requests: dict[Shape, Table] = {}
        self._many = FEW_COLUMNS

    def index(self, name: str) -> int | None:
        """The column of a resource, None if it has none."""
        return self._index.get(name)

    def requests(self, shape: Shape, present: NDArray[np.bool_]) -> Table:
        """What a shape asks for, as a row in the order of `names`."""
        row = self._requests.get(shape)
        if row is None or len(row) < len(self.names):
            self._make_room(sum(name not in self._index for name, _ in shape.requests))
            indices = [(self.column(name, present), amount) for name, amount in shape.requests]
            row = np.zeros(len(self.names), np.int64)
            for index, amount in indices:
                row[index] = amount
            if (len(self._requests) + 1) * len(self.names) > KEPT_REQUESTS:
                self._requests.clear()
            self._requests[shape] = row
        return row

    def column(self, name: str, present: NDArray[np.bool_]) -> int:
        """The column of a resource; a new one holds what machines that are there have anyway."""
        column = self._index.get(name)
        if column is not None:
            return column
        column = self._index[name] = len(self.names)
        self.names.append(name)
        self._make_room(0)
        self._implied[column] = implied = implied_capacity(name)
        self._capacity[:, column] = implied * present
        self._used[:, column] = 0
        self._cut()
        return column

    def _make_room(self, columns: int) -> None:
        """Let there be room for so many more; a little ahead, as each time costs a copy."""
        missing = len(self.names) + columns - len(self._implied)
        if missing > 0:
            more = missing + max(SPARE_COLUMNS, len(self._implied) // 4)
            self._capacity = np.pad(self._capacity, ((0, 0), (0, more)))
            self._used = np.pad(self._used, ((0, 0), (0, more)))
            self._implied = np.pad(self._implied, (0, more))

    def stated_columns(self) -> NDArray[np.bool_]:
        """Per column, whether it is about something that machines have only if they say so."""
        return self._implied[: len(self.names)] == 0

    def set_capacity(self, row: int, stated: Iterable[tuple[int, int]]) -> None:
        """What a machine has: these (column, amount) pairs and what it need not state."""
        self._capacity[row] = self._implied
        for column, amount in stated:
            self._capacity[row, column] = amount

    def clear(self, row: int) -> None:
        """There is no machine in this row any more."""
        self._capacity[row] = 0
        self._used[row] = 0

    def grow(self, more: int) -> None:
        """Make so many more rows."""
        self._capacity = np.pad(self._capacity, ((0, more), (0, 0)))
        self._used = np.pad(self._used, ((0, more), (0, 0)))
        self._cut()

    @property
    def wants_sweep(self) -> bool:
        """Whether there are so many columns that some may be old."""
        return len(self.names) > self._many

    def sweep(self, stated: Iterable[str]) -> None:
        """Drop what is neither used nor stated by a machine nor was asked for since last time."""
        wanted = {*ALWAYS, *stated}
        wanted.update(name for shape in self._requests for name, _ in shape.requests)
        in_use = set(np.flatnonzero(self.used.any(axis=0)).tolist())
        kept = [c for c, name in enumerate(self.names) if name in wanted or c in in_use]
        self.names = [self.names[column] for column in kept]
        self._index = {name: column for column, name in enumerate(self.names)}
        # Some are spare, for what comes next.
        spare = ((0, 0), (0, max(SPARE_COLUMNS, len(kept) // 4)))
        self._capacity = np.pad(self._capacity[:, kept], spare)
        self._used = np.pad(self._used[:, kept], spare)
        self._implied = np.pad(self._implied[kept], spare[1])
        self._requests.clear()
        # Half as many may come before the next: fewer than are kept, or what passes would pile up.
        self._many = max(FEW_COLUMNS, len(kept) + len(kept) // 2)
        self._cut()

    def _cut(self) -> None:
        self.capacity = self._capacity[:, : len(self.names)]
        self.used = self._used[:, : len(self.names)]
