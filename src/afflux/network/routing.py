"""The flow network of one round, and the placements that its flow proposes.

    source -> class -> [domain] -> machine =(slots)=> sink
       `----------- waiting --------------------------->

A source has the waiting single tasks of one class, or the members of one class in one gang. Its
units either wait, at the cost of waiting, or go through their class to a machine; the sources of a
class are one node. A domain limits the units of one class on its machines, or makes each further
one cost more. All classes share the slots of a machine; each slot costs more than the one before,
so that load spreads within one round.

Small networks are solved whole. A large one begins with the pairs of a class and a machine that
are likely to carry flow. The prices of the optimal flow say which other pairs could improve it;
these are added until there are none, which proves the flow optimal for the whole network (column
generation).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from afflux.network.cheapest_pairs import (
    blocks,
    cheapest,
    cheapest_of_domains,
    lengths_of,
    rank,
    sums_before,
)
from afflux.network.pairs import DomainSteps, Pairs, Slots, TaskSource, WaitingUnits, waiting_units
from afflux.network.restricted_network import Domains, DualPrices, RestrictedNetwork

__all__ = ["DomainSteps", "Pairs", "RoutedFlow", "Slots", "TaskSource", "route"]

Column = NDArray[np.int64]

# Networks with at most so many pairs are solved whole.
MAX_WHOLE_PAIRS = 200_000
# The pairs that each class begins with, beside those that its units need.
FIRST_PAIRS = 16
# The pairs that a pass adds to each class, at most.
ADDED_PAIRS = 4
MAX_PASSES = 40
# The prices that the first pairs are chosen by come from placing the classes in so many steps.
ESTIMATE_STEPS = 64
_FULL = 1 << 50


@dataclass(frozen=True, slots=True)
class RoutedFlow:
    """The units of each pair in the cheapest flow found, its cost, and a bound.

    No flow costs less than the bound. They are equal unless MAX_PASSES was reached.
    """

    units: Column
    cost: int
    bound: int


def route(
    sources: Sequence[TaskSource],
    pairs: Pairs,
    slots: Slots,
    steps: Sequence[DomainSteps] = (),
    *,
    max_whole_pairs: int = MAX_WHOLE_PAIRS,
    max_passes: int = MAX_PASSES,
) -> RoutedFlow:
    """The minimum-cost flow that places every unit of every source or leaves it waiting."""
    routing = _Routing(pairs, slots, waiting_units(sources, pairs.classes), _domains(pairs, steps))
    return routing.route(max_whole_pairs, max_passes)


def _domains(pairs: Pairs, steps: Sequence[DomainSteps]) -> Domains:
    of_pairs: dict[int, Column] = {}
    none = np.zeros(0, np.int64)
    columns: list[tuple[Column, Column, Column, Column]] = [(none, none, none, none)]
    before = 0
    for each in steps:
        number = each.class_index
        if number in of_pairs:
            raise ValueError(f"class {number} has two DomainSteps, expected one")
        expected = int(pairs.first[number + 1] - pairs.first[number])
        if len(each.domain) != expected:
            raise ValueError(
                f"class {number} has {expected} pairs, but DomainSteps for {len(each.domain)}"
            )
        domain, of_step = each.domain.astype(np.int64), each.of_step.astype(np.int64)
        of_pairs[number] = np.where(domain < 0, -1, domain + before)
        classes = np.full(len(of_step), number, np.int64)
        columns.append((classes, of_step + before, each.units, each.cost))
        before += 1 + max(int(domain.max(initial=-1)), int(of_step.max(initial=-1)))
    step_class, step_domain, units, cost = map(np.concatenate, zip(*columns, strict=True))
    return Domains(before, step_class, step_domain, units, cost, of_pairs)


class _Routing:
    def __init__(self, pairs: Pairs, slots: Slots, demand: WaitingUnits, domains: Domains) -> None:
        self._pairs, self._slots, self._demand, self._domains = pairs, slots, demand, domains
        self._total = int(demand.units.sum())
        self._network = RestrictedNetwork(pairs, slots, demand, domains)
        # No machine needs more slots than there are units.
        self._slots_needed = np.minimum(slots.count, self._total)
        # Which pairs are in the network. A full one may look cheap to the prices.
        self._is_active = np.zeros(len(pairs.machine), np.bool_)

    def route(self, max_whole_pairs: int, max_passes: int) -> RoutedFlow:
        lengths = lengths_of(self._pairs.first)[self._demand.units > 0]
        if int(np.minimum(lengths, self._total).sum()) <= max_whole_pairs:
            return self._whole()
        return self._by_passes(max_passes)

    def _whole(self) -> RoutedFlow:
        chosen = [
            self._useful(begin, end)
            for begin, end in blocks(self._pairs.first, self._pairs.classes)
        ]
        active = np.concatenate([np.zeros(0, np.int64), *chosen])
        self._add_pairs(active)
        load = np.zeros(len(self._slots.count), np.int64)
        np.add.at(load, self._pairs.machine[active], self._capacity(active))
        self._network.add_slots(np.minimum(self._slots_needed, load))
        cost = self._network.solve()
        return RoutedFlow(self._units(), cost, cost)

    def _useful(self, begin: int, end: int) -> Column:
        """The pairs of some classes without those that some optimal flow leaves empty.

        Some optimum uses only as many cheapest machines of a class as there are units in all: if a
        unit were on another machine, one of these would be empty, have room for the unit, and cost
        no more. For a class with domains this holds within each domain.
        """
        pairs, slots = self._pairs, self._slots
        low, high = int(pairs.first[begin]), int(pairs.first[end])
        machine = pairs.machine[low:high]
        waits = self._demand.units[begin:end] > 0
        possible = np.repeat(waits, self._lengths(begin, end))
        possible &= (pairs.room[low:high] > 0) & (slots.count[machine] > 0)
        position = np.flatnonzero(possible)
        first = np.searchsorted(position, pairs.first[begin : end + 1] - low)
        if self._total >= int(lengths_of(first).max(initial=0)):
            return low + position
        cost = (pairs.cost[low:high] + slots.cost[machine])[position]
        kept = np.zeros(len(position), np.bool_)
        kept[cheapest(cost, first, self._total)] = True
        for number, domain in self._domains.of_pairs.items():
            if begin <= number < end:
                own = slice(*first[number - begin : number - begin + 2])
                places = position[own] + low - pairs.first[number]
                kept[own] = cheapest_of_domains(
                    cost[own], domain[places], machine[position[own]], self._total
                )
        return low + position[kept]

    def _by_passes(self, max_passes: int) -> RoutedFlow:
        network, slots = self._network, self._slots
        load = self._choose_first_pairs()
        until = np.where(slots.slope == 0, self._slots_needed, load + 2)
        network.add_slots(np.minimum(until, self._slots_needed))
        bound = None
        for passes in range(1, max_passes + 1):
            cost = network.solve()
            prices = network.prices()
            below, added = self._price_out(prices)
            below_slots, until = self._price_out_slots(prices)
            proven = cost + below + below_slots
            bound = proven if bound is None else max(bound, proven)
            if bound == cost or passes == max_passes:
                return RoutedFlow(self._units(), cost, bound)
            self._add_pairs(added)
            network.add_slots(until)
        raise AssertionError("at least one pass")

    def _choose_first_pairs(self) -> Column:
        """Add the pairs that are cheapest at estimated prices; returns an estimated load.

        The classes are placed in steps; each step sees the slots that the steps before took.
        """
        pairs, slots, units = self._pairs, self._slots, self._demand.units
        load = np.zeros(len(slots.count), np.int64)
        chosen: list[Column] = [np.zeros(0, np.int64)]
        for begin, end in blocks(pairs.first, -(-pairs.classes // ESTIMATE_STEPS)):
            low, high = int(pairs.first[begin]), int(pairs.first[end])
            wanted = int(units[begin:end].max(initial=0))
            if not wanted or low == high:
                continue
            machine, numbers = pairs.machine[low:high], self._numbers(begin, end)
            price = slots.cost + slots.slope * load + np.where(load < slots.count, 0, _FULL)
            # Machines of equal cost are taken in a different order by each class.
            cost = (pairs.cost[low:high] + price[machine]) * 64 + (machine + numbers * 7919) % 64
            cost[pairs.room[low:high] == 0] = _FULL << 8
            position = cheapest(cost, pairs.first[begin : end + 1] - low, wanted + FIRST_PAIRS)
            number = numbers[position]
            room = self._capacity(low + position)
            place = rank(number)
            before = sums_before(room, place)
            chosen.append(
                low + position[((before < 2 * units[number]) | (place < FIRST_PAIRS)) & (room > 0)]
            )
            # Neighbours begin with different pairs, so that they do not all take the same machine.
            turned = np.lexsort(((place - number) % FIRST_PAIRS, place // FIRST_PAIRS, number))
            share = np.minimum(room, -(-units[number] // FIRST_PAIRS))[turned]
            take = np.clip(units[number] - sums_before(share, place), 0, share)
            np.add.at(load, machine[position[turned]], take)
        chosen += [self._first_of_domains(number) for number in self._domains.of_pairs]
        self._add_pairs(np.unique(np.concatenate(chosen)))
        return load

    def _first_of_domains(self, number: int) -> Column:
        """Enough pairs of each domain for a fair share of the units of a class."""
        pairs, domain = self._pairs, self._domains.of_pairs[number]
        own = np.arange(int(pairs.first[number]), int(pairs.first[number + 1]))
        machine = pairs.machine[own]
        domains = len(np.unique(domain))
        share = 2 * int(self._demand.units[number]) // max(1, domains) + FIRST_PAIRS
        cost = pairs.cost[own] + self._slots.cost[machine]
        useful = cheapest_of_domains(cost, domain, machine, share) & (self._capacity(own) > 0)
        return own[useful]

    def _price_out(self, prices: DualPrices) -> tuple[int, Column]:
        """A bound on what pairs outside the network can save, and the pairs to add."""
        pairs, units = self._pairs, self._demand.units
        below = 0
        chosen: list[Column] = [np.zeros(0, np.int64)]
        for begin, end in blocks(pairs.first, pairs.classes):
            low, high = int(pairs.first[begin]), int(pairs.first[end])
            reduced = np.repeat(prices.of_class[begin:end], self._lengths(begin, end))
            for capped, domain in self._domains.of_pairs.items():
                if begin <= capped < end and len(prices.of_domain):
                    own = reduced[int(pairs.first[capped]) - low :][: len(domain)]
                    np.copyto(own, prices.of_domain[domain], where=domain >= 0)
            reduced += pairs.cost[low:high]
            reduced -= prices.of_machine[pairs.machine[low:high]]
            position = np.flatnonzero((reduced < 0) & ~self._is_active[low:high])
            if not len(position):
                continue
            capacity = self._capacity(low + position)
            position, capacity = position[capacity > 0], capacity[capacity > 0]
            reduced = reduced[position]
            first = np.searchsorted(position, pairs.first[begin : end + 1] - low)
            saved = np.concatenate([[0], np.cumsum(reduced * capacity)])
            lowest = np.zeros(end - begin, np.int64)
            np.minimum.at(lowest, self._numbers(begin, end)[position] - begin, reduced)
            by_class = np.maximum(saved[first[1:]] - saved[first[:-1]], lowest * units[begin:end])
            below += int(by_class.sum())
            chosen.append(low + position[cheapest(reduced, first, ADDED_PAIRS)])
        return below, np.concatenate(chosen)

    def _price_out_slots(self, prices: DualPrices) -> tuple[int, Column]:
        """A bound on what slots outside the network can save, and how many to have."""
        slots, present = self._slots, self._network.slots_in
        reduced = slots.cost + present * slots.slope + prices.of_machine
        short = (present < self._slots_needed) & (reduced < 0)
        # Slots get more expensive by `slope`: those below zero are an arithmetic series.
        count = np.minimum(self._slots_needed - present, -(reduced // np.maximum(slots.slope, 1)))
        count = np.where(slots.slope == 0, self._slots_needed - present, count)[short]
        saved = count * reduced[short] + slots.slope[short] * (count * (count - 1) // 2)
        until = present.copy()
        until[short] = np.minimum(self._slots_needed, 2 * present + 2)[short]
        flat = short & (slots.slope == 0)
        until[flat] = self._slots_needed[flat]
        return int(saved.sum()), until

    def _add_pairs(self, added: Column) -> None:
        numbers = self._class_of(added)
        tail = numbers.copy()
        for capped, domain in self._domains.of_pairs.items():
            own = numbers == capped
            number = domain[added[own] - self._pairs.first[capped]]
            tail[own] = np.where(number < 0, capped, self._pairs.classes + number)
        self._network.add_pairs(added, tail, self._capacity(added))
        self._is_active[added] = True

    def _capacity(self, position: Column) -> Column:
        return np.minimum(
            np.minimum(self._pairs.room[position], self._demand.units[self._class_of(position)]),
            self._slots.count[self._pairs.machine[position]],
        )

    def _class_of(self, position: Column) -> Column:
        return np.searchsorted(self._pairs.first, position, side="right") - 1

    def _numbers(self, begin: int, end: int) -> Column:
        return np.repeat(np.arange(begin, end), self._lengths(begin, end))

    def _lengths(self, begin: int, end: int) -> Column:
        """How many pairs each of these classes has."""
        return lengths_of(self._pairs.first[begin : end + 1])

    def _units(self) -> Column:
        units = np.zeros(len(self._pairs.machine), np.int64)
        units[self._network.active] = self._network.flow()
        return units
