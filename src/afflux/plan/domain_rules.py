"""The constraints between tasks of a round's classes, as the account takes them.

A counter counts tasks in the domains of a topology key: those that a selector selects, or those
that carry one of some required anti-affinity terms. A class has rules about counters, and is
counted by some. However many terms of others repel a class, they are one rule for each key.
Only counters that a rule names are kept: a class that no rule concerns costs nothing.

The rules follow kube-scheduler: spread constraints are judged first, then the affinity of the task,
its anti-affinity, and the anti-affinity of other tasks against it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from afflux._core import Packing
from afflux.cluster.state import State
from afflux.cluster.task_class import Counted, TaskClass
from afflux.model import reason
from afflux.model.relations import NO_RELATIONS, AnySelector, CarriedTerm, SpreadConstraint
from afflux.plan.topologies import (
    Domains,
    Eligibility,
    Topologies,
    count_by_domain,
    eligibility_of,
)


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of a class about the machine on which a unit is placed, and why it refuses one.

    `near`: the domain of every counter has a task, or `flag` is set and no domain has one.
    `apart`: the domain of the counter has no task. `spread`: with the unit, the domain has at most
    `max_skew` tasks more than the emptiest one, where fewer than `min_domains` domains count as
    an empty one more; `flag` says that the unit is counted itself.
    """

    kind: Literal["near", "apart", "spread"]
    counters: tuple[int, ...]
    reason: str
    max_skew: int = 0
    min_domains: int = 1
    flag: bool = False


@dataclass(frozen=True, slots=True)
class Counter:
    """A topology, and the tasks that run in each of its domains: those with any."""

    topology: int
    domains: Domains
    counts: NDArray[np.int64]


@dataclass(slots=True)
class ClassRules:
    """The rules of one class, and the counters that grow with each of its units."""

    rules: list[Rule] = field(default_factory=list[Rule])
    counted_by: list[int] = field(default_factory=list[int])


Terms = tuple[CarriedTerm, ...]
# How many tasks of what is counted run on every row that has any.
TasksOn = Callable[[Counted], Mapping[int, int]]


class DomainRules:
    """Topologies, counters and rules for the classes of one round.

    `tasks_on` says which tasks run; those that run now, if it is not given.
    """

    def __init__(
        self, state: State, classes: Sequence[TaskClass], tasks_on: TasksOn | None = None
    ) -> None:
        self._state = state
        self._tasks_on = state.relations.rows_of if tasks_on is None else tasks_on
        self._index = state.relations
        self._topologies = Topologies(state)
        self.topologies = self._topologies.found
        self.counters: list[Counter] = []
        # By what is counted and by topology.
        self._counter_numbers: dict[tuple[int | Terms, int], int] = {}
        self._repelling_terms: dict[tuple[int, ...], Mapping[str, Terms]] = {}
        self._counters_of: dict[Counted, list[int]] = {}
        self.classes = [ClassRules(self._rules(each)) for each in classes]
        if self.counters:
            for each, rules in zip(classes, self.classes, strict=True):
                rules.counted_by = self._counted_by(each)

    def __bool__(self) -> bool:
        """Whether any class has a rule."""
        return bool(self.counters)

    def is_related(self, class_index: int) -> bool:
        """Whether the class has rules, or rules of others concern it."""
        rules = self.classes[class_index]
        return bool(rules.rules or rules.counted_by)

    def domains_of(self, counter: int) -> Domains:
        """By machine, its domain for a counter; -1 for none."""
        return self.topologies[self.counters[counter].topology].domain

    def columns(self) -> tuple[list[object], list[object], list[object]]:
        """Everything in the form that the core takes."""
        return (
            [(each.domain, each.counted) for each in self.topologies],
            [(each.topology, each.domains, each.counts) for each in self.counters],
            [
                (
                    [
                        (r.kind, list(r.counters), r.max_skew, r.min_domains, r.flag)
                        for r in each.rules
                    ],
                    each.counted_by,
                )
                for each in self.classes
            ],
        )

    def account(self) -> Packing:
        """An account of the classes that knows nothing but their rules."""
        classes = len(self.classes)
        return Packing(
            requests=np.zeros((classes, 0), np.int64),
            devices=[None] * classes,
            first=np.zeros(classes + 1, np.int64),
            machine=np.zeros(0, np.int32),
            cost=np.zeros(0, np.int64),
            room=None,
            free=np.zeros((len(self._state), 0), np.int64),
            free_devices=[],
            scale=[],
            domains=self.columns(),
        )

    def _rules(self, of: TaskClass) -> list[Rule]:
        relations = of.shape.relations
        rules: list[Rule] = []
        if relations != NO_RELATIONS:
            keys = tuple(dict.fromkeys(s.topology_key for s in relations.spread if s.required))
            required = (each for each in relations.spread if each.required)
            rules += [self._spread_rule(of, each, keys) for each in required]
            if (attracting := relations.attracting) is not None:
                counters = dict.fromkeys(
                    self._selected(attracting, term.topology_key) for term in relations.affinity
                )
                first = self._index.selector_id(attracting) in of.selected_by
                rules.append(Rule("near", tuple(counters), reason.POD_AFFINITY, flag=first))
            for term in relations.anti_affinity:
                counter = self._selected(term.selector, term.topology_key)
                rules.append(Rule("apart", (counter,), reason.POD_ANTI_AFFINITY))
        for key, terms in self._repelling(of.selected_by).items():
            counter = self._counter(terms, self._topologies.number(key, None))
            rules.append(Rule("apart", (counter,), reason.EXISTING_ANTI_AFFINITY))
        return rules

    def _repelling(self, selected_by: tuple[int, ...]) -> Mapping[str, Terms]:
        """By topology key, the anti-affinity terms of others that select these tasks."""
        found = self._repelling_terms.get(selected_by)
        if found is None:
            by_key: dict[str, list[CarriedTerm]] = {}
            for carried in self._index.terms_selecting(selected_by):
                if carried.weight is None:
                    by_key.setdefault(carried.term.topology_key, []).append(carried)
            found = {key: tuple(terms) for key, terms in by_key.items()}
            self._repelling_terms[selected_by] = found
        return found

    def _spread_rule(
        self, of: TaskClass, constraint: SpreadConstraint, keys: tuple[str, ...]
    ) -> Rule:
        if not constraint.needs_all_keys:
            keys = (constraint.topology_key,)
        eligibility = eligibility_of(of.shape, constraint, keys)
        counter = self._selected(constraint.selector, constraint.topology_key, eligibility)
        return Rule(
            "spread",
            (counter,),
            reason.SPREAD,
            constraint.max_skew,
            constraint.min_domains,
            self._index.selector_id(constraint.selector) in of.selected_by,
        )

    def _counted_by(self, of: TaskClass) -> list[int]:
        found = (self._counters_of.get(each, ()) for each in of.counted_as)
        return sorted({number for numbers in found for number in numbers})

    def _selected(
        self, selector: AnySelector, key: str, eligibility: Eligibility | None = None
    ) -> int:
        number = self._index.selector_id(selector)
        return self._counter(number, self._topologies.number(key, eligibility))

    def _counter(self, counted: int | Terms, topology: int) -> int:
        found = self._counter_numbers.get((counted, topology))
        if found is not None:
            return found
        number = self._counter_numbers[counted, topology] = len(self.counters)
        parts: tuple[Counted, ...] = (counted,) if isinstance(counted, int) else counted
        tasks: dict[int, int] = {}
        for each in parts:
            self._counters_of.setdefault(each, []).append(number)
            for row, count in self._tasks_on(each).items():
                tasks[row] = tasks.get(row, 0) + count
        domains, counts = count_by_domain(self.topologies[topology], tasks)
        self.counters.append(Counter(topology, domains, counts))
        return number
