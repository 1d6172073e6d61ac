"""The network of a round, against the same problem drawn and solved by others."""

from dataclasses import dataclass
from random import Random

import networkx as nx
import numpy as np
import pytest
from ortools.graph.python import min_cost_flow

from afflux.network.pairs import Pairs, Slots, TaskSource
from afflux.network.routing import RoutedFlow, route


@dataclass
class MachineArcs:
    """A problem as tables: a row per class, a column per machine."""

    room: np.ndarray
    cost: np.ndarray
    slot_cost: np.ndarray
    slope: np.ndarray
    slots: np.ndarray

    @property
    def pairs(self) -> Pairs:
        numbers, machine = np.nonzero(self.room > 0)
        first = np.searchsorted(numbers, np.arange(len(self.room) + 1))
        room, cost = self.room[numbers, machine], self.cost[numbers, machine]
        return Pairs(first, machine.astype(np.int32), room.astype(np.int64), cost.astype(np.int64))

    def route(self, sources: list[TaskSource], **limits: int) -> tuple[RoutedFlow, np.ndarray]:
        """The flow, and its units as a table."""
        slots = Slots(*(c.astype(np.int64) for c in (self.slot_cost, self.slope, self.slots)))
        pairs = self.pairs
        routed = route(sources, pairs, slots, **limits)
        units = np.zeros(self.room.shape, np.int64)
        numbers = np.repeat(np.arange(pairs.classes), np.diff(pairs.first))
        units[numbers, pairs.machine] = routed.units
        return routed, units


def random_problem(rng: Random) -> tuple[list[TaskSource], MachineArcs]:
    classes, machines = rng.randint(1, 4), rng.randint(0, 5)
    sources = [
        TaskSource(
            rng.randrange(classes),
            np.array(
                sorted(
                    (rng.choice((50, 900, 1000, 5000)) for _ in range(rng.randint(1, 5))),
                    reverse=True,
                ),
                np.int64,
            ),
        )
        for _ in range(rng.randint(1, 5))
    ]

    def table(low: int, high: int) -> np.ndarray:
        return np.array(
            [[rng.randint(low, high) for _ in range(machines)] for _ in range(classes)], np.int64
        ).reshape(classes, machines)

    def column(*choices: int) -> np.ndarray:
        return np.array([rng.choice(choices) for _ in range(machines)], np.int64)

    room = table(0, 4) * np.array([rng.random() < 0.8 for _ in range(machines)], np.int64)
    slots = np.maximum(1, column(1, 2, 3, 8, 1 << 31))
    arcs = MachineArcs(room, table(0, 1200), column(0, 0, 70, 300), column(0, 10, 250), slots)
    return sources, arcs


def tasks_of(sources: list[TaskSource]) -> list[tuple[int, int]]:
    """Class and waiting cost of every unit."""
    return [(s.class_index, int(cost)) for s in sources for cost in s.waiting_costs]


def slot_costs(arcs: MachineArcs, machine: int, max_room: int) -> list[int]:
    first, slope = int(arcs.slot_cost[machine]), int(arcs.slope[machine])
    return [first + k * slope for k in range(min(max_room, int(arcs.slots[machine])))]


def cost_by_ortools(sources: list[TaskSource], arcs: MachineArcs) -> int:
    """One node per task, one arc per slot: nothing is counted together."""
    tasks = tasks_of(sources)
    classes, machines = arcs.room.shape
    solver = min_cost_flow.SimpleMinCostFlow()
    sink = len(tasks) + classes + machines
    for node, (number, waiting) in enumerate(tasks):
        solver.add_arc_with_capacity_and_unit_cost(node, len(tasks) + number, 1, 0)
        solver.add_arc_with_capacity_and_unit_cost(node, sink, 1, waiting)
        solver.set_node_supply(node, 1)
    solver.set_node_supply(sink, -len(tasks))
    for number in range(classes):
        for machine in range(machines):
            solver.add_arc_with_capacity_and_unit_cost(
                len(tasks) + number,
                len(tasks) + classes + machine,
                int(arcs.room[number, machine]),
                int(arcs.cost[number, machine]),
            )
    for machine in range(machines):
        for price in slot_costs(arcs, machine, len(tasks)):
            solver.add_arc_with_capacity_and_unit_cost(
                len(tasks) + classes + machine, sink, 1, price
            )
    assert solver.solve() == solver.OPTIMAL
    return solver.optimal_cost()


def cost_by_networkx(sources: list[TaskSource], arcs: MachineArcs) -> int:
    graph = nx.DiGraph()
    tasks = tasks_of(sources)
    graph.add_node("sink", demand=len(tasks))
    for index, (number, waiting) in enumerate(tasks):
        graph.add_node(("task", index), demand=-1)
        graph.add_edge(("task", index), "sink", capacity=1, weight=waiting)
        graph.add_edge(("task", index), ("class", number), capacity=1, weight=0)
    for (number, machine), room in np.ndenumerate(arcs.room):
        graph.add_edge(
            ("class", number),
            ("machine", machine),
            capacity=int(room),
            weight=int(arcs.cost[number, machine]),
        )
    for machine in range(arcs.room.shape[1]):
        for k, price in enumerate(slot_costs(arcs, machine, len(tasks))):
            # No parallel edges in this graph: each slot is a node.
            graph.add_edge(("machine", machine), ("slot", machine, k), capacity=1, weight=price)
            graph.add_edge(("slot", machine, k), "sink", capacity=1, weight=0)
    return nx.min_cost_flow_cost(graph)


def cost_of_units(sources: list[TaskSource], arcs: MachineArcs, units: np.ndarray) -> int:
    """What these numbers cost: the cheapest to leave waiting are left waiting."""
    total = int((units * arcs.cost).sum())
    for machine, count in enumerate(units.sum(axis=0).tolist()):
        total += sum(slot_costs(arcs, machine, count))
    for number, placed in enumerate(units.sum(axis=1).tolist()):
        waiting = sorted(cost for of, cost in tasks_of(sources) if of == number)
        total += sum(waiting[: len(waiting) - placed])
    return total


@pytest.mark.parametrize("max_whole_pairs", [1000, 0], ids=["whole", "by passes"])
@pytest.mark.parametrize("batch", range(10))
def test_routing_is_optimal_and_respects_room_and_slots(batch: int, max_whole_pairs: int):
    for number in range(60):
        sources, arcs = random_problem(Random(f"layout {batch} {number}"))
        routed, units = arcs.route(sources, max_whole_pairs=max_whole_pairs)
        demand = np.zeros(len(arcs.room), np.int64)
        for source in sources:
            demand[source.class_index] += len(source.waiting_costs)
        assert (units >= 0).all()
        assert (units <= arcs.room).all()
        assert (units.sum(axis=0) <= arcs.slots).all()
        assert (units.sum(axis=1) <= demand).all()
        assert routed.cost == routed.bound == cost_of_units(sources, arcs, units), (batch, number)
        assert routed.cost == cost_by_ortools(sources, arcs), (batch, number)
        if number % 6 == 0:
            assert routed.cost == cost_by_networkx(sources, arcs), (batch, number)


def test_load_spreads_over_slots_within_one_round():
    ones = np.ones((1, 3), np.int64)
    arcs = MachineArcs(ones * 9, ones * 0, ones[0] * 0, ones[0] * 10, ones[0] * 9)
    routed, units = arcs.route([TaskSource(0, np.full(6, 1000, np.int64))])
    assert units.tolist() == [[2, 2, 2]]
    assert routed.cost == 30


def test_two_classes_share_the_slots_of_a_machine():
    arcs = MachineArcs(
        room=np.array([[3], [3]]),
        cost=np.array([[1], [2]]),
        slot_cost=np.array([0]),
        slope=np.array([0]),
        slots=np.array([3]),
    )
    _, units = arcs.route([TaskSource(0, np.full(3, 50)), TaskSource(1, np.full(3, 60))])
    assert units.tolist() == [[0], [3]]


def test_a_task_waits_if_waiting_costs_less_than_placing():
    arcs = MachineArcs(
        np.array([[5]]), np.array([[100]]), np.zeros(1, int), np.zeros(1, int), np.array([5])
    )
    routed, units = arcs.route([TaskSource(0, np.array([150, 99]))])
    assert units.tolist() == [[1]]
    assert routed.cost == 199


def test_without_machines_everything_waits():
    empty = np.zeros((1, 0), np.int64)
    none = np.zeros(0, np.int64)
    arcs = MachineArcs(empty, empty, none, none, none)
    routed, units = arcs.route([TaskSource(0, np.array([7, 5]))])
    assert units.shape == (1, 0)
    assert routed.cost == 12


@pytest.mark.parametrize("max_whole_pairs", [1000, 0], ids=["whole", "by passes"])
def test_leaving_out_expensive_machines_does_not_change_the_cost(max_whole_pairs: int):
    rng = np.random.default_rng(5)
    for _ in range(100):
        classes, machines = int(rng.integers(1, 4)), int(rng.integers(8, 30))
        arcs = MachineArcs(
            room=rng.integers(0, 3, (classes, machines)),
            cost=rng.integers(0, 6, (classes, machines)),
            slot_cost=rng.integers(0, 4, machines),
            slope=rng.integers(0, 3, machines),
            slots=rng.integers(1, 4, machines),
        )
        sources = [
            TaskSource(number, np.full(int(rng.integers(1, 4)), int(rng.integers(3, 12))))
            for number in range(classes)
        ]
        routed, _ = arcs.route(sources, max_whole_pairs=max_whole_pairs)
        assert routed.cost == routed.bound == cost_by_ortools(sources, arcs)
