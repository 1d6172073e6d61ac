"""Minimum-cost-flow problems in the DIMACS format, with lower bounds.

    c a comment
    p min NODES ARCS
    n NODE SUPPLY
    a TAIL HEAD LOWER CAPACITY COST

Nodes count from 1 in the file and from 0 in a `Problem`; nodes without a line have no supply.
"""

import re
from typing import NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from afflux.model.errors import InputError

Column = NDArray[np.int64]

# More nodes are taken for a damaged number: allocating them would fill the memory.
MAX_NODES = 50_000_000

ARC_FIELDS = ("tail", "head", "lower bound", "capacity", "cost")
_INTEGER = re.compile(r"[-+]?[0-9]+", re.ASCII)
_COMMENT = re.compile(r"c(\W.*)?", re.ASCII)
_MAGNITUDE = 2**63


class Problem(NamedTuple):
    """The columns that `afflux._core.solve` takes."""

    supply: Column
    tail: NDArray[np.int32]
    head: NDArray[np.int32]
    lower: Column
    capacity: Column
    cost: Column


def read_dimacs(text: str, name: str) -> Problem:
    """The problem that a file describes; errors name the file `name`."""
    if not text.strip():
        raise InputError(f"{name}: empty; expected a problem in DIMACS format")
    file = _File(name)
    read = {"a": file.read_arc, "n": file.read_node, "p": file.read_problem}
    for file.line, line in enumerate(text.split("\n"), 1):
        fields = line.split()
        if fields:
            read.get(fields[0], file.read_other)(fields)
    return file.problem()


class _File:
    """The lines read so far."""

    def __init__(self, name: str) -> None:
        self.line = 0
        self._name = name
        self._nodes: int | None = None
        self._arcs = 0
        self._supply: dict[int, int] = {}
        self._fields: list[str] = []
        self._lines: list[int] = []

    def read_problem(self, fields: list[str]) -> None:
        if self._nodes is not None:
            self._refuse("a second problem line; expected one")
        if len(fields) != 4 or fields[1] != "min":
            self._refuse(f"the problem is {' '.join(fields[1:])!r:.40}; expected min NODES ARCS")
        self._nodes = self._integer("number of nodes", fields[2])
        self._arcs = self._integer("number of arcs", fields[3])
        if not 0 <= self._nodes <= MAX_NODES:
            self._refuse(f"number of nodes is {fields[2]}; expected 0 to {MAX_NODES}")
        if self._arcs < 0:
            self._refuse(f"number of arcs is {fields[3]}; expected 0 or more")

    def read_node(self, fields: list[str]) -> None:
        nodes = self._announced("a node")
        if len(fields) != 3:
            self._refuse(f"{len(fields) - 1} values; expected n NODE SUPPLY")
        node = self._integer("node", fields[1])
        if not 1 <= node <= nodes:
            self._refuse(f"node is {node}; expected 1 to {nodes}")
        if node in self._supply:
            self._refuse(f"node {node} has a line already; expected one per node")
        self._supply[node] = self._integer("supply", fields[2])

    def read_arc(self, fields: list[str]) -> None:
        # Called for millions of lines: values are checked together at the end of the file.
        if self._nodes is None or len(fields) != 6:
            self._announced("an arc")
            self._refuse(f"{len(fields) - 1} values; expected a TAIL HEAD LOWER CAPACITY COST")
        self._fields += fields[1:]
        self._lines.append(self.line)

    def read_other(self, fields: list[str]) -> None:
        if not _COMMENT.fullmatch(fields[0]):
            self._refuse(f"the line begins with {fields[0]!r:.40}; expected c, p, n or a")

    def problem(self) -> Problem:
        if self._nodes is None:
            raise InputError(f"{self._name}: no line p min NODES ARCS; expected one")
        if len(self._lines) != self._arcs:
            raise InputError(
                f"{self._name}: {len(self._lines)} arcs; expected {self._arcs}, "
                "as the problem line says"
            )
        supplied = sum(units for units in self._supply.values() if units > 0)
        demanded = supplied - sum(self._supply.values())
        if supplied != demanded:
            raise InputError(
                f"{self._name}: {supplied} units are supplied and {demanded} demanded; "
                "expected as many"
            )
        supply = np.zeros(self._nodes, np.int64)
        for node, units in self._supply.items():
            supply[node - 1] = units
        tail, head, lower, capacity, cost = self._columns(self._nodes)
        return Problem(
            supply, (tail - 1).astype(np.int32), (head - 1).astype(np.int32), lower, capacity, cost
        )

    def _columns(self, nodes: int) -> list[Column]:
        values = self._values()
        columns = [np.ascontiguousarray(values[:, i]) for i in range(len(ARC_FIELDS))]
        tail, head, lower, capacity, _ = columns
        for name, column in zip(ARC_FIELDS, (tail, head), strict=False):
            self._expect((column >= 1) & (column <= nodes), name, column, f"1 to {nodes}")
        for name, column in (("capacity", capacity), ("lower bound", lower)):
            self._expect(column >= 0, name, column, "0 or more")
        self._expect(lower <= capacity, "lower bound", lower, "no more than the capacity", capacity)
        return columns

    def _values(self) -> Column:
        """The values of all arcs, a row for each."""
        joined = "".join(self._fields)
        try:
            # int() takes more than the format does: 1_000, and digits of other scripts.
            if "_" not in joined and joined.isascii():
                values = np.array(list(map(int, self._fields)), np.int64)
                return values.reshape(-1, len(ARC_FIELDS))
        except (ValueError, OverflowError):
            pass
        for position, field in enumerate(self._fields):
            arc, column = divmod(position, len(ARC_FIELDS))
            self.line = self._lines[arc]
            self._integer(ARC_FIELDS[column], field)
        raise AssertionError("a value is no integer, but each one is")

    def _expect(
        self,
        is_right: NDArray[np.bool_],
        field: str,
        values: Column,
        expected: str,
        limits: Column | None = None,
    ) -> None:
        if not is_right.all():
            arc = int(np.argmin(is_right))
            self.line = self._lines[arc]
            limit = "" if limits is None else f" {limits[arc]}"
            self._refuse(f"{field} is {values[arc]}; expected {expected}{limit}")

    def _integer(self, field: str, value: str) -> int:
        if not _INTEGER.fullmatch(value):
            self._refuse(f"{field} is {value!r:.40}; expected an integer")
        # Twenty characters hold every number of 64 bits, unless it has leading zeros.
        if len(value) > 100 or not -_MAGNITUDE <= int(value) < _MAGNITUDE:
            self._refuse(f"{field} is {value:.40}; expected an integer of 64 bits")
        return int(value)

    def _announced(self, what: str) -> int:
        if self._nodes is None:
            self._refuse(f"{what} before the line p min NODES ARCS; expected after it")
        return self._nodes

    def _refuse(self, message: str) -> NoReturn:
        raise InputError(f"{self._name}: line {self.line}: {message}")
