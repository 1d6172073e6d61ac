"""The constraints between tasks once more, for the checker: read off their meaning, task by task.

A placement is right if its machine would admit the task last: taken out of the state in which the
round ends, with everything else in place. This module counts tasks by their labels and machines by
theirs. It uses neither the account nor the index of relations. What it has counted for one class of
tasks and one topology key is kept, so that judging a task costs a few look-ups.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from afflux.cluster.state import State
from afflux.model import reason
from afflux.model.machine import Machine
from afflux.model.placement import Placement
from afflux.model.relations import (
    NO_RELATIONS,
    AffinityTerm,
    Labels,
    Relations,
    SpreadConstraint,
    TaskLabels,
    TaskSelector,
)
from afflux.model.selectors import NodeAffinity
from afflux.model.taints import Toleration, untolerated
from afflux.model.task import Shape, Task

# By row, how many tasks are there.
_Rows = dict[int, int]
# The affinity and the tolerations that decide where tasks count, None for those that do not; and
# the labels that a machine must have.
_Counted = tuple[NodeAffinity | None, tuple[Toleration, ...] | None, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class _Domains:
    """The tasks in every domain of a topology key, by the value of the label, and the fewest in one
    domain. A task of the class that is judged counts itself on the rows in `own_rows` (None: on
    every row) if it `is_counted`.
    """

    key: str
    tasks: dict[str, int]
    fewest: int
    total: int
    is_counted: bool
    own_rows: frozenset[int] | None = None

    def others(self, machine: Machine, row: int) -> int | None:
        """The tasks in the domain of a machine without the judged one; None without the label."""
        value = machine.labels.get(self.key)
        return None if value is None else self.tasks.get(value, 0) - self.own(row)

    def own(self, row: int) -> int:
        """How often the judged task itself is counted."""
        return int(self.is_counted and (self.own_rows is None or row in self.own_rows))


@dataclass(frozen=True, slots=True)
class _Requirements:
    """What one class of tasks requires: its spread constraints, the domains that must have a task,
    the domains that must have none, and the same for the anti-affinity of other tasks."""

    spread: Sequence[tuple[SpreadConstraint, _Domains]]
    near: Sequence[_Domains]
    apart: Sequence[_Domains]
    apart_from_existing: Sequence[_Domains]


class TasksInPlace:
    """The tasks of the state together with those of a plan, each where it runs."""

    def __init__(self, state: State, placements: Iterable[Placement] = ()) -> None:
        self._state = state
        self._rows: dict[TaskLabels, _Rows] = {}
        self._repelling: dict[AffinityTerm, _Rows] = {}
        for row, _ in state.machines():
            for placed in state.placed_on(row):
                self._add(placed.task, row)
        for placement in placements:
            self._add(placement.task, state.rows[placement.machine])
        # Label sets by a label that they have, and terms by a label that they ask for: a selector
        # is compared with the few sets that it may select.
        self._having: dict[tuple[str, str], list[TaskLabels]] = {}
        for labels in self._rows:
            for label in labels.labels:
                self._having.setdefault(label, []).append(labels)
        self._asking: dict[tuple[str, str] | None, list[AffinityTerm]] = {}
        for term in self._repelling:
            for label in _asked_labels(term.selector) or (None,):
                self._asking.setdefault(label, []).append(term)
        self._requirements: dict[tuple[Shape, TaskLabels], _Requirements] = {}
        # The labels of each set as a mapping: a pod may have hundreds.
        self._own: dict[TaskLabels, Labels] = {}
        self._counted_rows: dict[_Counted, frozenset[int]] = {}
        self._counts: dict[object, tuple[dict[str, int], int]] = {}

    def refusal(self, task: Task, row: int) -> str | None:
        """Why the machine that has the task would refuse it, if it came last; None if it would
        admit it."""
        machine = self._state.machine(row)
        if machine is None:
            raise LookupError(f"{task.name}: row {row} is not a machine")
        required = self._requirements_of(task)
        for constraint, domains in required.spread:
            if (why := _spread_refusal(constraint, domains, machine, row)) is not None:
                return why
        if not _is_near(required.near, machine, row):
            return reason.POD_AFFINITY
        if any(domains.others(machine, row) for domains in required.apart):
            return reason.POD_ANTI_AFFINITY
        if any(domains.others(machine, row) for domains in required.apart_from_existing):
            return reason.EXISTING_ANTI_AFFINITY
        return None

    def _add(self, task: Task, row: int) -> None:
        rows = self._rows.setdefault(task.labels, {})
        rows[row] = rows.get(row, 0) + 1
        # Terms that a task states twice repel once.
        for term in dict.fromkeys(task.shape.relations.anti_affinity):
            rows = self._repelling.setdefault(term, {})
            rows[row] = rows.get(row, 0) + 1

    def _requirements_of(self, task: Task) -> _Requirements:
        known = self._requirements.get((task.shape, task.labels))
        if known is None:
            known = self._read_requirements(task)
            self._requirements[task.shape, task.labels] = known
        return known

    def _read_requirements(self, task: Task) -> _Requirements:
        relations = task.shape.relations
        required = [each for each in relations.spread if each.required]
        keys = tuple(each.topology_key for each in required)
        attracting = tuple(dict.fromkeys(term.selector for term in relations.affinity))
        return _Requirements(
            spread=[(each, self._spread_domains(task, each, keys)) for each in required],
            near=[
                self._domains(task, attracting, term.topology_key) for term in relations.affinity
            ],
            apart=[
                self._domains(task, (term.selector,), term.topology_key)
                for term in relations.anti_affinity
            ],
            apart_from_existing=[
                self._repelling_domains(relations, term) for term in self._terms_against(task)
            ],
        )

    def _domains(self, task: Task, selectors: tuple[TaskSelector, ...], key: str) -> _Domains:
        """The tasks that all of these selectors select."""
        tasks, fewest = self._count(selectors, key, None)
        is_counted = all(self._selects(each, task.labels) for each in selectors)
        return _Domains(key, tasks, fewest, sum(tasks.values()), is_counted)

    def _spread_domains(
        self, task: Task, constraint: SpreadConstraint, keys: tuple[str, ...]
    ) -> _Domains:
        shape, key = task.shape, constraint.topology_key
        affinity = NodeAffinity(shape.affinity.selector, shape.affinity.required)
        counted = (
            affinity if constraint.honors_affinity else None,
            shape.tolerations if constraint.honors_taints else None,
            keys if constraint.needs_all_keys else (key,),
        )
        tasks, fewest = self._count((constraint.selector,), key, counted)
        is_counted = self._selects(constraint.selector, task.labels)
        rows = self._rows_that_count(counted)
        return _Domains(key, tasks, fewest, sum(tasks.values()), is_counted, rows)

    def _repelling_domains(self, relations: Relations, term: AffinityTerm) -> _Domains:
        """The tasks that have this term of anti-affinity."""
        key = term.topology_key
        tasks: dict[str, int] = {}
        for row, count in self._repelling[term].items():
            self._add_to_domain(tasks, row, key, count)
        return _Domains(key, tasks, 0, sum(tasks.values()), term in relations.anti_affinity)

    def _count(
        self, selectors: tuple[TaskSelector, ...], key: str, counted: _Counted | None
    ) -> tuple[dict[str, int], int]:
        """The selected tasks of every domain, and the fewest of a domain. Where only some rows
        count, every domain with such a row has an entry."""
        known = self._counts.get((selectors, key, counted))
        if known is not None:
            return known
        tasks: dict[str, int] = {}
        rows = None if counted is None else self._rows_that_count(counted)
        for row in rows or ():
            self._add_to_domain(tasks, row, key, 0)
        for labels in self._may_select(selectors[0]) if selectors else ():
            if all(self._selects(each, labels) for each in selectors):
                for row, count in self._rows[labels].items():
                    if rows is None or row in rows:
                        self._add_to_domain(tasks, row, key, count)
        found = self._counts[selectors, key, counted] = tasks, min(tasks.values(), default=0)
        return found

    def _add_to_domain(self, tasks: dict[str, int], row: int, key: str, count: int) -> None:
        machine = self._state.machine(row)
        value = None if machine is None else machine.labels.get(key)
        if value is not None:
            tasks[value] = tasks.get(value, 0) + count

    def _rows_that_count(self, counted: _Counted) -> frozenset[int]:
        """The machines with the labels that match the affinity and whose taints are tolerated."""
        known = self._counted_rows.get(counted)
        if known is None:
            known = frozenset(
                row for row, machine in self._state.machines() if _counts_on(machine, counted)
            )
            self._counted_rows[counted] = known
        return known

    def _selects(self, selector: TaskSelector, labels: TaskLabels) -> bool:
        if labels not in self._own:
            self._own[labels] = dict(labels.labels)
        namespace = self._state.relations.selected.namespace_labels(labels.namespace)
        return selector.admits_namespace(labels.namespace, namespace) and selector.admits_labels(
            self._own[labels], ending=labels.ending
        )

    def _may_select(self, selector: TaskSelector) -> Iterable[TaskLabels]:
        asked = _asked_labels(selector)
        if asked is None:
            return self._rows
        return [labels for label in asked for labels in self._having.get(label, ())]

    def _terms_against(self, task: Task) -> list[AffinityTerm]:
        """The anti-affinity terms of tasks, this one included, that select the task."""
        asking = (self._asking.get(label, ()) for label in (None, *task.labels.labels))
        return [
            term for terms in asking for term in terms if self._selects(term.selector, task.labels)
        ]


def find_refused(state: State, placements: Sequence[Placement]) -> tuple[Placement, str] | None:
    """The first placement that its machine would refuse for a constraint between tasks, with
    everything else of the plan in place, and why; None if there is none."""
    has_relations = any(each.task.shape.relations is not NO_RELATIONS for each in placements)
    if not placements or not (has_relations or state.relations):
        return None
    in_place = TasksInPlace(state, placements)
    for placement in placements:
        why = in_place.refusal(placement.task, state.rows[placement.machine])
        if why is not None:
            return placement, why
    return None


def _spread_refusal(
    constraint: SpreadConstraint, domains: _Domains, machine: Machine, row: int
) -> str | None:
    there = domains.others(machine, row)
    if there is None:
        return reason.SPREAD_KEY
    fewest = min(domains.fewest, there) if domains.own(row) else domains.fewest
    if len(domains.tasks) < constraint.min_domains:
        fewest = 0
    skew = there + int(domains.is_counted) - fewest
    return reason.SPREAD if skew > constraint.max_skew else None


def _is_near(near: Sequence[_Domains], machine: Machine, row: int) -> bool:
    """Whether every domain has a task that matches; or, for a task that matches its own affinity,
    whether no other task does anywhere."""
    there = [domains.others(machine, row) for domains in near]
    if None in there:
        return False
    is_first = all(each.is_counted and each.total == each.own(row) for each in near)
    return is_first or 0 not in there


def _counts_on(machine: Machine, counted: _Counted) -> bool:
    affinity, tolerations, keys = counted
    if any(key not in machine.labels for key in keys):
        return False
    if affinity is not None and not affinity.matches(machine.name, machine.labels):
        return False
    taints = (taint for taint in machine.taints if taint.effect != "PreferNoSchedule")
    return tolerations is None or not untolerated(taints, tolerations)


def _asked_labels(selector: TaskSelector) -> list[tuple[str, str]] | None:
    """Labels of which every selected task has one; None if the selector names no values."""
    for each in selector.labels or ():
        if each.operator == "In":
            return [(each.key, value) for value in dict.fromkeys(each.values)]
    return None
