"""What soft terms cost, against the formula of the documentation worked out machine by machine."""

import math
from random import Random

import numpy as np
import pytest

from afflux.cluster.state import State
from afflux.cluster.task_class import TaskClass
from afflux.model.machine import Machine
from afflux.model.relations import (
    AffinityTerm,
    Relations,
    SpreadConstraint,
    TaskLabels,
    TaskSelector,
)
from afflux.model.resources import resources
from afflux.model.selectors import Requirement
from afflux.model.task import Shape, Task
from afflux.plan.soft_terms import Candidates, SoftTerms
from afflux.policies.preference_cost import full_cost

KEYS = ("host", "zone", "rack")
APPS = ("a", "b", "c")


def random_machines(rng: Random) -> list[Machine]:
    machines: list[Machine] = []
    for number in range(rng.randint(1, 7)):
        labels = {"host": f"n{number}"}
        labels |= {key: f"{key}{rng.randrange(3)}" for key in KEYS[1:] if rng.random() < 0.85}
        machines.append(Machine(f"n{number}", resources({"pods": 50}), labels=labels))
    return machines


def selector(rng: Random) -> TaskSelector:
    apps = tuple(sorted(rng.sample(APPS, rng.randint(1, 2))))
    return TaskSelector(("x",), None, (Requirement("app", "In", apps),))


def random_relations(rng: Random) -> Relations:
    preferred = tuple(
        (rng.choice((-100, -3, 1, 20)), AffinityTerm(selector(rng), rng.choice(KEYS)))
        for _ in range(rng.choice((0, 0, 1, 2, 3)))
    )
    affinity = (AffinityTerm(selector(rng), rng.choice(KEYS)),) if rng.random() < 0.2 else ()
    spread = tuple(
        SpreadConstraint(
            selector(rng),
            key,
            rng.randint(1, 3),
            required=False,
            needs_all_keys=rng.random() < 0.7,
        )
        for key in rng.sample(KEYS, rng.choice((0, 0, 1, 2)))
    )
    return Relations(affinity, (), preferred, spread)


def task(name: str, app: str, relations: Relations) -> Task:
    shape = Shape(resources({"pods": 1}), relations=relations)
    return Task(name, name, shape, labels=TaskLabels("x", (("app", app),)))


def same_domain(one: Machine, other: Machine, key: str) -> bool:
    return key in one.labels and one.labels[key] == other.labels.get(key)


def affinity_costs(of: Task, machines: list[Machine], running: list[tuple[Task, Machine]]):
    """From nothing in the best domain to the full cost in the worst."""
    own = sum(abs(weight) for weight, _ in of.shape.relations.preferred)
    others = 0
    scores = [0] * len(machines)
    for each, where in running:
        for weight, term in of.shape.relations.preferred:
            if term.selector.matches(each.labels, {}):
                for place, machine in enumerate(machines):
                    scores[place] += weight * same_domain(machine, where, term.topology_key)
        for carried in each.shape.relations.carried:
            if carried.weight is not None and carried.term.selector.matches(of.labels, {}):
                others = max(others, abs(carried.weight))
                key = carried.term.topology_key
                for place, machine in enumerate(machines):
                    scores[place] += carried.weight * same_domain(machine, where, key)
    # The class states its terms against its own kind, too.
    for carried in of.shape.relations.carried:
        if carried.weight is not None and carried.term.selector.matches(of.labels, {}):
            others = max(others, abs(carried.weight))
    best, worst = max(scores), min(scores)
    if best == worst:
        return [0.0] * len(machines)
    full = full_cost(max(own, others))
    return [full * (best - score) / (best - worst) for score in scores]


def spread_costs(of: Task, machines: list[Machine], running: list[tuple[Task, Machine]]):
    """In proportion to the skew, at most the full cost."""
    constraints = of.shape.relations.spread
    if not constraints:
        return [0.0] * len(machines)
    keys = {each.topology_key for each in constraints}
    weighted: list[list[float]] = []
    allowed = 0.0
    for each in constraints:
        needed = keys if each.needs_all_keys else {each.topology_key}
        counted = [
            where
            for other, where in running
            if needed <= where.labels.keys() and each.selector.matches(other.labels, {})
        ]
        values = {machine.labels.get(each.topology_key) for machine in machines} - {None}
        weight = math.log(len(values) + 2)
        allowed += weight * each.max_skew
        weighted.append(
            [
                weight * sum(same_domain(machine, where, each.topology_key) for where in counted)
                if each.topology_key in machine.labels
                else math.nan
                for machine in machines
            ]
        )
    needed = {each.topology_key for each in constraints if each.needs_all_keys}
    usable = [needed <= machine.labels.keys() for machine in machines]
    if not any(usable):
        return [0.0] * len(machines)
    for row in weighted:
        known = [value for value in row if not math.isnan(value)]
        row[:] = [min(known, default=0.0) if math.isnan(value) else value for value in row]
    totals = [sum(column) for column in zip(*weighted, strict=True)]
    fair = [total for total, use in zip(totals, usable, strict=True) if use]
    range_or_allowed = max(max(fair) - min(fair), allowed)
    base = sum(min(v for v, use in zip(row, usable, strict=True) if use) for row in weighted)
    full = full_cost(100)
    return [
        full * (total - base) / range_or_allowed if use else full
        for total, use in zip(totals, usable, strict=True)
    ]


@pytest.mark.parametrize("batch", range(10))
def test_the_next_unit_of_a_class_costs_what_the_documented_formula_says(batch: int):
    met = 0
    for number in range(60):
        rng = Random(f"soft costs {batch} {number}")
        machines = random_machines(rng)
        state = State(machines)
        shared = [random_relations(rng) for _ in range(3)]
        running: list[tuple[Task, Machine]] = []
        for index in range(rng.randint(0, 8)):
            each = task(f"r{index}", rng.choice(APPS), rng.choice(shared))
            running.append((each, rng.choice(machines)))
            state.place(each, running[-1][1].name)
        waiting = task("w", rng.choice(APPS), rng.choice(shared))
        state.relations.use([waiting.shape.relations])
        of: TaskClass = state.relations.class_of(waiting)
        terms = SoftTerms(state, [of] if state.relations else [])
        rows = np.array([state.rows[machine.name] for machine in machines])
        none = np.zeros(len(rows), np.int64)
        found = np.zeros(len(rows))
        if terms:
            found = terms.cost(0, Candidates(rows, none + 1, none, 1)).cost
        affinity = affinity_costs(waiting, machines, running)
        spread = spread_costs(waiting, machines, running)
        expected = [a + b for a, b in zip(affinity, spread, strict=True)]
        assert found == pytest.approx(expected), (batch, number)
        met += any(expected)
    assert met > 20
