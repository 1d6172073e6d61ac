"""The flow network of one round, and the placements that its flow proposes.

    source -> class -> machine =(slots)=> sink
       `----------- waiting ------------>

A source has the waiting single tasks of one class, or the members of one class in one gang. Its
units either wait, at the cost of waiting, or go through their class to a machine. All classes share
the slots of a machine; each slot costs more than the one before, so that load spreads within one
round. A machine has as many slots as its smallest request fits.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from afflux._core import solve

Table = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class TaskSource:
    """Waiting units of one class, with the cost of leaving each waiting, longest wait first."""

    class_index: int
    waiting_costs: Table


@dataclass(frozen=True, slots=True)
class MachineArcs:
    """Capacities and costs of the arcs to machines (`room`, `cost`, by class) and from them.

    `slot_cost` is the cost of the next slot on a machine, `slope` by how much each further slot
    costs more, `slots` how many there are.
    """

    room: Table
    cost: Table
    slot_cost: Table
    slope: Table
    slots: Table


@dataclass(frozen=True, slots=True)
class RoutedFlow:
    """The units of each class that the optimum sends to each machine, and its cost."""

    units: Table
    cost: int


def route(sources: list[TaskSource], machine_arcs: MachineArcs) -> RoutedFlow:
    """The minimum-cost flow that places every unit of every source or leaves it waiting."""
    demand = np.zeros(len(machine_arcs.room), np.int64)
    for source in sources:
        demand[source.class_index] += len(source.waiting_costs)
    useful = np.minimum(machine_arcs.room, demand[:, None])
    capacity = _cheapest_machines(useful, machine_arcs, int(demand.sum()))
    classes, machines = np.nonzero(capacity)
    used, machine_node = np.unique(machines, return_inverse=True)

    # Nodes: sources, classes, machines that some class can use, the sink.
    first_class = len(sources)
    first_machine = first_class + len(demand)
    sink = first_machine + len(used)
    arcs = _Arcs()
    for node, source in enumerate(sources):
        class_node = first_class + source.class_index
        arcs.add([node], [class_node], [len(source.waiting_costs)], [0])
        costs, counts = np.unique(source.waiting_costs, return_counts=True)
        arcs.add(np.full(len(costs), node), np.full(len(costs), sink), counts, costs)
    placing = arcs.count
    arcs.add(
        first_class + classes,
        first_machine + machine_node,
        capacity[classes, machines],
        machine_arcs.cost[classes, machines],
    )
    slots = np.minimum(machine_arcs.slots[used], capacity[:, used].sum(axis=0))
    flat = machine_arcs.slope[used] == 0
    repeats = np.where(flat, 1, slots)
    slot_machine = np.repeat(np.arange(len(used)), repeats)
    step = np.arange(len(slot_machine)) - np.repeat(np.cumsum(repeats) - repeats, repeats)
    arcs.add(
        first_machine + slot_machine,
        np.full(len(slot_machine), sink),
        np.where(flat, slots, 1)[slot_machine],
        machine_arcs.slot_cost[used][slot_machine] + step * machine_arcs.slope[used][slot_machine],
    )
    supply = np.zeros(sink + 1, np.int64)
    supply[: len(sources)] = [len(source.waiting_costs) for source in sources]
    supply[sink] = -supply.sum()
    solution = solve(supply, *arcs.columns())
    units = np.zeros_like(machine_arcs.room)
    units[classes, machines] = solution.flow[placing : placing + len(classes)]
    return RoutedFlow(units, solution.cost)


def _cheapest_machines(capacity: Table, machine_arcs: MachineArcs, units: int) -> Table:
    """Keep for each class only its cheapest machines, as many as there are units in all.

    Some optimum uses only these: if a unit were on another machine, one of them would be empty,
    have room for the unit, and cost no more.
    """
    if units >= capacity.shape[1]:
        return capacity
    cost = machine_arcs.cost + machine_arcs.slot_cost
    price = np.where(capacity > 0, cost, np.iinfo(np.int64).max)
    cheapest = np.argpartition(price, units - 1, axis=1)[:, :units]
    kept = np.zeros_like(capacity)
    np.put_along_axis(kept, cheapest, np.take_along_axis(capacity, cheapest, axis=1), axis=1)
    return kept


class _Arcs:
    """Columns of arcs, collected piece by piece."""

    def __init__(self) -> None:
        self._pieces: list[tuple[NDArray[np.int64], ...]] = []
        self.count = 0

    def add(self, *columns: "NDArray[np.int64] | list[int]") -> None:
        """Tail, head, capacity and cost of some arcs."""
        piece = tuple(np.asarray(column, np.int64) for column in columns)
        self._pieces.append(piece)
        self.count += len(piece[0])

    def columns(self) -> tuple[NDArray[np.int32], NDArray[np.int32], Table, Table, Table]:
        """Tail, head, lower bound, capacity and cost of all arcs, as the solver takes them."""
        pieces = zip(*self._pieces, strict=True)
        tail, head, capacity, cost = (np.concatenate(column) for column in pieces)
        lower = np.zeros(self.count, np.int64)
        return tail.astype(np.int32), head.astype(np.int32), lower, capacity, cost
