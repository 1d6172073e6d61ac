"""Preferences are costs on one scale: within a pod as in kube-scheduler, between pods by weight."""

from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afflux.cluster.state import State
from afflux.model.machine import Machine
from afflux.model.resources import CPU, MEMORY, resources
from afflux.model.selectors import NodeAffinity, Requirement, Term
from afflux.model.task import Shape
from afflux.model.waiting_group import WaitingGroup
from afflux.policies import node_affinity
from afflux.policies.policy import OMEGA
from afflux.policies.preference_cost import full_cost
from oracles.builders import decide, group, machine, shape

GPU = Term((Requirement("gpu", "Exists"),))
ZONE = Term((Requirement("zone", "Exists"),))


def prefers(*preferred: tuple[int, Term], **amounts: int) -> Shape:
    return shape(affinity=NodeAffinity(preferred=preferred), **amounts)


def gpu_machine_and_others(others: int = 2) -> list[Machine]:
    """One machine with a GPU, with room for one task of 4 cores, and others of the same size."""
    with_gpu = machine("gpu", cpu=4, memory=4, labels={"gpu": "", "zone": "a"})
    plain = [machine(f"m{i}", cpu=4, memory=4, labels={"zone": "a"}) for i in range(others)]
    return [*plain, with_gpu]


def machines_of(machines: list[Machine], groups: list[WaitingGroup]) -> dict[str, str]:
    """The machine of each group after one round."""
    placements = decide(State(machines), *groups).placements
    return {placement.task.name.split(".")[0]: placement.machine for placement in placements}


@pytest.mark.parametrize("first", ["weak", "strong"])
def test_of_two_pods_the_one_with_the_stronger_preference_gets_the_only_gpu_machine(first: str):
    shapes = {"weak": prefers((1, GPU), cpu=4), "strong": prefers((100, GPU), cpu=4)}
    order = sorted(shapes, key=lambda name: name != first)
    groups = [group(name, shapes[name], ready=float(i)) for i, name in enumerate(order)]
    found = machines_of(gpu_machine_and_others(), groups)
    assert found["strong"] == "gpu"
    assert found["weak"] != "gpu"


@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_the_order_of_arrival_does_not_decide_between_preferences(order: tuple[int, ...]):
    weights = [3, 40, 41, 7]
    groups = [group(f"w{weights[i]}", prefers((weights[i], GPU), cpu=4)) for i in order]
    found = machines_of(gpu_machine_and_others(others=3), groups)
    assert [name for name, where in found.items() if where == "gpu"] == ["w41"]


def test_a_weight_of_100_beats_a_lone_weight_of_1_whatever_else_the_pod_prefers():
    # Half of the first pod's preferences are met everywhere.
    strong = group("strong", prefers((100, GPU), (100, ZONE), cpu=4))
    weak = group("weak", prefers((1, GPU), cpu=4))
    assert machines_of(gpu_machine_and_others(), [weak, strong])["strong"] == "gpu"


@pytest.mark.parametrize("weight", [1, 100])
def test_a_lone_preference_outweighs_balancing_whatever_its_weight(weight: int):
    # The GPU machine is almost full, the other one is empty.
    state = State([machine("gpu", cpu=10, memory=10, labels={"gpu": ""}), machine("empty", cpu=10)])
    state.place(group("running", shape(cpu=9, memory=9)).tasks[0], "gpu")
    decided = decide(state, group("wants", prefers((weight, GPU), cpu=1)))
    assert [placement.machine for placement in decided.placements] == ["gpu"]


@given(st.lists(st.integers(1, 100), min_size=1, max_size=6))
def test_within_a_pod_terms_cost_in_proportion_to_their_weights(weights: list[int]):
    state = State([machine(f"m{i}", labels={f"k{i}": ""}) for i in range(len(weights))])
    state.set_machine(machine("none"))
    terms = [(w, Term((Requirement(f"k{i}", "Exists"),))) for i, w in enumerate(weights)]
    cost = node_affinity.NodeAffinity().cost(prefers(*terms), state.view()).tolist()
    total = sum(weights)
    assert cost[-1] == full_cost(total)
    met = [cost[-1] - each for each in cost[:-1]]
    expected = [full_cost(total) * weight / total for weight in weights]
    assert all(abs(a - b) <= 1 for a, b in zip(met, expected, strict=True))


@given(st.integers(1, 600), st.integers(1, 600))
def test_stating_more_costs_more_where_it_is_missed(one: int, other: int):
    assert (full_cost(one) < full_cost(other)) == (one < other)
    assert full_cost(one) > 2 * OMEGA


@pytest.mark.parametrize("tasks", [10, 30])
def test_tasks_without_requests_spread_over_equal_machines(tasks: int):
    mib = 2**20
    state = State([machine(f"m{i}", cpu=4_000, memory=16_384 * mib, pods=110) for i in range(6)])
    bare = replace(shape(), unrequested=resources({CPU: 100, MEMORY: 200 * mib}))
    for batch in range(2):
        groups = [group(f"g{batch}-{i}", bare) for i in range(tasks // 2)]
        for placement in decide(state, *groups).placements:
            state.place(placement.task, placement.machine)
        running = state.running[: len(state)].tolist()
        assert sum(running) == (batch + 1) * (tasks // 2)
        assert max(running) - min(running) <= 1


def test_what_a_task_counts_for_in_costs_leaves_with_the_task():
    state = State([machine("a", cpu=1_000, memory=1_000), machine("b", cpu=1_000, memory=1_000)])
    bare = replace(shape(), unrequested=resources({CPU: 100, MEMORY: 100}))
    tasks = [group(f"g{i}", bare).tasks[0] for i in range(3)]
    for each in tasks:
        state.place(each, "a")
    assert state.view().scored_use(CPU).tolist() == [300, 0]
    assert state.view().used(CPU).tolist() == [0, 0]
    state.place(replace(tasks[0], shape=shape(cpu=50)), "a")
    assert state.view().scored_use(CPU).tolist() == [250, 0]
    state.remove(tasks[1].id)
    assert state.view().scored_use(CPU).tolist() == [150, 0]
    state.remove_machine("a")
    state.set_machine(machine("c"))
    assert state.view().scored_use(CPU).tolist() == [0, 0]
