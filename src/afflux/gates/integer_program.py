"""A network with gates as an integer program.

The first columns are the gates: 1 is open, 0 is closed. The others are the flow on arcs, without
members of gates, since these carry their count times the gate, and without loops, since these touch
no balance. Flow need not be declared integer: with the gates decided, it is by itself. A row is the
balance of a node.
"""

import io
from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from afflux._core import Gate, Network

Floats = NDArray[np.float64]

# Up to here every integer has an exact float.
MAX_EXACT_INTEGER = 2**53


class TooLargeError(ValueError):
    """A number is too large for a solver that calculates in floating point."""


@dataclass(frozen=True, slots=True, eq=False)
class IntegerProgram:
    """Minimise offset + cost @ x with matrix @ x = balance, lower <= x <= upper."""

    gates: NDArray[np.int64]
    """One number: how many columns are gates."""
    offset: Floats
    """One number: the constant part of the cost."""
    cost: Floats
    lower: Floats
    upper: Floats
    balance: Floats
    start: NDArray[np.int32]
    """Where the entries of each column begin, and where the last one ends."""
    row: NDArray[np.int32]
    entry: Floats
    known: Floats
    """A solution to start from."""

    def to_bytes(self) -> bytes:
        """The columns as an .npz file of NumPy, without pickled objects."""
        file = io.BytesIO()
        np.savez(file, **{field.name: getattr(self, field.name) for field in fields(self)})
        return file.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> "IntegerProgram":
        """The inverse of `to_bytes`."""
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            return cls(**{field.name: file[field.name] for field in fields(cls)})


def build_integer_program(
    network: Network, gates: Sequence[Gate], is_open: NDArray[np.bool_]
) -> IntegerProgram:
    """The integer program, with the flow of the network as a solution to start from.

    Raises TooLargeError where numbers are not exact in floating point.
    """
    columns = network.columns()
    members = [gate.members for gate in gates]
    counts = np.concatenate([np.zeros(0, np.int64), *(gate.counts for gate in gates)])
    tail, head = (np.searchsorted(columns.nodes, of) for of in (columns.tail, columns.head))
    lower, capacity, cost = columns.lower, columns.capacity, columns.cost
    for name, values in (("supply", columns.supply), ("capacity", capacity), ("cost", cost)):
        _check(name, max(int(values.max(initial=0)), -int(values.min(initial=0))))

    place = np.searchsorted(columns.arcs, np.concatenate([np.zeros(0, np.int32), *members]))
    gate = np.repeat(np.arange(len(gates)), [len(of) for of in members])
    is_loop = tail == head
    is_column = ~is_loop
    is_column[place] = False

    # Sums in integers of Python, which have no limit.
    opening = [-of.waiting_cost for of in gates]
    member_costs = zip(gate.tolist(), counts.tolist(), cost[place].tolist(), strict=True)
    for number, count, each in member_costs:
        opening[number] += count * each
    carried = np.where(cost < 0, capacity, lower)[is_loop]
    loops = zip(cost[is_loop].tolist(), carried.tolist(), strict=True)
    offset = sum(of.waiting_cost for of in gates) + sum(each * units for each, units in loops)
    _check("sum of waiting costs and loops", abs(offset))
    _check("cost of a gate", max(abs(each) for each in [0, *opening]))

    start, row, entry = _matrix(
        (gate, len(gates)), (tail[place], head[place]), counts, (tail[is_column], head[is_column])
    )
    none = np.zeros(len(gates), np.int64)
    return IntegerProgram(
        gates=np.array([len(gates)]),
        offset=np.array([float(offset)]),
        cost=np.concatenate([opening, cost[is_column]]).astype(np.float64),
        lower=np.concatenate([none, lower[is_column]]).astype(np.float64),
        upper=np.concatenate([none + 1, capacity[is_column]]).astype(np.float64),
        balance=columns.supply.astype(np.float64),
        start=start.astype(np.int32),
        row=row.astype(np.int32),
        entry=entry.astype(np.float64),
        known=np.concatenate([is_open, columns.flow[is_column]]).astype(np.float64),
    )


Indices = NDArray[np.intp]
Ends = tuple[Indices, Indices]


def _matrix(
    gates: tuple[Indices, int], members: Ends, counts: NDArray[np.int64], arcs: Ends
) -> tuple[NDArray[np.int64], Indices, NDArray[np.int64]]:
    """Column starts, rows and entries: one for each place, also where members share a node."""
    of_member, gate_count = gates
    arc_count = len(arcs[0])
    column = np.concatenate([of_member, of_member, *2 * [gate_count + np.arange(arc_count)]])
    row = np.concatenate([*members, *arcs])
    one = np.ones(arc_count, np.int64)
    entry = np.concatenate([counts, -counts, one, -one])
    order = np.lexsort((row, column))
    column, row, entry = column[order], row[order], entry[order]
    is_first = np.ones(len(column), bool)
    is_first[1:] = (np.diff(column) != 0) | (np.diff(row) != 0)
    first = np.flatnonzero(is_first)
    entry = np.add.reduceat(entry, first) if len(first) else entry
    column, row = column[first], row[first]
    _check("count at a node", int(np.abs(entry).max(initial=0)))
    kept = entry != 0
    per_column = np.bincount(column[kept], minlength=gate_count + arc_count)
    start = np.concatenate([np.zeros(1, np.int64), np.cumsum(per_column)])
    return start, row[kept], entry[kept]


def _check(name: str, largest: int) -> None:
    if largest > MAX_EXACT_INTEGER:
        raise TooLargeError(
            f"{name}: {largest} is not exact in floating point, expected at most 2**53"
        )
