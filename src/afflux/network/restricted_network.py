"""The network of some of a round's pairs and slots, to which more are added between solves.

Nodes: classes, which send what waits; domains of a class; machines; the sink.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from afflux._core import Network
from afflux.network.cheapest_pairs import ranges
from afflux.network.pairs import Pairs, Slots, WaitingUnits

Column = NDArray[np.int64]
_INFINITE = np.iinfo(np.int64).max // 4


@dataclass(frozen=True, slots=True)
class Domains:
    """How many domains there are; by step its class, domain, units and cost; by class with domains
    the domain of each pair."""

    count: int
    step_class: Column
    step_domain: Column
    step_units: Column
    step_cost: Column
    of_pairs: dict[int, Column]


@dataclass(frozen=True, slots=True)
class DualPrices:
    """What an optimal flow of the restricted network proves: a price for each node; sink: 0."""

    of_class: Column
    of_domain: Column
    of_machine: Column


class RestrictedNetwork:
    """The pairs in `active` and the first `slots_in` slots of each machine."""

    def __init__(self, pairs: Pairs, slots: Slots, demand: WaitingUnits, domains: Domains) -> None:
        self._pairs, self._slots, self._demand, self._domains = pairs, slots, demand, domains
        classes, machines = pairs.classes, len(slots.cost)
        self._first_domain = classes
        self._first_machine = classes + domains.count
        self._sink = self._first_machine + machines
        self._network = Network()
        supply = np.zeros(self._sink + 1, np.int64)
        supply[:classes] = demand.units
        supply[self._sink] = -demand.units.sum()
        self._network.add_nodes(supply)
        self._waiting_arcs = self._add(
            demand.run_class, self._sink, demand.run_units, demand.run_cost
        )
        self._domain_arcs = self._add(
            domains.step_class,
            self._first_domain + domains.step_domain,
            domains.step_units,
            domains.step_cost,
        )
        self.active: Column = np.zeros(0, np.int64)
        self._tail: Column = np.zeros(0, np.int64)
        self._arcs: NDArray[np.int32] = np.zeros(0, np.int32)
        self.slots_in: Column = np.zeros(machines, np.int64)

    def add_pairs(self, added: Column, tail: Column, capacity: Column) -> None:
        """Add pairs; `tail` is the class of each, or its domain after all classes."""
        head = self._first_machine + self._pairs.machine[added].astype(np.int64)
        arcs = self._add(tail, head, capacity, self._pairs.cost[added])
        self.active = np.concatenate([self.active, added])
        self._tail = np.concatenate([self._tail, tail])
        self._arcs = np.concatenate([self._arcs, arcs])

    def add_slots(self, until: Column) -> None:
        """Add slots until each machine has as many as `until`; equal slots are one arc."""
        slots = self._slots
        added = np.maximum(until - self.slots_in, 0)
        flat = slots.slope == 0
        arcs = np.where(flat, np.minimum(added, 1), added)
        machine = np.repeat(np.arange(len(arcs)), arcs)
        step = ranges(self.slots_in, arcs)
        capacity = np.where(flat, added, 1)[machine]
        cost = slots.cost[machine] + step * slots.slope[machine]
        self._add(self._first_machine + machine, self._sink, capacity, cost)
        self.slots_in = self.slots_in + added

    def solve(self) -> int:
        """Find a flow of minimum cost; returns its cost."""
        return self._network.solve().cost

    def flow(self) -> Column:
        """The flow of each active pair."""
        return self._network.flow(self._arcs)

    def prices(self) -> DualPrices:
        """Prices that prove the flow optimal, chosen such that few other pairs look cheaper.

        Optimal prices are not unique. A machine gets the lowest that the flow allows, as its next
        slot sets it, whether or not that slot is in this network; then a class the highest.
        """
        price = self._network.price(np.arange(self._sink + 1, dtype=np.int32))
        price -= price[self._sink]
        flow = self.flow()
        used = np.flatnonzero(flow)
        machine = self._pairs.machine[self.active[used]]
        cost, tail = self._pairs.cost[self.active[used]], self._tail[used]

        slots = self._slots
        load = np.zeros(len(slots.cost), np.int64)
        np.add.at(load, machine, flow[used])
        of_machine = np.where(load < slots.count, -slots.cost - load * slots.slope, -_INFINITE)
        np.maximum.at(of_machine, machine, cost + price[tail])
        present = self.slots_in > 0
        solved = price[self._first_machine : self._sink]
        of_machine[present] = np.minimum(of_machine, solved)[present]

        highest = np.full(self._first_machine, _INFINITE)
        np.minimum.at(highest, tail, of_machine[machine] - cost)
        through = self._network.flow(self._domain_arcs)
        of_class, of_domain = highest[: self._first_domain], highest[self._first_domain :]
        domains, carries = self._domains, through > 0
        limit = of_domain[domains.step_domain] - domains.step_cost
        np.minimum.at(of_class, domains.step_class[carries], limit[carries])
        waits = self._network.flow(self._waiting_arcs) > 0
        np.minimum.at(of_class, self._demand.run_class[waits], -self._demand.run_cost[waits])
        # A unit more in a domain costs what its next step costs.
        is_open = through < domains.step_units
        next_step = of_class[domains.step_class] + domains.step_cost
        np.minimum.at(of_domain, domains.step_domain[is_open], next_step[is_open])
        return DualPrices(of_class, of_domain, of_machine)

    def _add(
        self, tail: Column, head: "Column | int", capacity: Column, cost: "Column | int"
    ) -> NDArray[np.int32]:
        arcs = len(tail)
        return self._network.add_arcs(
            tail.astype(np.int32),
            np.full(arcs, head, np.int32),
            np.zeros(arcs, np.int64),
            capacity.astype(np.int64),
            np.full(arcs, cost, np.int64),
        )
