"""The policy disk-io: by hand-computed examples, and against plain loops."""

from random import Random

import numpy as np
import pytest

from afflux.cluster.state import State
from afflux.model.errors import InputError
from afflux.model.task import Shape, Task
from afflux.policies.disk_io import DiskIo
from afflux.policies.registry import make_policy
from oracles.builders import machine, shape
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
    taken_of,
)

SPREAD = DiskIo(scoring="LeastAllocated")


def on_disks(*volumes: tuple[int, int]) -> Shape:
    return Shape((("pods", 1),), disks=stated(*volumes))


@pytest.fixture
def state() -> State:
    state = State([machine("full"), machine("empty"), machine("two"), machine("none")])
    state.set_disks(report("full", disk("a", 40, 20, 80)))
    state.set_disks(report("empty", disk("a", 100, 100, 200)))
    state.set_disks(report("two", disk("a", 100, 100, 200), disk("b", 50, 40, 100)))
    return state


def test_most_allocated_packs_the_fullest_disk_costs_least(state: State):
    # R is 20, 10, 30: on full 20/40, 10/20, 30/80; on empty 20/100, 10/100, 30/200; on two disk b
    # is taken, 20/50, 10/40, 30/100.
    ratios = [np.mean([0.5, 0.5, 0.375]), np.mean([0.2, 0.1, 0.15]), np.mean([0.4, 0.25, 0.3])]
    costs = [round(1000 * (1 - ratio)) for ratio in ratios]
    assert DiskIo().cost(on_disks((20, 10)), state.view()).tolist() == [*costs, 0]
    assert DiskIo().slope(on_disks((20, 10)), state.view()).tolist() == [0, 0, 0, 0]


def test_least_allocated_spreads_and_further_tasks_cost_more(state: State):
    ratios = [np.mean([0.5, 0.5, 0.375]), np.mean([0.2, 0.1, 0.15]), np.mean([0.4, 0.25, 0.3])]
    costs = [round(1000 * ratio) for ratio in ratios]
    assert SPREAD.cost(on_disks((20, 10)), state.view()).tolist() == [*costs, 1000]
    slopes = [round(1000 * ratio**2) for ratio in ratios]
    assert SPREAD.slope(on_disks((20, 10)), state.view()).tolist() == [*slopes, 1000]


def test_what_is_not_asked_for_has_a_ratio_of_zero(state: State):
    costs = SPREAD.cost(on_disks((20, 0)), state.view()).tolist()
    assert costs[0] == round(1000 * (20 / 40 + 20 / 80) / 3)
    assert SPREAD.cost(on_disks((0, 0)), state.view()).tolist() == [0, 0, 0, 1000]


def test_several_volumes_count_with_the_mean_of_their_ratios(state: State):
    # Both go to the only disk of full, one after the other: 10/40, 10/80; then 10/30, 10/70.
    first, second = (10 / 40 + 10 / 80) / 3, (10 / 30 + 10 / 70) / 3
    costs = SPREAD.cost(on_disks((10, 0), (10, 0)), state.view()).tolist()
    assert costs[0] == round(1000 * (first + second) / 2)


def test_a_default_charge_and_a_task_without_disks_cost_nothing(state: State):
    for of in (shape(cpu=1), Shape((("pods", 1),), disks=default_charge(5, 5))):
        for policy in (DiskIo(), SPREAD):
            assert policy.cost(of, state.view()).tolist() == [0, 0, 0, 0]
            assert policy.slope(of, state.view()).tolist() == [0, 0, 0, 0]


def test_costs_scale_with_omega_and_tasks_that_run_count(state: State):
    assert DiskIo(omega=10).cost(on_disks((40, 0)), state.view()).tolist()[0] == 5
    state.place(Task("t", "t", on_disks((20, 0))), "full")
    assert SPREAD.cost(on_disks((20, 0)), state.view()).tolist()[0] == round(
        1000 * (20 / 20 + 20 / 60) / 3
    )


def test_the_arguments_of_the_configuration():
    made = make_policy("disk-io", {"scoring": "LeastAllocated", "omega": 20}, "policies[0]")
    assert made == DiskIo("LeastAllocated", 20)
    with pytest.raises(InputError) as error:
        make_policy("disk-io", {"scoring": "Balanced"}, "policies[0]")
    assert str(error.value) == (
        "policies[0]: policy disk-io, argument scoring: 'Balanced'; expected MostAllocated or "
        "LeastAllocated"
    )


@pytest.mark.parametrize("seed", range(40))
def test_costs_are_those_of_the_fullest_fitting_disk_of_each_machine(seed: int):
    rng, prices = Random(f"disk-io {seed}"), Prices()
    state = State([machine(f"m{i}") for i in range(6)])
    state.set_normalisers(frozenset(MODELS), prices)
    for name in state.rows:
        if rng.random() < 0.8:
            state.set_disks(report(name, *random_disks(rng), refused=rng.choice(("", "", "no"))))
    of = Shape((("pods", 1),), disks=random_request(rng))
    rows = np.array(rng.sample(range(6), 4))
    for policy in (DiskIo(), SPREAD):
        column = policy.cost(of, state.view())
        assert policy.cost(of, state.view(rows)).tolist() == column[rows].tolist()
        assert policy.slope(of, state.view(rows)).tolist() == (
            policy.slope(of, state.view())[rows].tolist()
        )
    if of.disks is None or not of.disks.is_stated or len(of.disks.volumes) > 1:
        return
    (volume,) = of.disks.volumes
    for name, row in state.rows.items():
        known = state.disks.report(name)
        ratio = 1.0
        if known is not None and not known.refused:
            room = DiskRoom(known, {d.id: list(kinds(d.left)) for d in known.disks}, prices)
            fitting = [known.disks[i] for (i,) in room.choices(of.disks)]
            if fitting:
                fullest = min(fitting, key=lambda d: d.left.total)
                taken = taken_of(prices, fullest, volume, of.disks)
                assert taken is not None
                pairs = list(zip(kinds(taken), kinds(fullest.left), strict=True))
                ratio = sum(asked / left if asked else 0.0 for asked, left in pairs) / 3
        assert SPREAD.cost(of, state.view()).tolist()[row] == round(1000 * ratio)
