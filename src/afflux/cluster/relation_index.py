"""Constraints between tasks: which are in use, and the running tasks that carry a term.

A term concerns other tasks as well as the one that states it: required anti-affinity of a running
task repels those that join its domain, preferred terms attract or deter them. A carried term is
kept once, with the rows of the tasks that carry it. The selectors of all terms are registered, so
that the class of a waiting task can name the selectors that select it (`selectors_of`).

While no task has constraints, nothing is kept and nothing is counted.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from afflux.cluster.selected_tasks import SelectedTasks
from afflux.cluster.task_class import Counted, TaskClass
from afflux.model.relations import (
    NO_RELATIONS,
    AnySelector,
    CarriedTerm,
    Relations,
    TaskLabels,
)
from afflux.model.task import Task
from afflux.model.waiting_group import WaitingGroup

# Constraints of tasks that neither run nor wait any more stay registered up to this number, so that
# the next task of the same kind need not be matched anew.
MAX_IDLE_RELATIONS = 1_024

_NO_ROWS: Mapping[int, int] = {}


@dataclass(slots=True)
class _Carried:
    """The running tasks with one term: how many on every row that has any."""

    rows: dict[int, int] = field(default_factory=dict[int, int])
    # How many registered relations have the term.
    references: int = 0


def relations_while_running(task: Task) -> Relations:
    """What has to be known about a task that runs: the terms that concern other tasks, and all that
    it requires if that holds while it runs."""
    relations = task.shape.relations
    return relations if task.required_during_execution else relations.standing


class RelationIndex:
    """The relations of running and waiting tasks. `running` yields every task that runs, with its
    row; `selected` knows which tasks each selector selects."""

    def __init__(self, running: Callable[[], Iterable[tuple[TaskLabels, int]]]) -> None:
        self.selected = SelectedTasks(running)
        # How many running tasks have these relations; waiting ones are in `_idle` meanwhile.
        self._running: dict[Relations, int] = {}
        self._idle: OrderedDict[Relations, None] = OrderedDict()
        # How many relations waiting tasks have used since unused ones were dropped.
        self._used = 0
        self._carried: dict[CarriedTerm, _Carried] = {}
        # By selector, the carried terms that have it.
        self._terms_of: dict[int, dict[CarriedTerm, None]] = {}
        self._ids: dict[AnySelector, int] = {}

    def __bool__(self) -> bool:
        """Whether any task has constraints; if not, changes need not be reported."""
        return bool(self.selected)

    def place(self, task: Task, row: int) -> None:
        """A task runs on this row from now on; `running` already yields it."""
        is_counted = not self.selected
        relations = relations_while_running(task)
        if relations != NO_RELATIONS:
            if relations not in self._running:
                self._register(relations)
                self._running[relations] = 0
            self._running[relations] += 1
            for carried in relations.carried:
                rows = self._carried[carried].rows
                rows[row] = rows.get(row, 0) + 1
            # The first selector that is registered counts all running tasks.
            is_counted = is_counted and bool(self.selected)
        if self.selected and not is_counted:
            self.selected.add(task.labels, row)

    def remove(self, task: Task, row: int) -> None:
        """A task does not run on this row any more."""
        if self.selected:
            self.selected.remove(task.labels, row)
        relations = relations_while_running(task)
        if relations == NO_RELATIONS:
            return
        for carried in relations.carried:
            rows = self._carried[carried].rows
            rows[row] -= 1
            if not rows[row]:
                del rows[row]
        self._running[relations] -= 1
        if not self._running[relations]:
            del self._running[relations]
            self._idle[relations] = None

    def use(self, waiting: Iterable[Relations]) -> None:
        """The relations of the tasks that wait: their selectors are registered from now on."""
        used = dict.fromkeys(waiting)
        for relations in used:
            if relations in self._idle:
                self._idle.move_to_end(relations)
            elif relations not in self._running and relations != NO_RELATIONS:
                self._register(relations)
                self._idle[relations] = None
        self._used = max(self._used, len(used))

    def drop_unused(self) -> None:
        """Forget relations that no task has any more, once there are many. The ids of selectors
        change: not to be called while a round is planned."""
        limit = MAX_IDLE_RELATIONS + self._used
        while len(self._idle) > limit:
            oldest, _ = self._idle.popitem(last=False)
            self._release(oldest)
        self._used = 0

    def is_selected(self, task: Task) -> bool:
        """Whether any selector that is in use selects a task."""
        return bool(self.selected.selectors_of(task.labels))

    def class_of(self, task: Task) -> TaskClass:
        """The class of a waiting task."""
        return TaskClass(task.shape, self.selected.selectors_of(task.labels))

    def is_related(self, task: Task) -> bool:
        """Whether constraints between tasks that are in use concern a task."""
        if not self.selected:
            return False
        return bool(task.shape.relations.carried or self.selected.selectors_of(task.labels))

    def selector_id(self, selector: AnySelector) -> int:
        """The id of a selector of relations that are in use."""
        return self._ids[selector]

    def terms_selecting(self, selected_by: Iterable[int]) -> list[CarriedTerm]:
        """The terms, of running and of waiting tasks, that have one of these selectors."""
        return [term for number in selected_by for term in self._terms_of.get(number, ())]

    def rows_of(self, counted: Counted) -> Mapping[int, int]:
        """The running tasks that a selector selects, or that carry a term: how many on every row
        that has any."""
        if isinstance(counted, CarriedTerm):
            found = self._carried.get(counted)
            return _NO_ROWS if found is None else found.rows
        return self.selected.on_rows(counted)

    def _register(self, relations: Relations) -> None:
        if relations in self._idle:
            del self._idle[relations]
            return
        for selector in relations.selectors:
            self._ids[selector] = self.selected.register(selector)
        for carried in relations.carried:
            self._carried.setdefault(carried, _Carried()).references += 1
            self._terms_of.setdefault(self._ids[carried.term.selector], {})[carried] = None

    def _release(self, relations: Relations) -> None:
        for carried in relations.carried:
            known = self._carried[carried]
            known.references -= 1
            if not known.references:
                del self._carried[carried]
                number = self._ids[carried.term.selector]
                del self._terms_of[number][carried]
                if not self._terms_of[number]:
                    del self._terms_of[number]
        for selector in relations.selectors:
            if not self.selected.release(self._ids[selector]):
                del self._ids[selector]


def relations_of(groups: Iterable[WaitingGroup]) -> set[Relations]:
    """What the tasks of these groups require and prefer of others."""
    return {
        shape.relations
        for group in groups
        for shape, _ in group.shapes
        if shape.relations is not NO_RELATIONS
    }
