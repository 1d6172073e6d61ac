"""A resource that no machine has takes no column, and every account of resources stays exact."""

from random import Random

import pytest

from afflux.admit.expected_ends import ExpectedEndsReader
from afflux.cluster.resource_table import ALWAYS, UNSTATED, ResourceTable
from afflux.cluster.state import State
from afflux.cluster.task_class import TaskClass
from afflux.model.implied_resources import (
    HostPort,
    attachment_resource,
    capacity_of,
    port_requests,
    volume_resource,
)
from afflux.model.placement import Placement
from afflux.model.resources import MAX_AMOUNT, PODS
from afflux.network.pricing import Pricing
from afflux.plan.check import PlanError, check_plan
from afflux.plan.explain import verdicts
from afflux.policies.registry import constraints
from oracles.builders import group, machine, shape, task

X = "example.com/x"
PORT = next(iter(port_requests([HostPort("TCP", 80)])))


def rooms(state: State, **requests: int) -> list[int]:
    prices = Pricing(state, constraints(), []).prices(shape(**requests))
    return prices.by_machine(prices.room).tolist()


def test_resources_that_no_machine_has_take_no_column():
    state = State([machine("a"), machine("b")])
    for number in range(1_000):
        assert rooms(state, **{f"example.com/r{number}": 1}) == [0, 0]
    assert state.resource_names == list(ALWAYS)


def test_ports_of_running_tasks_take_no_column_until_a_waiting_task_requests_one():
    state = State([machine("a", pods=1_000), machine("b")])
    for port in range(1, 500):
        state.place(task(f"t{port}", shape(**port_requests([HostPort("TCP", port)]))), "a")
    assert state.resource_names == list(ALWAYS)
    assert rooms(state, **{PORT: 1 << 20}) == [0, 1]
    assert state.resource_names == [*ALWAYS, PORT]
    assert state.view().used(PORT).tolist() == [1 << 20, 0]
    state.remove("t80")
    assert rooms(state, **{PORT: 1 << 20}) == [1, 1]


def test_a_machine_that_states_a_resource_later_counts_the_tasks_that_run_with_it():
    state = State([machine("a"), machine("b")])
    state.place(task("t", shape(**{X: 2})), "a")
    assert rooms(state, **{X: 1}) == [0, 0]
    state.set_machine(machine("a", **{X: 5}))
    assert rooms(state, **{X: 1}) == [3, 0]
    state.set_machine(machine("b", **{X: 1}))
    state.remove("t")
    assert rooms(state, **{X: 1}) == [5, 1]


def test_the_end_of_a_task_frees_nothing_of_a_resource_that_its_machine_has_not():
    state = State([machine("a")])
    state.place(task("t", shape(**{X: 2})), "a", until_seconds=5.0)
    state.requests(shape(**{X: 1}))
    returned = ExpectedEndsReader(state).read(0.0).returned
    assert returned.tolist() == [[int(name == PODS) for name in ALWAYS]]


def test_huge_requests_of_a_resource_without_a_column_do_not_overflow_it_later():
    state = State([machine("a")])
    for number in range(2_000):
        state.place(task(f"t{number}", shape(**{X: MAX_AMOUNT})), "a")
    state.set_machine(machine("a", **{X: 1}))
    assert state.view().used(X)[0] == 1 << 62
    for number in range(2_000):
        state.remove(f"t{number}")
    assert state.view().used(X).tolist() == [0]


def test_every_resource_that_no_machine_has_is_named_as_a_reason():
    state = State([machine("a", cpu=1)])
    kind = volume_resource("class/fast")
    wanted = shape(cpu=2_000, **{X: 1, "example.com/y": 1, kind: 1})
    assert verdicts(state, lambda _: (), TaskClass(wanted)) == {
        "a": ("Insufficient cpu", f"Insufficient {X}", "Insufficient example.com/y")
    }
    only_volume = shape(**{kind: 1})
    assert verdicts(state, lambda _: (), TaskClass(only_volume)) == {
        "a": ("node(s) didn't find available persistent volumes to bind",)
    }


@pytest.mark.parametrize("name", [X, PORT])
def test_the_checker_counts_a_resource_that_has_no_column(name: str):
    state = State([machine("a")])
    state.place(task("runs", shape(**{name: 1 << 20})), "a")
    waits = task("waits", shape(**{name: 1}))
    with pytest.raises(PlanError):
        check_plan(state, [group(waits)], [Placement(waits, "a")])
    assert state.resource_names == list(ALWAYS)


NAMES = [X, "example.com/y", attachment_resource("csi.example.com"), volume_resource("k"), PORT]
NAMES += list(port_requests([HostPort("TCP", 81, "10.0.0.1")]))


@pytest.mark.parametrize("seed", range(30))
def test_the_table_agrees_with_sums_over_the_running_tasks(seed: int):
    """Machines state resources or not while tasks with these resources start and end."""
    rng = Random(f"invented {seed}")
    state = State()
    state.resource_table = ResourceTable(cleanup_min_columns=rng.choice((5, 7, 100)))
    placed: dict[str, tuple[str, dict[str, int]]] = {}
    for step in range(150):
        name = f"m{rng.randrange(4)}"
        kind = rng.choice(("set", "place", "place", "place", "end", "gone", "ask", "sweep"))
        amounts = {each: rng.randint(1, 3) for each in rng.sample(NAMES, rng.randint(0, 3))}
        if kind == "set" or not state.rows:
            state.set_machine(machine(name, cpu=8, **amounts))
        elif kind == "place":
            # Also a task that runs already, with other requests and on another machine.
            of = rng.choice([*placed, f"t{step}"])
            where = rng.choice(list(state.rows))
            state.place(task(of, shape(**amounts)), where)
            placed[of] = (where, amounts)
        elif kind == "end" and placed:
            ended = rng.choice(list(placed))
            state.remove(ended)
            del placed[ended]
        elif kind == "gone":
            gone = rng.choice(list(state.rows))
            state.remove_machine(gone)
            placed = {key: entry for key, entry in placed.items() if entry[0] != gone}
        elif kind == "sweep":
            state.drop_unused_columns()
        if rng.random() < 0.5:
            check_against_sums(state, placed, amounts)
    check_against_sums(state, placed, dict.fromkeys(NAMES, 1))


def check_against_sums(state, placed, asked) -> None:
    wanted = shape(**asked)
    room = rooms(state, **asked) if asked else None
    for row, each in state.machines():
        there = [where for where, _ in placed.values() if where == each.name]
        left = [max(0, 110 - len(there))]
        for name in NAMES:
            used = sum(use.get(name, 0) for where, use in placed.values() if where == each.name)
            assert state.used_of(row, name) == used
            assert state.view().used(name)[row] == used
            if name in asked:
                free = capacity_of(each.capacity, name) - used
                left.append(max(0, free // asked[name]))
        if room is not None:
            assert room[row] == min(left)
    stated = {name for _, each in state.machines() for name, _ in each.capacity}
    assert not [name for name in state.resource_table.unstated(wanted) if name in stated]
    assert not state.used[:, ALWAYS.index(UNSTATED)].any()
