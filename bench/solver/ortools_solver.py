"""OR-Tools' SimpleMinCostFlow on the same columns, from nothing, timed on its solve call alone."""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from ortools.graph.python import min_cost_flow

from bench.solver.network_columns import Columns, Ints


@dataclass(frozen=True)
class Peer:
    """The cost of the optimum, and the seconds of the solve."""

    seconds: float
    cost: int


def solve_cold(columns: Columns, *, by_hand: bool = False) -> Peer:
    """The optimum of these columns.

    OR-Tools has no lower bounds: they are moved into supplies, and the arcs keep the remaining
    capacity. With `by_hand`, pinned tasks are taken out as a careful user would: all arcs and
    nodes whose flow is fixed are removed, down to the slots that pinned tasks hold.
    """
    lower = np.maximum(columns.lower, columns.implied) if by_hand else columns.lower
    lower = np.where(columns.present, lower, 0)
    solver = _load(columns, lower, by_hand)
    began = time.perf_counter()
    status = solver.solve()
    seconds = time.perf_counter() - began
    if status != solver.OPTIMAL:
        raise RuntimeError(f"OR-Tools answered {status}, not OPTIMAL")
    return Peer(seconds, solver.optimal_cost() + int(columns.cost @ lower))


def _load(columns: Columns, lower: Ints, by_hand: bool) -> Any:  # its stubs are wrong about arrays
    nodes = columns.supply.size
    # Sums of whole numbers far below 2**53: exact as floats.
    moved = np.bincount(columns.head, lower, nodes) - np.bincount(columns.tail, lower, nodes)
    supply = columns.supply + moved.astype(np.int64)
    open_arcs = columns.present & (columns.capacity > lower) if by_hand else columns.present
    arcs = np.flatnonzero(open_arcs)
    tail, head = columns.tail[arcs], columns.head[arcs]
    used = np.ones(nodes, np.bool_)
    if by_hand:
        used = supply != 0
        used[tail] = used[head] = True
    number = np.cumsum(used, dtype=np.int32) - np.int32(1)
    solver: Any = min_cost_flow.SimpleMinCostFlow()
    solver.add_arcs_with_capacity_and_unit_cost(
        number[tail], number[head], (columns.capacity - lower)[arcs], columns.cost[arcs]
    )
    solver.set_nodes_supplies(number[used], supply[used])
    return solver
