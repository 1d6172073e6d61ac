"""The expected ends of running tasks: when, on which machine, and what becomes free then.

The reader keeps what it has read from pass to pass, and reads again only machines that changed.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from afflux.cluster.state import PlacedTask, State
from afflux.plan.book import Table


@dataclass(frozen=True)
class ExpectedEnds:
    """Ends in the order of time. `returned` has a column for every resource of the state."""

    ends: NDArray[np.float64]
    rows: Table
    returned: Table
    _tasks: list[list[PlacedTask]]
    _order: NDArray[np.intp]

    @cached_property
    def tasks(self) -> list[PlacedTask]:
        """The tasks that end; needed only for devices, which are tracked one by one, and for
        constraints between tasks."""
        flat = [task for on_row in self._tasks for task in on_row]
        return [flat[index] for index in self._order]


@dataclass(frozen=True, slots=True)
class _OnRow:
    ends: NDArray[np.float64]
    returned: Table
    tasks: list[PlacedTask]


class ExpectedEndsReader:
    """Reads the expected ends of a state; rows that have not changed are cached."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._names: list[str] = []
        self._as_of = -1
        self._on_rows: dict[int, _OnRow] = {}

    def read(self, now_seconds: float) -> ExpectedEnds:
        """Every task that has an end; a task that is overdue ends now."""
        self._update()
        parts = list(self._on_rows.values())
        counts = [len(part.ends) for part in parts]
        ends = np.concatenate([np.zeros(0), *(part.ends for part in parts)])
        np.maximum(ends, now_seconds, out=ends)
        order = np.argsort(ends, kind="stable")
        rows = np.repeat(np.fromiter(self._on_rows, np.int64, len(parts)), counts)
        returned = [np.zeros((0, len(self._names)), np.int64), *(part.returned for part in parts)]
        given = np.concatenate(returned)[order]
        return ExpectedEnds(ends[order], rows[order], given, [part.tasks for part in parts], order)

    def _update(self) -> None:
        state = self._state
        if self._names != state.resource_names:
            self._names = list(state.resource_names)
            self._on_rows.clear()
            self._as_of = -1
        if self._as_of == state.version:
            return
        for row in np.flatnonzero(state.changed[: len(state)] > self._as_of).tolist():
            tasks = [each for each in state.placed_on(row) if each.until_seconds is not None]
            if not tasks:
                self._on_rows.pop(row, None)
                continue
            self._on_rows[row] = _OnRow(
                np.array([each.until_seconds for each in tasks], np.float64),
                np.array([state.use(each.counted_shape) for each in tasks], np.int64),
                tasks,
            )
        self._as_of = state.version
