"""What runs and is expected to end: when, where, and what is free then; kept from pass to pass."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from afflux.cluster.state import Held, State
from afflux.plan.book import Table


@dataclass(frozen=True)
class Endings:
    """In the order of time. `returned` has a column for every resource of the state."""

    ends: NDArray[np.float64]
    rows: Table
    returned: Table
    _held: list[list[Held]]
    _order: NDArray[np.intp]

    @cached_property
    def held(self) -> list[Held]:
        """Who ends; needed only where devices are, which are tracked one by one."""
        flat = [held for on_row in self._held for held in on_row]
        return [flat[index] for index in self._order]


@dataclass(frozen=True, slots=True)
class _OnRow:
    ends: NDArray[np.float64]
    returned: Table
    held: list[Held]


class Expecting:
    """Reads again only what has changed."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._names: list[str] = []
        self._as_of = -1
        self._on_rows: dict[int, _OnRow] = {}

    def endings(self, now_seconds: float) -> Endings:
        """Everything that has an end; what should have ended already ends now."""
        self._read()
        parts = list(self._on_rows.values())
        width = len(self._names)
        counts = [len(part.ends) for part in parts]
        ends = np.concatenate([np.zeros(0), *(part.ends for part in parts)])
        np.maximum(ends, now_seconds, out=ends)
        order = np.argsort(ends, kind="stable")
        rows = np.repeat(np.fromiter(self._on_rows, np.int64, len(parts)), counts)
        returned = [np.zeros((0, width), np.int64), *(part.returned for part in parts)]
        return Endings(
            ends[order],
            rows[order],
            np.concatenate(returned)[order],
            [part.held for part in parts],
            order,
        )

    def _read(self) -> None:
        state = self._state
        if self._names != state.resource_names:
            self._names = list(state.resource_names)
            self._on_rows.clear()
            self._as_of = -1
        if self._as_of == state.version:
            return
        for row in np.flatnonzero(state.changed[: len(state)] > self._as_of).tolist():
            held = [each for each in state.held_on(row) if each.until_seconds is not None]
            if not held:
                self._on_rows.pop(row, None)
                continue
            self._on_rows[row] = _OnRow(
                np.array([each.until_seconds for each in held], np.float64),
                np.array([state.requests(each.counted) for each in held], np.int64),
                held,
            )
        self._as_of = state.version
