"""Two tables with a row per machine and a column per resource: the capacity and what is used.

A name that a pod invents costs no memory on any machine. A resource has a column only if a machine
states it, or if machines have it without stating it (a host port, volume attachments) and a waiting
task requests it. All other resources are available nowhere: they share the column UNSTATED, of
which no machine has any. What running tasks use of a resource without a column is kept as sums, and
enters its column when it gets one.

Once there are many columns, unused ones are dropped, so that they do not accumulate over months.
This changes the indices of columns, but it happens only between cycles and when the cluster
changes, never while a round is planned.
"""

from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from afflux.model.implied_resources import default_capacity
from afflux.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Resources
from afflux.model.task import Shape

Table = NDArray[np.int64]

# No resource can have this name, as it has spaces.
UNSTATED = "resources that no node has"
ALWAYS = (CPU, MEMORY, EPHEMERAL_STORAGE, PODS, UNSTATED)
_UNSTATED_COLUMN = ALWAYS.index(UNSTATED)
# With fewer columns than this no column is dropped.
CLEANUP_MIN_COLUMNS = 256
# Numbers in the cache of request rows, about 100 MB.
MAX_CACHED_REQUESTS = 12_000_000
# What the key of a cached row counts as, for each part of the shape: about 100 bytes.
_NUMBERS_PER_PART = 12
# Columns that are allocated in advance: at least this many, or a quarter of the existing ones.
SPARE_COLUMNS = 64
# No sum of requests may exceed this: half of what 64 bits hold.
_MAX_USED = 1 << 62


@dataclass(frozen=True, slots=True)
class _Use:
    """What a running task uses: a row of amounts, and the resources that have no column."""

    row: Table
    without_column: Resources


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
        self.capacity: Table = self._capacity[:, : len(ALWAYS)]
        self.used: Table = self._used[:, : len(ALWAYS)]
        # By machine, the CPU and memory of running tasks that no container requests: none until
        # there is such a task.
        self._unrequested: dict[str, Table] = {}
        # What is used of resources that have no column, by resource and row.
        self._used_without_column: dict[str, dict[int, int]] = {}
        # The rows of shapes requested since unused columns were last dropped.
        self._requests: dict[Shape, Table] = {}
        self._uses: dict[Shape, _Use] = {}
        self._cached_numbers = 0
        self._cleanup_above = cleanup_min_columns

    def copy(self) -> "ResourceTable":
        """A table that is the same now and changes independently."""
        other = copy(self)
        other.names, other._index = self.names.copy(), self._index.copy()
        other._default_capacity = self._default_capacity.copy()
        other._capacity, other._used = self._capacity.copy(), self._used.copy()
        other._unrequested = {name: rows.copy() for name, rows in self._unrequested.items()}
        without_column = self._used_without_column
        other._used_without_column = {name: rows.copy() for name, rows in without_column.items()}
        other._requests, other._uses = self._requests.copy(), self._uses.copy()
        other._update_views()
        return other

    def index(self, name: str) -> int | None:
        """The column of a resource, None if it has none of its own."""
        return self._index.get(name)

    def requests(self, shape: Shape, present: NDArray[np.bool_]) -> Table:
        """The requests of a shape that waits, as a row in the order of `names`."""
        row = self._requests.get(shape)
        if row is None or len(row) < len(self.names):
            missing = [name for name, _ in shape.requests if self._needs_column(name)]
            self._make_room(len(missing))
            for name in missing:
                self.column(name, present)
            row = np.zeros(len(self.names), np.int64)
            for name, amount in shape.requests:
                column = self._index.get(name)
                if column is None:
                    row[_UNSTATED_COLUMN] = 1
                else:
                    row[column] = amount
            self._reserve_in_cache(shape)
            self._requests[shape] = row
        return row

    def unstated(self, shape: Shape) -> list[str]:
        """The resources that the shape requests and that no machine has."""
        return [
            name
            for name, _ in shape.requests
            if name not in self._index and not default_capacity(name)
        ]

    def use(self, shape: Shape) -> Table:
        """What a running task of a shape uses, as a row in the order of `names`. Resources that
        have no column are left out."""
        return self._use(shape).row

    def used_of(self, row: int, name: str) -> int:
        """What the tasks on a machine use of one resource, also if it has no column."""
        column = self._index.get(name)
        if column is not None:
            return int(self._used[row, column])
        return self._used_without_column.get(name, {}).get(row, 0)

    def used_without_column(self, name: str, rows: int) -> Table:
        """What is used of a resource that has no column, for each of so many rows."""
        used = np.zeros(rows, np.int64)
        for row, amount in self._used_without_column.get(name, {}).items():
            used[row] = amount
        return used

    def add_use(self, row: int, shape: Shape) -> None:
        """Count a task that starts on a machine."""
        use = self._use(shape)
        self.used[row] += use.row
        for name, amount in use.without_column:
            by_row = self._used_without_column.setdefault(name, {})
            by_row[row] = by_row.get(row, 0) + amount
        for name, amount in shape.unrequested:
            self._add_unrequested(row, name, amount)

    def remove_use(self, row: int, shape: Shape) -> None:
        """Count a task no longer; `shape` is the one that was added."""
        use = self._use(shape)
        self.used[row] -= use.row
        for name, amount in use.without_column:
            by_row = self._used_without_column.get(name, {})
            by_row[row] = by_row.get(row, 0) - amount
            if not by_row[row]:
                del by_row[row]
            if not by_row:
                self._used_without_column.pop(name, None)
        for name, amount in shape.unrequested:
            self._add_unrequested(row, name, -amount)

    def unrequested(self, name: str) -> Table | None:
        """By machine, what running tasks count for in costs beyond their requests; None if they
        request everything. Rows may be missing at the end."""
        return self._unrequested.get(name)

    def _add_unrequested(self, row: int, name: str, amount: int) -> None:
        column = self._unrequested.get(name)
        if column is None or row >= len(column):
            before = np.zeros(0, np.int64) if column is None else column
            column = np.pad(before, (0, len(self._used) - len(before)))
            self._unrequested[name] = column
        column[row] += amount

    def countable(self, row: int, requests: Resources) -> Resources:
        """The requests, cut where the sum on this machine would not fit 64 bits."""
        if all(self.used_of(row, name) <= _MAX_USED - amount for name, amount in requests):
            return requests
        left = ((name, _MAX_USED - self.used_of(row, name), amount) for name, amount in requests)
        return tuple((name, min(amount, most)) for name, most, amount in left)

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
        for row, amount in self._used_without_column.pop(name, {}).items():
            self._used[row, column] = amount
        self._update_views()
        return column

    def _needs_column(self, name: str) -> bool:
        """Whether a request for this resource makes a column."""
        return name not in self._index and default_capacity(name) > 0

    def _use(self, shape: Shape) -> _Use:
        use = self._uses.get(shape)
        if use is None or len(use.row) < len(self.names):
            row = np.zeros(len(self.names), np.int64)
            for name, amount in shape.requests:
                if name in self._index:
                    row[self._index[name]] = amount
            rest = tuple(each for each in shape.requests if each[0] not in self._index)
            use = _Use(row, rest)
            self._reserve_in_cache(shape)
            self._uses[shape] = use
        return use

    def _reserve_in_cache(self, shape: Shape) -> None:
        """Count one more row in the caches, and empty them first if they are full."""
        numbers = len(self.names) + _NUMBERS_PER_PART * shape.parts
        if self._cached_numbers + numbers > self._max_cached_requests:
            self._clear_caches()
        self._cached_numbers += numbers

    def _clear_caches(self) -> None:
        self._requests.clear()
        self._uses.clear()
        self._cached_numbers = 0

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
        stated = self._default_capacity[: len(self.names)] == 0
        stated[_UNSTATED_COLUMN] = False
        return stated

    def set_capacity(self, row: int, stated: Iterable[tuple[int, int]]) -> None:
        """Set a machine's capacity: these (column, amount) pairs, and the defaults elsewhere."""
        self._capacity[row] = self._default_capacity
        for column, amount in stated:
            self._capacity[row, column] = amount

    def clear(self, row: int) -> None:
        """Empty the row of a machine that was removed."""
        self._capacity[row] = 0
        self._used[row] = 0
        for column in self._unrequested.values():
            column[row : row + 1] = 0

    def grow(self, more: int) -> None:
        self._capacity = np.pad(self._capacity, ((0, more), (0, 0)))
        self._used = np.pad(self._used, ((0, more), (0, 0)))
        self._update_views()

    @property
    def needs_cleanup(self) -> bool:
        """Whether there are enough columns to look for unused ones."""
        return len(self.names) > self._cleanup_above

    def drop_unused_columns(self, stated: Iterable[str]) -> None:
        """Drop the columns that no machine states and, of what machines have without stating it,
        those that were not requested since the last call."""
        wanted = {*ALWAYS, *stated}
        wanted.update(
            name
            for shape in self._requests
            for name, _ in shape.requests
            if default_capacity(name) > 0
        )
        kept = [column for column, name in enumerate(self.names) if name in wanted]
        for column in set(range(len(self.names))).difference(kept):
            rows = np.flatnonzero(self._used[:, column])
            if len(rows):
                amounts = self._used[rows, column].tolist()
                by_row = dict(zip(rows.tolist(), amounts, strict=True))
                self._used_without_column[self.names[column]] = by_row
        self.names = [self.names[column] for column in kept]
        self._index = {name: column for column, name in enumerate(self.names)}
        spare = ((0, 0), (0, max(SPARE_COLUMNS, len(kept) // 4)))
        self._capacity = np.pad(self._capacity[:, kept], spare)
        self._used = np.pad(self._used[:, kept], spare)
        self._default_capacity = np.pad(self._default_capacity[kept], spare[1])
        self._clear_caches()
        # The next call comes after half as many new columns.
        self._cleanup_above = max(self._cleanup_min_columns, len(kept) + len(kept) // 2)
        self._update_views()

    def _update_views(self) -> None:
        self.capacity = self._capacity[:, : len(self.names)]
        self.used = self._used[:, : len(self.names)]
