"""Preferences beside requirements: they change where tasks go, never whether a rule holds, and
leave no task waiting."""

from dataclasses import replace
from random import Random

import pytest

from afflux.model.relations import AffinityTerm, SpreadConstraint, TaskSelector
from afflux.model.selectors import Requirement
from afflux.model.task import Task
from afflux.model.waiting_group import WaitingGroup
from afflux.plan.check import check_complete, check_plan
from oracles.builders import decide
from oracles.related_pods import APPS, HOST, NAMESPACES, RACK, ZONE, RelatedPods

CLUSTERS_PER_BATCH = 50


def selector(rng: Random) -> TaskSelector:
    apps = tuple(sorted(rng.sample(APPS, rng.randint(1, 2))))
    return TaskSelector(NAMESPACES, None, (Requirement("app", "In", apps),))


def with_preferences(task: Task, seed: str) -> Task:
    """The same preferences for every task of one shape."""
    rng = Random(f"{seed} {task.shape.relations} {task.shape.requests}")
    relations = task.shape.relations
    preferred = tuple(
        (
            rng.choice((-100, -1, 1, 100)),
            AffinityTerm(selector(rng), rng.choice((HOST, ZONE, RACK))),
        )
        for _ in range(rng.choice((0, 1, 2)))
    )
    spread = tuple(
        SpreadConstraint(selector(rng), key, rng.randint(1, 3), required=False)
        for key in rng.sample((HOST, ZONE, RACK), rng.choice((0, 1, 2)))
    )
    preferring = replace(relations, preferred=preferred, spread=(*relations.spread, *spread))
    return replace(task, shape=replace(task.shape, relations=preferring))


@pytest.mark.parametrize("batch", range(4))
def test_rounds_with_preferences_keep_every_requirement_and_place_as_many(batch: int):
    placed = placed_without = 0
    for number in range(CLUSTERS_PER_BATCH):
        seed = f"preferences {batch} {number}"
        random = RelatedPods(Random(seed))
        state = random.state()
        plain = random.groups()
        groups = [
            WaitingGroup(g.name, tuple(with_preferences(t, seed) for t in g.tasks), g.priority)
            for g in plain
        ]
        decided = decide(state, *groups)
        check_plan(state, groups, decided.placements)
        check_complete(decided.placed, decided.placements)
        placed += len(decided.placements)
        placed_without += len(decide(random.state(), *plain).placements)
    assert placed >= 0.97 * placed_without
