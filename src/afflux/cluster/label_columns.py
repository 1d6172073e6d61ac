"""Labels, names and taints of machines as columns, so that selectors need no loop over machines.

The column of a label key is built when a selector first uses the key, and kept up to date after.
A key that no machine has takes no column: a pod may name any number of them. The columns that were
not used for the longest time are dropped if all together would take too much memory.
"""

from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from afflux.model.machine import Machine
from afflux.model.selectors import NodeAffinity, Requirement, Term
from afflux.model.taints import Taint

Rows = NDArray[np.intp] | slice
BoolColumn = NDArray[np.bool_]

# The column of machine names has this key, which no label can have.
NAME = ""
# Numbers in all columns together, about 50 MB, but at least MIN_COLUMNS columns.
MAX_CODES = 12_000_000
MIN_COLUMNS = 64
# A column is built anew when it knows this many values that no machine has any more.
_MAX_STALE_VALUES = 1_024

_NO_LABELS: Mapping[str, str] = {}


@dataclass(slots=True)
class _Column:
    """For each row the code of its value. `values` has the code of each value; that of no value
    at all is 0."""

    codes: NDArray[np.int32]
    values: dict[str | None, int]

    def set(self, row: int, value: str | None) -> None:
        self.codes[row] = self.values.setdefault(value, len(self.values))


class LabelColumns:
    """A column for each label key that selectors use and that a machine has."""

    def __init__(self, max_codes: int = MAX_CODES, min_columns: int = MIN_COLUMNS) -> None:
        self._max_codes = max_codes
        self._min_columns = min_columns
        self._machines: list[Machine | None] = []
        # How many machines have each key.
        self._key_counts: Counter[str] = Counter()
        # The column that was used last is the last one.
        self._columns: OrderedDict[str, _Column] = OrderedDict()
        self._allocated_rows = 0
        self._taint_codes: list[int] = []
        self._taint_column: NDArray[np.intp] | None = None
        self._taint_sets: dict[tuple[Taint, ...], int] = {}

    @property
    def keys(self) -> Sequence[str]:
        """The keys that have a column."""
        return list(self._columns)

    def set(self, row: int, machine: Machine | None) -> None:
        """Row `row` now describes this machine; None if the machine was removed."""
        while len(self._machines) <= row:
            self._machines.append(None)
            self._taint_codes.append(0)
        before = self._machines[row]
        self._machines[row] = machine
        taints = machine.taints if machine else ()
        self._taint_codes[row] = self._taint_sets.setdefault(taints, len(self._taint_sets))
        self._taint_column = None
        self._count_keys(before, machine)
        self._allocate_rows()
        stale: list[str] = []
        for key, column in self._columns.items():
            column.set(row, _value(machine, key))
            too_many = len(column.values) > 2 * len(self._machines) + _MAX_STALE_VALUES
            if too_many or not self._is_known(key):
                stale.append(key)
        for key in stale:
            del self._columns[key]

    def accepted(self, requirement: Requirement, key: str, rows: Rows) -> BoolColumn | bool:
        """The machines whose value for `key` satisfies the requirement; one answer for all if no
        machine has the key."""
        if not self._is_known(key):
            return requirement.accepts(None)
        column = self._column(key)
        codes, values = column.codes[: len(self._machines)][rows], column.values
        if requirement.operator in {"In", "NotIn"}:
            # Both may have thousands of entries: look values up, do not compare all pairs.
            verdicts = np.zeros(len(values), bool)
            verdicts[[values[value] for value in requirement.values if value in values]] = True
            return verdicts[codes] if requirement.operator == "In" else ~verdicts[codes]
        verdicts = np.fromiter((requirement.accepts(value) for value in values), bool, len(values))
        return verdicts[codes]

    def matches(self, term: Term, rows: Rows, count: int) -> BoolColumn:
        """The machines that satisfy every requirement of a term (an empty one matches nothing)."""
        if not term.labels and not term.names:
            return np.zeros(count, bool)
        chosen = np.ones(count, bool)
        self._restrict(chosen, ((each, each.key) for each in term.labels), rows)
        self._restrict(chosen, ((each, NAME) for each in term.names), rows)
        return chosen

    def admitted(self, affinity: NodeAffinity, rows: Rows, count: int) -> BoolColumn:
        """The machines that the hard part of an affinity accepts."""
        chosen = np.ones(count, bool)
        selector = (Requirement(key, "In", (value,)) for key, value in affinity.selector)
        self._restrict(chosen, ((each, each.key) for each in selector), rows)
        if affinity.required is not None and chosen.any():
            allowed = np.zeros(count, bool)
            for term in affinity.required:
                allowed |= self.matches(term, rows, count)
                if allowed.all():
                    break
            chosen &= allowed
        return chosen

    def by_taints(
        self, verdict: Iterable[tuple[tuple[Taint, ...], int]], rows: Rows
    ) -> NDArray[np.int64]:
        """A value for each machine from a value for each set of taints."""
        table = np.zeros(len(self._taint_sets), np.int64)
        for taints, value in verdict:
            table[self._taint_sets[taints]] = value
        if self._taint_column is None:
            self._taint_column = np.asarray(self._taint_codes, np.intp)
        return table[self._taint_column[rows]]

    def domains(self, topology_key: str) -> NDArray[np.int32]:
        """For each row the number of its domain, -1 for a machine without the label.

        Numbers are the same for all rows until a machine changes.
        """
        rows = len(self._machines)
        if not self._is_known(topology_key):
            return np.full(rows, -1, np.int32)
        return self._column(topology_key).codes[:rows] - np.int32(1)

    @property
    def taint_sets(self) -> Sequence[tuple[Taint, ...]]:
        """Every set of taints that some machine has or had."""
        return list(self._taint_sets)

    def _restrict(
        self, chosen: BoolColumn, requirements: Iterable[tuple[Requirement, str]], rows: Rows
    ) -> None:
        """Keep the machines that satisfy every requirement on its key, one requirement after the
        other, so that thousands of them take no more memory than one."""
        for requirement, key in requirements:
            chosen &= self.accepted(requirement, key, rows)
            if not chosen.any():
                break

    def _is_known(self, key: str) -> bool:
        return key == NAME or key in self._key_counts

    def _column(self, key: str) -> _Column:
        column = self._columns.get(key)
        if column is None:
            column = _Column(np.zeros(self._allocated_rows, np.int32), {None: 0})
            for row, machine in enumerate(self._machines):
                column.set(row, _value(machine, key))
            self._columns[key] = column
            most = max(self._min_columns, self._max_codes // max(1, self._allocated_rows))
            while len(self._columns) > most:
                self._columns.popitem(last=False)
        self._columns.move_to_end(key)
        return column

    def _count_keys(self, before: Machine | None, now: Machine | None) -> None:
        old = before.labels if before else _NO_LABELS
        new = now.labels if now else _NO_LABELS
        self._key_counts.update(new.keys() - old.keys())
        for key in old.keys() - new.keys():
            self._key_counts[key] -= 1
            if not self._key_counts[key]:
                del self._key_counts[key]

    def _allocate_rows(self) -> None:
        """Make room for all machines in every column, and for half as many more."""
        if self._allocated_rows >= len(self._machines):
            return
        more = max(64, len(self._machines) // 2)
        self._allocated_rows = len(self._machines) + more
        for column in self._columns.values():
            missing = self._allocated_rows - len(column.codes)
            column.codes = np.pad(column.codes, (0, missing))


def _value(machine: Machine | None, key: str) -> str | None:
    if machine is None:
        return None
    return machine.name if key == NAME else machine.labels.get(key)
