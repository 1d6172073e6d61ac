"""Random networks of many kinds, by seed."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

Column = NDArray[np.int64]


class Network(NamedTuple):
    """The arguments of solve, in its order."""

    supply: Column
    tail: NDArray[np.int32]
    head: NDArray[np.int32]
    lower: Column
    capacity: Column
    cost: Column


def network(supply: list[int], *arcs: tuple[int, int, int, int, int]) -> Network:
    """Supplies, then (tail, head, lower, capacity, cost) for each arc."""
    table = np.array(arcs, np.int64).reshape(-1, 5)
    tail, head, *rest = (np.ascontiguousarray(column) for column in table.T)
    return Network(np.array(supply, np.int64), tail.astype(np.int32), head.astype(np.int32), *rest)


def total_cost(of: Network, flow: Column) -> int:
    """The cost of a flow, without overflow."""
    return sum(c * f for c, f in zip(of.cost.tolist(), flow.tolist(), strict=True))


def _feasible(random: Generator, nodes: int, tail: Column, head: Column, **columns: Column):
    """Supplies for which a feasible flow exists."""
    lower, capacity = columns["lower"], columns["capacity"]
    flow = random.integers(lower, capacity + 1)
    supply = np.zeros(nodes, np.int64)
    np.add.at(supply, tail, flow)
    np.subtract.at(supply, head, flow)
    ends = tail.astype(np.int32), head.astype(np.int32)
    return Network(supply, *ends, lower, capacity, columns["cost"])


def anything(random: Generator, nodes: int = 12, arcs: int = 40, costs: int = 50) -> Network:
    """Loops, parallel arcs, arcs without capacity, lower bounds, nodes without arcs."""
    nodes = int(random.integers(1, nodes + 1))
    arcs = int(random.integers(0, arcs + 1))
    tail, head = random.integers(0, nodes, (2, arcs))
    lower = random.integers(0, 4, arcs) * (random.random(arcs) < 0.3)
    capacity = lower + random.integers(0, 12, arcs) * (random.random(arcs) < 0.8)
    cost = random.integers(-costs // 5, costs + 1, arcs)
    return _feasible(random, nodes, tail, head, lower=lower, capacity=capacity, cost=cost)


def ties(random: Generator) -> Network:
    """Costs of zero and one only: many optimal flows."""
    return anything(random, nodes=20, arcs=120, costs=1)


def larger(random: Generator) -> Network:
    return anything(random, nodes=60, arcs=500, costs=100_000)


def negative_cycles(random: Generator) -> Network:
    """No supply: flow exists only on cycles of negative cost."""
    drawn = anything(random, nodes=15, arcs=80)
    nodes, arcs = len(drawn.supply), len(drawn.tail)
    return drawn._replace(
        supply=np.zeros(nodes, np.int64),
        lower=np.zeros(arcs, np.int64),
        cost=random.integers(-30, 31, arcs),
    )


def islands(random: Generator) -> Network:
    """Several components that are not connected."""
    parts = [anything(random, nodes=6, arcs=20) for _ in range(3)]
    first = np.cumsum([0, *(len(part.supply) for part in parts)])
    moved = [
        part._replace(tail=part.tail + np.int32(base), head=part.head + np.int32(base))
        for part, base in zip(parts, first, strict=False)
    ]
    return Network(*(np.concatenate(columns) for columns in zip(*moved, strict=True)))


def long_ways(random: Generator) -> Network:
    """A long strip: paths have many arcs."""
    nodes = int(random.integers(20, 120))
    here = np.arange(nodes - 1)
    tail, head = np.concatenate([here, here + 1]), np.concatenate([here + 1, here])
    arcs = len(tail)
    lower, capacity = np.zeros(arcs, np.int64), random.integers(1, 9, arcs)
    cost = random.integers(0, 1000, arcs)
    return _feasible(random, nodes, tail, head, lower=lower, capacity=capacity, cost=cost)


def assignment(random: Generator) -> Network:
    """An assignment problem with unit capacities."""
    size = int(random.integers(1, 16))
    tail, head = (part.ravel() for part in np.mgrid[0:size, size : 2 * size])
    cost = random.integers(0, random.choice([3, 1000]), size * size)
    supply = np.repeat([1, -1], size).astype(np.int64)
    ends = tail.astype(np.int32), head.astype(np.int32)
    return Network(supply, *ends, np.zeros_like(cost), np.ones_like(cost), cost)


def cycle(
    random: Generator, classes: int = 4, machines: int = 12, units: int = 60, slots: int = 6
) -> Network:
    """The network of a scheduling cycle: classes, machines with slots of rising cost, waiting."""
    sink = classes + machines
    arcs: list[tuple[int, int, int, int, int]] = []
    supply = [*random.multinomial(units, np.ones(classes) / classes).tolist(), *[0] * machines]
    for of_class in range(classes):
        for machine in range(machines):
            room, cost = int(random.integers(0, 11)), int(random.integers(0, 2001))
            arcs.append((of_class, classes + machine, 0, room, cost))
        arcs.append((of_class, sink, 0, supply[of_class], 2_560_000))
    for machine in range(machines):
        slope = int(random.integers(0, 60))
        arcs += [(classes + machine, sink, 0, 1, slot * slope) for slot in range(slots)]
    return network([*supply, -units], *arcs)


def far_apart(random: Generator) -> Network:
    """Costs and capacities of very different sizes side by side."""
    drawn = anything(random, nodes=10, arcs=50)
    arcs = len(drawn.tail)
    return drawn._replace(
        capacity=drawn.capacity + 2 ** random.integers(0, 40, arcs),
        cost=drawn.cost * 10 ** random.integers(0, 7, arcs),
    )


def perhaps_infeasible(random: Generator) -> Network:
    """A few more units of supply, so that the network may be infeasible."""
    drawn = anything(random, nodes=12, arcs=30)
    nodes = len(drawn.supply)
    for _ in range(3):
        source, sink = random.integers(0, nodes, 2)
        drawn.supply[source] += 4
        drawn.supply[sink] -= 4
    return drawn


KINDS: tuple[Callable[[Generator], Network], ...] = (
    anything,
    ties,
    larger,
    negative_cycles,
    islands,
    long_ways,
    assignment,
    cycle,
    far_apart,
    perhaps_infeasible,
)


def drawn(kind: Callable[[Generator], Network], count: int, offset: int = 0) -> list[Network]:
    """The first networks of a kind, the same in every run."""
    return [kind(np.random.default_rng([offset, seed])) for seed in range(count)]
