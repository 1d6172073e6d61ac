"""After any series of changes, a solve has the cost that other solvers find from scratch."""

from itertools import product

import numpy as np
import pytest
from mirrored_network import Twin, ids, ints, twin
from reference_solvers import by_highs, by_ortools

from afflux._core import Gate, InfeasibleError, Network

pytestmark = pytest.mark.slow


def series(kind: int, rounds: int, costs: int = 50):
    """A changing network, before each of its solves."""
    of = twin(kind, costs)
    for number in range(rounds):
        of.churn()
        yield number, of


@pytest.mark.parametrize("costs", [1, 50, 1_000_000])
def test_every_round_has_the_cost_of_or_tools(costs: int) -> None:
    feasible = 0
    for seed in range(100):
        for number, of in series(seed, 10, costs):
            cost = of.proven_cost()
            assert cost == by_ortools(of.columns()), f"series {seed}, round {number}"
            feasible += cost is not None
    # Of 1,000 rounds some are feasible and some are not.
    assert 300 < feasible < 980


def test_every_round_has_the_cost_of_highs() -> None:
    found, networks = [], []
    for seed in range(1000, 1030):
        for _, of in series(seed, 10):
            found.append(of.proven_cost())
            networks.append(of.columns())
    assert found == by_highs(networks)


def test_ids_of_removed_nodes_and_arcs_are_reused() -> None:
    network = Network()
    nodes = network.add_nodes(ints(0, 0, 0))
    arcs = network.add_arcs(nodes[:2], nodes[1:], ints(0, 0), ints(1, 1), ints(1, 1))
    network.remove_arcs(arcs[1:])
    network.remove_nodes(nodes[2:])
    assert (network.nodes, network.arcs) == (2, 1)
    assert network.add_nodes(ints(0)).tolist() == nodes[2:].tolist()
    assert network.add_arcs(nodes[:1], nodes[2:], *(ints(0),) * 3).tolist() == arcs[1:].tolist()
    assert repr(network) == "Network(3 nodes, 2 arcs)"


def test_terms_returns_bounds_and_costs_as_set() -> None:
    network = Network()
    nodes = network.add_nodes(ints(0, 0))
    arcs = network.add_arcs(nodes, nodes[::-1].copy(), ints(0, 1), ints(2, 3), ints(4, 5))
    network.set_bounds(arcs[:1], ints(6), ints(7))
    network.set_cost(arcs[1:], ints(8))
    assert [column.tolist() for column in network.terms(arcs)] == [[6, 1], [7, 3], [4, 8]]


class TestLevels:
    def test_the_last_flow_is_optimal_given_the_guaranteed_flow(self) -> None:
        solved = 0
        for seed in range(60):
            for _, of in series(seed, 8):
                # All tasks can bypass these arcs through the hub.
                arcs = [arc for arc, row in of.arcs.items() if of.hub not in row[:2]]
                arcs = of.random.permutation(ids(*arcs))
                levels = [part.copy() for part in np.array_split(arcs, 3)]
                try:
                    answer = of.network.solve_levels(levels)
                except InfeasibleError:
                    continue
                assert answer.is_optimal
                keeping = of.keeping(levels, answer)
                assert of.wrong(keeping) is None
                assert answer.cost == answer.bound == by_ortools(keeping)
                flows = [of.network.flow(arcs) for arcs in levels]
                assert answer.units == [flow.sum() for flow in flows]
                assert all((a >= b).all() for a, b in zip(flows, answer.guaranteed, strict=True))
                # The original bounds are in effect again.
                assert of.proven_cost() == by_ortools(of.columns())
                solved += 1
        assert solved > 100

    def test_a_higher_level_goes_first_at_any_cost(self) -> None:
        network = Network()
        first, second, machine, sink = network.add_nodes(ints(2, 3, 0, -5))
        arcs = network.add_arcs(
            tail=ids(first, second, first, second, machine),
            head=ids(machine, machine, sink, sink, sink),
            lower=ints(0, 0, 0, 0, 0),
            capacity=ints(2, 3, 2, 3, 3),
            cost=ints(1, 1, 2, 1_000_000, 0),
        )
        answer = network.solve_levels([arcs[:1], arcs[1:2]])
        assert answer.units == [2, 1]
        assert [kept.tolist() for kept in answer.guaranteed] == [[2], [1]]
        assert answer.cost == 2_000_003
        assert network.flow(arcs).tolist() == [2, 1, 0, 2, 3]
        assert network.solve().cost == 3 + 4
        assert repr(answer) == (
            "LevelsAnswer(cost=2000003, bound=2000003, units=[2, 1], 2 of 2 levels finished)"
        )

    def test_one_level_equals_a_solve(self) -> None:
        of = twin(0)
        of.churn()
        cost = of.network.solve().cost
        assert of.network.solve_levels([]).cost == cost
        assert of.network.solve_levels([ids(*of.arcs)]).cost == cost


class TestGates:
    def test_the_choice_of_gates_is_optimal(self) -> None:
        solved = 0
        for seed in range(60):
            for _, of in series(seed, 2):
                gates = some_gates(of)
                best = best_choice(of, gates)
                if best is None:
                    with pytest.raises(InfeasibleError):
                        of.network.solve_gated(gates)
                    continue
                answer = of.network.solve_gated(gates)
                assert answer.cost == answer.bound == best
                assert answer.is_optimal
                assert answer.open.dtype == np.bool_
                assert best == choice_cost(of, gates, answer.open.tolist())
                solved += 1
        assert solved > 20

    def test_gates_compare_by_value(self) -> None:
        gate = Gate(ids(3, 4), ints(1, 2), waiting_cost=9)
        assert (gate.members.tolist(), gate.counts.tolist()) == ([3, 4], [1, 2])
        assert gate.waiting_cost == 9
        assert repr(gate) == "Gate(2 members, waiting_cost=9)"

    def test_limited_effort_gives_a_gap(self) -> None:
        network = Network()
        (sink,) = network.add_nodes(ints(-12))
        (machine,) = network.add_nodes(ints(0))
        network.add_arcs(ids(machine), ids(sink), ints(0), ints(7), ints(0))
        gates = []
        for pods, waiting in ((5, 50), (4, 39), (3, 30)):
            (source,) = network.add_nodes(ints(pods))
            added = network.add_arcs(
                ids(source, source), ids(machine, sink), ints(0, 0), ints(pods, pods), ints(1, 0)
            )
            gates.append(Gate(added[:1], ints(pods), waiting))
        answer = network.solve_gated(gates)
        assert answer.open.tolist() == [False, True, True]
        assert answer.cost == 50 + 7
        hasty = network.solve_gated(gates, flows=0)
        assert hasty.bound <= 57 <= hasty.cost
        lax = network.solve_gated(gates, gap_ppm=1_000_000)
        assert lax.gap <= lax.cost

    def test_a_gain_becomes_a_gate(self) -> None:
        network = Network()
        group, unused, machine, sink = network.add_nodes(ints(3, 0, 0, -3))
        network.add_arcs(ids(machine), ids(sink), ints(0), ints(3), ints(2))
        ends = ids(group, group), ids(unused, machine)
        gate = network.add_gain(*ends, ints(2, 0), ints(2, 1), ints(1, 3), int(sink), 100)
        answer = network.solve_gated([gate])
        assert (answer.cost, answer.open.tolist()) == (6, [True])


def some_gates(of: Twin) -> list[Gate]:
    able = [arc for arc, (t, h, low, cap, _) in of.arcs.items() if t != h and low == 0 and cap > 0]
    picked = of.random.permutation(able)[:6]
    gates = []
    for members in np.array_split(picked, 3):
        counts = [of.random.integers(1, of.arcs[arc][3] + 1) for arc in members.tolist()]
        cost = int(of.random.integers(0, 300))
        gates.append(Gate(members.astype(np.int32), np.array(counts, np.int64), cost))
    return gates


def choice_cost(of: Twin, gates: list[Gate], choice: list[bool]) -> int | None:
    columns = of.columns()
    position = {arc: number for number, arc in enumerate(of.arcs)}
    waiting = 0
    for gate, is_open in zip(gates, choice, strict=True):
        members = [position[arc] for arc in gate.members.tolist()]
        columns.lower[members] = columns.capacity[members] = gate.counts if is_open else 0
        waiting += 0 if is_open else gate.waiting_cost
    cost = by_ortools(columns)
    return None if cost is None else cost + waiting


def best_choice(of: Twin, gates: list[Gate]) -> int | None:
    costs = (choice_cost(of, gates, list(c)) for c in product([False, True], repeat=len(gates)))
    return min((cost for cost in costs if cost is not None), default=None)
