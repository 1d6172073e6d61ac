"""Labels, names and taints of machines as columns, so that selectors need no loop over machines.

The column of a label key is built when a selector first uses the key, and kept up to date after.
"""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from afflux.model.machine import Machine
from afflux.model.selectors import NodeAffinity, Requirement, Term
from afflux.model.taints import Taint

Rows = NDArray[np.intp] | slice
BoolColumn = NDArray[np.bool_]

# The column of machine names has this key, which no label can have.
NAME = ""


class LabelColumns:
    """For each label key a column of codes, and the values that the codes stand for."""

    def __init__(self) -> None:
        self._machines: list[Machine | None] = []
        self._codes: dict[str, list[int]] = {}
        self._values: dict[str, dict[str | None, int]] = {}
        self._columns: dict[str, NDArray[np.int32]] = {}
        self._taint_codes: list[int] = []
        self._taint_column: NDArray[np.intp] | None = None
        self._taint_sets: dict[tuple[Taint, ...], int] = {}

    def set(self, row: int, machine: Machine | None) -> None:
        """Row `row` now describes this machine; None if the machine was removed."""
        while len(self._machines) <= row:
            self._machines.append(None)
            self._taint_codes.append(0)
            for codes in self._codes.values():
                codes.append(0)
        self._machines[row] = machine
        taints = machine.taints if machine else ()
        self._taint_codes[row] = self._taint_sets.setdefault(taints, len(self._taint_sets))
        for key, codes in self._codes.items():
            codes[row] = self._code(key, _value(machine, key))
        self._columns.clear()
        self._taint_column = None

    def accepted(self, requirement: Requirement, key: str, rows: Rows) -> BoolColumn:
        """The machines whose value for `key` satisfies the requirement."""
        column = self._column(key)[rows]
        values = self._values[key]
        if requirement.operator in {"In", "NotIn"}:
            # Both may have thousands of entries: look values up, do not compare all pairs.
            verdicts = np.zeros(len(values), bool)
            verdicts[[values[value] for value in requirement.values if value in values]] = True
            return verdicts[column] if requirement.operator == "In" else ~verdicts[column]
        verdicts = np.fromiter((requirement.accepts(value) for value in values), bool, len(values))
        return verdicts[column]

    def matches(self, term: Term, rows: Rows, count: int) -> BoolColumn:
        """The machines that satisfy every requirement of a term (an empty one matches nothing)."""
        if not term.labels and not term.names:
            return np.zeros(count, bool)
        labels = [self.accepted(each, each.key, rows) for each in term.labels]
        names = [self.accepted(each, NAME, rows) for each in term.names]
        return _all_of(labels + names, count)

    def admitted(self, affinity: NodeAffinity, rows: Rows, count: int) -> BoolColumn:
        """The machines that the hard part of an affinity accepts."""
        selector = [Requirement(key, "In", (value,)) for key, value in affinity.selector]
        chosen = _all_of([self.accepted(each, each.key, rows) for each in selector], count)
        if affinity.required is not None:
            allowed = np.zeros(count, bool)
            for term in affinity.required:
                allowed |= self.matches(term, rows, count)
            chosen = chosen & allowed
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

    @property
    def taint_sets(self) -> Sequence[tuple[Taint, ...]]:
        """Every set of taints that some machine has or had."""
        return list(self._taint_sets)

    def _column(self, key: str) -> NDArray[np.int32]:
        if key not in self._codes:
            self._values[key] = {None: 0}
            self._codes[key] = [self._code(key, _value(m, key)) for m in self._machines]
        if key not in self._columns:
            self._columns[key] = np.asarray(self._codes[key], np.int32)
        return self._columns[key]

    def _code(self, key: str, value: str | None) -> int:
        values = self._values[key]
        return values.setdefault(value, len(values))


def _value(machine: Machine | None, key: str) -> str | None:
    if machine is None:
        return None
    return machine.name if key == NAME else machine.labels.get(key)


def _all_of(columns: list[BoolColumn], count: int) -> BoolColumn:
    chosen = np.ones(count, bool)
    for column in columns:
        chosen &= column
    return chosen
