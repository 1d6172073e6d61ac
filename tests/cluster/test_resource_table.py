"""Columns come and go with the resources that are named; figures never change by it."""

from random import Random

import pytest

from afflux.cluster import amounts
from afflux.cluster.state import State
from afflux.model.implied import HostPort, port_requests
from afflux.network.pricing import Pricing
from afflux.policies.registry import constraints
from oracles.building import machine, shape, task


def on_port(port: int, **fields: object):
    return shape(**port_requests([HostPort("TCP", port)]), **fields)


def test_machines_that_come_later_have_every_port_too():
    state = State([machine("a")])
    state.place(task("t", on_port(80)), "a")
    state.set_machine(machine("b"))
    pricing = Pricing(state, constraints(), [])
    assert pricing.prices(on_port(80)).room.tolist() == [0, 1]
    state.remove_machine("a")
    state.set_machine(machine("c"))
    assert pricing.prices(on_port(80)).room.tolist() == [1, 1]


def test_ports_that_nobody_uses_or_asks_for_any_more_are_forgotten():
    state = State([machine("a", **{"example.com/x": 3})])
    state.place(task("stays", on_port(1)), "a")
    for port in range(2, 3000):
        state.place(task("passing", on_port(port)), "a")
        assert len(state.resource_names) <= 2 * amounts.FEW_COLUMNS + 8
    state.remove("passing")
    assert state.view().capacity("example.com/x").tolist() == [3]
    pricing = Pricing(state, constraints(), [])
    assert pricing.prices(on_port(1)).room.tolist() == [0]
    assert pricing.prices(on_port(2)).room.tolist() == [1]


def test_ports_that_are_waited_for_keep_their_columns():
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
def test_sweeping_changes_no_figure(seed: int, monkeypatch: pytest.MonkeyPatch):
    rng = Random(f"sweep {seed}")
    monkeypatch.setattr(amounts, "FEW_COLUMNS", 6)
    swept, kept = State(), State()
    kept.amounts._many = 10**9
    swept.amounts._many = 6
    running: list[str] = []
    prices = Pricing(swept, constraints(), [])
    for step in range(200):
        kind = rng.choice(("place", "place", "end", "set", "ask", "gone"))
        names = list(swept.rows)
        if kind == "set" or not names:
            new = machine(f"m{rng.randrange(4)}", cpu=rng.randrange(9), **{"example.com/u": 2})
            for state in (swept, kept):
                state.set_machine(new)
        elif kind == "place":
            running.append(f"t{step}")
            of = on_port(step // 4 + rng.randrange(8), cpu=rng.randrange(3))
            where = rng.choice(names)
            for state in (swept, kept):
                state.place(task(running[-1], of), where)
        elif kind == "end" and running:
            ended = running.pop(rng.randrange(len(running)))
            for state in (swept, kept):
                state.remove(ended)
        elif kind == "gone":
            gone = rng.choice(names)
            for state in (swept, kept):
                state.remove_machine(gone)
        asked = on_port(step // 4 + rng.randrange(8), cpu=rng.randrange(3))
        fresh = Pricing(kept, constraints(), []).prices(asked)
        assert prices.prices(asked).room.tolist() == fresh.room.tolist()
        for name in set(swept.resource_names) | {"cpu", "pods", "example.com/u"}:
            for figure in ("used", "capacity"):
                ours = getattr(swept.view(), figure)(name).tolist()
                assert ours == getattr(kept.view(), figure)(name).tolist()
    assert len(swept.resource_names) < len(kept.resource_names)


def test_what_is_remembered_of_requests_is_bounded_in_figures(monkeypatch):
    monkeypatch.setattr(amounts, "KEPT_REQUESTS", 10_000)
    state = State([machine("a")])
    for port in range(1, 400):
        state.requests(on_port(port))
        kept = sum(len(row) for row in state.amounts._requests.values())
        assert kept <= 10_000


def test_many_columns_at_once_take_little_more_than_they_need():
    state = State([machine("a")])
    state.requests(shape(**port_requests(HostPort("TCP", port) for port in range(1, 1001))))
    assert state.amounts._capacity.shape[1] < 1.1 * len(state.resource_names)
