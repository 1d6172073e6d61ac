"""The contract of the Rust core.

`solve` finds minimum-cost flows with prices that prove them, `repack` searches better packings.

Nodes are 0..n-1. Arc a goes from tail[a] to head[a] and carries lower[a] <= flow[a] <= capacity[a]
at cost[a] per unit. Node v sends supply[v] units more than it receives; supplies add up to zero.

With r[a] = cost[a] + price[tail[a]] - price[head[a]] an answer satisfies, for every arc,
flow[a] < capacity[a] => r[a] >= 0 and flow[a] > lower[a] => r[a] <= 0, which proves that no
cheaper flow exists. The solver checks this itself before it answers; should the check ever fail,
that is a RuntimeError, never a wrong answer. Lower bounds are not negative. No thread may write to
the arrays meanwhile: they are read in place, with the GIL released.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

class FlowError(ValueError):
    """The problem is not well formed; the message names the node or arc."""

class InfeasibleError(FlowError):
    """No flow satisfies the supplies and bounds; the message names what cannot be routed."""

class Solution:
    @property
    def cost(self) -> int: ...
    @property
    def flow(self) -> NDArray[np.int64]: ...
    @property
    def price(self) -> NDArray[np.int64]: ...

def solve(
    supply: NDArray[np.int64],
    tail: NDArray[np.int32],
    head: NDArray[np.int32],
    lower: NDArray[np.int64],
    capacity: NDArray[np.int64],
    cost: NDArray[np.int64],
) -> Solution: ...

# A unit of the search: its class, its machine, the devices it takes there.
PlacedUnit = tuple[int, int, Sequence[int]]

def repack(
    *,
    requests: NDArray[np.int64],
    devices: Sequence[tuple[int, int] | None],
    admitted: NDArray[np.bool_],
    cost: NDArray[np.int64],
    slope: NDArray[np.int64],
    free: NDArray[np.int64],
    free_devices: Sequence[Sequence[int]],
    units: Sequence[PlacedUnit],
    fixed: Sequence[int],
    singles: Sequence[Sequence[int]],
    gangs: Sequence[tuple[Sequence[tuple[int, int]], int, bool]],
    first: tuple[Sequence[int], Sequence[bool]] | None,
    rounds: int,
    effort: int,
    seed: int,
) -> tuple[list[PlacedUnit], list[bool]]:
    """Pack units on machines better: never worth less, never dearer at equal worth.

    Tables have a row per class and a column per machine, `requests` a column per resource; `free`
    is what is left with `units` in place. The k-th unit on a machine (k from 0) costs k * slope
    more. `fixed` units of each class have to stay; `singles` are what each further unit of a class
    is worth; a gang is (what it needs of each class, its worth, whether it is placed), and stays
    whole. `first`, how many singles of each class and which gangs, is what a packing from scratch
    places before the rest; None where everything has room. The search is bounded by `rounds` and by
    `effort`, the times a task is held against a machine, and repeatable by `seed`.

    Returns the units, and for each gang whether it is placed now.
    """
