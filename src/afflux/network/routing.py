"""The network of one round, and the way back from its flow.

    source -> class -> machine =(slots)=> sink
       `----------- waiting ------------>

A source is what waits: the single tasks of one class, or one class of one gang. Its units either
wait, at the cost of waiting, or go through their class to a machine. The slots of a machine are
shared by all classes and cost more one after the other, so that load spreads within one round.
Slots end where the smallest request on a machine could not be met once more.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from afflux._core import solve

Table = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Source:
    """Units of one class; `waiting` is what leaving each waiting costs, longest wait first."""

    class_index: int
    waiting: Table


@dataclass(frozen=True, slots=True)
class Offer:
    """What the machines offer, by row of machine (and class where it differs).

    `slot_cost` is the price of the next slot on a machine, `slope` by how much each one after it
    costs more, `slots` how many there are.
    """

    room: Table
    cost: Table
    slot_cost: Table
    slope: Table
    slots: Table


@dataclass(frozen=True, slots=True)
class Routed:
    """How many units of each class the optimum sends to each machine, and what it all costs."""

    units: Table
    cost: int


def route(sources: list[Source], offer: Offer) -> Routed:
    """The cheapest way to place or keep waiting every unit of every source."""
    demand = np.zeros(len(offer.room), np.int64)
    for source in sources:
        demand[source.class_index] += len(source.waiting)
    capacity = _worthwhile(np.minimum(offer.room, demand[:, None]), offer, int(demand.sum()))
    classes, machines = np.nonzero(capacity)
    used, machine_node = np.unique(machines, return_inverse=True)

    # Nodes: sources, classes, machines that anyone can use, the sink.
    first_class = len(sources)
    first_machine = first_class + len(demand)
    sink = first_machine + len(used)
    arcs = _Arcs()
    for node, source in enumerate(sources):
        class_node = first_class + source.class_index
        arcs.add([node], [class_node], [len(source.waiting)], [0])
        costs, counts = np.unique(source.waiting, return_counts=True)
        arcs.add(np.full(len(costs), node), np.full(len(costs), sink), counts, costs)
    placing = arcs.count
    arcs.add(
        first_class + classes,
        first_machine + machine_node,
        capacity[classes, machines],
        offer.cost[classes, machines],
    )
    slots = np.minimum(offer.slots[used], capacity[:, used].sum(axis=0))
    flat = offer.slope[used] == 0
    repeats = np.where(flat, 1, slots)
    slot_machine = np.repeat(np.arange(len(used)), repeats)
    step = np.arange(len(slot_machine)) - np.repeat(np.cumsum(repeats) - repeats, repeats)
    arcs.add(
        first_machine + slot_machine,
        np.full(len(slot_machine), sink),
        np.where(flat, slots, 1)[slot_machine],
        offer.slot_cost[used][slot_machine] + step * offer.slope[used][slot_machine],
    )
    supply = np.zeros(sink + 1, np.int64)
    supply[: len(sources)] = [len(source.waiting) for source in sources]
    supply[sink] = -supply.sum()
    solution = solve(supply, *arcs.columns())
    units = np.zeros_like(offer.room)
    units[classes, machines] = solution.flow[placing : placing + len(classes)]
    return Routed(units, solution.cost)


def _worthwhile(capacity: Table, offer: Offer, units: int) -> Table:
    """Leave each class the machines that can be in an optimum: as many as there are units in all.

    Were a unit elsewhere, one of these would be empty, have room for it, and cost no more.
    """
    if units >= capacity.shape[1]:
        return capacity
    price = np.where(capacity > 0, offer.cost + offer.slot_cost, np.iinfo(np.int64).max)
    cheapest = np.argpartition(price, units - 1, axis=1)[:, :units]
    kept = np.zeros_like(capacity)
    np.put_along_axis(kept, cheapest, np.take_along_axis(capacity, cheapest, axis=1), axis=1)
    return kept


class _Arcs:
    """Columns of arcs, gathered piece by piece."""

    def __init__(self) -> None:
        self._pieces: list[tuple[NDArray[np.int64], ...]] = []
        self.count = 0

    def add(self, *columns: "NDArray[np.int64] | list[int]") -> None:
        """Tail, head, capacity and cost of some arcs."""
        piece = tuple(np.asarray(column, np.int64) for column in columns)
        self._pieces.append(piece)
        self.count += len(piece[0])

    def columns(
        self,
    ) -> tuple[NDArray[np.int32], NDArray[np.int32], Table, Table, Table]:
        """Tail, head, lower bound, capacity and cost of all arcs, as the solver wants them."""
        tail, head, capacity, cost = (
            np.concatenate(column) for column in zip(*self._pieces, strict=True)
        )
        return (
            tail.astype(np.int32),
            head.astype(np.int32),
            np.zeros(self.count, np.int64),
            capacity,
            cost,
        )
