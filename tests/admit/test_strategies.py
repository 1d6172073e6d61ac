"""Who may start: everybody, or strictly one after the other."""

from random import Random

import pytest

from afflux.admit.strategies import fcfs, find_strategy, flow
from afflux.cluster.state import State
from afflux.model.errors import InputError
from afflux.network.pricing import Pricing
from afflux.policies.cpu_memory import CpuMemory
from afflux.policies.policy import Weighted
from afflux.policies.registry import constraints
from oracles.building import by_machine, decide, group, machine, shape
from oracles.random_clusters import Generator
from oracles.scalar import World, broken_rules


def admit(strategy, state: State, *groups):
    return strategy(state, Pricing(state, constraints(), [Weighted(CpuMemory())]), groups)


def test_flow_admits_everybody_and_promises_nothing():
    waiting = [group("a", shape(cpu=99)), group("b", shape(cpu=1))]
    admission = admit(flow, State([machine("m", cpu=1)]), *waiting)
    assert list(admission.groups) == waiting
    assert admission.witness is None


def test_first_come_first_served_stops_at_the_first_who_has_no_room():
    state = State([machine("m", cpu=4)])
    waiting = [
        group(name, shape(cpu=size)) for name, size in zip("abcd", (2, 1, 3, 1), strict=True)
    ]
    admission = admit(fcfs, state, *waiting)
    assert [g.name for g in admission.groups] == ["a", "b"]
    assert by_machine(admission.witness) == {"m": ["a.0", "b.0"]}
    assert by_machine(decide(state, *waiting, strategy=fcfs).placements) == {"m": ["a.0", "b.0"]}


def test_a_gang_at_the_head_holds_everybody():
    state = State([machine("m", cpu=3)])
    gang, small = group("gang", *[shape(cpu=2)] * 2), group("small", shape(cpu=1))
    assert decide(state, gang, small, strategy=fcfs).placements == ()
    assert len(decide(state, small, gang, strategy=fcfs).placements) == 1


def test_nobody_waits_nobody_starts():
    assert decide(State([machine("m", cpu=3)]), strategy=fcfs).placements == ()
    assert decide(State(), group("a", shape()), strategy=fcfs).placements == ()


@pytest.mark.parametrize("seed", range(150))
def test_a_witness_keeps_every_rule_and_everybody_admitted_is_placed(seed: int):
    rng = Random(f"witness {seed}")
    generator = Generator(rng)
    world = World()
    for offered in generator.machines():
        world.set_machine(offered)
    state = State(world.machines.values())
    groups = [g for g in generator.groups() if not any(task.blocked for task in g.tasks)]
    admission = admit(fcfs, state, *groups)
    assert list(admission.groups) == groups[: len(admission.groups)]
    assert not broken_rules(world, groups, admission.witness)
    assert len(admission.witness) == sum(len(g.tasks) for g in admission.groups)
    plan = decide(state, *groups, strategy=fcfs)
    assert list(plan.placed) == list(admission.groups)
    assert not broken_rules(world, groups, plan.placements)


def test_an_unknown_strategy_names_the_place_and_the_known_ones():
    with pytest.raises(
        InputError, match="here: unknown strategy 'lifo'; expected one of flow, fcfs"
    ):
        find_strategy("lifo", "here")
    assert find_strategy("fcfs", "here") is fcfs
