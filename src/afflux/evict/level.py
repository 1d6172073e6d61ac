"""One level of priority: groups, machines and possible victims, as the search sees them.

The result is where each group goes once the victims have ended, and which victims those are.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from afflux.admit.group_classes import ClassCounts, GroupClasses
from afflux.cluster.state import State
from afflux.cluster.task_class import TaskClass
from afflux.cluster.task_room import Column, FreeCapacity, choose_devices, choose_disks, room_of
from afflux.evict.candidates import Candidate, Evictable
from afflux.evict.choice import Choice, LevelProblem
from afflux.evict.exact_choice import choose_exactly, is_small
from afflux.evict.sites import Need, Site, Victim, Waiting, weight_of
from afflux.evict.wide_choice import choose_widely
from afflux.model.task import Shape, Task
from afflux.model.waiting_group import WaitingGroup
from afflux.network.pricing import Pricing
from afflux.plan.plan import Plan


@dataclass(frozen=True, slots=True)
class Level:
    """The groups of one level that may gain, in queue order, and what they may use.

    `after` is the cluster once all victims so far have ended, without the tasks of the level.
    """

    after: State
    pricing: Pricing
    groups: Sequence[WaitingGroup]
    classes: GroupClasses
    evictable: Evictable


@dataclass(frozen=True, slots=True)
class LevelResult:
    """By class the machines of its units; the groups that get places; and the victims."""

    units: Mapping[TaskClass, Sequence[int]]
    placed: Sequence[WaitingGroup]
    victims: Sequence[Candidate]


def room_without(state: State, pricing: Pricing, of: TaskClass, evictable: Evictable) -> Column:
    """How many tasks of a class each machine that admits it would take (see `Prices.rows`) if all
    candidates left. Devices only have to be there; disks are not looked at."""
    requests = state.requests(of.shape)
    asked = np.flatnonzero(requests)
    prices = pricing.prices(of.shape)
    rows = prices.rows.astype(np.intp)
    free = state.view(rows).free_of(asked) + evictable.freed[rows][:, asked]
    room: Column = room_of(requests[asked], Shape(of.shape.requests), FreeCapacity(free))
    if of.shape.devices is not None:
        fewest = of.shape.devices.count
        listed: list[int] = prices.rows.tolist()
        room[[len(state.free_devices[row]) < fewest for row in listed]] = 0
    return room


def has_room_without(
    state: State, pricing: Pricing, counts: ClassCounts, evictable: Evictable
) -> bool:
    """Whether there would be room for the tasks of each of these classes if all candidates left."""
    return all(
        int(room_without(state, pricing, of, evictable).sum()) >= count for of, count in counts
    )


def has_room(pricing: Pricing, shape: Shape, row: int) -> bool:
    """Whether a machine has room for a task of a shape."""
    prices = pricing.prices(shape)
    position = int(np.searchsorted(prices.rows, row))
    is_there = position < len(prices.rows) and int(prices.rows[position]) == row
    return is_there and int(prices.room[position]) > 0


def chosen_devices(state: State, task: Task, row: int) -> tuple[int, ...]:
    """The devices and disks that a task gets on a machine that has room for it."""
    shape = task.shape
    devices = disks = ()
    if shape.devices is not None:
        devices = choose_devices(state.free_devices[row], shape.devices) or ()
    if shape.disks is not None:
        machine = state.view(np.array([row], np.intp))
        disks = choose_disks(machine.disks, shape.disks) or ()
    return devices + disks


def choose_level(level: Level, begin: Plan) -> LevelResult | None:
    """The best choice found for the level; None if it is no better than the plan `begin`, which has
    no victims."""
    problem, view = _problem(level, begin)
    start = view.begin(begin)
    choice = choose_exactly(problem) if is_small(problem) else choose_widely(problem, start)
    if not choice.victims or choice.key(problem) >= start.key(problem):
        return None
    units: dict[TaskClass, list[int]] = {of: [] for of in view.classes}
    for number, load in choice.loads.items():
        for of, count in zip(view.classes, load, strict=True):
            units[of] += [problem.sites[number].row] * count
    return LevelResult(
        units,
        [view.groups[number] for number in choice.placed],
        [view.candidates[victim.id] for victim in choice.all_victims()],
    )


@dataclass(frozen=True, slots=True)
class _View:
    """Which class, group, machine and candidate each number of a problem is."""

    classes: list[TaskClass]
    groups: list[WaitingGroup]
    sites: Mapping[str, int]
    candidates: Mapping[str, Candidate]
    class_of: Callable[[Task], TaskClass]

    def begin(self, plan: Plan) -> Choice:
        """A plan without victims as a choice."""
        position = {group.key: number for number, group in enumerate(self.groups)}
        kept = {group.key for group in plan.placed if group.key in position}
        mine = {task.id for group in plan.placed if group.key in kept for task in group.tasks}
        number_of = {of: number for number, of in enumerate(self.classes)}
        loads: dict[int, list[int]] = {}
        for each in plan.placements:
            if each.task.id in mine:
                load = loads.setdefault(self.sites[each.machine], [0] * len(self.classes))
                load[number_of[self.class_of(each.task)]] += 1
        placed = tuple(sorted(position[key] for key in kept))
        return Choice(placed, {site: tuple(load) for site, load in loads.items()})


def _problem(level: Level, begin: Plan) -> tuple[LevelProblem, _View]:
    state = level.after
    classes = list(
        dict.fromkeys(of for group in level.groups for of in level.classes.classes(group))
    )
    requests = np.array([state.requests(of.shape) for of in classes])
    columns = np.flatnonzero(requests.any(axis=0))
    needs = [
        Need(tuple(row), of.shape.devices)
        for row, of in zip(requests[:, columns].tolist(), classes, strict=True)
    ]
    rows: set[int] = {state.rows[each.machine] for each in begin.placements}
    admitted: list[set[int]] = []
    for of in classes:
        able = level.pricing.prices(of.shape).rows
        room = room_without(state, level.pricing, of, level.evictable)
        admitted.append(set(able.tolist()))
        rows.update(able[room > 0].tolist())
    whole = {
        key: members
        for key, members in level.evictable.whole.items()
        if any(each.held.row in rows for each in members)
    }
    rows.update(each.held.row for members in whole.values() for each in members)
    ordered = sorted(rows)
    free = state.view(np.array(ordered, np.intp)).free_of(columns).tolist()
    candidates: dict[str, Candidate] = {}
    sites: list[Site] = []
    leaving: dict[str, list[tuple[int, Victim]]] = {}
    for number, row in enumerate(ordered):
        victims: list[Victim] = []
        for each in level.evictable.on(row):
            if each.terms.whole_group and each.terms.group not in whole:
                continue
            candidates[each.id] = each
            victims.append(_victim(each, columns))
        victims.sort(key=lambda victim: (victim.weight, victim.id))
        for victim in victims:
            if victim.leaves_with:
                leaving.setdefault(victim.leaves_with, []).append((number, victim))
        admits = tuple(row in able for able in admitted)
        sites.append(
            Site(row, tuple(free[number]), state.free_devices[row], tuple(victims), admits)
        )
    class_numbers = {of: number for number, of in enumerate(classes)}
    waiting: list[Waiting] = []
    for group in level.groups:
        counts = [0] * len(classes)
        for of, count in level.classes.of(group):
            counts[class_numbers[of]] += count
        waiting.append(Waiting(tuple(counts)))
    problem = LevelProblem(needs, waiting, sites, level.evictable.allowed, leaving)
    names = {state.name_of(row): number for number, row in enumerate(ordered)}
    groups, class_of = list(level.groups), level.classes.class_of
    return problem, _View(classes, groups, names, candidates, class_of)


def _victim(candidate: Candidate, columns: NDArray[np.intp]) -> Victim:
    held, terms = candidate.held, candidate.terms
    devices = held.task.shape.devices
    return Victim(
        candidate.id,
        tuple(candidate.use[columns].tolist()),
        held.devices,
        0 if devices is None else devices.milli,
        terms.priority,
        weight_of(terms.priority, terms.started_seconds),
        terms.budgets,
        terms.group if terms.whole_group else "",
    )
