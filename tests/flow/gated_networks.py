"""Networks with gates: gangs on machines, and unusual ones."""

from collections.abc import Sequence
from itertools import product

import numpy as np
from mirrored_network import ints
from numpy.random import Generator
from random_networks import Network as Columns

from afflux._core import Gate, InfeasibleError, Network, solve
from afflux.network.certificate import violation

Arc = tuple[int, int, int, int, int]  # tail, head, lower bound, capacity, cost


def built(
    supply: Sequence[int], arcs: Sequence[Arc], gates: Sequence[tuple[dict[int, int], int]]
) -> tuple[Network, list[Gate]]:
    """A network and its gates; a gate is counts by arc, and its waiting cost."""
    network = Network()
    # An earlier node and arc, so that ids are not positions.
    gone = network.add_nodes(ints(0, 0))
    nodes = network.add_nodes(np.array(supply, np.int64))
    network.remove_nodes(gone[:1])
    table = np.array(arcs, np.int64).reshape(-1, 5)
    ends = (nodes[table[:, column]] for column in (0, 1))
    terms = (np.ascontiguousarray(table[:, column]) for column in (2, 3, 4))
    numbers = network.add_arcs(*ends, *terms)
    made = [Gate(numbers[list(of)], ints(*of.values()), waiting) for of, waiting in gates]
    return network, made


def gangs(
    seed: int, *, machines: int = 20, gangs: int = 12, admitted: int = 3, costs: int = 1000
) -> tuple[Network, list[Gate]]:
    """Gangs of one to three classes, each admitted on a few machines, with too little room."""
    random = np.random.default_rng(seed)
    arcs: list[Arc] = []
    gates: list[tuple[dict[int, int], int]] = []
    supply = [0] * (machines + 1)
    for _ in range(gangs):
        members: dict[int, int] = {}
        for count in random.integers(1, 7, random.integers(1, 4)).tolist():
            source, of_class = len(supply), len(supply) + 1
            supply += [count, 0]
            supply[0] -= count
            members[len(arcs)] = count
            arcs += [(source, of_class, 0, count, 0), (source, 0, 0, count, 0)]
            for machine in random.choice(machines, admitted, replace=False).tolist():
                room, cost = random.integers((1, 0), (7, costs)).tolist()
                arcs.append((of_class, 1 + machine, 0, room, cost))
        waiting = int(random.integers(2 * costs, 25 * costs)) * sum(members.values())
        gates.append((members, waiting))
    for machine in range(machines):
        slots = range(int(random.integers(1, 2 + 5 * gangs // machines)))
        arcs += [(1 + machine, 0, 0, 1, slot * costs // 30) for slot in slots]
    return built(supply, arcs, gates)


def odd(random: Generator) -> tuple[Network, list[Gate]]:
    """Loops, parallel arcs, lower bounds, negative costs, members that share nodes, empty gates."""
    nodes, count = int(random.integers(2, 7)), int(random.integers(4, 16))
    tail, head = random.integers(0, nodes, (2, count))
    lower = random.integers(0, 3, count) * (random.random(count) < 0.2)
    capacity = lower + random.integers(1, 8, count)
    cost = random.integers(-8, 40, count)
    flow = random.integers(lower, capacity + 1)
    supply = np.zeros(nodes, np.int64)
    np.add.at(supply, tail, flow)
    np.subtract.at(supply, head, flow)
    arcs = list(zip(*(of.tolist() for of in (tail, head, lower, capacity, cost)), strict=True))
    # Expensive detours, so that most choices have a feasible flow.
    arcs += [(node, (node + 1) % nodes, 0, 50, 60) for node in range(nodes)]
    free = [arc for arc in range(count) if tail[arc] != head[arc] and lower[arc] == 0]
    random.shuffle(free)
    gates: list[tuple[dict[int, int], int]] = []
    while free and len(gates) < 5:
        size = int(random.integers(0, 4))
        members = {arc: int(random.integers(1, capacity[arc] + 1)) for arc in free[:size]}
        free = free[size:]
        gates.append((members, int(random.integers(0, 200))))
    return built(supply.tolist(), arcs, gates)


def least_cost(network: Network, gates: Sequence[Gate]) -> int:
    """The cost of the best choice, by exhaustive search."""
    choices = product([False, True], repeat=len(gates))
    costs = (fixed_cost(network, gates, choice) for choice in choices)
    return min(cost for cost in costs if cost is not None)


def fixed_cost(network: Network, gates: Sequence[Gate], is_open: Sequence[bool]) -> int | None:
    """The cost of a choice, None if it has no feasible flow; the network is not changed."""
    try:
        flow_cost = solve(*fixed(network, gates, is_open)).cost
    except InfeasibleError:
        return None
    return flow_cost + waiting_cost(gates, is_open)


def wrong(
    network: Network, gates: Sequence[Gate], is_open: Sequence[bool], cost: int
) -> str | None:
    """The violation if the network's flow is not one of this choice at this cost, else None."""
    columns = network.columns()
    flow = network.flow(columns.arcs)
    paid = sum(c * f for c, f in zip(columns.cost.tolist(), flow.tolist(), strict=True))
    if paid + waiting_cost(gates, is_open) != cost:
        return f"flow and waiting cost {paid + waiting_cost(gates, is_open)}, not {cost}"
    return violation(*fixed(network, gates, is_open), flow, network.price(columns.nodes))


def waiting_cost(gates: Sequence[Gate], is_open: Sequence[bool]) -> int:
    chosen = zip(gates, is_open, strict=True)
    return sum(gate.waiting_cost for gate, opened in chosen if not opened)


def fixed(network: Network, gates: Sequence[Gate], is_open: Sequence[bool]) -> Columns:
    """The network with decided gates; nodes and arcs are numbered by position."""
    now = network.columns()
    lower, capacity = now.lower, now.capacity
    for gate, opened in zip(gates, is_open, strict=True):
        place = np.searchsorted(now.arcs, gate.members)
        lower[place] = capacity[place] = gate.counts * int(opened)
    tail, head = (np.searchsorted(now.nodes, of).astype(np.int32) for of in (now.tail, now.head))
    return Columns(now.supply, tail, head, lower, capacity, now.cost)
