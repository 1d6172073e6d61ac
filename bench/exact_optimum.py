"""The exact problem as an integer program, solved by HiGHS.

First the number of tasks placed at each priority, from the highest down; then the placement cost
at given numbers. Costs are those of the round: the policies' cost per class and machine, and slots
that cost more one after the other.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import highspy
import numpy as np
from numpy.typing import NDArray

from afflux.model.task import Shape
from afflux.model.waiting_group import WaitingGroup


@dataclass(frozen=True)
class Prices:
    """The cost of a task by class and machine; the added cost of each slot by machine."""

    shapes: list[Shape]
    requests: NDArray[np.int64]
    cost: NDArray[np.int64]
    slope: NDArray[np.int64]
    capacity: NDArray[np.int64]


def most_placed(
    groups: Sequence[WaitingGroup], prices: Prices, seconds: float
) -> dict[int, int] | None:
    """The largest numbers of tasks by priority, highest first; None if time ran out."""
    program = _Program(groups, prices, seconds)
    counts: dict[int, int] = {}
    for priority in sorted({group.priority for group in groups}, reverse=True):
        best = program.maximise(priority)
        if best is None:
            return None
        counts[priority] = best
        program.fix(priority, best)
    return counts


def least_cost(
    groups: Sequence[WaitingGroup], prices: Prices, counts: dict[int, int], seconds: float
) -> float | None:
    """The least cost of placing exactly these numbers; None if time ran out."""
    program = _Program(groups, prices, seconds)
    for priority, count in counts.items():
        program.fix(priority, count)
    return program.minimise_cost()


class _Program:
    def __init__(self, groups: Sequence[WaitingGroup], prices: Prices, seconds: float) -> None:
        self._model = highspy.Highs()
        self._model.silent()
        self._model.setOptionValue("time_limit", seconds)
        self._model.setOptionValue("mip_rel_gap", 0.0)
        self._model.setOptionValue("mip_abs_gap", 0.5)
        self._model.setOptionValue("threads", 1)
        self._prices = prices
        self._placed: dict[int, list[tuple[int, float]]] = {}
        self._costs: list[tuple[int, float]] = []
        self._build(groups)

    def maximise(self, priority: int) -> int | None:
        value = self._optimise([(v, -k) for v, k in self._placed.get(priority, [])])
        return None if value is None else round(-value)

    def fix(self, priority: int, count: int) -> None:
        self._row(count, count, self._placed.get(priority, []))

    def minimise_cost(self) -> float | None:
        return self._optimise(self._costs)

    def _build(self, groups: Sequence[WaitingGroup]) -> None:
        prices = self._prices
        numbers = {shape: i for i, shape in enumerate(prices.shapes)}
        machines = range(len(prices.capacity))
        loads: list[list[tuple[int, NDArray[np.int64]]]] = [[] for _ in machines]
        pools: dict[tuple[int, int], int] = {}
        gangs: list[tuple[WaitingGroup, dict[int, int]]] = []
        for group in groups:
            need: dict[int, int] = {}
            for task in group.tasks:
                need[numbers[task.shape]] = need.get(numbers[task.shape], 0) + 1
            if group.is_gang:
                gangs.append((group, need))
            else:
                key = (group.priority, next(iter(need)))
                pools[key] = pools.get(key, 0) + 1
        for (priority, number), count in pools.items():
            spread = self._spread(number, count, loads)
            self._row(0, count, [(v, 1.0) for v in spread])
            self._placed.setdefault(priority, []).extend((v, 1.0) for v in spread)
        for group, need in gangs:
            opened = self._variable(0, 1)
            for number, count in need.items():
                spread = self._spread(number, count, loads)
                self._row(0, 0, [*((v, 1.0) for v in spread), (opened, -float(count))])
            self._placed.setdefault(group.priority, []).append((opened, float(len(group.tasks))))
        for machine in machines:
            self._limit(machine, loads[machine])

    def _spread(
        self, number: int, count: int, loads: list[list[tuple[int, NDArray[np.int64]]]]
    ) -> list[int]:
        spread: list[int] = []
        for machine, load in enumerate(loads):
            variable = self._variable(0, count)
            spread.append(variable)
            load.append((variable, self._prices.requests[number]))
            self._costs.append((variable, float(self._prices.cost[number, machine])))
        return spread

    def _limit(self, machine: int, load: list[tuple[int, NDArray[np.int64]]]) -> None:
        prices = self._prices
        for resource in range(prices.capacity.shape[1]):
            asked = [(v, float(r[resource])) for v, r in load if r[resource]]
            if asked:
                self._row(-highspy.kHighsInf, float(prices.capacity[machine, resource]), asked)
        slots = [self._variable(0, 1, integer=False) for _ in range(60)]
        self._costs += [(v, float(prices.slope[machine] * k)) for k, v in enumerate(slots)]
        self._row(0, 0, [*((v, 1.0) for v, _ in load), *((v, -1.0) for v in slots)])

    def _variable(self, low: float, high: float, integer: bool = True) -> int:
        self._model.addVar(low, high)
        index = self._model.getNumCol() - 1
        if integer:
            self._model.changeColIntegrality(index, highspy.HighsVarType.kInteger)
        return index

    def _row(self, low: float, high: float, terms: list[tuple[int, float]]) -> None:
        indices = np.array([v for v, _ in terms], np.int32)
        values = np.array([k for _, k in terms], np.float64)
        self._model.addRow(low, high, len(terms), indices, values)

    def _optimise(self, objective: list[tuple[int, float]]) -> float | None:
        for variable in range(self._model.getNumCol()):
            self._model.changeColCost(variable, 0.0)
        for variable, value in objective:
            self._model.changeColCost(variable, value)
        self._model.run()
        if self._model.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return None
        return self._model.getInfo().objective_function_value
