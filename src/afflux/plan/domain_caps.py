"""How constraints between tasks are put into the network, so that few proposals are refused.

A class that attracts itself and has no task yet may use one domain only: the one with most room for
what waits. A class that repels itself gets one unit for each domain. A class that is spread gets
caps that fill the emptiest domains first. A network has the caps of one topology key for a class;
those of other keys limit each machine. All of this only guides the flow: the account decides.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from afflux.network.cheapest_pairs import rank
from afflux.network.pairs import DomainSteps, Pairs, domain_caps
from afflux.plan.book import Book
from afflux.plan.domain_rules import Rule

Column = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Cap:
    """Units of a class that each domain may get; `domain` has the index of each pair's, or -1."""

    domain: NDArray[np.int32]
    units: Column


@dataclass(frozen=True, slots=True)
class _Waiting:
    """How many units of a class wait, the machines of its pairs, and the cost of each pair."""

    class_index: int
    units: int
    machines: NDArray[np.intp]
    cost: Column


def with_caps(book: Book, pairs: Pairs, waiting: Column) -> tuple[Pairs, Sequence[DomainSteps]]:
    """The pairs with room as the rules of their classes leave it, and the caps of domains.

    `waiting` has the waiting units of each class.
    """
    if not book.rules:
        return pairs, ()
    room = pairs.room.copy()
    caps: list[DomainSteps] = []
    for number in np.flatnonzero(np.diff(pairs.first)).tolist():
        if not book.rules.classes[number].rules:
            continue
        own = slice(int(pairs.first[number]), int(pairs.first[number + 1]))
        machines = pairs.machine[own].astype(np.intp)
        waits = _Waiting(number, int(waiting[number]), machines, pairs.cost[own])
        room[own], cap = _limited(book, waits, room[own])
        if cap is not None:
            caps.append(domain_caps(number, cap.domain, cap.units))
    return Pairs(pairs.first, pairs.machine, room, pairs.cost), caps


def _limited(book: Book, waits: _Waiting, room: Column) -> tuple[Column, _Cap | None]:
    """The room of the pairs of one class, and the cap of the key with the fewest domains."""
    caps: list[_Cap] = []
    rules = book.rules.classes[waits.class_index]
    for rule in rules.rules:
        if rule.kind == "near":
            room = _in_one_domain(book, rule, waits, room)
        elif rule.counters[0] in rules.counted_by:
            cap = (
                _spread_cap(book, rule, waits, room)
                if rule.kind == "spread"
                else _single_units(book, rule, waits.machines)
            )
            units = cap.units[np.maximum(cap.domain, 0)]
            room = np.where(cap.domain < 0, room, np.minimum(room, units))
            caps.append(cap)
    # Where every machine is a domain of its own, the room of the pair is the cap.
    shared = [cap for cap in caps if len(cap.units) < len(waits.machines)]
    return room, min(shared, key=lambda cap: len(cap.units), default=None)


def _in_one_domain(book: Book, rule: Rule, waits: _Waiting, room: Column) -> Column:
    """The room of a class whose first task decides in which domain the others have to be."""
    if not rule.flag or any(map(book.packing.counted_tasks, rule.counters)):
        return room
    keys = np.stack([book.rules.domains_of(counter)[waits.machines] for counter in rule.counters])
    _, domain = np.unique(keys, axis=1, return_inverse=True)
    domain = domain.reshape(-1)
    total = np.zeros(int(domain.max(initial=-1)) + 1, np.int64)
    np.add.at(total, domain, np.minimum(room, waits.units))
    if not len(total):
        return room
    cheapest = np.full(len(total), np.iinfo(np.int64).max)
    np.minimum.at(cheapest, domain[room > 0], waits.cost[room > 0])
    best = np.lexsort((cheapest, -np.minimum(total, waits.units)))[0]
    return np.where(domain == best, room, 0)


def _single_units(book: Book, rule: Rule, machines: NDArray[np.intp]) -> _Cap:
    """One unit for each domain."""
    domain = book.rules.domains_of(rule.counters[0])[machines]
    known, index = np.unique(domain, return_inverse=True)
    index = np.where(domain < 0, -1, index).astype(np.int32)
    return _Cap(index, np.ones(len(known), np.int64))


def _spread_cap(book: Book, rule: Rule, waits: _Waiting, room: Column) -> _Cap:
    """Units for each domain, such that the emptiest ones are filled first, as far as the room
    and the maximum skew allow."""
    (counter,) = rule.counters
    topology = book.rules.topologies[book.rules.counters[counter].topology]
    counts_on = book.packing.domain_counts(counter)
    is_counted = topology.domain >= 0
    if topology.counted is not None:
        is_counted &= topology.counted
    known, first = np.unique(topology.domain[is_counted], return_index=True)
    counts = counts_on[is_counted][first]
    domain = topology.domain[waits.machines]
    index = np.searchsorted(known, domain)
    index[index == len(known)] = 0
    index = np.where(np.isin(domain, known), index, -1).astype(np.int32)
    free = np.zeros(len(known), np.int64)
    np.add.at(free, index[index >= 0], np.minimum(room, waits.units)[index >= 0])
    no_minimum = len(known) < max(1, rule.min_domains)
    emptiest = 0 if no_minimum else int((counts + free).min())
    level = min(fill_level(counts, free, waits.units), emptiest + rule.max_skew)
    return _Cap(index, np.maximum(np.minimum(counts + free, level) - counts, 0))


def fill_level(counts: Column, free: Column, waiting: int) -> int:
    """The lowest level to which the domains can be filled so that all that waits has a place."""
    low, high = 0, int((counts + free).max(initial=0))
    while low < high:
        middle = (low + high) // 2
        if np.maximum(np.minimum(counts + free, middle) - counts, 0).sum() >= waiting:
            high = middle
        else:
            low = middle + 1
    return low


def order_of_units(book: Book, number: int, rows: Column) -> NDArray[np.intp]:
    """An order in which units of one class on these machines keep its spread: the emptiest domain
    gets the next one."""
    order = np.arange(len(rows))
    rules = [rule for rule in book.rules.classes[number].rules if rule.kind == "spread"]
    # The key with the fewest domains decides first.
    for rule in sorted(rules, key=lambda rule: -book.rules.domains_of(rule.counters[0]).max()):
        (counter,) = rule.counters
        counts = book.packing.domain_counts(counter)[rows[order]]
        domain = book.rules.domains_of(counter)[rows[order]]
        by_domain = np.argsort(domain, kind="stable")
        position = np.empty(len(order), np.int64)
        position[by_domain] = rank(domain[by_domain].astype(np.intp))
        order = order[np.argsort(counts + position, kind="stable")]
    return order
