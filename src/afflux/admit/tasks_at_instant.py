"""Which tasks run at a later time, for the constraints between tasks.

Running tasks end when expected; planned runs begin and end as planned. Only tasks that a selector
selects, or that carry a term, are looked at, and only when a rule asks for them.
"""

from collections.abc import Iterable, Mapping

import numpy as np

from afflux.admit.expected_ends import ExpectedEnds
from afflux.admit.planned_run import PlannedRun, Start, has_begun
from afflux.cluster.relation_index import RelationIndex
from afflux.cluster.task_class import Counted
from afflux.plan.domain_rules import TasksOn

# The rows of the tasks that end, in the order of their ends.
_Rows = list[int]
_Ends = list[float]


class TasksAtInstant:
    """The running tasks of a state, and their expected ends, in one pass."""

    def __init__(self, relations: RelationIndex, expected_ends: ExpectedEnds) -> None:
        self._relations = relations
        self._expected_ends = expected_ends
        self._ends_of: dict[Counted, tuple[_Ends, _Rows]] | None = None

    def at(self, start: Start, planned: Iterable[PlannedRun]) -> TasksOn:
        """The tasks that run at this time, of these planned runs as well."""
        there = [run for run in planned if has_begun(run, start) and run.end > start[0]]

        def tasks_on(counted: Counted) -> Mapping[int, int]:
            rows = dict(self._relations.rows_of(counted))
            if not start[1]:
                for row in self._ended(counted, start[0]):
                    rows[row] -= 1
            for run in there:
                for of, row, _ in run.assignments:
                    if counted in of.selected_by or counted in of.shape.relations.carried:
                        rows[row] = rows.get(row, 0) + 1
            return {row: tasks for row, tasks in rows.items() if tasks}

        return tasks_on

    def _ended(self, counted: Counted, at: float) -> _Rows:
        """The rows of the counted tasks that have ended by then, one entry each."""
        if self._ends_of is None:
            self._ends_of = self._read_ends()
        ends, rows = self._ends_of.get(counted, ([], []))
        return rows[: int(np.searchsorted(ends, at, side="right"))]

    def _read_ends(self) -> dict[Counted, tuple[_Ends, _Rows]]:
        found: dict[Counted, tuple[_Ends, _Rows]] = {}
        selectors_of = self._relations.selected.selectors_of
        ends = self._expected_ends.ends.tolist()
        for end, placed in zip(ends, self._expected_ends.tasks, strict=True):
            task = placed.task
            for counted in (*selectors_of(task.labels), *task.shape.relations.carried):
                own_ends, own_rows = found.setdefault(counted, ([], []))
                own_ends.append(end)
                own_rows.append(placed.row)
        return found
