"""Preemptors with constraints between tasks: placed one group after the other, judged by trial.

Removing a victim may open a domain, or break it: a waiting task may require the company of a task
that would leave. So the candidates of one machine leave in a trial state, and if the task is
admitted there, they come back one by one, the most valuable first, as long as it stays admitted.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from afflux.cluster.state import State
from afflux.cluster.task_class import TaskClass
from afflux.evict.budgets import count_overruns, usage_of
from afflux.evict.candidates import Candidate, Evictable, put_back
from afflux.evict.level import chosen_devices, has_room
from afflux.evict.sites import weight_of
from afflux.model.task import Task
from afflux.model.waiting_group import WaitingGroup
from afflux.network.pricing import Pricing
from afflux.plan.explain_relations import refusals_by_relations

# Machines on which one task is tried with victims.
MAX_TRIALS = 32


@dataclass(frozen=True, slots=True)
class RelatedResult:
    """Where the tasks of a group go, in their order, and the victims."""

    rows: Sequence[int]
    victims: Sequence[Candidate]


def place_related(
    after: State, pricing: Pricing, group: WaitingGroup, evictable: Evictable
) -> RelatedResult | None:
    """Places for all tasks of a group, or None. Groups that leave as a whole are spared."""
    trial = after.overlay()
    trial.relations.use([shape.relations for shape, _ in group.shapes])
    prices = pricing.on(trial)
    found: list[int] = []
    victims: list[Candidate] = []
    for task in group.tasks:
        row = _free_row(trial, prices, task)
        if row is None:
            step = _cheapest_row(trial, prices, task, evictable, victims)
            if step is None:
                return None
            row, more = step
            for each in more:
                trial.remove(each.id)
            victims += more
        trial.place(task, trial.name_of(row), chosen_devices(trial, task, row))
        found.append(row)
    return RelatedResult(found, victims)


def is_admitted(state: State, pricing: Pricing, task: Task, row: int) -> bool:
    """Whether a machine would take a task now."""
    of = state.relations.class_of(task)
    return has_room(pricing, task.shape, row) and not _refused(state, of)[row]


def _free_row(trial: State, pricing: Pricing, task: Task) -> int | None:
    of = trial.relations.class_of(task)
    prices, refused = pricing.prices(of.shape), _refused(trial, of)
    rows = prices.rows[prices.room > 0]
    admitted = rows[~refused[rows]]
    return int(admitted[0]) if len(admitted) else None


def _cheapest_row(
    trial: State,
    pricing: Pricing,
    task: Task,
    evictable: Evictable,
    victims: Sequence[Candidate],
) -> tuple[int, list[Candidate]] | None:
    """The machine whose victims cost least; `victims` leave anyway."""
    gone = {each.id for each in victims}
    lightest: list[tuple[int, int, list[Candidate]]] = []
    for row in pricing.prices(task.shape).rows.tolist():
        there = [c for c in evictable.on(row) if c.id not in gone and not c.terms.whole_group]
        if there:
            lightest.append((min(map(_weight, there)), row, there))
    options: list[tuple[tuple[int, int, int], int, list[Candidate]]] = []
    for _, row, there in sorted(lightest, key=lambda each: each[:2])[:MAX_TRIALS]:
        leaving = _needed(trial, pricing, task, row, there)
        if leaving is not None:
            usage = usage_of(name for c in (*victims, *leaving) for name in c.terms.budgets)
            highest = max(each.terms.priority for each in leaving)
            beyond = count_overruns(usage, evictable.allowed)
            options.append(((beyond, highest, sum(map(_weight, leaving))), row, leaving))
    if not options:
        return None
    _, row, leaving = min(options, key=lambda option: option[:2])
    return row, leaving


def _needed(
    trial: State, pricing: Pricing, task: Task, row: int, there: Sequence[Candidate]
) -> list[Candidate] | None:
    """Victims after whose end the machine admits the task: none of them can stay. None if it does
    not admit the task even without all candidates, or without all but those whose company the task
    requires."""
    company = _company(trial, task, there)
    for able in (there, [each for each in there if each.id not in company]):
        without = trial.overlay()
        for each in able:
            without.remove(each.id)
        prices = pricing.on(without)
        if not is_admitted(without, prices, task, row):
            continue
        leaving: list[Candidate] = []
        for each in sorted(able, key=_weight, reverse=True):
            put_back(without, each, trial)
            if not is_admitted(without, prices, task, row):
                without.remove(each.id)
                leaving.append(each)
        return leaving
    return None


def _company(state: State, task: Task, there: Sequence[Candidate]) -> set[str]:
    """The ids of the candidates that the required affinity of a task selects."""
    attracting = task.shape.relations.attracting
    if attracting is None:
        return set()
    number, selected = state.relations.selector_id(attracting), state.relations.selected
    return {each.id for each in there if number in selected.selectors_of(each.held.task.labels)}


def _refused(state: State, of: TaskClass) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    refused = np.zeros(len(state), np.bool_)
    if state.relations:
        for _, against in refusals_by_relations(state, of):
            refused |= against
    return refused


def _weight(candidate: Candidate) -> int:
    return weight_of(candidate.terms.priority, candidate.terms.started_seconds)
