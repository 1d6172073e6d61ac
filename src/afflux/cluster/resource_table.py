"""Two tables with a row per machine and a column per resource: the capacity and what is used.

A column is added when a resource is first named. Every host port is a resource: so that columns
do not accumulate over months, unused ones are dropped once there are many. This changes the
indices of columns, but it happens only when the cluster changes, never while a round is planned.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from afflux.model.implied_resources import default_capacity
from afflux.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS
from afflux.model.task import Shape

Table = NDArray[np.int64]

ALWAYS = (CPU, MEMORY, EPHEMERAL_STORAGE, PODS)
# With fewer columns than this no column is dropped.
CLEANUP_MIN_COLUMNS = 256
# Numbers in the cache of request rows, about 100 MB.
MAX_CACHED_REQUESTS = 12_000_000
# Columns that are allocated in advance: at least this many, or a quarter of the existing ones.
SPARE_COLUMNS = 64


class ResourceTable:
    """`capacity` and `used` have a row per machine and a column per resource (see `names`)."""

    def __init__(
        self,
        cleanup_min_columns: int = CLEANUP_MIN_COLUMNS,
        max_cached_requests: int = MAX_CACHED_REQUESTS,
    ) -> None:
        self._cleanup_min_columns = cleanup_min_columns
        self._max_cached_requests = max_cached_requests
        self.names: list[str] = [*ALWAYS]
        self._index: dict[str, int] = {name: column for column, name in enumerate(ALWAYS)}
        # What a machine has of each resource if it states no amount.
        self._default_capacity: Table = np.zeros(8, np.int64)
        self._capacity: Table = np.zeros((0, 8), np.int64)
        self._used: Table = np.zeros((0, 8), np.int64)
        self.capacity: Table = self._capacity[:, :4]
        self.used: Table = self._used[:, :4]
        # The rows of shapes requested since unused columns were last dropped.
        self._requests: dict[Shape, Table] = {}
        self._cleanup_above = cleanup_min_columns

    def index(self, name: str) -> int | None:
        """The column of a resource, None if it has none."""
        return self._index.get(name)

    def requests(self, shape: Shape, present: NDArray[np.bool_]) -> Table:
        """The requests of a shape, as a row in the order of `names`."""
        row = self._requests.get(shape)
        if row is None or len(row) < len(self.names):
            self._make_room(sum(name not in self._index for name, _ in shape.requests))
            indices = [(self.column(name, present), amount) for name, amount in shape.requests]
            row = np.zeros(len(self.names), np.int64)
            for index, amount in indices:
                row[index] = amount
            if (len(self._requests) + 1) * len(self.names) > self._max_cached_requests:
                self._requests.clear()
            self._requests[shape] = row
        return row

    def column(self, name: str, present: NDArray[np.bool_]) -> int:
        """The column of a resource; in a new one the present machines have the default capacity."""
        column = self._index.get(name)
        if column is not None:
            return column
        column = self._index[name] = len(self.names)
        self.names.append(name)
        self._make_room(0)
        self._default_capacity[column] = default = default_capacity(name)
        self._capacity[:, column] = default * present
        self._used[:, column] = 0
        self._update_views()
        return column

    def _make_room(self, columns: int) -> None:
        """Allocate room for this many more columns, and spare ones, as each growth costs a copy."""
        missing = len(self.names) + columns - len(self._default_capacity)
        if missing > 0:
            more = missing + max(SPARE_COLUMNS, len(self._default_capacity) // 4)
            self._capacity = np.pad(self._capacity, ((0, 0), (0, more)))
            self._used = np.pad(self._used, ((0, 0), (0, more)))
            self._default_capacity = np.pad(self._default_capacity, (0, more))

    def stated_columns(self) -> NDArray[np.bool_]:
        """Per column, whether machines have the resource only if they state it."""
        return self._default_capacity[: len(self.names)] == 0

    def set_capacity(self, row: int, stated: Iterable[tuple[int, int]]) -> None:
        """Set a machine's capacity: these (column, amount) pairs, and the defaults elsewhere."""
        self._capacity[row] = self._default_capacity
        for column, amount in stated:
            self._capacity[row, column] = amount

    def clear(self, row: int) -> None:
        """Empty the row of a machine that was removed."""
        self._capacity[row] = 0
        self._used[row] = 0

    def grow(self, more: int) -> None:
        self._capacity = np.pad(self._capacity, ((0, more), (0, 0)))
        self._used = np.pad(self._used, ((0, more), (0, 0)))
        self._update_views()

    @property
    def needs_cleanup(self) -> bool:
        """Whether there are enough columns to look for unused ones."""
        return len(self.names) > self._cleanup_above

    def drop_unused_columns(self, stated: Iterable[str]) -> None:
        """Drop columns not used, not stated by a machine and not requested since the last call."""
        wanted = {*ALWAYS, *stated}
        wanted.update(name for shape in self._requests for name, _ in shape.requests)
        in_use = set(np.flatnonzero(self.used.any(axis=0)).tolist())
        kept = [c for c, name in enumerate(self.names) if name in wanted or c in in_use]
        self.names = [self.names[column] for column in kept]
        self._index = {name: column for column, name in enumerate(self.names)}
        spare = ((0, 0), (0, max(SPARE_COLUMNS, len(kept) // 4)))
        self._capacity = np.pad(self._capacity[:, kept], spare)
        self._used = np.pad(self._used[:, kept], spare)
        self._default_capacity = np.pad(self._default_capacity[kept], spare[1])
        self._requests.clear()
        # The next call comes after half as many new columns.
        self._cleanup_above = max(self._cleanup_min_columns, len(kept) + len(kept) // 2)
        self._update_views()

    def _update_views(self) -> None:
        self.capacity = self._capacity[:, : len(self.names)]
        self.used = self._used[:, : len(self.names)]
