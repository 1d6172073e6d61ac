"""The waiting demand of a round: groups in queue order, as counts of classes by priority."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from afflux.cluster.task_class import TaskClass
from afflux.model.task import Task
from afflux.model.waiting_group import WaitingGroup

# The cost of leaving a task waiting. If placements cost as much, it is raised above twice the most
# expensive one, so that a task with room is never left waiting. It doubles for a task that has
# waited a day longer than the newest.
WAITING_COST = 2_560_000
WAITING_COST_DOUBLES_AFTER_SECONDS = 86_400


@dataclass(slots=True)
class Gang:
    """A group of several: `need` tasks of each class, all or nothing."""

    group: WaitingGroup
    need: dict[int, int]
    waiting_cost_per_task: int
    position: int
    placed: bool = False

    @property
    def waiting_cost(self) -> int:
        """The cost of leaving the whole gang waiting."""
        return self.waiting_cost_per_task * len(self.group.tasks)


@dataclass(slots=True)
class Singles:
    """Single tasks of one class, longest waiting first; the first `placed_count` are placed."""

    class_index: int
    groups: list[WaitingGroup]
    positions: list[int]
    waiting_costs: NDArray[np.int64]
    placed_count: int = 0

    @property
    def waiting_count(self) -> int:
        return len(self.groups) - self.placed_count


@dataclass(slots=True)
class Level:
    """Everything of one priority."""

    priority: int
    singles: dict[int, Singles] = field(default_factory=dict[int, Singles])
    gangs: list[Gang] = field(default_factory=list[Gang])

    def waiting_gangs(self) -> list[Gang]:
        """Gangs that are not placed yet, in queue order."""
        return [gang for gang in self.gangs if not gang.placed]

    def waiting_tasks(self) -> int:
        """How many tasks are not placed yet."""
        singles = sum(singles.waiting_count for singles in self.singles.values())
        return singles + sum(len(gang.group.tasks) for gang in self.waiting_gangs())

    def waiting_cost(self) -> int:
        """The cost of leaving the rest waiting."""
        singles = sum(int(s.waiting_costs[s.placed_count :].sum()) for s in self.singles.values())
        return singles + sum(gang.waiting_cost for gang in self.waiting_gangs())


@dataclass(slots=True)
class Demand:
    """Levels in descending priority over a list of classes."""

    classes: list[TaskClass]
    levels: list[Level]

    def waiting_cost(self) -> int:
        """The cost of leaving the rest waiting."""
        return sum(level.waiting_cost() for level in self.levels)

    def raise_waiting_costs(self, max_cost: int) -> None:
        """Make waiting cost more than placing, if one placement may cost up to `max_cost`."""
        factor = 1 + 2 * max_cost // WAITING_COST
        if factor == 1:
            return
        for level in self.levels:
            for singles in level.singles.values():
                singles.waiting_costs *= factor
            for gang in level.gangs:
                gang.waiting_cost_per_task *= factor


ClassOf = Callable[[Task], TaskClass]


def gather_demand(groups: Sequence[WaitingGroup], class_of: ClassOf) -> Demand:
    """Sort groups, which come in queue order, into levels and classes."""
    index: dict[TaskClass, int] = {}
    levels: dict[int, Level] = {}
    newest = max((group.ready_seconds for group in groups), default=0.0)
    for position, group in enumerate(groups):
        level = levels.setdefault(group.priority, Level(group.priority))
        age = newest - group.ready_seconds
        extra = int(WAITING_COST * min(1.0, age / WAITING_COST_DOUBLES_AFTER_SECONDS))
        if group.is_gang:
            need = count_classes(group, index, class_of)
            level.gangs.append(Gang(group, need, WAITING_COST + extra, position))
            continue
        number = index.setdefault(class_of(group.tasks[0]), len(index))
        singles = level.singles.get(number)
        if singles is None:
            singles = level.singles[number] = Singles(number, [], [], np.zeros(0, np.int64))
        singles.groups.append(group)
        singles.positions.append(position)
    for level in levels.values():
        for singles in level.singles.values():
            ages = newest - np.array([group.ready_seconds for group in singles.groups])
            extra_costs = WAITING_COST * np.minimum(1.0, ages / WAITING_COST_DOUBLES_AFTER_SECONDS)
            singles.waiting_costs = WAITING_COST + extra_costs.astype(np.int64)
    return Demand(list(index), sorted(levels.values(), key=lambda level: -level.priority))


def count_classes(
    group: WaitingGroup, index: dict[TaskClass, int], class_of: ClassOf
) -> dict[int, int]:
    """How many tasks of each class a group has; classes not in the index yet are added to it."""
    counts = Counter(map(class_of, group.tasks))
    return {index.setdefault(each, len(index)): count for each, count in counts.items()}


def count_tasks(demand: Demand) -> NDArray[np.int64]:
    """How many tasks of each class wait."""
    counts = np.zeros(len(demand.classes), np.int64)
    for level in demand.levels:
        for singles in level.singles.values():
            counts[singles.class_index] += len(singles.groups)
        for gang in level.gangs:
            for number, count in gang.need.items():
                counts[number] += count
    return counts
