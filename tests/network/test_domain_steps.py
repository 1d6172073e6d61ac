"""Domains in which the units of a class cost more and more, against the network drawn in full."""

from random import Random

import numpy as np
import pytest
from ortools.graph.python import min_cost_flow

from afflux.network.pairs import DomainSteps, Pairs, Slots, TaskSource, domain_caps
from afflux.network.routing import route

Problem = tuple[list[TaskSource], Pairs, Slots, list[DomainSteps]]


def random_problem(rng: Random) -> Problem:
    """Classes of which some have domains, and some several pairs with one machine."""
    machines = rng.randint(1, 9)
    first, machine, room, cost = [0], [], [], []
    steps: list[DomainSteps] = []
    sources: list[TaskSource] = []
    for number in range(rng.randint(1, 3)):
        several = rng.random() < 0.5
        for each in range(machines):
            price = rng.randint(0, 300)
            for _ in range(rng.randint(0, 3) if several else rng.randint(0, 1)):
                machine.append(each)
                room.append(rng.randint(1, 3))
                cost.append(price)
                price += rng.randint(0, 200)
        first.append(len(machine))
        if several or rng.random() < 0.5:
            steps.append(random_steps(rng, number, machine[first[-2] :], machines))
        waiting = sorted(rng.choice((50, 400, 5000)) for _ in range(rng.randint(0, 6)))
        sources.append(TaskSource(number, np.array(waiting[::-1], np.int64)))
    slots = Slots(
        np.array([rng.choice((0, 30)) for _ in range(machines)], np.int64),
        np.array([rng.choice((0, 10, 100)) for _ in range(machines)], np.int64),
        np.array([rng.choice((1, 2, 8)) for _ in range(machines)], np.int64),
    )
    pairs = Pairs(
        np.array(first, np.int64),
        np.array(machine, np.int32),
        np.array(room, np.int64),
        np.array(cost, np.int64),
    )
    return sources, pairs, slots, steps


def random_steps(rng: Random, number: int, own: list[int], machines: int) -> DomainSteps:
    domains = rng.randint(1, 3)
    of_machine = [rng.randrange(-1, domains) for _ in range(machines)]
    domain = np.array([of_machine[each] for each in own], np.int32)
    if rng.random() < 0.3:
        caps = np.array([rng.randint(0, 3) for _ in range(domains)], np.int64)
        return domain_caps(number, domain, caps)
    of_step, units, cost = [], [], []
    for each in range(domains):
        price = 0
        for _ in range(rng.randint(0, 4)):
            of_step.append(each)
            units.append(rng.randint(0, 2))
            cost.append(price)
            price += rng.randint(0, 150)
    return DomainSteps(
        number,
        domain,
        np.array(of_step, np.intp),
        np.array(units, np.int64),
        np.array(cost, np.int64),
    )


def cost_by_ortools(problem: Problem) -> int:
    sources, pairs, slots, steps = problem
    solver = min_cost_flow.SimpleMinCostFlow()
    add = solver.add_arc_with_capacity_and_unit_cost
    machines, total = len(slots.cost), sum(len(source.waiting_costs) for source in sources)
    first_machine = pairs.classes
    sink = first_machine + machines
    nodes = sink + 1
    for source in sources:
        solver.set_node_supply(source.class_index, len(source.waiting_costs))
        for cost in source.waiting_costs.tolist():
            add(source.class_index, sink, 1, cost)
    solver.set_node_supply(sink, -total)
    of_class = {each.class_index: each for each in steps}
    for number in range(pairs.classes):
        own = range(int(pairs.first[number]), int(pairs.first[number + 1]))
        stepped, begin = of_class.get(number), nodes
        if stepped is not None:
            rows = zip(stepped.of_step, stepped.units, stepped.cost, strict=True)
            for domain, units, cost in rows:
                add(number, begin + int(domain), int(units), int(cost))
            nodes += 4
        for place, pair in enumerate(own):
            domain = -1 if stepped is None else int(stepped.domain[place])
            tail = number if domain < 0 else begin + domain
            head = first_machine + int(pairs.machine[pair])
            add(tail, head, int(pairs.room[pair]), int(pairs.cost[pair]))
    for machine in range(machines):
        for k in range(min(total, int(slots.count[machine]))):
            price = int(slots.cost[machine] + k * slots.slope[machine])
            add(first_machine + machine, sink, 1, price)
    assert solver.solve() == solver.OPTIMAL
    return solver.optimal_cost()


@pytest.mark.parametrize("max_whole_pairs", [1000, 0], ids=["whole", "by passes"])
@pytest.mark.parametrize("batch", range(10))
def test_routing_with_steps_is_optimal_and_keeps_the_units_of_every_step(
    batch: int, max_whole_pairs: int
):
    for number in range(60):
        problem = random_problem(Random(f"steps {batch} {number}"))
        sources, pairs, slots, steps = problem
        routed = route(sources, pairs, slots, steps, max_whole_pairs=max_whole_pairs)
        assert (routed.units <= pairs.room).all()
        for each in steps:
            own = routed.units[pairs.first[each.class_index] : pairs.first[each.class_index + 1]]
            for domain in range(int(each.domain.max(initial=-1)) + 1):
                most = int(each.units[each.of_step == domain].sum())
                assert own[each.domain == domain].sum() <= most
        assert routed.cost == routed.bound == cost_by_ortools(problem), (batch, number)


def test_units_go_to_the_domain_that_costs_least_with_what_it_has():
    # Machines 0 and 1 are domain 0, machine 2 is domain 1.
    pairs = Pairs(
        np.array([0, 3]), np.array([0, 1, 2], np.int32), np.array([9, 9, 9]), np.array([0, 0, 5])
    )
    slots = Slots(np.zeros(3, np.int64), np.zeros(3, np.int64), np.full(3, 9))
    steps = DomainSteps(
        0,
        np.array([0, 0, 1], np.int32),
        np.array([0, 0, 1, 1]),
        np.array([1, 9, 1, 9]),
        np.array([0, 10, 0, 10]),
    )
    routed = route([TaskSource(0, np.full(4, 1000))], pairs, slots, [steps])
    assert routed.cost == 0 + 5 + 10 + 10
    assert routed.units[:2].sum() == 3
