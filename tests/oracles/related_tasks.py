"""Short functions that build tasks with constraints between them, for examples."""

from dataclasses import replace

from afflux.model.relations import (
    AffinityTerm,
    Relations,
    SpreadConstraint,
    TaskLabels,
    TaskSelector,
)
from afflux.model.selectors import Requirement
from afflux.model.task import Task
from afflux.model.waiting_group import WaitingGroup
from oracles.builders import shape

NAMESPACE = "ns"


def selects(app: str) -> TaskSelector:
    """Selects the tasks of one application."""
    return TaskSelector((NAMESPACE,), labels=(Requirement("app", "In", (app,)),))


def near(app: str, key: str = "zone") -> Relations:
    return Relations(affinity=(AffinityTerm(selects(app), key),))


def apart(app: str, key: str = "zone") -> Relations:
    return Relations(anti_affinity=(AffinityTerm(selects(app), key),))


def spread(app: str, key: str = "zone", max_skew: int = 1) -> Relations:
    return Relations(spread=(SpreadConstraint(selects(app), key, max_skew),))


def both(*relations: Relations) -> Relations:
    """All required parts of these relations together."""
    return Relations(
        affinity=tuple(term for each in relations for term in each.affinity),
        anti_affinity=tuple(term for each in relations for term in each.anti_affinity),
        spread=tuple(each for one in relations for each in one.spread),
    )


def related_task(name: str, app: str, relations: Relations | None = None, **requests: int) -> Task:
    """A task of an application, with its constraints; one CPU unless `requests` say otherwise."""
    of = replace(shape(**(requests or {"cpu": 1})), relations=relations or Relations())
    return Task(name, name, of, labels=TaskLabels(NAMESPACE, (("app", app),)))


def related_group(name: str, *tasks: Task, **fields: object) -> WaitingGroup:
    """A group of these tasks."""
    return WaitingGroup(name, tasks, **fields)
