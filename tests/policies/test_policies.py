"""Policies by hand-computed examples, and what every policy has to keep."""

from dataclasses import replace
from random import Random

import numpy as np
import pytest

from afflux.cluster.resource_table import UNSTATED
from afflux.cluster.state import State
from afflux.cluster.task_room import FreeCapacity, refusals, room_of
from afflux.model.errors import InputError
from afflux.model.images import Images
from afflux.model.selectors import ANYWHERE, NodeAffinity, Requirement, Term
from afflux.model.taints import Taint, Toleration
from afflux.model.task import Shape
from afflux.policies import node_affinity
from afflux.policies.cpu_memory import CpuMemory
from afflux.policies.image_locality import ImageLocality
from afflux.policies.load_spreading import LoadSpreading
from afflux.policies.policy import Policy, admitted_by
from afflux.policies.registry import constraints, make_policy, policy_names
from afflux.policies.taints import Taints
from oracles.builders import machine, shape, task
from oracles.naive_model import World, admits, affinity_holds, image_score, term_holds, tolerated
from oracles.random_clusters import MIB, Generator, random_affinity

ALL = (Policy(), *constraints(), CpuMemory(), LoadSpreading())


def test_load_spreading_costs_a_hundred_for_each_task_that_runs():
    state = State([machine("m"), machine("n"), machine("o")])
    for number, name in enumerate("mmmn"):
        state.place(task(f"t{number}"), name)
    policy = LoadSpreading()
    assert policy.cost(shape(cpu=7), state.view()).tolist() == [300, 100, 0]
    assert policy.slope(shape(cpu=7), state.view()).tolist() == [100, 100, 100]
    assert LoadSpreading(per_task=7).cost(shape(), state.view()).tolist() == [21, 7, 0]


def test_cpu_memory_costs_the_mean_use_and_its_variance():
    # After the task: cpu 4/10 and 3/4, memory 2/10 and 3/12.
    state = State([machine("m", cpu=10, memory=10), machine("n", cpu=4, memory=12)])
    state.place(task("a", shape(cpu=1, memory=1)), "m")
    state.place(task("b", shape(memory=2)), "n")
    asked = shape(cpu=3, memory=1)
    # 1000 * (0.4 + 0.2) / 2 + 1000 * 0.1 ** 2;  1000 * (0.75 + 0.25) / 2 + 1000 * 0.25 ** 2
    assert CpuMemory().cost(asked, state.view()).tolist() == [310, 562]
    # 1000 * (0.3 + 0.1) / 2;  1000 * (0.75 + 1 / 12) / 2 = 416.67
    assert CpuMemory().slope(asked, state.view()).tolist() == [200, 417]


def test_cpu_memory_prefers_the_even_machine_among_equally_full_ones():
    state = State([machine("even", cpu=10, memory=10), machine("odd", cpu=10, memory=10)])
    state.place(task("a", shape(cpu=3, memory=3)), "even")
    state.place(task("b", shape(cpu=6)), "odd")
    even, odd = CpuMemory().cost(shape(cpu=1, memory=1), state.view()).tolist()
    assert (even, odd) == (400, 400 + 90)


def test_cpu_memory_counts_overcommitted_machines_as_full_and_empty_capacity_as_unused():
    state = State([machine("over", cpu=2, memory=2), machine("none")])
    state.place(task("a", shape(cpu=9, memory=9)), "over")
    assert CpuMemory().cost(shape(), state.view()).tolist() == [1000, 0]
    assert CpuMemory(omega=100).cost(shape(), state.view()).tolist() == [100, 0]


def test_the_first_soft_taint_costs_most_and_further_ones_a_tenth_of_omega():
    soft = tuple(Taint(f"t{i}", "PreferNoSchedule") for i in range(12))
    state = State(
        [machine("none"), machine("two", taints=soft[:2]), machine("twelve", taints=soft)]
    )
    assert Taints().cost(shape(), state.view()).tolist() == [0, 3100, 4000]
    tolerant = shape(tolerations=(Toleration("t0", "Exists"),))
    assert Taints().cost(tolerant, state.view()).tolist() == [0, 3000, 4000]
    assert Taints().admits(shape(), state.view()).all()


def test_preferred_terms_cost_their_share_where_they_are_missed():
    state = State(
        [machine("a", labels={"x": "", "y": ""}), machine("b", labels={"x": ""}), machine("c")]
    )
    preferred = tuple(
        (weight, Term((Requirement(key, "Exists"),))) for weight, key in ((30, "x"), (10, "y"))
    )
    wants = shape(affinity=NodeAffinity(preferred=preferred))
    assert node_affinity.NodeAffinity().cost(wants, state.view()).tolist() == [0, 700, 2800]
    assert node_affinity.NodeAffinity().cost(shape(), state.view()).tolist() == [0, 0, 0]


def test_an_image_counts_with_its_size_and_its_spread_from_23_to_1000_mebibytes():
    at_half = {"half": 500 * MIB}
    state = State(
        [
            machine("a", images=at_half | {"small": 30 * MIB}),
            machine("b", images=at_half | {"huge": 9000 * MIB}),
            machine("c", images={"small": 40 * MIB}),
            machine("d"),
        ]
    )

    def costs(*names: str, image_count: int = 1) -> list[int]:
        return ImageLocality().cost(shape(images=Images(names, image_count)), state.view()).tolist()

    # Half of the machines have it: 250 MiB count, (250 - 23) / (1000 - 23) = 23 percent.
    assert costs("half") == [38, 38, 50, 50]
    # Twice is 500 MiB of at most 2000; a quarter of the machines have the 9000 MiB.
    assert costs("half", "half", image_count=2) == [38, 38, 50, 50]
    assert costs("huge") == [50, 0, 50, 50]
    # 15 and 20 MiB are below what counts at all.
    assert costs("small") == [50, 50, 50, 50]
    assert costs("nowhere") == [50, 50, 50, 50]
    assert ImageLocality().cost(shape(), state.view()).tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("weights", [(1,), (1, 1), (1, 30), (5, 40, 55), (1, 100, 100)])
def test_no_image_outweighs_a_preferred_term(weights: tuple[int, ...]):
    everywhere = {"there": 9000 * MIB}
    state = State(
        [
            machine(f"m{number}", labels={f"k{number}": ""}, images=everywhere)
            for number in range(len(weights))
        ]
        + [machine("all", labels={f"k{number}": "" for number in range(len(weights))})]
    )
    preferred = tuple(
        (weight, Term((Requirement(f"k{number}", "Exists"),)))
        for number, weight in enumerate(weights)
    )
    wants = shape(affinity=NodeAffinity(preferred=preferred), images=Images(("there",), 1))
    wanted = node_affinity.NodeAffinity().cost(wants, state.view())
    total = wanted + ImageLocality().cost(wants, state.view())
    # A machine that misses a term costs more than one that matches all and has no image.
    dearer = wanted[:-1] > 0
    assert (total[:-1] > total[-1])[dearer].all()


def random_state(rng: Random) -> tuple[State, World, Generator]:
    generator = Generator(rng)
    generator.constrained = True
    state, world = State(), World()
    for offered in generator.machines():
        state.set_machine(offered)
        world.set_machine(offered)
    for number in range(rng.randint(0, 10)):
        running = task(f"r{number}", generator.shape())
        name = rng.choice(list(world.machines))
        state.place(running, name)
        world.run(running, name)
    for name in list(world.machines):
        if rng.random() < 0.2:
            state.remove_machine(name)
            world.remove_machine(name)
            if rng.random() < 0.5:
                again = generator.machine(f"n{rng.randrange(9)}")
                state.set_machine(again)
                world.set_machine(again)
    return state, world, generator


@pytest.mark.parametrize("seed", range(40))
def test_any_subset_of_rows_is_priced_as_it_is_among_all(seed: int):
    rng = Random(f"rows {seed}")
    state, _, generator = random_state(rng)
    for _ in range(6):
        of = generator.shape()
        rows = np.array(rng.sample(range(len(state)), rng.randint(0, len(state))), np.intp)
        for policy in ALL:
            for question in ("admits", "cost", "slope"):
                answer = getattr(policy, question)
                everywhere = answer(of, state.view())
                assert len(everywhere) == len(state)
                assert answer(of, state.view(rows)).tolist() == everywhere[rows].tolist()
                assert everywhere.dtype == (np.bool_ if question == "admits" else np.int64)
                assert (everywhere >= 0).all()


@pytest.mark.parametrize("seed", range(40))
def test_columns_agree_with_the_scalar_model(seed: int):
    rng = Random(f"columns {seed}")
    state, world, generator = random_state(rng)
    for _ in range(8):
        for name in rng.sample(list(world.machines), min(2, len(world.machines))):
            changed = generator.machine(name)
            state.set_machine(changed)
            world.set_machine(changed)
        of = generator.shape()
        affinity = random_affinity(rng)
        image_costs = ImageLocality().cost(replace(of, affinity=ANYWHERE), state.view())
        together = admitted_by(constraints(), of, state.view())
        by_taint = Taints().admits(of, state.view())
        matched = state.view().admitted(affinity)
        terms = [(t, state.view().matching(t)) for t in affinity.required or ()]
        for name, row in state.rows.items():
            offered = world.machines[name]
            assert bool(together[row]) == admits(offered, of)
            hard = [t for t in offered.taints if t.effect != "PreferNoSchedule"]
            assert bool(by_taint[row]) == all(tolerated(t, of.tolerations) for t in hard)
            assert bool(matched[row]) == affinity_holds(affinity, offered)
            score = image_score(world, offered, of)
            assert int(image_costs[row]) == 50 * (100 - score) // 100
            for term, column in terms:
                assert bool(column[row]) == term_holds(term, offered)
        gone = np.setdiff1d(np.arange(len(state)), list(state.rows.values()))
        assert not together[gone].any()


@pytest.mark.parametrize("seed", range(40))
def test_room_is_how_many_fit_one_after_the_other(seed: int):
    rng = Random(f"room {seed}")
    state, world, generator = random_state(rng)
    shapes = [generator.shape() for _ in range(4)]
    for of in shapes:
        state.requests(of)  # every resource has its column now
    for of in shapes:
        requests = state.requests(of)
        asked = np.flatnonzero(requests)
        machines = state.view()
        free = machines.free_of(asked)
        devices = machines.free_devices
        there = FreeCapacity(free, devices)
        column = room_of(requests[asked], of, there)
        without_devices = room_of(requests[asked], replace(of, devices=None), there)
        refused = refusals(requests[asked], of, there)
        for name, row in state.rows.items():
            room = world.rooms()[name]
            too_little = {r for r, asked in of.requests if room.left(r) < asked}
            names = {state.resource_names[c] for c in asked[refused[row, : len(asked)]]}
            assert names - {UNSTATED} == too_little - set(state.resource_table.unstated(of))
            assert refused[row].any() == (column[row] == 0)
            assert (column[row] > 0) == room.fits(of)
            counted = min(max(0, room.left(r)) // asked for r, asked in of.requests)
            assert without_devices[row] == counted


def test_a_shape_without_requests_fits_everywhere():
    nothing = np.zeros(0, np.int64)
    free = FreeCapacity(np.zeros((1, 0), np.int64))
    assert room_of(nothing, Shape(()), free).tolist() == [1 << 31]


def test_the_policies_that_can_be_named():
    assert {"cpu-memory", "load-spreading"} <= set(policy_names())
    assert make_policy("load-spreading", {"per_task": 5}, "here") == LoadSpreading(5)
    assert make_policy("cpu-memory", {}, "here") == CpuMemory()


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("nope", {}, "here: unknown policy 'nope'; expected one of .*cpu-memory.*load-spreading"),
        ("cpu-memory", {"omgea": 1}, "here: policy cpu-memory has no argument 'omgea'; .*omega"),
        ("cpu-memory", {"omega": -1}, "argument omega: -1; expected an integer >= 0"),
        ("cpu-memory", {"omega": "1"}, "argument omega: '1'; expected an integer >= 0"),
        ("cpu-memory", {"omega": 1.5}, "argument omega: 1.5; expected an integer >= 0"),
        ("cpu-memory", {"omega": True}, "argument omega: True; expected an integer >= 0"),
        ("load-spreading", {"per_task": None}, "argument per_task: None; expected an integer"),
    ],
)
def test_a_wrong_policy_names_the_place_the_value_and_what_was_expected(name, arguments, words):
    with pytest.raises(InputError, match=words):
        make_policy(name, arguments, "here")
