"""Soft terms in the network: costs of pairs, and steps of domains where each unit costs more.

Where the units of a class are to be apart, a domain costs nothing until it is as full as the level
that the waiting units reach if the emptiest domains are filled first. Each unit beyond it costs
more than the one before. The topology key with the fewest domains becomes `DomainSteps`. Where
every machine is a domain of its own, the class has several pairs with it, each dearer than the one
before. Of further keys, only the cost of the first unit counts.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from afflux.network.cheapest_pairs import cheapest_of_domains
from afflux.network.pairs import DomainSteps, Pairs, Slots
from afflux.plan.domain_caps import fill_level
from afflux.plan.soft_terms import MAX_FULL_COSTS, Candidates, Rising, SoftTerms

Column = NDArray[np.int64]
Amounts = NDArray[np.float64]

# The units of the steps beyond the level; the last step has all the others.
_DOMAIN_STEPS = (1, 1, 2, 4, 8, 16)
_MACHINE_STEPS = (1, 2)


def with_soft_costs(
    terms: SoftTerms, pairs: Pairs, slots: Slots, waiting: Column, limits: Sequence[DomainSteps]
) -> tuple[Pairs, Sequence[DomainSteps]]:
    """The pairs and the steps of domains with what soft terms cost.

    `waiting` has the waiting units of each class, `limits` the hard limits on domains.
    """
    if not terms:
        return pairs, limits
    steps = {each.class_index: each for each in limits}
    columns: list[tuple[Column, Column, Column]] = []
    total = int(waiting.sum())
    for number in range(pairs.classes):
        own = slice(int(pairs.first[number]), int(pairs.first[number + 1]))
        machine, room, cost = pairs.machine[own].astype(np.int64), pairs.room[own], pairs.cost[own]
        if number in terms and len(machine):
            where = Candidates(machine, room, cost, int(waiting[number]))
            part = _ClassPairs(terms, number, where, steps.get(number))
            machine, room, cost = part.columns(slots.cost[machine], total)
            if part.steps is not None:
                steps[number] = part.steps
        columns.append((machine, room, cost))
    first = np.cumsum([0, *(len(machine) for machine, _, _ in columns)], dtype=np.int64)
    machine, room, cost = map(np.concatenate, zip(*columns, strict=True))
    return Pairs(first, machine.astype(np.int32), room, cost), list(steps.values())


class _ClassPairs:
    """The pairs of one class, in which rising costs become steps."""

    def __init__(
        self, terms: SoftTerms, number: int, where: Candidates, limit: DomainSteps | None
    ) -> None:
        self._where = where
        self._number = number
        self._most = MAX_FULL_COSTS * terms.full_cost(number)
        soft = terms.cost(number, where)
        self._cost = soft.cost
        self.steps = limit
        # The machines that are domains of their own, and how far each is above the level.
        self._single: list[tuple[Rising, Column]] = []
        shared: list[tuple[Rising, NDArray[np.int32], Column, Column]] = []
        for rising in soft.rising:
            domain, heights, above = _levelled(rising, where)
            if not len(heights):
                continue
            if len(heights) == np.count_nonzero(domain >= 0):
                # A machine without the key costs nothing, however many units it gets.
                lowest = np.full(len(domain), -2 * where.units)
                self._single.append((rising, np.where(domain < 0, lowest, above[domain])))
            else:
                shared.append((rising, domain, heights, above))
        shared.sort(key=lambda each: len(each[2]))
        if shared and limit is None:
            rising, domain, _, above = shared.pop(0)
            self.steps = self._domain_steps(rising, domain, above)
        for rising, domain, _, above in shared:
            self._cost = self._cost + self._unit_cost(rising, above[domain], 1) * (domain >= 0)

    def columns(self, slot_cost: Column, total: int) -> tuple[Column, Column, Column]:
        """The machine, room and cost of each pair."""
        where = self._where
        cost = where.cost + np.rint(self._cost).astype(np.int64)
        if not self._single:
            return where.rows.astype(np.int64), where.room, cost
        free = np.min([np.maximum(-above, 0) for _, above in self._single], axis=0)
        kept = self._useful(cost + slot_cost, free, total)
        rows, room, free, cost = where.rows[kept], where.room[kept], free[kept], cost[kept]
        room = np.minimum(room, where.units)
        pieces: list[tuple[Column, Column]] = [(np.minimum(free, room), cost)]
        taken = free
        for width in (*_MACHINE_STEPS, where.units):
            more = sum(
                (self._unit_cost(rising, above[kept], taken + 1) for rising, above in self._single),
                start=np.zeros(len(rows)),
            )
            units = np.clip(room - taken, 0, width)
            pieces.append((units, cost + np.rint(np.minimum(more, self._most)).astype(np.int64)))
            taken = taken + width
        # By machine, the cheapest piece first.
        units = np.stack([units for units, _ in pieces], axis=1).reshape(-1)
        costs = np.stack([cost for _, cost in pieces], axis=1).reshape(-1)
        machine = np.repeat(rows, len(pieces)).astype(np.int64)
        used = units > 0
        if self.steps is None:
            self.steps = _no_domains(self._number, int(np.count_nonzero(used)))
        else:
            domain = np.repeat(self.steps.domain[kept], len(pieces))[used]
            own = self.steps
            self.steps = DomainSteps(self._number, domain, own.of_step, own.units, own.cost)
        return machine[used], units[used], costs[used]

    def _useful(self, cost: Column, free: Column, total: int) -> NDArray[np.intp]:
        """The machines that some optimum may use: the cheapest of each domain."""
        if len(cost) <= total:
            return np.arange(len(cost))
        more = np.zeros(len(cost))
        for rising, above in self._single:
            more += self._unit_cost(rising, above, 1) * (free == 0)
        first = cost + np.rint(np.minimum(more, self._most)).astype(np.int64)
        domain = np.zeros(len(cost), np.int32) if self.steps is None else self.steps.domain
        rows = np.arange(len(cost))
        return np.flatnonzero(cheapest_of_domains(first, domain.astype(np.int64), rows, total))

    def _domain_steps(
        self, rising: Rising, domain: NDArray[np.int32], above: Column
    ) -> DomainSteps:
        """The steps of each domain: what is below the level is free."""
        domains = len(above)
        free = np.maximum(-above, 0)
        units, costs = [free], [np.zeros(domains)]
        taken = free
        for width in (*_DOMAIN_STEPS, self._where.units):
            units.append(np.full(domains, width))
            costs.append(np.minimum(self._unit_cost(rising, above, taken + 1), self._most))
            taken = taken + width
        return DomainSteps(
            self._number,
            domain,
            np.repeat(np.arange(domains), len(units)),
            np.stack(units, axis=1).reshape(-1).astype(np.int64),
            np.rint(np.stack(costs, axis=1)).astype(np.int64).reshape(-1),
        )

    def _unit_cost(self, rising: Rising, above: Column, count: "Column | int") -> Amounts:
        """What the unit with this number costs in a domain that is so far above the level."""
        return rising.unit_cost * np.maximum(above + count, 0)


def _levelled(rising: Rising, where: Candidates) -> tuple[NDArray[np.int32], Column, Column]:
    """By candidate the index of its domain, -1 for none; by domain its height, and how far it is
    above the level to which the units fill the emptiest ones."""
    known = rising.domain >= 0
    codes = np.flatnonzero(np.bincount(rising.domain[known]))
    index = np.full(int(codes.max(initial=-1)) + 2, -1, np.int32)
    index[codes] = np.arange(len(codes), dtype=np.int32)
    domain = index[rising.domain]
    height = np.zeros(len(codes), np.int64)
    height[domain[known]] = rising.height[known]
    free = np.zeros(len(codes), np.int64)
    np.add.at(free, domain[known], np.minimum(where.room, where.units)[known])
    return domain, height, height - fill_level(height, free, where.units)


def _no_domains(number: int, pairs: int) -> DomainSteps:
    none = np.zeros(0, np.int64)
    return DomainSteps(number, np.full(pairs, -1, np.int32), none.astype(np.intp), none, none)
