"""Columns are added and dropped with the resources in use; no value changes by that."""

from random import Random

import pytest

from afflux.cluster.resource_table import CLEANUP_MIN_COLUMNS, ResourceTable
from afflux.cluster.state import State
from afflux.model.implied_resources import HostPort, port_requests
from afflux.model.task import Shape
from afflux.network.pricing import Pricing
from afflux.policies.registry import constraints
from oracles.builders import machine, shape, task


def on_port(port: int, **fields: object):
    return shape(**port_requests([HostPort("TCP", port)]), **fields)


def room_on_machines(pricing: Pricing, of: Shape) -> list[int]:
    prices = pricing.prices(of)
    return prices.by_machine(prices.room).tolist()


def test_machines_added_later_have_every_port():
    state = State([machine("a")])
    state.place(task("t", on_port(80)), "a")
    state.set_machine(machine("b"))
    pricing = Pricing(state, constraints(), [])
    assert room_on_machines(pricing, on_port(80)) == [0, 1]
    state.remove_machine("a")
    state.set_machine(machine("c"))
    assert room_on_machines(pricing, on_port(80)) == [1, 1]


def test_columns_of_ports_not_used_or_requested_any_more_are_dropped():
    state = State([machine("a", **{"example.com/x": 3})])
    state.place(task("stays", on_port(1)), "a")
    for port in range(2, 3000):
        state.place(task("short", on_port(port)), "a")
        assert len(state.resource_names) <= 2 * CLEANUP_MIN_COLUMNS + 8
    state.remove("short")
    assert state.view().capacity("example.com/x").tolist() == [3]
    pricing = Pricing(state, constraints(), [])
    assert room_on_machines(pricing, on_port(1)) == [0]
    assert room_on_machines(pricing, on_port(2)) == [1]


def test_columns_of_ports_that_waiting_tasks_request_are_kept():
    state = State([machine("a")])
    waiting = [on_port(port) for port in range(10_000, 10_600)]
    widest = 0
    for turn in range(6):
        for of in waiting:
            state.requests(of)
        state.place(task("t", on_port(turn + 1)), "a")
        widest = max(widest, len(state.resource_names))
        names = set(state.resource_names)
        assert all(name in names for of in waiting for name, _ in of.requests)
    assert widest < 4 * len(waiting)


@pytest.mark.parametrize("seed", range(20))
def test_dropping_unused_columns_changes_no_value(seed: int):
    rng = Random(f"sweep {seed}")
    cleaned, complete = State(), State()
    cleaned.resource_table = ResourceTable(cleanup_min_columns=6)
    complete.resource_table = ResourceTable(cleanup_min_columns=10**9)
    running: list[str] = []
    prices = Pricing(cleaned, constraints(), [])
    for step in range(200):
        kind = rng.choice(("place", "place", "end", "set", "ask", "gone"))
        names = list(cleaned.rows)
        if kind == "set" or not names:
            new = machine(f"m{rng.randrange(4)}", cpu=rng.randrange(9), **{"example.com/u": 2})
            for state in (cleaned, complete):
                state.set_machine(new)
        elif kind == "place":
            running.append(f"t{step}")
            of = on_port(step // 4 + rng.randrange(8), cpu=rng.randrange(3))
            where = rng.choice(names)
            for state in (cleaned, complete):
                state.place(task(running[-1], of), where)
        elif kind == "end" and running:
            ended = running.pop(rng.randrange(len(running)))
            for state in (cleaned, complete):
                state.remove(ended)
        elif kind == "gone":
            gone = rng.choice(names)
            for state in (cleaned, complete):
                state.remove_machine(gone)
        asked = on_port(step // 4 + rng.randrange(8), cpu=rng.randrange(3))
        fresh = Pricing(complete, constraints(), []).prices(asked)
        assert room_on_machines(prices, asked) == fresh.by_machine(fresh.room).tolist()
        for name in set(cleaned.resource_names) | {"cpu", "pods", "example.com/u"}:
            for column in ("used", "capacity"):
                ours = getattr(cleaned.view(), column)(name).tolist()
                assert ours == getattr(complete.view(), column)(name).tolist()
    assert len(cleaned.resource_names) < len(complete.resource_names)


def test_the_cache_of_request_rows_is_bounded_in_numbers():
    state = State()
    state.resource_table = ResourceTable(max_cached_requests=10_000)
    state.set_machine(machine("a"))
    for port in range(1, 400):
        state.requests(on_port(port))
        kept = sum(len(row) for row in state.resource_table._requests.values())
        assert kept <= 10_000


def test_many_new_columns_allocate_little_more_than_needed():
    state = State([machine("a")])
    state.requests(shape(**port_requests(HostPort("TCP", port) for port in range(1, 1001))))
    assert state.resource_table._capacity.shape[1] < 1.1 * len(state.resource_names)
