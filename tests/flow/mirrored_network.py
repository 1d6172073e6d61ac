"""A network that changes, with a copy in plain dictionaries for other solvers."""

from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np
from numpy.random import Generator
from random_networks import Network as Columns
from random_networks import network as columns_of

from afflux._core import InfeasibleError, LevelsAnswer, Network
from afflux.network.certificate import violation

Arc = tuple[int, int, int, int, int]  # tail, head, lower bound, capacity, cost
Convex = tuple[int, int, int, int, list[int]]  # the same, but with a cost for each unit
UNITS = 5


def ids(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int32)


def ints(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


@dataclass
class Twin:
    """A network and its copy, which get the same changes; other solvers read the copy."""

    random: Generator
    costs: int = 50
    network: Network = field(default_factory=Network)
    supply: dict[int, int] = field(default_factory=dict)
    arcs: dict[int, Arc] = field(default_factory=dict)
    convex: dict[int, Convex] = field(default_factory=dict)

    @property
    def hub(self) -> int:
        """A node that is never removed. Expensive arcs from and to all other nodes make most rounds
        feasible."""
        return next(iter(self.supply))

    def add_nodes(self, count: int) -> None:
        supply = self.random.integers(-3, 4, count)
        nodes = self.network.add_nodes(supply)
        for node, units in zip(nodes.tolist(), supply.tolist(), strict=True):
            assert node not in self.supply
            self.supply[node] = units
        others = nodes[nodes != self.hub] if self.supply else nodes
        hub = np.full_like(others, self.hub) if self.supply else others
        none = np.zeros(len(others), np.int64)
        for ends in ((others, hub), (hub, others)):
            self._add_arcs(*ends, none, none + 40, none + 4 * self.costs)

    def add_arcs(self, count: int) -> None:
        tail, head = (self.random.choice(list(self.supply), count).astype(np.int32) for _ in "th")
        self._add_arcs(tail, head, *self._bounds(count), self._costs(count))

    def _add_arcs(self, *columns: np.ndarray) -> None:
        added = self.network.add_arcs(*columns)
        rows = zip(added.tolist(), *(column.tolist() for column in columns), strict=True)
        for arc, *terms in rows:
            assert arc not in self.arcs
            self.arcs[arc] = tuple(terms)

    def add_convex_arcs(self, count: int) -> None:
        tail = self.random.choice(list(self.supply), count).astype(np.int32)
        head = self.random.choice(list(self.supply), count).astype(np.int32)
        between = tail != head
        self._put_convex(tail[between], head[between], *self._convex_terms(between.sum()))

    def _put_convex(self, *columns: np.ndarray) -> None:
        added = self.network.add_convex_arcs(*columns)
        rows = zip(added.tolist(), *(column.tolist() for column in columns), strict=True)
        for arc, *terms in rows:
            assert arc not in self.convex
            self.convex[arc] = tuple(terms)

    def set_convex(self, count: int) -> None:
        arcs = self._some(self.convex, count)
        columns = self._convex_terms(len(arcs))
        self.network.set_convex(arcs, *columns)
        for arc, *terms in zip(arcs.tolist(), *(of.tolist() for of in columns), strict=True):
            self.convex[arc] = (*self.convex[arc][:2], *terms)

    def _convex_terms(self, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        costs = np.sort(self._costs(count * UNITS).reshape(count, UNITS))
        lower = self.random.integers(0, 3, count) * (self.random.random(count) < 0.15)
        return lower, np.maximum(lower, self.random.integers(0, UNITS + 1, count)), costs

    def remove_arcs(self, arcs: np.ndarray) -> None:
        self.network.remove_arcs(arcs)
        for arc in arcs.tolist():
            del (self.arcs if arc in self.arcs else self.convex)[arc]

    def remove_nodes(self, count: int) -> None:
        gone = self._some([node for node in self.supply if node != self.hub], count)
        inside = set(gone.tolist())
        rows = [*self.arcs.items(), *self.convex.items()]
        at_them = [arc for arc, row in rows if inside & set(row[:2])]
        self.remove_arcs(ids(*at_them))
        self.network.remove_nodes(gone)
        for node in inside:
            del self.supply[node]

    def set_bounds(self, count: int) -> None:
        arcs = self._some(self.arcs, count)
        lower, capacity = self._bounds(len(arcs))
        self.network.set_bounds(arcs, lower, capacity)
        for arc, *bounds in zip(arcs.tolist(), lower.tolist(), capacity.tolist(), strict=True):
            tail, head, *_, cost = self.arcs[arc]
            self.arcs[arc] = (tail, head, *bounds, cost)

    def set_cost(self, count: int) -> None:
        arcs = self._some(self.arcs, count)
        cost = self._costs(len(arcs))
        self.network.set_cost(arcs, cost)
        for arc, of_arc in zip(arcs.tolist(), cost.tolist(), strict=True):
            self.arcs[arc] = (*self.arcs[arc][:4], of_arc)

    def set_supply(self, nodes: np.ndarray, supply: np.ndarray) -> None:
        self.network.set_supply(nodes, supply)
        self.supply.update(zip(nodes.tolist(), supply.tolist(), strict=True))

    def churn(self) -> None:
        """One round: a few changes of every kind, then supplies that add up to zero."""
        random = self.random
        if len(self.supply) > 6 and random.random() < 0.3:
            self.remove_nodes(int(random.integers(1, 3)))
        self.add_nodes(int(random.integers(0, 3)))
        self.remove_arcs(self._some(self.arcs, int(random.integers(0, 4))))
        self.add_arcs(int(random.integers(0, 8)))
        self.set_bounds(int(random.integers(0, 6)))
        self.set_cost(int(random.integers(0, 6)))
        self.remove_arcs(self._some(self.convex, int(random.integers(0, 2))))
        self.add_convex_arcs(int(random.integers(0, 4)))
        self.set_convex(int(random.integers(0, 4)))
        some = self._some(self.supply, 2)
        self.set_supply(some, random.integers(-4, 5, len(some)))
        last = next(reversed(self.supply))
        rest = sum(self.supply.values()) - self.supply[last]
        self.set_supply(ids(last), ints(-rest))

    def columns(self) -> Columns:
        """The copy as columns for other solvers; nodes are numbered by position."""
        number = {node: position for position, node in enumerate(self.supply)}
        rows = [*self.arcs.values(), *(unit for arc in self.convex.values() for unit in units(arc))]
        numbered = ((number[t], number[h], *terms) for t, h, *terms in rows)
        return columns_of(list(self.supply.values()), *numbered)

    def proven_cost(self) -> int | None:
        """The cost of a solve after its proof was checked; None if the network is infeasible."""
        try:
            answer = self.network.solve()
        except InfeasibleError:
            return None
        assert answer.is_optimal
        assert answer.gap == 0
        assert self.wrong(self.columns()) is None
        return answer.cost

    def wrong(self, columns: Columns) -> str | None:
        """The first violation of flow and prices of the network, None if they prove the optimum."""
        flow = self.network.flow(ids(*self.arcs))
        carried = self.network.flow(ids(*self.convex)).tolist()
        for units_here, (_, _, _, capacity, _) in zip(carried, self.convex.values(), strict=True):
            flow = np.append(flow, np.arange(capacity) < units_here)
        return violation(*columns, flow, self.network.price(ids(*self.supply)))

    def keeping(self, levels: list[np.ndarray], answer: LevelsAnswer) -> Columns:
        """The columns; the guaranteed flow of all levels but the last is a lower bound."""
        columns = self.columns()
        position = {arc: number for number, arc in enumerate(self.arcs)}
        for arcs, kept in zip(levels[:-1], answer.guaranteed, strict=False):
            columns.lower[[position[arc] for arc in arcs.tolist()]] = kept
        return columns

    def _bounds(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        random = self.random
        lower = random.integers(0, 3, count) * (random.random(count) < 0.15)
        return lower, lower + random.integers(0, 9, count) * (random.random(count) < 0.9)

    def _costs(self, count: int) -> np.ndarray:
        return self.random.integers(-self.costs // 5, self.costs + 1, count)

    def _some(self, of: Collection[int], count: int) -> np.ndarray:
        picked = self.random.choice(list(of) or [0], min(count, len(of)), replace=False)
        return picked.astype(np.int32)


def units(arc: Convex) -> list[Arc]:
    """A convex arc as parallel arcs."""
    tail, head, lower, capacity, costs = arc
    return [(tail, head, int(unit < lower), 1, costs[unit]) for unit in range(capacity)]


def twin(seed: int, costs: int = 50) -> Twin:
    """A network with its copy, before any change."""
    made = Twin(np.random.default_rng(seed), costs)
    made.add_nodes(8)
    made.add_arcs(20)
    made.add_convex_arcs(6)
    return made


def long_solve(classes: int = 400, machines: int = 4000, slots: int = 10) -> Network:
    """A network that takes more than a second to solve: every class may use every machine."""
    random = np.random.default_rng(0)
    network = Network()
    units = machines * slots // classes
    of_class = network.add_nodes(np.full(classes, units))
    machine = network.add_nodes(np.zeros(machines, np.int64))
    sink = network.add_nodes(ints(-units * classes))

    def add(tail: np.ndarray, head: np.ndarray, capacity: int, cost: np.ndarray) -> None:
        none = np.zeros(len(tail), np.int64)
        network.add_arcs(tail, head, none, none + capacity, cost)

    count = classes * machines
    costs = random.integers(0, 1_000_000, count)
    add(np.repeat(of_class, machines), np.tile(machine, classes), 3, costs)
    rising = np.tile(np.arange(slots) * 5000, machines)
    add(np.repeat(machine, slots), np.repeat(sink, machines * slots), 1, rising)
    add(of_class, np.repeat(sink, classes), units, np.full(classes, 50_000_000))
    return network
