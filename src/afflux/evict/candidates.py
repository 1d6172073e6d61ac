"""The running tasks that could be evicted, by machine.

What has been read of a machine is kept until it changes, so that a cycle in which nothing could be
gained costs a comparison of columns.
"""

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from afflux.cluster.state import PlacedTask, State
from afflux.model.eviction_terms import EvictionTerms

Column = NDArray[np.int64]
Table = NDArray[np.int64]

# Above every priority of Kubernetes.
NO_PRIORITY = 1 << 40


@dataclass(frozen=True, slots=True)
class Candidate:
    """A running task with eviction terms, and what it uses, by the columns of the state."""

    held: PlacedTask
    terms: EvictionTerms
    use: Column

    @property
    def id(self) -> str:
        return self.held.task.id


def put_back(state: State, candidate: Candidate, like: State) -> None:
    """A candidate is on its machine again, as it is in another state."""
    held = candidate.held
    state.place(
        held.task,
        state.name_of(held.row),
        held.devices,
        held.until_seconds,
        disks=like.disks.disks_of(candidate.id),
        terms=held.terms,
    )


@dataclass(frozen=True, slots=True)
class Evictable:
    """The candidates that may leave for one level of priority: by row, and by the key of their
    group those that leave as a whole. `allowed` is what budgets still allow, `freed` what all of
    them use, by machine and resource."""

    by_row: Mapping[int, Sequence[Candidate]]
    whole: Mapping[str, Sequence[Candidate]]
    allowed: Mapping[str, int]
    freed: Table

    def on(self, row: int) -> Sequence[Candidate]:
        """The candidates on a machine."""
        return self.by_row.get(row, ())


class CandidatesReader:
    """Reads the candidates of a state; machines that have not changed are not read again."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._names: list[str] = []
        self._as_of = -1
        self._on_rows: dict[int, list[Candidate]] = {}
        # The lowest priority of a candidate on every machine.
        self._lowest: Column = np.zeros(0, np.int64)
        self._tasks_of_groups: Counter[str] = Counter()

    def update(self) -> None:
        """Read what has changed."""
        state = self._state
        if self._names != state.resource_names:
            self._names = list(state.resource_names)
            self._on_rows.clear()
            self._tasks_of_groups.clear()
            self._as_of = -1
        if len(self._lowest) < len(state):
            more = len(state) - len(self._lowest)
            self._lowest = np.pad(self._lowest, (0, more), constant_values=NO_PRIORITY)
        if self._as_of == state.version:
            return
        for row in np.flatnonzero(state.changed[: len(state)] > self._as_of).tolist():
            self._tasks_of_groups.subtract(each.terms.group for each in self._on_rows.get(row, ()))
            found = [
                Candidate(held, held.terms, state.use(held.counted_shape))
                for held in state.placed_on(row)
                if held.terms is not None
            ]
            self._lowest[row] = min((c.terms.priority for c in found), default=NO_PRIORITY)
            self._tasks_of_groups.update(each.terms.group for each in found)
            if found:
                self._on_rows[row] = found
            else:
                self._on_rows.pop(row, None)
        self._as_of = state.version

    @property
    def lowest_priority(self) -> int:
        """The lowest priority of all candidates."""
        return int(self._lowest.min(initial=NO_PRIORITY))

    def below(self, priority: int, gone: Container[str], allowed: Mapping[str, int]) -> Evictable:
        """What may leave for tasks of this priority, once those have left that are `gone`. A group
        that leaves as a whole may leave if all of its tasks may."""
        by_row: dict[int, list[Candidate]] = {}
        whole: dict[str, list[Candidate]] = {}
        for row in np.flatnonzero(self._lowest < priority).tolist():
            for each in self._on_rows[row]:
                if each.id in gone:
                    continue
                if each.terms.whole_group:
                    whole.setdefault(each.terms.group, []).append(each)
                elif each.terms.priority < priority:
                    by_row.setdefault(row, []).append(each)
        for key, members in list(whole.items()):
            there = self._tasks_of_groups.get(key, 0)
            if len(members) < there or any(c.terms.priority >= priority for c in members):
                del whole[key]
                continue
            for each in members:
                by_row.setdefault(each.held.row, []).append(each)
        return Evictable(by_row, whole, allowed, self._freed(by_row))

    def _freed(self, by_row: Mapping[int, Sequence[Candidate]]) -> Table:
        freed = np.zeros((len(self._state), len(self._names)), np.int64)
        rows = np.repeat(
            np.fromiter(by_row, np.intp, len(by_row)), [len(each) for each in by_row.values()]
        )
        if len(rows):
            np.add.at(freed, rows, np.array([c.use for own in by_row.values() for c in own]))
        return freed
