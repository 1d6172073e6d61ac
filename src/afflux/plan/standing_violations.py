"""Requirements that a running task has and its machine does not meet any more.

A task with `required_during_execution` is judged as a placement is: taken out of the state, with
everything else in place, would its machine admit it? Only what the task itself requires counts: of
machines by its node affinity, of other tasks by its affinity, its anti-affinity and its spread. The
anti-affinity of another task against it is a requirement of the other task.

Tasks that do not ask for it cost nothing, and nothing is judged while the cluster does not change.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from afflux.cluster.state import PlacedTask, State
from afflux.cluster.task_class import TaskClass
from afflux.model import reason
from afflux.model.selectors import NodeAffinity
from afflux.model.task import Task
from afflux.plan.domain_rules import DomainRules

ConstraintKind = Literal["node-affinity", "spread", "affinity", "anti-affinity"]
CONSTRAINT_KINDS: tuple[ConstraintKind, ...] = get_args(ConstraintKind)

_KIND_OF: dict[str, ConstraintKind] = {
    reason.AFFINITY: "node-affinity",
    reason.SPREAD: "spread",
    reason.SPREAD_KEY: "spread",
    reason.POD_AFFINITY: "affinity",
    reason.POD_ANTI_AFFINITY: "anti-affinity",
}


@dataclass(frozen=True, slots=True)
class Violation:
    """A running task, and why its machine would not admit it, in kube-scheduler's order."""

    task: Task
    machine: str
    reasons: tuple[str, ...]

    @property
    def why(self) -> str:
        """The reasons as one text."""
        return ", ".join(self.reasons)

    @property
    def sentence(self) -> str:
        """Which machine does not meet the requirements of which task, and why."""
        name = self.task.name.rpartition("/")[2]
        return f"{self.machine} does not meet the requirements of {name}: {self.why}"

    @property
    def kinds(self) -> frozenset[ConstraintKind]:
        """The kinds of constraints that do not hold."""
        return frozenset(_KIND_OF[each] for each in self.reasons)


class StandingViolations:
    """The violations of a state, judged again when it has changed."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._judged: tuple[int, int] | None = None
        self._found: tuple[Violation, ...] = ()

    @property
    def is_stale(self) -> bool:
        """Whether the answer may have changed."""
        concerns = self._found or self._state.required_during_execution
        return bool(concerns) and self._judged != self._version()

    def current(self) -> tuple[Violation, ...]:
        """The violations of the state as it is."""
        if self.is_stale:
            self._judged = self._version()
            self._found = tuple(find_violations(self._state))
        return self._found

    def _version(self) -> tuple[int, int]:
        return self._state.version, self._state.relations.selected.namespaces_version


def find_violations(state: State) -> list[Violation]:
    """The running tasks whose requirements hold while they run, and do not hold now."""
    reasons: dict[str, list[str]] = {}
    by_class = _tasks_by_class(state)
    for of, tasks in by_class.items():
        for placed in _outside_their_affinity(state, of, tasks):
            reasons[placed.task.id] = [reason.AFFINITY]
    related = [of for of in by_class if of.shape.relations.is_required]
    for task_id, why in _broken_rules(state, {of: by_class[of] for of in related}):
        reasons.setdefault(task_id, []).append(why)
    tasks = (placed for each in by_class.values() for placed in each)
    return [
        Violation(
            placed.task,
            state.name_of(placed.row),
            tuple(dict.fromkeys(reasons[placed.task.id])),
        )
        for placed in tasks
        if placed.task.id in reasons
    ]


def _tasks_by_class(state: State) -> dict[TaskClass, list[PlacedTask]]:
    found: dict[TaskClass, list[PlacedTask]] = {}
    for task_id in state.required_during_execution:
        placed = state.placed_task(task_id)
        # A task that is being deleted needs no attention.
        if placed is not None and not placed.task.labels.ending:
            found.setdefault(state.relations.class_of(placed.task), []).append(placed)
    return found


def _outside_their_affinity(
    state: State, of: TaskClass, tasks: list[PlacedTask]
) -> Iterable[PlacedTask]:
    """The tasks of a class on machines that do not match their node selector and affinity."""
    stated = of.shape.affinity
    if not stated.selector and stated.required is None:
        return []
    rows = np.array([placed.row for placed in tasks], np.intp)
    admitted = state.view(rows).admitted(NodeAffinity(stated.selector, stated.required))
    return [placed for placed, admits in zip(tasks, admitted, strict=True) if not admits]


def _broken_rules(
    state: State, tasks: dict[TaskClass, list[PlacedTask]]
) -> Iterable[tuple[str, str]]:
    """The tasks, by id, that a rule about other tasks refuses where they are, with a reason."""
    rules = DomainRules(state, list(tasks))
    if not rules:
        return
    account = rules.account()
    for number, placed in enumerate(tasks.values()):
        refused = account.rule_refusals_in_place(number, [each.row for each in placed])
        for position, index in np.argwhere(refused).tolist():
            task, rule = placed[position], rules.classes[number].rules[index]
            if rule.reason == reason.EXISTING_ANTI_AFFINITY:
                continue
            has_key = rules.domains_of(rule.counters[0])[task.row] >= 0
            lacks_key = rule.kind == "spread" and not has_key
            yield task.task.id, reason.SPREAD_KEY if lacks_key else rule.reason
