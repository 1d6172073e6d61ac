"""The relations of an overlay: those of the state below, and the tasks placed and removed since.

Only what differs is kept here. Which selectors are in use, and which tasks they select, does not
depend on where tasks run: that is asked of the index below, and registered there.
"""

from collections.abc import Iterable, Mapping

from afflux.cluster.relation_index import RelationIndex, relations_while_running
from afflux.cluster.task_class import Counted
from afflux.model.relations import NO_RELATIONS, AnySelector, CarriedTerm, Relations, TaskLabels
from afflux.model.task import Task

# By row, how many tasks there are more than below.
_Change = dict[int, int]


class RelationOverlay(RelationIndex):
    """An index that leaves the one below as it is. `selected` is that of the index below: it says
    which selectors select a task, but not where the tasks of the overlay run (see `rows_of`)."""

    def __init__(self, below: RelationIndex) -> None:
        self._below = below
        self.selected = below.selected
        self._changed_tasks: dict[TaskLabels, _Change] = {}
        self._changed_terms: dict[CarriedTerm, _Change] = {}

    def place(self, task: Task, row: int) -> None:
        """A task runs on this row from now on."""
        relations = relations_while_running(task)
        if relations is not NO_RELATIONS:
            self._below.use([relations])
        self._add(task, row, 1)

    def remove(self, task: Task, row: int) -> None:
        """A task does not run on this row any more."""
        self._add(task, row, -1)

    def use(self, waiting: Iterable[Relations]) -> None:
        """The relations of the tasks that wait: their selectors are registered below."""
        self._below.use(waiting)

    def selector_id(self, selector: AnySelector) -> int:
        """The id of a selector of relations that are in use."""
        return self._below.selector_id(selector)

    def terms_selecting(self, selected_by: Iterable[int]) -> list[CarriedTerm]:
        """The terms, of running and of waiting tasks, that have one of these selectors."""
        return self._below.terms_selecting(selected_by)

    def rows_of(self, counted: Counted) -> Mapping[int, int]:
        """The running tasks that a selector selects, or that carry a term: how many on every row
        that has any."""
        below = self._below.rows_of(counted)
        changes = self._changes_of(counted)
        if not changes:
            return below
        rows = dict(below)
        for change in changes:
            for row, more in change.items():
                rows[row] = rows.get(row, 0) + more
        return {row: count for row, count in rows.items() if count}

    def _changes_of(self, counted: Counted) -> list[_Change]:
        if isinstance(counted, CarriedTerm):
            change = self._changed_terms.get(counted)
            return [] if change is None else [change]
        selectors_of = self.selected.selectors_of
        return [
            change
            for labels, change in self._changed_tasks.items()
            if counted in selectors_of(labels)
        ]

    def _add(self, task: Task, row: int, count: int) -> None:
        change = self._changed_tasks.setdefault(task.labels, {})
        change[row] = change.get(row, 0) + count
        for carried in relations_while_running(task).carried:
            change = self._changed_terms.setdefault(carried, {})
            change[row] = change.get(row, 0) + count
