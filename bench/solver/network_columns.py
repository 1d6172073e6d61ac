"""A network as columns, by position.

Positions are the shape's own numbering and never change: an arc that is temporarily removed keeps
its position and is not `present`. OR-Tools gets these columns as they are; our solver gets, round
by round, the changes in them (`column_changes.py`).
"""

from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Ids = NDArray[np.int32]
Flags = NDArray[np.bool_]
NONE = slice(0, 0)


@dataclass(frozen=True)
class Columns:
    """Supply of every node; ends, bounds and cost of every arc.

    A `renewed` node has left since the last round, and another has taken its position. `implied`
    is the flow that an arc carries because of pinned tasks upstream; it is not part of the network,
    but it is used when pinned tasks are taken out by hand.

    `rising` are arcs of one unit each. `units` of them in a row are parallel, none is cheaper than
    the one before, and those that have capacity come first: together they are a convex arc. Their
    ends stay, and are never renewed.
    """

    supply: Ints
    renewed: Flags
    tail: Ids
    head: Ids
    lower: Ints
    capacity: Ints
    cost: Ints
    implied: Ints
    present: Flags
    rising: slice
    units: int

    @property
    def arcs(self) -> int:
        """The number of present arcs."""
        return int(np.count_nonzero(self.present))


def empty_columns(nodes: int, arcs: int, *, rising: slice = NONE, units: int = 1) -> Columns:
    """Columns of this size, all zero, with every arc present."""
    return Columns(
        supply=np.zeros(nodes, np.int64),
        renewed=np.zeros(nodes, np.bool_),
        tail=np.zeros(arcs, np.int32),
        head=np.zeros(arcs, np.int32),
        lower=np.zeros(arcs, np.int64),
        capacity=np.zeros(arcs, np.int64),
        cost=np.zeros(arcs, np.int64),
        implied=np.zeros(arcs, np.int64),
        present=np.ones(arcs, np.bool_),
        rising=rising,
        units=units,
    )


def spans(*sizes: int) -> list[slice]:
    """Consecutive slices of these sizes."""
    ends = [0, *accumulate(sizes)]
    return [slice(begin, end) for begin, end in pairwise(ends)]


def check_flow(columns: Columns, flow: Ints) -> int:
    """The cost of a flow; an error if it breaks bounds or balances."""
    present = columns.present
    if (flow[~present] != 0).any():
        raise ValueError("flow on an arc that is not there")
    if ((flow < columns.lower) | (flow > columns.capacity))[present].any():
        raise ValueError("a flow is outside the bounds of its arc")
    nodes = columns.supply.size
    # Sums of whole numbers far below 2**53: exact as floats.
    out = np.bincount(columns.tail, flow, nodes) - np.bincount(columns.head, flow, nodes)
    if (out != columns.supply).any():
        raise ValueError(f"node {np.flatnonzero(out != columns.supply)[0]} is out of balance")
    return int(columns.cost @ flow)
