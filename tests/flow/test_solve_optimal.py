"""The solver has the costs of other solvers, and proves them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_networks import KINDS, Network, cycle, drawn, total_cost
from reference_solvers import by_highs, by_networkx, by_ortools

from afflux._core import InfeasibleError, solve
from afflux.network.certificate import violation

pytestmark = pytest.mark.slow


def proven_cost(of: Network) -> int | None:
    """The cost after its proof was checked, or None if there is no feasible flow."""
    try:
        answer = solve(*of)
    except InfeasibleError:
        return None
    assert violation(*of, answer.flow, answer.price) is None
    assert answer.cost == total_cost(of, answer.flow)
    return answer.cost


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
class TestTheCostIsThat:
    def test_of_or_tools(self, kind) -> None:
        for seed, of in enumerate(drawn(kind, 1000)):
            assert proven_cost(of) == by_ortools(of), f"{kind.__name__} {seed}"

    def test_of_highs(self, kind) -> None:
        networks = drawn(kind, 200, offset=1)
        assert [proven_cost(of) for of in networks] == by_highs(networks)

    def test_of_networkx(self, kind) -> None:
        for seed, of in enumerate(drawn(kind, 25, offset=2)):
            assert proven_cost(of) == by_networkx(of), f"{kind.__name__} {seed}"


@pytest.mark.parametrize(("classes", "machines", "units"), [(50, 300, 3000), (20, 500, 12000)])
def test_the_network_of_a_cycle_has_the_cost_of_or_tools(
    classes: int, machines: int, units: int
) -> None:
    of = cycle(np.random.default_rng(0), classes, machines, units, slots=20)
    assert proven_cost(of) == by_ortools(of)


def test_random_networks_are_sometimes_infeasible() -> None:
    kind = next(kind for kind in KINDS if kind.__name__ == "perhaps_infeasible")
    infeasible = sum(proven_cost(of) is None for of in drawn(kind, 200))
    assert 20 < infeasible < 180


@st.composite
def networks(draw: st.DrawFn) -> Network:
    nodes = draw(st.integers(1, 7))
    node = st.integers(0, nodes - 1)
    bound = st.integers(0, 9)
    arc = st.tuples(node, node, bound, bound, st.integers(-20, 60))
    table = np.array(draw(st.lists(arc, max_size=25)), np.int64).reshape(-1, 5)
    tail, head, lower, width, cost = np.ascontiguousarray(table.T)
    supply = np.zeros(nodes, np.int64)
    for source, sink, units in draw(st.lists(st.tuples(node, node, bound), max_size=4)):
        supply[source] += units
        supply[sink] -= units
    ends = tail.astype(np.int32), head.astype(np.int32)
    return Network(supply, *ends, lower // 2, lower // 2 + width, cost)


@settings(max_examples=500)
@given(networks())
def test_any_network_has_the_cost_of_or_tools(of: Network) -> None:
    assert proven_cost(of) == by_ortools(of)


@settings(max_examples=200)
@given(networks(), st.randoms(use_true_random=False), st.integers(1, 1000))
def test_equivalent_problems_have_equivalent_costs(of: Network, random, factor: int) -> None:
    """Node potentials added to costs, arcs in another order, costs in other units."""
    cost = proven_cost(of)
    price = np.array([random.randint(-50, 50) for _ in of.supply], np.int64)
    order = random.sample(range(len(of.tail)), len(of.tail))
    shifted = of._replace(cost=of.cost + price[of.tail] - price[of.head])
    mixed = Network(of.supply, *(column[order] for column in of[1:]))
    assert proven_cost(of._replace(cost=of.cost * factor)) == (cost and cost * factor)
    assert proven_cost(mixed) == cost
    expected = None if cost is None else cost + int((price * of.supply).sum())
    assert proven_cost(shifted) == expected
