"""Preferences between tasks: they spread, gather and keep apart within one round."""

from collections import Counter

import pytest

from afflux.admit.strategies import Strategy, easy, fcfs
from afflux.cluster.state import State
from afflux.model.machine import Machine
from afflux.model.relations import (
    AffinityTerm,
    Relations,
    SpreadConstraint,
    TaskLabels,
    TaskSelector,
)
from afflux.model.resources import resources
from afflux.model.selectors import Requirement
from afflux.model.task import Shape, Task
from afflux.model.waiting_group import WaitingGroup
from afflux.plan.plan import Plan
from oracles.builders import decide

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"


def selects(app: str) -> TaskSelector:
    return TaskSelector(("default",), None, (Requirement("app", "In", (app,)),))


def term(app: str, key: str) -> AffinityTerm:
    return AffinityTerm(selects(app), key)


def spread(
    app: str, key: str, max_skew: int = 1, *, needs_all_keys: bool = True
) -> SpreadConstraint:
    return SpreadConstraint(
        selects(app), key, max_skew, required=False, needs_all_keys=needs_all_keys
    )


def node(name: str, zone: str, cpu: int = 100, pods: int = 110, **labels: str) -> Machine:
    own = {HOST: name, ZONE: zone} | labels
    return Machine(name, resources({"cpu": cpu, "memory": 100, "pods": pods}), labels=own)


def cluster(zones: int, of_each: int, **fields: int) -> State:
    return State(
        [node(f"n{z}-{i}", f"z{z}", **fields) for z in range(zones) for i in range(of_each)]
    )


def pod(name: str, app: str, relations: Relations, cpu: int = 1, **fields: object) -> Task:
    shape = Shape(resources({"cpu": cpu, "memory": 1, "pods": 1}), relations=relations, **fields)
    return Task(name, name, shape, labels=TaskLabels("default", (("app", app),)))


def pods(count: int, app: str, relations: Relations, cpu: int = 1) -> list[WaitingGroup]:
    tasks = (pod(f"{app}-{i}", app, relations, cpu) for i in range(count))
    return [WaitingGroup(task.name, (task,)) for task in tasks]


def by(state: State, decided: Plan, key: str, app: str) -> Counter[str]:
    """How many tasks of an app each domain got."""
    found: Counter[str] = Counter()
    for placement in decided.placements:
        if placement.task.name.startswith(app):
            machine = state.machine(state.rows[placement.machine])
            assert machine is not None
            found[machine.labels.get(key, "")] += 1
    return found


def skew(counts: Counter[str], domains: int) -> int:
    return max(counts.values()) - (min(counts.values()) if len(counts) == domains else 0)


def test_preferred_anti_affinity_spreads_over_machines_in_one_round():
    state = cluster(2, 20)
    relations = Relations(preferred=((-100, term("web", HOST)),))
    decided = decide(state, *pods(40, "web", relations))
    assert skew(by(state, decided, HOST, "web"), 40) == 0
    decided = decide(state, *pods(60, "web", relations))
    assert skew(by(state, decided, HOST, "web"), 40) == 1


def test_preferred_anti_affinity_outweighs_balancing_and_ends_where_room_does():
    # Half of the machines are nearly full: they get their share as long as they have room.
    state = State(
        [*(node(f"a{i}", "z") for i in range(5)), *(node(f"b{i}", "z") for i in range(5))]
    )
    for i in range(5):
        state.place(pod(f"big{i}", "other", Relations(), cpu=98), f"b{i}")
    relations = Relations(preferred=((-1, term("web", HOST)),))
    decided = decide(state, *pods(20, "web", relations))
    assert set(by(state, decided, HOST, "web").values()) == {2}
    decided = decide(state, *pods(40, "web", relations))
    counts = by(state, decided, HOST, "web")
    assert sorted(counts.values()) == [2] * 5 + [6] * 5


@pytest.mark.parametrize("running", [0, 3])
def test_a_soft_spread_fills_the_emptiest_zones_in_one_round(running: int):
    # The first zone has empty machines only, and would be the cheapest.
    state = cluster(3, 4)
    for zone, cpu in ((1, 40), (2, 60)):
        for i in range(4):
            state.place(pod(f"big{zone}{i}", "other", Relations(), cpu=cpu), f"n{zone}-{i}")
    relations = Relations(spread=(spread("web", ZONE),))
    for i in range(running):
        state.place(pod(f"running{i}", "web", relations), f"n1-{i}")
    decided = decide(state, *pods(30 - running, "web", relations))
    counts = by(state, decided, ZONE, "web")
    assert counts == {"z0": 10, "z1": 10 - running, "z2": 10}


def test_a_soft_spread_over_hosts_and_zones_keeps_both_even():
    state = cluster(3, 5)
    both = Relations(spread=(spread("web", HOST), spread("web", ZONE)))
    decided = decide(state, *pods(45, "web", both))
    assert set(by(state, decided, HOST, "web").values()) == {3}
    # The second zone has only one machine left with room: hosts cannot be even, zones still are.
    state = State([node("a", "z0"), node("b", "z0"), node("c", "z1")])
    decided = decide(state, *pods(20, "web", Relations(spread=(spread("web", ZONE),))))
    assert by(state, decided, ZONE, "web") == {"z0": 10, "z1": 10}


def test_the_default_constraints_spread_the_replicas_of_a_service():
    state = cluster(2, 4)
    defaults = Relations(
        spread=(
            spread("web", HOST, 3, needs_all_keys=False),
            spread("web", ZONE, 5, needs_all_keys=False),
        )
    )
    decided = decide(state, *pods(8, "web", defaults))
    assert set(by(state, decided, HOST, "web").values()) == {1}
    for placement in decided.placements:
        state.place(placement.task, placement.machine)
    # One after the other, as after a restart.
    for i in range(8, 16):
        task = pod(f"later{i}", "web", defaults)
        for placement in decide(state, WaitingGroup(task.name, (task,))).placements:
            state.place(placement.task, placement.machine)
    assert set(state.running[: len(state)].tolist()) == {2}


def test_a_machine_without_a_key_of_a_spread_comes_last_unless_the_constraint_is_a_default():
    state = State(
        [node("a", "z0"), Machine("bare", resources({"cpu": 100, "memory": 100, "pods": 9}))]
    )
    state.place(pod("running", "web", Relations(), cpu=50), "a")
    strict = Relations(spread=(spread("web", ZONE),))
    assert [p.machine for p in decide(state, *pods(1, "web", strict)).placements] == ["a"]
    default = Relations(spread=(spread("web", ZONE, needs_all_keys=False),))
    assert [p.machine for p in decide(state, *pods(1, "web", default)).placements] == ["bare"]


def test_affinity_costs_nothing_in_the_best_domain_and_in_proportion_elsewhere():
    state = cluster(3, 1)
    for zone, count in ((0, 2), (1, 1)):
        for i in range(count):
            state.place(pod(f"db{zone}{i}", "db", Relations()), f"n{zone}-0")
    # The best zone is the fullest.
    state.place(pod("big", "other", Relations(), cpu=90), "n0-0")
    near = Relations(preferred=((1, term("db", ZONE)),))
    decided = decide(state, *pods(1, "web", near))
    assert by(state, decided, ZONE, "web") == {"z0": 1}
    state.place(pod("bigger", "other", Relations(), cpu=8), "n0-0")
    decided = decide(state, *pods(1, "web", near, cpu=2))
    assert by(state, decided, ZONE, "web") == {"z1": 1}


@pytest.mark.parametrize("key", [ZONE, HOST])
def test_running_tasks_attract_and_repel_by_their_own_terms(key: str):
    for weight, expected in ((100, "n0-0"), (-100, "n1-0"), (1, "n0-0"), (-1, "n1-0")):
        state = cluster(2, 1)
        carrier = pod("carrier", "db", Relations(preferred=((weight, term("web", key)),)))
        state.place(carrier, "n0-0")
        if expected == "n1-0":
            state.place(pod("big", "other", Relations(), cpu=60), "n1-0")
        else:
            state.place(pod("big", "other", Relations(), cpu=60), "n0-0")
        decided = decide(state, *pods(1, "web", Relations()))
        assert [p.machine for p in decided.placements] == [expected], weight


def test_required_affinity_of_running_tasks_attracts_with_the_hard_weight():
    state = cluster(2, 1)
    state.place(pod("web-0", "web", Relations()), "n0-0")
    state.place(pod("db", "db", Relations(affinity=(term("web", ZONE),)), cpu=50), "n0-0")
    decided = decide(state, *pods(1, "web", Relations()))
    assert by(state, decided, ZONE, "web") == {"z0": 1}


@pytest.mark.parametrize("first", ["weak", "strong"])
@pytest.mark.parametrize("sign", [1, -1])
def test_the_stronger_preference_between_tasks_wins_whatever_the_order(first: str, sign: int):
    # One machine near the database (or away from it) has room for one.
    good, bad = ("n0-0", "n1-0") if sign > 0 else ("n1-0", "n0-0")
    state = State([node("n0-0", "z0", cpu=11), node("n1-0", "z1", cpu=11)])
    state.place(pod("db", "db", Relations(), cpu=1), "n0-0")
    state.place(pod("filler", "other", Relations(), cpu=1), "n1-0")
    weights = {"weak": 1, "strong": 100}
    groups: list[WaitingGroup] = []
    for name in sorted(weights, key=lambda name: name != first):
        relations = Relations(preferred=((sign * weights[name], term("db", ZONE)),))
        groups.append(WaitingGroup(name, (pod(name, name, relations, cpu=10),)))
    found = {p.task.name: p.machine for p in decide(state, *groups).placements}
    assert found == {"strong": good, "weak": bad}


@pytest.mark.parametrize("first", ["affinity", "spread"])
def test_a_soft_spread_counts_as_a_preference_of_full_strength(first: str):
    state = State([node("n0-0", "z0", cpu=11), node("n1-0", "z1", cpu=11)])
    state.place(pod("db", "db", Relations(), cpu=1), "n1-0")
    state.place(pod("spread0", "spread", Relations(), cpu=1), "n0-0")
    wishes = {
        "affinity": Relations(preferred=((50, term("db", ZONE)),)),
        "spread": Relations(spread=(spread("spread", ZONE),)),
    }
    order = sorted(wishes, key=lambda name: name != first)
    groups = [WaitingGroup(name, (pod(name, name, wishes[name], cpu=10),)) for name in order]
    found = {p.task.name: p.machine for p in decide(state, *groups).placements}
    assert found == {"spread": "n1-0", "affinity": "n0-0"}


def test_tasks_that_prefer_their_own_kind_gather_in_one_zone_in_one_round():
    state = cluster(3, 4)
    together = Relations(preferred=((10, term("web", ZONE)),))
    counts = by(state, decide(state, *pods(30, "web", together)), ZONE, "web")
    assert len(counts) == 1


def test_two_waiting_kinds_that_attract_each_other_meet_in_one_round():
    state = cluster(4, 3)
    web = pods(2, "web", Relations(preferred=((100, term("db", HOST)),)))
    db = pods(2, "db", Relations())
    decided = decide(state, *web, *db)
    assert set(by(state, decided, HOST, "web")) <= set(by(state, decided, HOST, "db"))


def test_two_waiting_kinds_that_repel_each_other_part_in_one_round():
    state = cluster(2, 2)
    for zone in range(2):
        state.place(pod(f"big{zone}", "other", Relations(), cpu=80), f"n{zone}-1")
    web = pods(2, "web", Relations(preferred=((-100, term("db", HOST)),)))
    decided = decide(state, *web, *pods(2, "db", Relations()))
    hosts = [set(by(state, decided, HOST, app)) for app in ("web", "db")]
    assert not hosts[0] & hosts[1]


@pytest.mark.parametrize("strategy", [fcfs, easy])
def test_preferences_count_under_strategies_with_reservations(strategy: Strategy):
    state = cluster(2, 5)
    relations = Relations(preferred=((-100, term("web", HOST)),), spread=(spread("web", ZONE),))
    decided = decide(state, *pods(20, "web", relations), strategy=strategy)
    assert set(by(state, decided, HOST, "web").values()) == {2}


def test_a_soft_term_never_leaves_a_task_waiting_that_has_room():
    state = cluster(1, 2, cpu=30)
    apart = Relations(
        preferred=((-100, term("web", HOST)), (-100, term("web", ZONE))),
        spread=(spread("web", HOST), spread("web", ZONE)),
    )
    decided = decide(state, *pods(60, "web", apart))
    assert len(decided.placements) == 60


def test_more_of_a_kind_costs_more_and_an_even_round_costs_nothing_for_its_terms():
    """The cost of a round is what each task would cost if it were taken out and placed again."""
    relations = Relations(preferred=((-100, term("web", HOST)),))
    costs: list[int] = []
    for machines in (8, 4, 2):
        state = cluster(1, machines)
        decided = decide(state, *pods(8, "web", relations))
        plain = decide(state, *pods(8, "web", Relations()))
        assert decided.cost is not None
        assert plain.cost is not None
        costs.append(decided.cost - plain.cost)
    assert costs == [0, 0, 0]
    # One machine has the only room: its tasks would rather be elsewhere.
    state = State([node("a", "z"), node("b", "z", pods=1), node("c", "z", pods=1)])
    cost = decide(state, *pods(9, "web", relations)).cost
    plain_cost = decide(state, *pods(9, "web", Relations())).cost
    assert cost is not None
    assert plain_cost is not None
    assert cost > plain_cost
