"""What the classes of a round prefer of the tasks around them, and what that costs on each machine.

Preferred affinity to other tasks and against them, the terms by which other tasks attract or repel
the class, and spread with ScheduleAnyway. Affinity costs nothing in the best domains and its full
cost in the worst, in proportion to the weights of the tasks there; spread costs nothing in the
emptiest domains and its full cost where the skew is largest, or reaches the maximum skew.

A class whose tasks repel each other, or are to be spread, makes a domain cost more with each of its
own units: such a part is `Rising`, and becomes steps of the network (`rising_costs`).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from afflux.cluster.state import State
from afflux.cluster.task_class import TaskClass
from afflux.model.relations import CarriedTerm, SpreadConstraint
from afflux.plan.soft_counters import SoftCounters
from afflux.plan.topologies import eligibility_of
from afflux.policies.preference_cost import SPREAD_WEIGHT, full_cost

# Rising costs end at so many times the full cost of a class, however full a domain is.
MAX_FULL_COSTS = 4

_MANY = np.iinfo(np.int64).max

Column = NDArray[np.int64]
Rows = NDArray[np.intp]
Amounts = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Candidates:
    """Machines on which units of a class may go: how many fit on each, and what one costs without
    soft terms; and how many units there are."""

    rows: Rows
    room: Column
    cost: Column
    units: int


@dataclass(frozen=True, slots=True)
class Rising:
    """A topology key in whose domains the units of a class cost more and more.

    `domain` has the number of the domain of each candidate, -1 for none, and `height` how full the
    domain is in units of the class. A unit costs `unit_cost` more than the one before.
    """

    domain: NDArray[np.int32]
    height: Column
    unit_cost: float


@dataclass(frozen=True, slots=True)
class SoftCost:
    """What the soft terms of a class cost: by candidate, and parts that rise with its own units."""

    cost: Amounts
    rising: tuple[Rising, ...] = ()


@dataclass(frozen=True, slots=True)
class _Term:
    """A counter, what one counted task adds to the score of a domain (more is worse), and for how
    many a task of the class counts itself."""

    counter: int
    weight: int
    own_count: int


@dataclass(frozen=True, slots=True)
class _Spread:
    """A counter, its maximum skew, whether the tasks of the class are counted themselves, and
    whether a machine without the key is as bad as the fullest domain."""

    counter: int
    max_skew: int
    counts_itself: bool
    needs_key: bool


class _SpreadPart(NamedTuple):
    """A spread constraint on the candidates: the domain of each and the tasks there, and what one
    task counts for."""

    domain: NDArray[np.int32]
    has_all_keys: bool
    tasks: Column
    weight: float


@dataclass(slots=True)
class _ClassTerms:
    """The soft terms that concern a class, and their full costs."""

    affinity: list[_Term] = field(default_factory=list[_Term])
    affinity_cost: int = 0
    spread: list[_Spread] = field(default_factory=list[_Spread])
    spread_cost: int = 0


class SoftTerms:
    """The soft terms of the classes of one round; false if there are none."""

    def __init__(self, state: State, classes: Sequence[TaskClass]) -> None:
        self._index = state.relations
        self._counters = SoftCounters(state, classes)
        self._terms: dict[int, _ClassTerms] = {}
        self._terms_of_others: dict[tuple[int, ...], Mapping[str, tuple[CarriedTerm, ...]]] = {}
        for number, each in enumerate(classes):
            terms = _ClassTerms()
            self._read_affinity(number, each, terms)
            self._read_spread(number, each, terms)
            if terms.affinity or terms.spread:
                self._terms[number] = terms

    def __bool__(self) -> bool:
        return bool(self._terms)

    @property
    def classes(self) -> Sequence[int]:
        """The classes that soft terms concern."""
        return list(self._terms)

    def __contains__(self, class_index: int) -> bool:
        return class_index in self._terms

    def max_cost(self) -> int:
        """An upper bound on what the soft terms of one unit cost."""
        full = (self.full_cost(number) for number in self._terms)
        return (1 + MAX_FULL_COSTS) * max(full, default=0)

    def full_cost(self, class_index: int) -> int:
        """The most that one unit of the class costs, if it does not rise with others."""
        terms = self._terms[class_index]
        return terms.affinity_cost + terms.spread_cost

    def counts_others(self, class_index: int, classes: NDArray[np.bool_]) -> bool:
        """Whether what the class costs depends on units of others of these classes."""
        terms = self._terms[class_index]
        counters = {each.counter for each in (*terms.affinity, *terms.spread)}
        counted = {n for each in counters for n in self._counters.counted_classes[each]}
        return any(classes[number] for number in counted - {class_index})

    def count_units(self, numbers: Column, machines: Column) -> None:
        """These are the units of the round, each of a class on a machine."""
        self._counters.count_units(numbers, machines)

    def cost(self, class_index: int, candidates: Candidates) -> SoftCost:
        """What the next units of a class cost."""
        terms = self._terms[class_index]
        affinity = self._affinity(terms, candidates, taken_out=False)
        spread = self._spread(terms, candidates, taken_out=False)
        return SoftCost(affinity.cost + spread.cost, affinity.rising + spread.rising)

    def cost_taken_out(self, class_index: int, candidates: Candidates) -> Column:
        """What a unit of a class costs that is in the domain of the candidate, if it were taken
        out and placed there again."""
        terms = self._terms[class_index]
        cost = self._affinity(terms, candidates, taken_out=True).cost
        cost = cost + self._spread(terms, candidates, taken_out=True).cost
        return np.rint(cost).astype(np.int64)

    def _read_affinity(self, number: int, of: TaskClass, terms: _ClassTerms) -> None:
        own_weight = strongest = 0
        for weight, term in of.shape.relations.preferred:
            counter = self._counters.selected(
                self._index.selector_id(term.selector), term.topology_key
            )
            own_weight += abs(weight)
            terms.affinity.append(_Term(counter, -weight, self._own_count(counter, number)))
        for key, carried in self._carried_terms(of.selected_by).items():
            counter = self._counters.carried(carried, key)
            strongest = max(strongest, *(abs(each.weight or 0) for each in carried))
            terms.affinity.append(_Term(counter, -1, self._own_count(counter, number)))
        terms.affinity_cost = full_cost(max(own_weight, strongest))

    def _carried_terms(self, selected_by: tuple[int, ...]) -> Mapping[str, tuple[CarriedTerm, ...]]:
        """By topology key, the terms by which others attract or repel these tasks."""
        found = self._terms_of_others.get(selected_by)
        if found is None:
            by_key: dict[str, list[CarriedTerm]] = {}
            for carried in self._index.terms_selecting(selected_by):
                if carried.weight is not None:
                    by_key.setdefault(carried.term.topology_key, []).append(carried)
            found = {key: tuple(terms) for key, terms in by_key.items()}
            self._terms_of_others[selected_by] = found
        return found

    def _read_spread(self, number: int, of: TaskClass, terms: _ClassTerms) -> None:
        soft = [each for each in of.shape.relations.spread if not each.required]
        all_keys = tuple(dict.fromkeys(each.topology_key for each in soft))
        for each in soft:
            keys = all_keys if each.needs_all_keys else (each.topology_key,)
            counter = self._spread_counter(of, each, keys)
            counts_itself = self._own_count(counter, number) > 0
            spread = _Spread(counter, each.max_skew, counts_itself, each.needs_all_keys)
            terms.spread.append(spread)
        terms.spread_cost = full_cost(SPREAD_WEIGHT) if soft else 0

    def _spread_counter(
        self, of: TaskClass, constraint: SpreadConstraint, keys: tuple[str, ...]
    ) -> int:
        selector = self._index.selector_id(constraint.selector)
        eligibility = eligibility_of(of.shape, constraint, keys)
        return self._counters.selected(selector, constraint.topology_key, eligibility)

    def _own_count(self, counter: int, class_index: int) -> int:
        return self._counters.counted_classes[counter].get(class_index, 0)

    def _affinity(self, terms: _ClassTerms, where: Candidates, *, taken_out: bool) -> SoftCost:
        """The cost of affinity to other tasks and of theirs to the class."""
        none = np.zeros(len(where.rows))
        if not terms.affinity or not len(where.rows):
            return SoftCost(none)
        # By topology: the score of each candidate, and how it grows with a unit of the class.
        scores: dict[int, Amounts] = {}
        growth: dict[int, int] = {}
        for term in terms.affinity:
            topology = self._counters.topology(term.counter)
            score = scores.setdefault(topology, none.copy())
            score += term.weight * self._counters.tasks(term.counter, where.rows)
            growth[topology] = growth.get(topology, 0) + term.weight * term.own_count
        if where.units > 1 and not taken_out:
            for topology, score in list(scores.items()):
                if growth[topology] < 0 and score.min() == score.max():
                    # Units that attract each other have to begin somewhere.
                    start = self._best_domain(topology, where)
                    scores[topology] = score + np.where(start, 0, -growth[topology])
        rises = {key for key, more in growth.items() if more > 0 and where.units > 1}
        if taken_out:
            total = np.sum(list(scores.values()), axis=0)
            worst = max(total.max() - total.min(), 1)
            own = sum(
                growth[key] * (self._counters.domains(key)[where.rows] >= 0) for key in scores
            )
            better = np.clip(total - own - total.min(), 0, worst)
            return SoftCost(terms.affinity_cost / worst * better)
        flat = np.sum([none, *(score for key, score in scores.items() if key not in rises)], axis=0)
        worst = max([flat.max() - flat.min(), *(growth[key] for key in rises)])
        if worst == 0:
            return SoftCost(none)
        per_score = terms.affinity_cost / worst
        cost = per_score * (flat - flat.min())
        rising: list[Rising] = []
        for key in rises:
            fullness = (scores[key] - scores[key].min()) / growth[key]
            height = np.floor(fullness)
            cost += per_score * growth[key] * (fullness - height)
            domain = self._counters.domains(key)[where.rows]
            rising.append(Rising(domain, height.astype(np.int64), per_score * growth[key]))
        return SoftCost(cost, tuple(rising))

    def _best_domain(self, topology: int, where: Candidates) -> NDArray[np.bool_]:
        """The candidates in the domain with most room for the units, the cheapest of equal ones."""
        domain = self._counters.domains(topology)[where.rows]
        known = domain >= 0
        room = np.bincount(domain[known], np.minimum(where.room, where.units)[known])
        if not len(room):
            return np.zeros(len(where.rows), np.bool_)
        cheapest = np.full(len(room), np.iinfo(np.int64).max)
        np.minimum.at(cheapest, domain[known], where.cost[known])
        return domain == np.lexsort((cheapest, -np.minimum(room, where.units)))[0]

    def _spread(self, terms: _ClassTerms, where: Candidates, *, taken_out: bool) -> SoftCost:
        """The cost of the spread constraints."""
        none = np.zeros(len(where.rows))
        if not terms.spread or not len(where.rows):
            return SoftCost(none)
        parts = [self._spread_part(each, where) for each in terms.spread]
        has_keys = np.ones(len(where.rows), np.bool_)
        for each, part in zip(terms.spread, parts, strict=True):
            if each.needs_key and not part.has_all_keys:
                has_keys &= part.domain >= 0
        if not has_keys.any():
            return SoftCost(none)
        allowed = sum(
            part.weight * each.max_skew for each, part in zip(terms.spread, parts, strict=True)
        )
        total = sum((part.weight * part.tasks for part in parts), start=none)
        usable = total if has_keys.all() else total[has_keys]
        per_score = terms.spread_cost / max(usable.max() - usable.min(), allowed)
        cost = none.copy()
        rising: list[Rising] = []
        for each, part in zip(terms.spread, parts, strict=True):
            if each.counts_itself and where.units > 1 and not taken_out:
                unit_cost = terms.spread_cost * part.weight / allowed
                rising.append(Rising(part.domain, part.tasks, unit_cost))
                continue
            tasks = part.tasks - part.tasks.min(initial=_MANY, where=has_keys)
            if taken_out and each.counts_itself:
                tasks = np.maximum(tasks - (part.domain >= 0), 0)
            cost += per_score * part.weight * tasks
        return SoftCost(np.where(has_keys, cost, terms.spread_cost), tuple(rising))

    def _spread_part(self, spread: _Spread, where: Candidates) -> "_SpreadPart":
        topology = self._counters.topology(spread.counter)
        domain = self._counters.domains(topology)[where.rows]
        tasks = self._counters.tasks(spread.counter, where.rows)
        has_all_keys = bool(domain.min() >= 0)
        if not has_all_keys:
            # Where the key is not needed, a machine without it is like one in the emptiest domain.
            known = domain >= 0
            tasks[~known] = tasks.min(initial=_MANY, where=known) if known.any() else 0
        # kube-scheduler's weight: the more domains there are, the more a task in one counts.
        weight = math.log(self._counters.domain_count(topology) + 2)
        return _SpreadPart(domain, has_all_keys, tasks, weight)
