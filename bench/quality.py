"""Quality: how far plans are from the exact optimum, ours and the pod-by-pod peer's."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from afflux.admit.strategies import flow
from afflux.cluster.state import State
from afflux.cycle.optimiser import Optimiser
from afflux.model.placement import Placement
from afflux.model.waiting_group import WaitingGroup
from afflux.network.pricing import Pricing
from afflux.plan.book import Book
from afflux.plan.check import check_plan
from afflux.plan.waiting_demand import count_tasks, gather_demand
from afflux.policies.cpu_memory import CpuMemory
from afflux.policies.policy import Weighted
from afflux.policies.registry import constraints
from afflux.queue.rules import QueueRules
from afflux.sim.pod_by_pod import PodByPod
from bench.exact_optimum import Prices, least_cost, most_placed
from bench.random_instances import Instance

LOADS = (0.5, 0.7, 0.85, 0.95, 1.05, 1.2)
SECONDS_PER_PROGRAM = 20.0


@dataclass(frozen=True)
class Gap:
    """One instance: tasks placed and the maximum, cost and the minimum for the same counts."""

    load: float
    placed: int
    most: int
    cost: float
    least: float


def prices_of(instance: Instance) -> Prices:
    """The costs of a round over this instance, as the planner sees them."""
    state = State(instance.machines)
    pricing = Pricing(state, constraints(), [Weighted(CpuMemory())])
    demand = gather_demand(instance.groups, state.relations.class_of)
    prices = [pricing.prices(each.shape) for each in demand.classes]
    book = Book(state, demand.classes, prices)
    book.set_slope(prices, count_tasks(demand))
    cost = np.array([price.by_machine(price.cost) for price in prices])
    capacity = state.view().capacities[:, book.columns]
    return Prices(
        [each.shape for each in demand.classes], book.requests, cost, book.packing.slope(), capacity
    )


def cost_of(prices: Prices, machines: Sequence[str], placements: Sequence[Placement]) -> float:
    """The cost of these placements, with the costs of the round."""
    rows = {name: row for row, name in enumerate(machines)}
    numbers = {shape: number for number, shape in enumerate(prices.shapes)}
    count = np.zeros(len(machines), np.int64)
    total = 0
    for placement in placements:
        row = rows[placement.machine]
        total += int(prices.cost[numbers[placement.task.shape], row])
        count[row] += 1
    return total + int((prices.slope * (count * (count - 1) // 2)).sum())


def ours(instance: Instance) -> Sequence[Placement]:
    """One round of this project's scheduler."""
    state = State(instance.machines)
    scheduler = Optimiser(state, [(QueueRules(), flow)], constraints(), [Weighted(CpuMemory())])
    plan = scheduler.decide(state, instance.groups).plan
    check_plan(state, instance.groups, plan.placements)
    return plan.placements


def peer(instance: Instance) -> Sequence[Placement]:
    """One pass of the pod-by-pod peer; only for workloads without gangs."""
    state = State(instance.machines)
    plan = PodByPod().decide(state, instance.groups).plan
    check_plan(state, instance.groups, plan.placements)
    return plan.placements


def gap(instance: Instance, load: float, placements: Sequence[Placement]) -> Gap | None:
    """The distance of a plan from the optimum; None if HiGHS did not finish in time."""
    prices = prices_of(instance)
    most = most_placed(instance.groups, prices, SECONDS_PER_PROGRAM)
    counts = _counts(instance.groups, placements)
    least = least_cost(instance.groups, prices, counts, SECONDS_PER_PROGRAM)
    if most is None or least is None:
        return None
    cost = cost_of(prices, [m.name for m in instance.machines], placements)
    placed, best = _compare(counts, most)
    return Gap(load, placed, best, cost, least)


def _counts(groups: Sequence[WaitingGroup], placements: Sequence[Placement]) -> dict[int, int]:
    placed = {placement.task.id for placement in placements}
    counts: dict[int, int] = {}
    for group in groups:
        here = sum(task.id in placed for task in group.tasks)
        counts[group.priority] = counts.get(group.priority, 0) + here
    return counts


def _compare(counts: dict[int, int], most: dict[int, int]) -> tuple[int, int]:
    """Tasks down to the highest priority at which the numbers differ; all if none differs."""
    placed = best = 0
    for priority in sorted(most, reverse=True):
        placed += counts.get(priority, 0)
        best += most[priority]
        if counts.get(priority, 0) != most[priority]:
            break
    return placed, best
