"""The cluster state, against a plain list of machines and tasks."""

from dataclasses import replace
from random import Random

import numpy as np
import pytest

from afflux.cluster.state import State
from afflux.model.task import Task
from oracles.builders import machine, shape, task
from oracles.naive_model import World, unstated
from oracles.random_clusters import Generator


def check_agreement(state: State, world: World, gone: set[str]) -> None:
    """Every column of the state follows from the list."""
    rooms = world.rooms()
    assert {name: state.machine(row) for name, row in state.rows.items()} == world.machines
    assert dict(state.machines()) == {state.rows[n]: m for n, m in world.machines.items()}
    for name, row in state.rows.items():
        assert state.name_of(row) == name
        here = [entry for entry in world.running.values() if entry[1] == name]
        assert int(state.running[row]) == len(here)
        capacity = dict(world.machines[name].capacity)
        for index, resource in enumerate(state.resource_names):
            used = sum(dict(t.shape.requests).get(resource, 0) for t, _, _ in here)
            assert int(state.used[row, index]) == used
            offered = capacity.get(resource, unstated(resource))
            assert int(state.capacity[row, index]) == offered
            assert used == offered - rooms[name].left(resource)
        assert list(state.free_devices[row]) == rooms[name].devices
        assert bool(state.present[row])
        assert bool(state.schedulable[row]) == (not world.machines[name].unschedulable)
    empty = np.setdiff1d(np.arange(len(state)), list(state.rows.values()))
    assert not state.present[empty].any()
    assert not state.schedulable[empty].any()
    assert not state.used[empty].any()
    assert not state.capacity[empty].any()
    assert not state.running[empty].any()
    assert all(state.free_devices[row] == () for row in empty)
    assert not (state.used < 0).any()
    assert not (state.running < 0).any()
    for task_id, (_, name, _) in world.running.items():
        assert state.machine_of(task_id) == name
    assert all(state.machine_of(task_id) is None for task_id in gone - set(world.running))


@pytest.mark.parametrize("seed", range(60))
def test_columns_are_right_after_any_changes(seed: int):
    rng = Random(f"state {seed}")
    generator = Generator(rng)
    generator.with_devices = True
    generator.shapes = [generator.shape() for _ in range(5)]
    state, world = State(), World()
    known: set[str] = set()
    for step in range(60):
        names = list(world.machines)
        kind = rng.choice(("set", "resize", "remove", "place", "place", "place", "move", "end"))
        before = state.version
        if kind == "set" or not names:
            new = generator.machine(f"m{rng.randrange(6)}")
            assert state.set_machine(new) == state.rows[new.name]
            world.set_machine(new)
        elif kind == "resize":
            new = generator.resized(world.machines[rng.choice(names)])
            state.set_machine(new)
            world.set_machine(new)
        elif kind == "remove":
            name = rng.choice(names)
            lost = state.remove_machine(name)
            assert sorted(t.id for t in lost) == sorted(world.remove_machine(name))
        elif kind == "place":
            placed = Task(f"t{step}", f"t{step}", rng.choice(generator.shapes))
            known.add(placed.id)
            name = rng.choice(names)
            state.place(placed, name)
            world.run(placed, name)
        elif kind == "move" and world.running:
            placed, _, _ = rng.choice(list(world.running.values()))
            name = rng.choice(names)
            state.place(placed, name)
            world.run(placed, name)
        elif kind == "end" and known:
            task_id = rng.choice(sorted(known))
            state.remove(task_id)
            world.end(task_id)
        check_agreement(state, world, known)
        assert state.version >= before
        assert int(state.changed[: len(state)].max()) == state.version


def test_tasks_stay_when_their_machine_changes():
    state = State([machine("m", cpu=10)])
    state.place(task("t", shape(cpu=4)), "m")
    state.set_machine(machine("m", cpu=3))
    assert state.view().free[0, 0] == -1
    assert state.machine_of("t") == "m"


def test_a_reused_row_has_nothing_of_the_removed_machine():
    state = State([machine("m", cpu=10, devices=2), machine("n", cpu=1)])
    state.place(task("t", shape(cpu=4, count=1)), "m")
    assert [t.id for t in state.remove_machine("m")] == ["t"]
    assert state.machine_of("t") is None
    row = state.set_machine(machine("o", cpu=7))
    assert row == 0
    assert state.view().free[0, 0] == 7
    assert state.free_devices[0] == ()
    state.remove("t")  # the event that it ended arrives late
    assert state.view().free[0, 0] == 7
    assert state.running[0] == 0


def test_name_of_a_row_without_a_machine_is_an_error():
    state = State([machine("m")])
    state.remove_machine("m")
    with pytest.raises(LookupError, match="row 0"):
        state.name_of(0)


def test_a_task_that_is_reported_again_keeps_its_devices():
    # The plan chose device 1; the watch confirms only the machine.
    state = State([machine("m", devices=2)])
    half = task("t", shape(count=1, milli=500))
    state.place(half, "m", (1,))
    state.place(half, "m")
    assert state.free_devices[0] == (1000, 500)


def test_a_task_takes_the_fullest_devices_that_fit_or_none():
    state = State([machine("m", devices=2)])
    state.place(task("a", shape(count=1, milli=700)), "m", (1,))
    state.place(task("b", shape(count=1, milli=300)), "m")
    assert state.free_devices[0] == (1000, 0)
    state.place(task("c", shape(count=2, milli=100)), "m")
    assert state.free_devices[0] == (1000, 0)
    state.remove("c")
    assert state.free_devices[0] == (1000, 0)


def test_devices_of_a_machine_that_lost_them_are_not_freed_later():
    state = State([machine("m", devices=3)])
    state.place(task("t", shape(count=2, milli=600)), "m", (0, 2))
    state.set_machine(machine("m", devices=1))
    assert state.free_devices[0] == (400,)
    state.set_machine(machine("m", devices=3))
    assert state.free_devices[0] == (400, 1000, 1000)
    state.remove("t")
    assert state.free_devices[0] == (1000, 1000, 1000)


def test_a_request_for_a_new_resource_adds_a_column():
    state = State([machine("m", cpu=1)])
    state.place(task("t", shape(**{"example.com/x": 3})), "m")
    assert state.view().used("example.com/x").tolist() == [3]
    assert state.view().capacity("example.com/x").tolist() == [0]
    assert state.view().capacity("example.com/unknown").tolist() == [0]
    state.remove("t")
    assert state.view().used("example.com/x").tolist() == [0]


def test_removing_an_unknown_task_changes_nothing():
    state = State([machine("m")])
    version = state.version
    state.remove("unknown")
    assert state.version == version


def test_rows_grow_beyond_the_first_allocation():
    state = State([machine(f"m{i}", cpu=i) for i in range(300)])
    assert len(state) == 300
    assert state.view().capacity("cpu").tolist() == list(range(300))


def test_absurd_requests_fill_a_machine_and_nothing_else():
    state = State([machine("m", cpu=10, pods=9999)])
    huge = shape(cpu=2**53)
    for number in range(1200):
        state.place(task(f"t{number}", huge), "m")
    state.place(task("small", shape(cpu=1)), "m")
    assert state.view().free[0, 0] < 0
    for number in range(1200):
        state.remove(f"t{number}")
    state.remove("small")
    assert state.view().free[0, 0] == 10


def test_the_tasks_whose_requirements_hold_while_they_run_are_known():
    state = State([machine("a"), machine("b"), machine("c")])
    plain = task("t")
    required = replace(plain, required_during_execution=True)
    state.place(task("other"), "a")
    for name in ("a", "b"):
        state.place(required, name)
        assert list(state.required_during_execution) == ["t"]
    before = state.version
    state.place(plain, "b")
    assert not state.required_during_execution
    assert state.version > before
    state.place(required, "b")
    assert list(state.required_during_execution) == ["t"]
    state.remove("t")
    assert not state.required_during_execution
    state.place(required, "c")
    state.remove_machine("c")
    assert not state.required_during_execution
