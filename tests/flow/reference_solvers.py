"""Minimum costs by other solvers: an integer, or None if there is no feasible flow."""

import json
import pickle
import subprocess
import sys
from pathlib import Path

import networkx as nx
import numpy as np
from ortools.graph.python import min_cost_flow
from random_networks import Network, total_cost

WORKER = Path(__file__).with_name("reference_highs_worker.py")


def by_highs(networks: list[Network]) -> list[int | None]:
    """Solves all networks in one process, since starting one takes longer than solving."""
    given = pickle.dumps([tuple(of) for of in networks])
    answer = subprocess.run(
        [sys.executable, WORKER], input=given, stdout=subprocess.PIPE, check=True
    )
    return json.loads(answer.stdout)


def by_ortools(of: Network) -> int | None:
    supply = _without_lower_bounds(of)
    solver = min_cost_flow.SimpleMinCostFlow()
    solver.add_arcs_with_capacity_and_unit_cost(of.tail, of.head, of.capacity - of.lower, of.cost)
    solver.set_nodes_supplies(np.arange(len(supply), dtype=np.int32), supply)
    status = solver.solve()
    if status == solver.INFEASIBLE:
        return None
    assert status == solver.OPTIMAL
    return total_cost(of, of.lower + solver.flows(np.arange(len(of.tail), dtype=np.int32)))


def by_networkx(of: Network) -> int | None:
    supply = _without_lower_bounds(of)
    graph = nx.MultiDiGraph()
    for node, units in enumerate(supply.tolist()):
        graph.add_node(node, demand=-units)
    arcs = (column.tolist() for column in (of.tail, of.head, of.capacity - of.lower, of.cost))
    for tail, head, capacity, cost in zip(*arcs, strict=True):
        graph.add_edge(tail, head, capacity=capacity, weight=cost)
    try:
        cost, _ = nx.network_simplex(graph)
    except nx.NetworkXUnfeasible:
        return None
    return cost + total_cost(of, of.lower)


def _without_lower_bounds(of: Network) -> np.ndarray:
    """The supply that remains after every arc carries its lower bound."""
    supply = of.supply.copy()
    np.subtract.at(supply, of.tail, of.lower)
    np.add.at(supply, of.head, of.lower)
    return supply
