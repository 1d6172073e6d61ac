"""The proof that a flow is optimal, checked without the solver.

This states the contract of `afflux._core` in NumPy, independently of how the solver works.
"""

import numpy as np
from numpy.typing import NDArray

Column = NDArray[np.int64]


def violation(  # noqa: PLR0917 (the columns of the contract, in its order)
    supply: Column,
    tail: NDArray[np.int32],
    head: NDArray[np.int32],
    lower: Column,
    capacity: Column,
    cost: Column,
    flow: Column,
    price: Column,
) -> str | None:
    """What is wrong with an answer; None if the flow is feasible and the prices prove it optimal.

    Sums of a cost and two prices, and of the flow at one node, must not overflow 64 bits.
    """
    if len(flow) != len(tail) or len(price) != len(supply):
        return (
            f"{len(flow)} flows and {len(price)} prices, "
            f"expected {len(tail)} and {len(supply)}: one per arc and one per node"
        )
    sent = np.zeros_like(supply)
    np.add.at(sent, tail, flow)
    np.subtract.at(sent, head, flow)
    for node in np.flatnonzero(sent != supply)[:1]:
        return f"node {node} sends {sent[node]} more than it receives, its supply is {supply[node]}"
    reduced = cost + price[tail] - price[head]
    beyond = (flow < lower) | (flow > capacity)
    cheaper = ((flow < capacity) & (reduced < 0)) | ((flow > lower) & (reduced > 0))
    for arc in np.flatnonzero(beyond | cheaper)[:1]:
        bounds = f"arc {arc} carries {flow[arc]}, its bounds are {lower[arc]} and {capacity[arc]}"
        return bounds if beyond[arc] else f"{bounds}, but its reduced cost is {reduced[arc]}"
    return None
