"""From one round's columns to the next, as bulk calls on our solver.

A round takes at most eight calls. They are prepared before; only `apply` is timed.
"""

from dataclasses import dataclass

import numpy as np

from afflux._core import Network
from bench.solver.network_columns import NONE, Columns, Flags, Ids, Ints


@dataclass(frozen=True)
class Convex:
    """Convex arcs to set; in the first round, all of them, to add between these nodes."""

    arcs: Ids
    tail: Ids
    head: Ids
    lower: Ints
    capacity: Ints
    costs: Ints

    def apply(self, network: Network) -> Ids:
        """Add or set them; returns the ids of added arcs."""
        terms = self.lower, self.capacity, self.costs
        if self.tail.size:
            return network.add_convex_arcs(self.tail, self.head, *terms)
        if self.arcs.size:
            network.set_convex(self.arcs, *terms)
        return self.arcs[:0]


@dataclass(frozen=True)
class Changes:
    """The changes of a round (remove, add, set), by the ids of the solver.

    Nodes that are added in the same round have no id yet: -1 stands for the first of them, -2 for
    the second, and so on, in `new_tail` and `new_head`.
    """

    gone_arcs: Ids
    gone_nodes: Ids
    new_supply: Ints
    new_tail: Ids
    new_head: Ids
    new_lower: Ints
    new_capacity: Ints
    new_cost: Ints
    supplied: Ids
    supply: Ints
    bounded: Ids
    lower: Ints
    capacity: Ints
    priced: Ids
    cost: Ints
    convex: Convex

    @property
    def arcs(self) -> int:
        """The number of changes of arcs: removed, added, new bounds, new costs."""
        single = self.gone_arcs.size + self.new_tail.size + self.bounded.size + self.priced.size
        return single + self.convex.costs.size


@dataclass(frozen=True)
class Added:
    """The ids of added nodes, arcs and convex arcs, in the order of the columns."""

    nodes: Ids
    arcs: Ids
    convex: Ids


def apply(network: Network, changes: Changes) -> Added:
    """Make the changes; nodes without an id get theirs in place."""
    if changes.gone_arcs.size:
        network.remove_arcs(changes.gone_arcs)
    if changes.gone_nodes.size:
        network.remove_nodes(changes.gone_nodes)
    nodes = network.add_nodes(changes.new_supply)
    if nodes.size:
        _resolve(changes.new_tail, nodes)
        _resolve(changes.new_head, nodes)
        _resolve(changes.convex.tail, nodes)
        _resolve(changes.convex.head, nodes)
    arcs = network.add_arcs(
        changes.new_tail,
        changes.new_head,
        changes.new_lower,
        changes.new_capacity,
        changes.new_cost,
    )
    if changes.supplied.size:
        network.set_supply(changes.supplied, changes.supply)
    if changes.bounded.size:
        network.set_bounds(changes.bounded, changes.lower, changes.capacity)
    if changes.priced.size:
        network.set_cost(changes.priced, changes.cost)
    return Added(nodes, arcs, changes.convex.apply(network))


def _resolve(ends: Ids, nodes: Ids) -> None:
    unknown = np.flatnonzero(ends < 0)
    ends[unknown] = nodes[~ends[unknown]]


class ChangeTracker:
    """Remembers the last state sent to the solver, and the solver's ids of nodes and arcs.

    With `convex`, rising arcs are sent as convex ones, else as parallel ones.
    """

    def __init__(self, columns: Columns, *, convex: bool) -> None:
        self._columns = columns
        self._rising = columns.rising if convex else NONE
        self._node = np.full(columns.supply.size, -1, np.int32)
        self._arc = np.full(columns.tail.size, -1, np.int32)
        self._last = {
            name: np.zeros_like(getattr(columns, name))
            for name in ("supply", "tail", "head", "lower", "capacity", "cost")
        }
        self._new_nodes = np.ones(columns.supply.size, np.bool_)
        self._new_arcs: Flags = columns.present.copy()
        self._single = np.ones(columns.tail.size, np.bool_)
        self._single[self._rising] = False
        self._convex = np.zeros(0, np.int32)

    def changes(self) -> Changes:
        """The differences from the state of the solver."""
        now, last = self._columns, self._last
        new_nodes = (self._node < 0) | now.renewed
        gone_nodes = (self._node >= 0) & now.renewed
        present = now.present & self._single
        known = self._arc >= 0
        same = known & present
        same &= (now.tail == last["tail"]) & (now.head == last["head"])
        same &= ~(now.renewed[now.tail] | now.renewed[now.head])
        new_arcs = present & ~same
        moved = (now.lower != last["lower"]) | (now.capacity != last["capacity"])
        bounded = np.flatnonzero(same & moved)
        priced = np.flatnonzero(same & (now.cost != last["cost"]))
        supplied = np.flatnonzero(~new_nodes & (now.supply != last["supply"]))
        reference = self._node.copy()
        reference[new_nodes] = ~np.arange(np.count_nonzero(new_nodes), dtype=np.int32)
        self._new_nodes, self._new_arcs = new_nodes, new_arcs
        gone_arcs = known & ~same
        changes = Changes(
            gone_arcs=self._arc[gone_arcs],
            gone_nodes=self._node[gone_nodes],
            new_supply=now.supply[new_nodes],
            new_tail=reference[now.tail[new_arcs]],
            new_head=reference[now.head[new_arcs]],
            new_lower=now.lower[new_arcs],
            new_capacity=now.capacity[new_arcs],
            new_cost=now.cost[new_arcs],
            supplied=self._node[supplied],
            supply=now.supply[supplied],
            bounded=self._arc[bounded],
            lower=now.lower[bounded],
            capacity=now.capacity[bounded],
            priced=self._arc[priced],
            cost=now.cost[priced],
            convex=self._convex_changes(reference),
        )
        self._arc[gone_arcs] = -1
        return changes

    def _convex_changes(self, reference: Ids) -> Convex:
        """All convex arcs in the first round; later those with a change in any unit."""
        now, last = self._columns, self._last
        rows = {
            name: getattr(now, name)[self._rising].reshape(-1, now.units)
            for name in ("tail", "head", "lower", "capacity", "cost")
        }
        is_new = self._convex.size == 0
        changed = np.full(len(rows["cost"]), is_new)
        for name in ("lower", "capacity", "cost"):
            before = last[name][self._rising].reshape(-1, now.units)
            changed |= (rows[name] != before).any(axis=1)
        ends = changed if is_new else np.zeros_like(changed)
        return Convex(
            arcs=self._convex[changed[: self._convex.size]],
            tail=reference[rows["tail"][ends, 0]],
            head=reference[rows["head"][ends, 0]],
            lower=rows["lower"][changed].sum(axis=1),
            capacity=rows["capacity"][changed].sum(axis=1),
            costs=rows["cost"][changed],
        )

    def applied(self, added: Added) -> None:
        """Record the new ids and the new state of the solver."""
        self._node[self._new_nodes] = added.nodes
        self._arc[self._new_arcs] = added.arcs
        self._convex = added.convex if added.convex.size else self._convex
        for name, column in self._last.items():
            np.copyto(column, getattr(self._columns, name))

    def flow(self, network: Network) -> Ints:
        """The flow of the last solve, by position."""
        flow = np.zeros(self._arc.size, np.int64)
        known = np.flatnonzero(self._arc >= 0)
        flow[known] = network.flow(self._arc[known])
        carried = network.flow(self._convex)[:, None]
        flow[self._rising] = (np.arange(self._columns.units) < carried).ravel()
        return flow
