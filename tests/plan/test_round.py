"""A round, by examples: what fits together, what does not, and who goes first."""

import pytest

from afflux.admit.strategies import flow
from afflux.cluster.state import State
from afflux.policies.load_spreading import LoadSpreading
from afflux.policies.policy import Weighted
from oracles.builders import by_machine, decide, group, machine, scheduler, shape, task


def test_nine_and_four_on_ten_free_never_share_the_machine():
    state = State([machine("m", cpu=10, memory=100)])
    plan = decide(state, group("nine", shape(cpu=9)), group("four", shape(cpu=4)))
    assert len(plan.placements) == 1


@pytest.mark.parametrize("older", ["nine", "four"])
def test_of_nine_and_four_on_ten_free_the_older_one_goes(older: str):
    state = State([machine("m", cpu=10, memory=100)])
    sizes = {"nine": 9, "four": 4}
    waiting = [
        group(name, shape(cpu=size), ready=0.0 if name == older else 3600.0)
        for name, size in sizes.items()
    ]
    waiting.sort(key=lambda g: g.ready_seconds)
    assert by_machine(decide(state, *waiting).placements) == {"m": [f"{older}.0"]}


@pytest.mark.parametrize("sizes", [(10,), (6, 4), (1,) * 10, (9, 1)])
def test_an_exact_fit_is_allowed(sizes: tuple[int, ...]):
    state = State([machine("m", cpu=10, memory=100)])
    plan = decide(state, *(group(f"g{i}", shape(cpu=size)) for i, size in enumerate(sizes)))
    assert len(plan.placements) == len(sizes)


def test_one_unit_too_many_waits():
    state = State([machine("m", cpu=9, memory=100)])
    assert decide(state, group("g", shape(cpu=10))).placements == ()


def test_slots_are_the_machines_own_pod_limit_less_what_runs_there():
    state = State([machine("m", cpu=100, pods=3), machine("n", cpu=100, pods=1)])
    state.place(task("running"), "m")
    plan = decide(state, *(group(f"g{i}", shape(cpu=1)) for i in range(9)))
    assert {name: len(tasks) for name, tasks in by_machine(plan.placements).items()} == {
        "m": 2,
        "n": 1,
    }


def test_a_pod_limit_that_is_raised_or_lowered_counts_from_the_next_round():
    state = State([machine("m", cpu=100, pods=1)])
    waiting = [group(f"g{i}", shape(cpu=1)) for i in range(5)]
    assert len(decide(state, *waiting).placements) == 1
    state.set_machine(machine("m", cpu=100, pods=3))
    assert len(decide(state, *waiting).placements) == 3
    state.set_machine(machine("m", cpu=100, pods=0))
    assert decide(state, *waiting).placements == ()


def test_a_machine_overcommitted_in_one_resource_takes_tasks_that_do_not_request_it():
    state = State([machine("m", cpu=10, memory=10)])
    state.place(task("hog", shape(memory=20)), "m")
    plan = decide(state, group("cpu", shape(cpu=10)), group("memory", shape(memory=1)))
    assert by_machine(plan.placements) == {"m": ["cpu.0"]}


def test_without_machines_every_task_waits():
    assert decide(State(), group("g", shape(cpu=1))).placements == ()


def test_only_tasks_that_request_a_missing_resource_wait():
    state = State([machine("m", cpu=10)])
    plan = decide(
        state,
        group("a", shape(cpu=1, **{"example.com/gpu": 1})),
        group("b", shape(cpu=1, **{"example.com/tpu": 1})),
        group("c", shape(cpu=1)),
    )
    assert by_machine(plan.placements) == {"m": ["c.0"]}


def test_a_machine_that_brings_a_new_resource_is_used_in_the_next_round():
    state = State([machine("m", cpu=10)])
    waiting = group("a", shape(cpu=1, **{"example.com/gpu": 1}))
    assert decide(state, waiting).placements == ()
    state.set_machine(machine("n", cpu=10, **{"example.com/gpu": 1}))
    assert by_machine(decide(state, waiting).placements) == {"n": ["a.0"]}


def test_shares_of_different_devices_are_never_summed():
    state = State([machine("m", cpu=10, devices=2)])
    half = shape(count=1, milli=500)
    state.place(task("x", half), "m", (0,))
    state.place(task("y", half), "m", (1,))
    assert decide(state, group("whole", shape(count=1, milli=1000))).placements == ()
    assert len(decide(state, group("a", half), group("b", half)).placements) == 2


def test_the_devices_of_one_task_differ():
    state = State([machine("m", cpu=10, devices=1)])
    assert decide(state, group("two", shape(count=2, milli=500))).placements == ()


def test_tasks_that_need_two_devices_each_leave_room_for_one_another():
    # Free: 1000, 500, 500. Taking both halves for the first would leave nothing for the second.
    state = State([machine("m", cpu=10, devices=3)])
    for index in (1, 2):
        state.place(task(f"x{index}", shape(count=1, milli=500)), "m", (index,))
    two = shape(cpu=1, count=2, milli=500)
    plan = decide(state, group("a", two), group("b", two))
    assert sorted(placement.devices for placement in plan.placements) == [(0, 1), (0, 2)]


def test_a_gang_starts_whole_or_not_at_all():
    state = State([machine("m", cpu=10), machine("n", cpu=4)])
    large, small = shape(cpu=9), shape(cpu=4)
    assert len(decide(state, group("fits", large, small)).placements) == 2
    assert decide(state, group("not", large, small, small)).placements == ()


def test_room_that_a_gang_cannot_use_goes_to_others():
    state = State([machine("m", cpu=10)])
    gang = group("gang", *[shape(cpu=4)] * 3)
    plan = decide(state, gang, group("one", shape(cpu=4)), group("two", shape(cpu=4)))
    assert by_machine(plan.placements) == {"m": ["one.0", "two.0"]}


def test_a_higher_priority_is_placed_whatever_it_displaces():
    state = State([machine("m", cpu=10)])
    low = [group(f"low{i}", shape(cpu=1)) for i in range(10)]
    plan = decide(state, group("high", shape(cpu=10), priority=1), *low)
    assert by_machine(plan.placements) == {"m": ["high.0"]}


def test_within_a_class_the_longest_waiting_goes_first():
    state = State([machine("m", cpu=2)])
    waiting = [group(f"g{i}", shape(cpu=1), ready=float(i)) for i in range(5)]
    assert by_machine(decide(state, *waiting).placements) == {"m": ["g0.0", "g1.0"]}


def test_a_quiet_round_is_empty():
    plan = decide(State([machine("m", cpu=1)]))
    assert (plan.placements, plan.placed, plan.cost, plan.bound, plan.gap) == ((), (), 0, 0, 0.0)


def test_a_task_with_room_is_placed_at_any_cost():
    state = State([machine("m", cpu=10)])
    state.place(task("running"), "m")
    dear = scheduler(state, flow, LoadSpreading(per_task=10**9))
    plan = dear.decide(state, [group("a", shape(cpu=1)), group("b", shape(cpu=2))]).plan
    assert by_machine(plan.placements) == {"m": ["a.0", "b.0"]}


def test_a_lower_priority_is_placed_by_cost_after_a_search_for_a_higher_one():
    # Both high tasks are drawn to the empty machine, which takes only one of them. The tight one
    # is the dearest: best fit would choose it for the others, the network does not.
    running = {"empty": 0, "tight": 9, "b": 5, "c": 5}
    sizes = {"empty": 10, "tight": 6, "b": 30, "c": 30}
    state = State([machine(name, cpu=size) for name, size in sizes.items()])
    for name, count in running.items():
        for number in range(count):
            state.place(task(f"{name}{number}"), name)
    high = [group(f"high{cpu}", shape(cpu=cpu), priority=1) for cpu in (9, 4)]
    low = [group(f"low{i}", shape(cpu=1)) for i in range(6)]
    plan = scheduler(state, flow, LoadSpreading()).decide(state, [*high, *low]).plan
    assert len(plan.placements) == 8
    assert "tight" not in by_machine(plan.placements)


def test_heavy_weights_never_make_waiting_cheaper_than_placing():
    """With costs in the millions the network, not what is tried last, still decides where."""
    state = State([machine(f"m{i}", cpu=1000) for i in range(4)])
    for i in range(4):
        for k in range(30):
            state.place(task(f"r{i}.{k}"), f"m{i}")
    waiting = [group(f"g{i}", shape(cpu=1)) for i in range(40)]
    heavy = scheduler(state, flow, Weighted(LoadSpreading(), 10_000))
    placed = by_machine(heavy.decide(state, waiting).plan.placements)
    assert [len(tasks) for tasks in placed.values()] == [10, 10, 10, 10]
