"""Why the disks of a machine refuse a task: one reason for each machine, the first that holds."""

from random import Random

import pytest

from afflux.admit.feasibility import Feasibility
from afflux.cluster.state import State
from afflux.cluster.task_class import TaskClass
from afflux.model.disks import DiskReport, DiskRequest
from afflux.model.task import Task
from afflux.network.pricing import Pricing
from afflux.plan.explain import verdicts, why_waiting
from afflux.policies.registry import constraints
from oracles.builders import group, machine, shape
from oracles.disks import (
    MODELS,
    DiskRoom,
    Prices,
    default_charge,
    disk,
    kinds,
    random_disks,
    random_request,
    report,
    stated,
)

NO_INFORMATION = "node(s) had no disk IO information"
NO_NORMALISER = "node(s) had disks of a model without a normalisation function"
TOO_LITTLE = "node(s) had insufficient disk bandwidth"


def state_of(*reports: DiskReport) -> State:
    state = State([machine("m", cpu=1)])
    state.set_normalisers(frozenset(MODELS), Prices())
    for each in reports:
        state.set_disks(each)
    return state


def against(state: State, request: DiskRequest | None, **fields: int) -> tuple[str, ...]:
    of = TaskClass(shape(disks=request, **fields))
    return verdicts(state, lambda _: constraints(), of)["m"]


@pytest.mark.parametrize(
    ("reports", "expected"),
    [
        ([], NO_INFORMATION),
        ([report("m")], NO_INFORMATION),
        (
            [report("m", disk("a", 9, 9), refused="the IO driver is silent")],
            "the IO driver is silent",
        ),
        ([report("m", refused="the IO driver is silent")], "the IO driver is silent"),
        ([report("m", disk("a", 9, 9, model="acme/unknown"))], NO_NORMALISER),
        ([report("m", disk("a", 9, 9, model="acme/unknown"), disk("b", 1, 1))], TOO_LITTLE),
        ([report("m", disk("a", 3, 9))], TOO_LITTLE),
        ([report("m", disk("a", 7, 9, model="acme/slow"))], TOO_LITTLE),
    ],
)
def test_the_first_reason_is_given(reports: list[DiskReport], expected: str):
    assert against(state_of(*reports), stated((4, 0))) == (expected,)


def test_a_volume_that_has_no_normaliser_anywhere_is_the_reason_before_bandwidth():
    state = state_of(report("m", disk("a", 3, 3, model="acme/unknown")))
    assert against(state, stated((4, 0), (1, 0))) == (NO_NORMALISER,)
    # A default charge counts there as it is stated.
    assert against(state, default_charge(4, 0)) == (TOO_LITTLE,)
    assert against(state, default_charge(3, 3)) == ()


def test_a_default_charge_is_refused_only_by_disks_that_are_known_and_full():
    charge = default_charge(5, 5)
    assert against(state_of(), charge) == ()
    assert against(state_of(report("m", disk("a", 1, 1), refused="silent")), charge) == ()
    assert against(state_of(report("m", disk("a", 1, 1))), charge) == (TOO_LITTLE,)


def test_resources_are_named_before_disks():
    state = state_of(report("m", disk("a", 1, 1)))
    assert against(state, stated((4, 0)), cpu=2) == ("Insufficient cpu",)
    assert against(state, None, cpu=1) == ()


def test_the_sentence_counts_the_machines_by_reason():
    state = State([machine(name) for name in "abcd"])
    state.set_disks(report("a", disk("x", 1, 1)))
    state.set_disks(report("b", disk("x", 2, 2)))
    state.set_disks(report("c", disk("x", 9, 9), refused="node(s) had a silent IO driver"))
    waiting = group("g", shape(disks=stated((4, 0))))
    (sentence,) = why_waiting(state, lambda _: constraints(), [waiting]).values()
    assert sentence == (
        f"0/4 nodes are available: 1 node(s) had a silent IO driver, 1 {NO_INFORMATION}, "
        f"2 {TOO_LITTLE}."
    )


@pytest.mark.parametrize("seed", range(60))
def test_a_machine_has_a_reason_exactly_if_no_choice_of_disks_fits(seed: int):
    rng, prices = Random(f"explain disks {seed}"), Prices()
    state = State([machine("m")])
    state.set_normalisers(frozenset(MODELS), prices)
    room = DiskRoom(prices=prices)
    if rng.random() < 0.85:
        disks = random_disks(rng, 15)
        room.report = report("m", *disks, refused=rng.choice(("", "", "", "silent")))
        room.left = {each.id: list(kinds(each.left)) for each in disks}
        state.set_disks(room.report)
    for _ in range(20):
        request = random_request(rng)
        assert bool(against(state, request)) != bool(room.choices(request))


def infeasible(state: State, *requests: DiskRequest) -> str | None:
    feasibility = Feasibility(state, Pricing(state, constraints(), []))
    waiting = group("g", *(shape(disks=request) for request in requests))
    return feasibility.infeasible_reason(waiting)


def test_what_the_disks_have_without_any_task_decides_whether_a_group_can_ever_fit():
    state = state_of(report("m", disk("a", 9, 9)))
    state.place(Task("t", "t", shape(disks=stated((5, 0)))), "m")
    state.set_disks(report("m", disk("a", 4, 9, 13), of=["t", "unknown"]))
    assert infeasible(state, stated((9, 0))) is None
    assert infeasible(state, stated((10, 0))) == (
        "needs disk bandwidth for it at once; the empty cluster has it nowhere"
    )
    assert infeasible(state, *[stated((4, 0))] * 3) == (
        "needs disk bandwidth for 3 of its members at once; the empty cluster has it for 2 of them"
    )
    assert infeasible(state, stated((5, 0)), stated((6, 0))) == (
        "its members do not fit together, even on the empty cluster"
    )


def test_a_group_that_no_reported_disk_could_serve_is_told_so():
    assert infeasible(state_of(), stated((1, 0))) == (
        "states what it does on disks; no node that admits it reports its disks"
    )
    assert infeasible(state_of(), default_charge(1, 0)) is None


def test_disks_that_are_silent_for_now_may_serve_a_group_later():
    silent = report("m", disk("a", 9, 9), refused="silent")
    assert infeasible(state_of(silent), stated((9, 0))) is None


def test_answers_follow_what_disks_could_take_and_no_other_change_of_what_they_have_left():
    state = state_of(report("m", disk("a", 9, 9)))
    feasibility = Feasibility(state, Pricing(state, constraints(), []))
    large = group("large", shape(disks=stated((12, 0))))
    other = group("other", shape(cpu=5))
    assert set(feasibility.infeasible_reasons([large, other])) == {"large", "other"}
    version = state.disks.capacity_version
    state.place(Task("t", "t", shape(disks=stated((5, 0)))), "m")
    state.set_disks(report("m", disk("a", 4, 9, 13), of=["t"]))
    assert state.disks.capacity_version == version
    state.set_disks(report("m", disk("a", 7, 9, 16), of=["t"]))
    assert set(feasibility.infeasible_reasons([large, other])) == {"other"}
    state.remove_disks("m")
    assert set(feasibility.infeasible_reasons([large, other])) == {"large", "other"}
