"""Invalid calls of a network raise an error that names the value, and change nothing."""

import numpy as np
import pytest
from mirrored_network import ids, ints

from afflux._core import Cancel, FlowError, Gate, InfeasibleError, Network


@pytest.fixture
def network() -> Network:
    """Two units from node 0 to node 1 along arc 0; arc 1 and node 2 were removed."""
    network = Network()
    network.add_nodes(ints(2, -2, 0))
    network.add_arcs(ids(0, 0), ids(1, 1), ints(0, 0), ints(2, 1), ints(3, 9))
    network.remove_arcs(ids(1))
    network.remove_nodes(ids(2))
    return network


GONE_ARC = "there is no arc 1: it was never added or has been removed"
GONE_NODE = "there is no node 2: it was never added or has been removed"
ARC = ids(0), ids(1), ints(0), ints(1), ints(1)  # an arc to add

REFUSALS = {
    "remove an arc that is gone": (lambda n: n.remove_arcs(ids(0, 1)), GONE_ARC),
    "remove an arc twice": (
        lambda n: n.remove_arcs(ids(0, 0)),
        "there is no arc 0: it was never added or has been removed",
    ),
    "remove a node that is gone": (lambda n: n.remove_nodes(ids(2)), GONE_NODE),
    "remove a node with arcs": (
        lambda n: n.remove_nodes(ids(1)),
        "node 1 still has 1 ends of arcs: remove the arcs first",
    ),
    "add an arc from a node that is gone": (
        lambda n: n.add_arcs(ids(0, 2), ids(1, 1), ints(0, 0), ints(1, 1), ints(1, 1)),
        "arc 1: tail is 2, a node that was never added or has been removed",
    ),
    "add an arc to a node that never was": (
        lambda n: n.add_arcs(*ARC[:1], ids(77), *ARC[2:]),
        "arc 0: head is 77, a node that was never added or has been removed",
    ),
    "add an arc to a negative node": (
        lambda n: n.add_arcs(*ARC[:1], ids(-1), *ARC[2:]),
        "head[0] is -1, expected 0 or more",
    ),
    "add an arc of negative capacity": (
        lambda n: n.add_arcs(*ARC[:3], ints(-1), *ARC[4:]),
        "arc 0: capacity is -1, expected 0 or more",
    ),
    "add an arc that costs too much": (
        lambda n: n.add_arcs(*ARC[:4], ints(2**62)),
        "arc 0: cost is 4611686018427387904, expected 144115188075855871 at most in magnitude "
        "for a network of this size",
    ),
    "add columns of different lengths": (
        lambda n: n.add_arcs(*ARC[:4], ints(1, 2)),
        "cost has 2 values, but tail has 1: expected the same number",
    ),
    "set the supply of a node that is gone": (lambda n: n.set_supply(ids(2), ints(1)), GONE_NODE),
    "set fewer supplies than nodes": (
        lambda n: n.set_supply(ids(0, 1), ints(1)),
        "supply has 1 values, but nodes has 2: expected the same number",
    ),
    "bound an arc that is gone": (lambda n: n.set_bounds(ids(1), ints(0), ints(1)), GONE_ARC),
    "bound an arc by contradiction": (
        lambda n: n.set_bounds(ids(0), ints(3), ints(2)),
        "arc 0: lower bound 3 is above its capacity 2",
    ),
    "bound an arc below zero": (
        lambda n: n.set_bounds(ids(0), ints(-3), ints(2)),
        "arc 0: lower bound is -3, expected 0 or more",
    ),
    "price an arc that is gone": (lambda n: n.set_cost(ids(0, 1), ints(1, 1)), GONE_ARC),
    "price an arc beyond 64 bits": (
        lambda n: n.set_cost(ids(0), ints(-(2**63))),
        "arc 0: cost is -9223372036854775808, expected 144115188075855871 at most in magnitude "
        "for a network of this size",
    ),
    "read the flow of an arc that is gone": (lambda n: n.flow(ids(1)), GONE_ARC),
    "read the terms of an arc that is gone": (lambda n: n.terms(ids(1)), GONE_ARC),
    "read the price of a node that is gone": (lambda n: n.price(ids(2)), GONE_NODE),
    "read a negative arc": (lambda n: n.flow(ids(0, -5)), "arcs[1] is -5, expected 0 or more"),
    "level an arc that is gone": (lambda n: n.solve_levels([ids(0), ids(1)]), GONE_ARC),
    "level an arc twice": (
        lambda n: n.solve_levels([ids(0), ids(0)]),
        "arc 0 is named by levels 0 and 1, expected by one at most",
    ),
    "gate an arc that is gone": (lambda n: n.solve_gated([Gate(ids(1), ints(1), 0)]), GONE_ARC),
    "gate an arc twice": (
        lambda n: n.solve_gated([Gate(ids(0), ints(1), 0), Gate(ids(0), ints(1), 0)]),
        "arc 0 is named by gates 0 and 1, expected by one at most",
    ),
    "gate more than fits": (
        lambda n: n.solve_gated([Gate(ids(0), ints(3), 0)]),
        "gate 0: count of arc 0 is 3, expected 1 to its capacity 2",
    ),
    "gate at a negative cost": (
        lambda n: n.solve_gated([Gate(ids(0), ints(1), -1)]),
        "gate 0: waiting cost is -1, expected 0 or more",
    ),
    "gate without counts": (
        lambda _: Gate(ids(0), ints(), 1),
        "counts has 0 values, but members has 1: expected the same number",
    ),
    "gain without a gain": (
        lambda n: n.add_gain(ids(0), ids(1), ints(0), ints(1), ints(1), 0, 0),
        "none of 1 arcs has a gain other than 1: add them as arcs",
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_a_refused_call_names_the_error_and_changes_nothing(network: Network, name: str) -> None:
    attempt, sentence = REFUSALS[name]
    with pytest.raises(FlowError) as error:
        attempt(network)
    assert type(error.value) is FlowError
    assert str(error.value) == sentence
    assert (network.nodes, network.arcs) == (2, 1)
    assert network.solve().cost == 6


MISTYPED = {
    "a list": (lambda n: n.flow([0]), "arcs is a list, expected a NumPy array of int32"),
    "wide ids": (
        lambda n: n.flow(ints(0)),
        "arcs is an array of int64 with 1 dimensions, expected int32 with 1",
    ),
    "narrow values": (
        lambda n: n.set_cost(ids(0), ids(0)),
        "cost is an array of int32 with 1 dimensions, expected int64 with 1",
    ),
    "gaps": (
        lambda n: n.price(np.zeros(4, np.int32)[::2]),
        "nodes is not contiguous, expected an array without gaps (numpy.ascontiguousarray)",
    ),
    "a level that is a list": (
        lambda n: n.solve_levels([ids(0), [1]]),
        "levels[1] is a list, expected a NumPy array of int32",
    ),
    "a gate that is none": (
        lambda n: n.solve_gated([Gate(ids(0), ints(1), 1), None]),
        "gates[1] is a NoneType, expected a Gate",
    ),
}


@pytest.mark.parametrize("name", MISTYPED)
def test_a_wrong_type_is_named(network: Network, name: str) -> None:
    attempt, sentence = MISTYPED[name]
    with pytest.raises(TypeError) as error:
        attempt(network)
    assert str(error.value) == sentence


@pytest.mark.parametrize("budget", [-1, -0.001, float("nan"), float("-inf")])
def test_a_negative_budget_is_refused(network: Network, budget: float) -> None:
    for solve in (
        lambda: network.solve(budget_seconds=budget),
        lambda: network.solve_levels([], budget_seconds=budget),
        lambda: network.solve_gated([], budget_seconds=budget),
    ):
        with pytest.raises(ValueError, match=r"budget_seconds is .*, expected 0 or more"):
            solve()
    assert network.solve(budget_seconds=float("inf"), cancel=Cancel()).cost == 6


@pytest.mark.parametrize("effort", [{"flows": -1}, {"gap_ppm": -1}])
def test_negative_effort_is_refused(network: Network, effort: dict[str, int]) -> None:
    name = next(iter(effort))
    with pytest.raises(ValueError, match=f"{name} is -1, expected 0 or more"):
        network.solve_gated([], **effort)


def test_supplies_must_add_up_to_zero_at_a_solve(network: Network) -> None:
    network.set_supply(ids(0), ints(5))
    for solve in (network.solve, lambda: network.solve_levels([ids(0)])):
        with pytest.raises(FlowError, match="supplies add up to 3, expected 0"):
            solve()
    network.set_supply(ids(0), ints(2))
    assert network.solve().cost == 6


def test_the_error_of_an_infeasible_network_says_what_cannot_be_routed(network: Network) -> None:
    network.set_bounds(ids(0), ints(0), ints(1))
    with pytest.raises(InfeasibleError, match="1 unit cannot leave node 0"):
        network.solve()
    network.set_bounds(ids(0), ints(0), ints(2))
    assert network.solve().cost == 6


def test_lower_bounds_that_cannot_be_met_are_infeasible(network: Network) -> None:
    network.set_bounds(ids(0), ints(3), ints(4))
    with pytest.raises(InfeasibleError, match="1 unit cannot leave node 1"):
        network.solve()


def test_prices_beyond_64_bits_are_an_error() -> None:
    network = Network()
    count = 40
    limit = (2**63 - 1) // 16 // (count + 1)
    nodes = network.add_nodes(ints(9, *[0] * (count - 2), -9))
    none = np.zeros(count - 1, np.int64)
    arcs = network.add_arcs(nodes[:-1], nodes[1:], none, none + 9, none + limit)
    with pytest.raises(FlowError, match="its price does not fit 64 bits"):
        network.solve()
    network.set_cost(arcs, none + 1)
    assert network.solve().cost == 9 * (count - 1)


def test_a_cost_that_is_too_large_for_the_number_of_nodes_is_an_error() -> None:
    network = Network()
    network.add_nodes(ints(1, -1))
    network.add_arcs(ids(0), ids(1), ints(0), ints(1), ints(2**56))
    network.add_nodes(np.zeros(100, np.int64))
    with pytest.raises(FlowError, match="arc 0: cost is 72057594037927936, expected"):
        network.solve()
    with pytest.raises(FlowError, match="arc 0: cost is 72057594037927936, expected"):
        network.solve_levels([ids(), ids(0)])
    network.set_cost(ids(0), ints(5))
    assert network.solve().cost == 5


def test_capacities_beyond_64_bits_are_an_error() -> None:
    network = Network()
    network.add_nodes(ints(0, 0))
    most = 2**63 - 1
    network.add_arcs(ids(0, 1), ids(1, 0), ints(0, 0), ints(most, most), ints(-1, -1))
    with pytest.raises(FlowError, match="node 0: supply, lower bounds and capacities around it"):
        network.solve()
