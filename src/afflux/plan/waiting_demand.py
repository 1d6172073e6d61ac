"""What waits in one round: groups in queue order, as counts of classes on levels of priority."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from afflux.model.group import Group
from afflux.model.task import Shape

# What it costs to leave a task waiting, unless placements are as dear: then twice the dearest, so
# that waiting is never chosen while there is room. A task that has waited a day longer than the
# newest counts as two.
WAITING_COST = 2_560_000
DOUBLED_AFTER_SECONDS = 86_400


@dataclass(slots=True)
class Gang:
    """A group of several: `need` tasks of each class, all or nothing."""

    group: Group
    need: dict[int, int]
    waiting_cost: int
    position: int
    placed: bool = False

    @property
    def worth(self) -> int:
        """What leaving the whole gang waiting costs."""
        return self.waiting_cost * len(self.group.tasks)


@dataclass(slots=True)
class Singles:
    """Groups of one that share a class, longest waiting first; the first `taken` are placed."""

    class_index: int
    groups: list[Group]
    positions: list[int]
    waiting: NDArray[np.int64]
    taken: int = 0

    @property
    def left(self) -> int:
        """How many still wait."""
        return len(self.groups) - self.taken


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
        singles = sum(singles.left for singles in self.singles.values())
        return singles + sum(len(gang.group.tasks) for gang in self.waiting_gangs())

    def waiting_cost(self) -> int:
        """What leaving the rest waiting costs."""
        singles = sum(int(s.waiting[s.taken :].sum()) for s in self.singles.values())
        return singles + sum(gang.worth for gang in self.waiting_gangs())


@dataclass(slots=True)
class Demand:
    """Levels in descending priority over a list of classes."""

    shapes: list[Shape]
    levels: list[Level]

    def waiting_cost(self) -> int:
        """What leaving the rest waiting costs."""
        return sum(level.waiting_cost() for level in self.levels)

    def keep_waiting_dearest(self, dearest: int) -> None:
        """Make waiting cost more than placing, where one placement may cost as much as this."""
        factor = 1 + 2 * dearest // WAITING_COST
        if factor == 1:
            return
        for level in self.levels:
            for singles in level.singles.values():
                singles.waiting *= factor
            for gang in level.gangs:
                gang.waiting_cost *= factor


def gather_demand(groups: Sequence[Group]) -> Demand:
    """Sort groups, which come in queue order, into levels and classes."""
    index: dict[Shape, int] = {}
    levels: dict[int, Level] = {}
    newest = max((group.ready_seconds for group in groups), default=0.0)
    for position, group in enumerate(groups):
        level = levels.setdefault(group.priority, Level(group.priority))
        age = newest - group.ready_seconds
        extra = int(WAITING_COST * min(1.0, age / DOUBLED_AFTER_SECONDS))
        if group.is_gang:
            need = count_classes(group, index)
            level.gangs.append(Gang(group, need, WAITING_COST + extra, position))
            continue
        number = index.setdefault(group.tasks[0].shape, len(index))
        singles = level.singles.get(number)
        if singles is None:
            singles = level.singles[number] = Singles(number, [], [], np.zeros(0, np.int64))
        singles.groups.append(group)
        singles.positions.append(position)
    for level in levels.values():
        for singles in level.singles.values():
            ages = newest - np.array([group.ready_seconds for group in singles.groups])
            extra_costs = WAITING_COST * np.minimum(1.0, ages / DOUBLED_AFTER_SECONDS)
            singles.waiting = WAITING_COST + extra_costs.astype(np.int64)
    return Demand(list(index), sorted(levels.values(), key=lambda level: -level.priority))


def count_classes(group: Group, index: dict[Shape, int]) -> dict[int, int]:
    """How many tasks of each class a group has; classes not in the index yet are added to it."""
    return {index.setdefault(shape, len(index)): count for shape, count in group.shapes}


def count_tasks(demand: Demand) -> NDArray[np.int64]:
    """How many tasks of each class wait."""
    counts = np.zeros(len(demand.shapes), np.int64)
    for level in demand.levels:
        for singles in level.singles.values():
            counts[singles.class_index] += len(singles.groups)
        for gang in level.gangs:
            for number, count in gang.need.items():
                counts[number] += count
    return counts
