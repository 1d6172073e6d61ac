"""The checker refuses plans with evictions that break a rule."""

from dataclasses import replace

import pytest

from afflux.cluster.state import State
from afflux.model.eviction import Eviction, EvictionCause
from afflux.model.eviction_terms import EvictionTerms
from afflux.model.placement import Placement
from afflux.plan.check import PlanError
from afflux.plan.check_evictions import check_evictions
from afflux.plan.plan import Plan
from oracles.builders import group, machine, shape, task

HIGH = group("high", shape(cpu=2), priority=9)


def cluster(*, priority: int = 0, whole: bool = False) -> State:
    """Two machines, each full with one task."""
    state = State([machine("m", cpu=2), machine("n", cpu=2)])
    for name, where in (("one", "m"), ("two", "n")):
        terms = EvictionTerms("g", priority, budgets=("pdb",), whole_group=whole)
        state.place(task(name, shape(cpu=2)), where, terms=terms)
    return state


def eviction(name: str, where: str) -> Eviction:
    return Eviction(task(name, shape(cpu=2)), where, EvictionCause.PREEMPT, HIGH.tasks)


RIGHT = Plan(
    evictions=(eviction("one", "m"),),
    nominated=(HIGH,),
    nominations=(Placement(HIGH.tasks[0], "m"),),
    overruns={"pdb": 1},
)


def check(plan: Plan, state: State | None = None, allowed: int = 0) -> None:
    check_evictions(state or cluster(), plan, {"pdb": allowed})


def test_a_right_plan_passes():
    check(RIGHT)
    check(replace(RIGHT, overruns={}), allowed=1)


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (replace(RIGHT, evictions=()), "Insufficient cpu"),
        (replace(RIGHT, evictions=(*RIGHT.evictions, eviction("two", "n"))), "could stay"),
        (replace(RIGHT, evictions=RIGHT.evictions * 2), "evicted twice"),
        (replace(RIGHT, evictions=(eviction("one", "n"),)), "not there"),
        (replace(RIGHT, overruns={}), "beyond budgets"),
        (
            replace(RIGHT, evictions=(replace(eviction("one", "m"), needed_by=()),)),
            "for no task",
        ),
        (
            replace(
                RIGHT,
                evictions=(replace(eviction("one", "m"), needed_by=(task("other"),)),),
            ),
            "not nominated",
        ),
        (replace(RIGHT, nominations=()), "is said to be placed and is not"),
    ],
)
def test_a_wrong_plan_is_refused(plan: Plan, words: str):
    with pytest.raises(PlanError, match=words):
        check(plan)


def test_equals_are_not_evicted():
    with pytest.raises(PlanError, match="no higher priority"):
        check(RIGHT, cluster(priority=9))


def test_a_group_that_leaves_as_a_whole_is_not_evicted_in_part():
    with pytest.raises(PlanError, match="only in part"):
        check(RIGHT, cluster(whole=True))


def test_a_task_without_terms_is_not_evicted():
    state = State([machine("m", cpu=2), machine("n", cpu=2)])
    state.place(task("one", shape(cpu=2)), "m")
    with pytest.raises(PlanError, match="no eviction terms"):
        check(RIGHT, state)
