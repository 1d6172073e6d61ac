"""Convex arcs: the k-th unit costs at least as much as the one before."""

import numpy as np
import pytest
from mirrored_network import ids, ints

from afflux._core import Cancel, Columns, FlowError, Gate, Network
from afflux.gates.gated_solve import solve_gated

CONVEX = 2**30  # the first id of a convex arc


def rows(*costs: list[int]) -> np.ndarray:
    return np.array(costs, np.int64)


def table(columns: Columns) -> list[list[int]]:
    names = ("nodes", "supply", "arcs", "tail", "head", "lower", "capacity", "cost", "flow")
    return [getattr(columns, name).tolist() for name in names]


@pytest.fixture
def network() -> Network:
    """Four units at node 0; convex arcs of three units each to nodes 1 and 2; arc 0 from 1 to 2."""
    network = Network()
    network.add_nodes(ints(4, 0, -4))
    network.add_arcs(ids(1), ids(2), ints(0), ints(4), ints(0))
    network.add_convex_arcs(
        ids(0, 0), ids(1, 2), ints(0, 0), ints(3, 3), rows([1, 2, 9], [3, 4, 5])
    )
    return network


class TestUnits:
    def test_the_cheapest_units_are_used(self, network: Network) -> None:
        assert network.solve().cost == 1 + 2 + 3 + 4
        assert network.flow(ids(CONVEX, CONVEX + 1, 0)).tolist() == [2, 2, 2]
        assert (network.nodes, network.arcs) == (3, 3)

    def test_costs_and_bounds_can_be_changed(self, network: Network) -> None:
        network.solve()
        network.set_convex(ids(CONVEX), ints(0), ints(3), rows([3, 3, 3]))
        assert network.solve().cost == 3 + 3 + 3 + 3
        network.set_bounds(ids(CONVEX + 1), ints(3), ints(3))
        assert network.solve().cost == 3 + 3 + 4 + 5
        assert network.flow(ids(CONVEX, CONVEX + 1)).tolist() == [1, 3]

    def test_ids_of_removed_convex_arcs_are_reused_by_length(self, network: Network) -> None:
        network.solve()
        network.remove_arcs(ids(0, CONVEX))
        assert network.arcs == 1
        with pytest.raises(FlowError, match="1 unit cannot leave node 0"):
            network.solve()
        short = network.add_convex_arcs(ids(0), ids(2), ints(0), ints(1), rows([7]))
        long = network.add_convex_arcs(ids(0), ids(2), ints(0), ints(3), rows([0, 0, 8]))
        assert (short.tolist(), long.tolist()) == ([CONVEX + 2], [CONVEX])
        assert network.solve().cost == 0 + 0 + 3 + 4

    def test_a_lower_bound_is_met(self, network: Network) -> None:
        network.set_bounds(ids(CONVEX, CONVEX + 1), ints(1, 3), ints(3, 3))
        assert network.solve().cost == 1 + 3 + 4 + 5

    def test_units_of_negative_cost_circulate(self) -> None:
        network = Network()
        network.add_nodes(ints(0, 0))
        there = network.add_convex_arcs(ids(0), ids(1), ints(0), ints(4), rows([-9, -5, -1, 2]))
        back = network.add_convex_arcs(ids(1), ids(0), ints(0), ints(4), rows([0, 3, 4, 5]))
        assert network.solve().cost == -9 - 5 + 0 + 3
        assert network.flow(np.concatenate([there, back])).tolist() == [2, 2]

    def test_levels_and_gates_work_beside_convex_arcs(self, network: Network) -> None:
        (task,) = network.add_nodes(ints(2))
        network.set_supply(ids(2), ints(-6))
        enter, wait = network.add_arcs(
            ids(task, task), ids(0, 2), ints(0, 0), ints(2, 2), ints(0, 1000)
        )
        answer = network.solve_levels([ids(enter), ids(wait)])
        assert answer.units == [2, 0]
        assert answer.cost == answer.bound == 1 + 2 + 9 + 3 + 4 + 5
        gated = network.solve_gated([Gate(ids(enter), ints(2), 0)])
        assert gated.cost == gated.bound == 1 + 2 + 9 + 3 + 4 + 5
        assert gated.open.tolist() == [True]


ARC = ids(0), ids(1), ints(0), ints(2), rows([1, 2])  # a convex arc to add

REFUSALS = {
    "costs fall": (
        lambda n: n.add_convex_arcs(*ARC[:4], rows([1, 0])),
        "arc 0: unit 1 costs 0, less than the one before it, 1; costs of a convex arc may not fall",
    ),
    "costs fall in a change": (
        lambda n: n.set_convex(ids(CONVEX), ints(0), ints(1), rows([1, 2, 1])),
        f"arc {CONVEX}: unit 2 costs 1, less than the one before it, 2; "
        "costs of a convex arc may not fall",
    ),
    "no costs": (
        lambda n: n.add_convex_arcs(*ARC[:3], ints(0), np.zeros((1, 0), np.int64)),
        "arc 0 is convex and has no costs, expected one for each unit",
    ),
    "more capacity than costs": (
        lambda n: n.add_convex_arcs(*ARC[:3], ints(3), *ARC[4:]),
        "arc 0: capacity is 3, expected no more than it has costs, 2",
    ),
    "more capacity than costs in a change": (
        lambda n: n.set_bounds(ids(0, CONVEX), ints(0, 0), ints(9, 4)),
        f"arc {CONVEX}: capacity is 4, expected no more than it has costs, 3",
    ),
    "a contradiction": (
        lambda n: n.set_bounds(ids(CONVEX), ints(2), ints(1)),
        f"arc {CONVEX}: lower bound 2 is above its capacity 1",
    ),
    "a loop": (
        lambda n: n.add_convex_arcs(ids(1), *ARC[1:]),
        "arc 0 is convex and starts and ends at node 1, expected two nodes",
    ),
    "a node that never was": (
        lambda n: n.add_convex_arcs(ids(7), *ARC[1:]),
        "arc 0: tail is 7, a node that was never added or has been removed",
    ),
    "a cost that is too large": (
        lambda n: n.add_convex_arcs(*ARC[:4], rows([-(2**62), 2])),
        "arc 0: cost is -4611686018427387904, expected 144115188075855871 at most in magnitude "
        "for a network of this size",
    ),
    "a last cost that is too large": (
        lambda n: n.set_convex(ids(CONVEX), ints(0), ints(1), rows([1, 2, 2**62])),
        f"arc {CONVEX}: cost is 4611686018427387904, expected 144115188075855871 at most in "
        "magnitude for a network of this size",
    ),
    "another number of costs": (
        lambda n: n.set_convex(ids(CONVEX), ints(0), ints(1), rows([1])),
        f"arc {CONVEX} has 3 costs and cannot get 1: change its capacity, or remove it and add "
        "another",
    ),
    "rows for fewer arcs": (
        lambda n: n.set_convex(ids(CONVEX, CONVEX + 1), ints(0, 0), ints(1, 1), rows([1, 2, 3])),
        "costs has 1 rows, but arcs has 2 values: expected the same number",
    ),
    "a change of an arc that is not convex": (
        lambda n: n.set_convex(ids(0), ints(0), ints(1), rows([1])),
        "arc 0 has a single cost, expected a convex one",
    ),
    "a single cost": (
        lambda n: n.set_cost(ids(CONVEX), ints(1)),
        f"arc {CONVEX} is convex, expected one with the same cost for every unit",
    ),
    "terms": (
        lambda n: n.terms(ids(CONVEX)),
        f"arc {CONVEX} is convex, expected one with the same cost for every unit",
    ),
    "a member of a gate": (
        lambda n: n.solve_gated([Gate(ids(CONVEX), ints(1), 1)]),
        f"arc {CONVEX} is convex, expected one with the same cost for every unit",
    ),
    "a level": (
        lambda n: n.solve_levels([ids(0), ids(CONVEX)]),
        f"arc {CONVEX} is convex, expected one with the same cost for every unit",
    ),
    "removed twice": (
        lambda n: n.remove_arcs(ids(0, CONVEX, CONVEX)),
        f"there is no arc {CONVEX}: it was never added or has been removed",
    ),
    "removed with one that never was": (
        lambda n: n.remove_arcs(ids(0, CONVEX, CONVEX + 9)),
        f"there is no arc {CONVEX + 9}: it was never added or has been removed",
    ),
    "a node that has some": (
        lambda n: n.remove_nodes(ids(0)),
        "node 0 still has 2 ends of arcs: remove the arcs first",
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_a_refused_call_names_the_error_and_changes_nothing(network: Network, name: str) -> None:
    attempt, sentence = REFUSALS[name]
    before = table(network.columns())
    with pytest.raises(FlowError) as error:
        attempt(network)
    assert str(error.value) == sentence
    assert table(network.columns()) == before
    assert (network.nodes, network.arcs) == (3, 3)
    assert network.solve().cost == 10


@pytest.mark.parametrize("costs", [np.asfortranarray(rows([1, 3], [2, 4])), rows([1, 2], [3, 4]).T])
def test_costs_that_are_not_contiguous_are_refused(network: Network, costs: np.ndarray) -> None:
    expected = "costs is not contiguous, expected an array without gaps (numpy.ascontiguousarray)"
    with pytest.raises(TypeError) as error:
        network.add_convex_arcs(ids(0, 0), ids(1, 2), ints(0, 0), ints(2, 2), costs)
    assert str(error.value) == expected
    added = network.add_convex_arcs(
        ids(0, 0), ids(1, 2), ints(0, 0), ints(2, 2), np.ascontiguousarray(costs)
    )
    with pytest.raises(TypeError) as error:
        network.set_convex(added, ints(0, 0), ints(2, 2), costs)
    assert str(error.value) == expected
    assert network.columns().cost[-4:].tolist() == [1, 3, 2, 4]


def test_costs_must_have_two_dimensions(network: Network) -> None:
    with pytest.raises(TypeError) as error:
        network.add_convex_arcs(*ARC[:4], ints(1, 2))
    expected = "costs is an array of int64 with 1 dimensions, expected int64 with 2"
    assert str(error.value) == expected


def spreading(random: np.random.Generator) -> tuple[Network, np.ndarray]:
    """Tasks that prefer some machines, and convex arcs for the slots; returns the ids of these."""
    machines, slots, tasks = 400, 10, 3500
    network = Network()
    sink, cluster = network.add_nodes(ints(-tasks, 0))
    machine = network.add_nodes(np.zeros(machines, np.int64))
    task = network.add_nodes(np.ones(tasks, np.int64))
    none, each = np.zeros(machines, np.int64), np.zeros(tasks, np.int64)
    hub = np.full_like(machine, cluster)
    slot = network.add_convex_arcs(hub, machine, none, none + slots, costs(random, machines))
    network.add_arcs(machine, np.full_like(machine, sink), none, none + slots, none)
    network.add_arcs(task, np.full_like(task, cluster), each, each + 1, each)
    for preferred in random.integers(0, machines, (5, tasks)):
        likes = random.integers(0, 10**6, tasks)
        network.add_arcs(task, machine[preferred], each, each + 1, likes)
    return network, slot


def costs(random: np.random.Generator, machines: int) -> np.ndarray:
    return np.sort(random.integers(0, 10**6, (machines, 10)))


def test_a_cancelled_solve_has_a_flow_and_a_bound() -> None:
    random = np.random.default_rng(3)
    network, slot = spreading(random)
    cancelled = Cancel()
    cancelled.cancel()
    network.solve()
    for _ in range(3):
        some = random.permutation(slot)[:200]
        none = np.zeros(len(some), np.int64)
        network.set_convex(some, none, none + 10, costs(random, len(some)))
        hasty = network.solve(cancel=cancelled)
        now = network.columns()
        assert ((now.lower <= now.flow) & (now.flow <= now.capacity)).all()
        assert (balance(now) == now.supply).all()
        assert int(now.cost @ now.flow) == hasty.cost
        best = network.solve()
        assert hasty.bound <= best.cost < hasty.cost
        assert best.is_optimal


def balance(columns: Columns) -> np.ndarray:
    """The net outflow of each node."""
    sent = np.zeros(len(columns.nodes), np.int64)
    np.add.at(sent, np.searchsorted(columns.nodes, columns.tail), columns.flow)
    np.subtract.at(sent, np.searchsorted(columns.nodes, columns.head), columns.flow)
    return sent


def test_a_convex_arc_of_many_units_is_solved() -> None:
    network = Network()
    source, sink = network.add_nodes(ints(1500, -1500))
    network.add_convex_arcs(
        ids(source), ids(sink), ints(0), ints(2000), np.arange(2000, dtype=np.int64)[None, :]
    )
    (other,) = network.add_arcs(ids(source), ids(sink), ints(0), ints(1500), ints(900))
    assert network.solve().cost == sum(range(900)) + 600 * 900
    network.set_cost(ids(other), ints(1200))
    assert network.solve().cost == sum(range(1200)) + 300 * 1200


def test_highs_gets_every_unit_of_a_convex_arc() -> None:
    network = Network()
    machine, sink = network.add_nodes(ints(0, -7))
    network.add_convex_arcs(ids(machine), ids(sink), ints(0), ints(5), rows([1, 2, 4, 8, 16]))
    gates = []
    for pods, waiting in ((4, 30), (3, 20)):
        (source,) = network.add_nodes(ints(pods))
        added = network.add_arcs(
            ids(source, source), ids(machine, sink), ints(0, 0), ints(pods, pods), ints(0, 0)
        )
        gates.append(Gate(added[:1], ints(pods), waiting))
    own = network.solve_gated(gates)
    assert (own.cost, own.open.tolist()) == (1 + 2 + 4 + 8 + 20, [True, False])
    asked = solve_gated(network, gates, flows=0)
    assert (asked.cost, asked.bound, asked.fallback_note) == (own.cost, own.cost, None)
