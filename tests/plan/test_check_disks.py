"""The checker refuses plans that break a rule about disks, and reads nothing of the account."""

from random import Random

import pytest

from afflux.cluster.state import State
from afflux.model.disks import DiskReport, DiskRequest
from afflux.model.placement import Placement
from afflux.model.task import Task
from afflux.plan.check import PlanError, check_plan
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


def state_of(*reports: DiskReport) -> State:
    state = State([machine("m", devices=1)])
    state.set_normalisers(frozenset(MODELS), Prices())
    for each in reports:
        state.set_disks(each)
    return state


def check(state: State, *planned: tuple[DiskRequest, tuple[int, ...]], count: int = 0) -> None:
    groups = [
        group(f"g{number}", shape(disks=request, count=count, milli=500))
        for number, (request, _) in enumerate(planned)
    ]
    placements = [
        Placement(of.tasks[0], "m", devices)
        for of, (_, devices) in zip(groups, planned, strict=True)
    ]
    check_plan(state, groups, placements)


TWO_DISKS = report("m", disk("a", 9, 9), disk("b", 5, 5))


def test_a_plan_that_fills_disks_exactly_passes():
    check(state_of(TWO_DISKS), (stated((9, 0), (5, 5)), (0, 1)), (stated((0, 9)), (0,)))
    check(state_of(TWO_DISKS), (stated((9, 0)), (0, 0)), count=1)
    check(state_of(), (default_charge(99, 99), ()))


@pytest.mark.parametrize(
    ("planned", "words"),
    [
        ([(stated((10, 0)), (0,))], "insufficient disk bandwidth"),
        ([(stated((5, 0)), (0,)), (stated((5, 0)), (0,))], "insufficient disk bandwidth"),
        ([(stated((5, 0), (5, 0)), (0, 0))], "insufficient disk bandwidth"),
        ([(default_charge(6, 0), (1,))], "insufficient disk bandwidth"),
        ([(stated((1, 0)), (2,))], "there is no disk 2"),
        ([(stated((1, 0), (1, 0)), (0,))], r"2 volumes have the disks \[0\]"),
        ([(default_charge(1, 0), ())], r"1 volumes have the disks \[\]"),
    ],
)
def test_a_plan_that_breaks_a_rule_is_refused(
    planned: list[tuple[DiskRequest, tuple[int, ...]]], words: str
):
    with pytest.raises(PlanError, match=words):
        check(state_of(TWO_DISKS), *planned)


@pytest.mark.parametrize(
    ("reports", "words"),
    [
        ([], "no disk IO information"),
        ([report("m", disk("a", 9, 9), refused="the driver is silent")], "the driver is silent"),
        ([report("m", disk("a", 9, 9, model="acme/unknown"))], "without a normalisation function"),
        ([report("m", disk("a", 1, 1, model="acme/slow"))], "insufficient disk bandwidth"),
    ],
)
def test_a_stated_request_needs_known_disks(reports: list[DiskReport], words: str):
    chosen = (0,) if reports and not reports[0].refused else ()
    with pytest.raises(PlanError, match=words):
        check(state_of(*reports), (stated((1, 0)), chosen))


def test_disks_where_none_are_known_are_refused():
    with pytest.raises(PlanError, match="there are no disks"):
        check(state_of(), (default_charge(1, 0), (0,)))


def test_unacknowledged_tasks_count_and_acknowledged_ones_give_back_when_they_end():
    state = state_of(report("m", disk("a", 9, 9)))
    for name in ("acknowledged", "ended", "new"):
        state.place(Task(name, name, shape(disks=stated((2, 0)))), "m")
    state.set_disks(report("m", disk("a", 5, 9, 14), of=["acknowledged", "ended"]))
    state.remove("ended")
    check(state, (stated((5, 0)), (0,)))
    with pytest.raises(PlanError, match="insufficient disk bandwidth"):
        check(state, (stated((6, 0)), (0,)))


@pytest.mark.parametrize("seed", range(60))
def test_the_checker_agrees_with_plain_arithmetic(seed: int):
    rng, prices = Random(f"check disks {seed}"), Prices()
    disks = random_disks(rng, 20)
    for _ in range(20):
        state = state_of(report("m", *disks))
        room = DiskRoom(report("m", *disks), {d.id: list(kinds(d.left)) for d in disks}, prices)
        planned: list[tuple[DiskRequest, tuple[int, ...]]] = []
        is_right = True
        for _ in range(rng.randint(1, 3)):
            request = random_request(rng)
            count = len(request.volumes) if disks else 0
            chosen = tuple(rng.randrange(len(disks)) for _ in range(count))
            is_right &= chosen in room.choices(request)
            room.take(request, chosen)
            planned.append((request, chosen))
        try:
            check(state, *planned)
        except PlanError:
            assert not is_right
        else:
            assert is_right
