"""The book of a round: what still fits while placements are tried, and what they cost.

Tasks of one class are interchangeable, so the book counts units of classes on machines; which
task gets which unit is decided at the end of the round. What fits is the account's answer, in Rust
(`afflux._core.Packing`).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from afflux._core import Packing
from afflux.cluster.disk_columns import DiskColumns
from afflux.cluster.normalised_requests import Taken
from afflux.cluster.state import State
from afflux.cluster.task_class import TaskClass
from afflux.cluster.task_room import FreeCapacity
from afflux.model.placement import Placement
from afflux.model.task import Shape, Task
from afflux.model.waiting_group import WaitingGroup
from afflux.network.pairs import Pairs, Slots
from afflux.network.pricing import Prices
from afflux.plan.domain_rules import DomainRules, TasksOn
from afflux.plan.soft_terms import Candidates, SoftTerms

Table = NDArray[np.int64]

# Searches of a round for two tasks that have room only together, without success. One takes about
# 10 ms on 5,000 machines.
MAX_PAIR_SEARCHES = 16


class Book:
    """Classes and machines are numbers; a pair is a class and a machine that has room for it.

    `free` replaces what is free now, with a column for every resource that the book counts;
    `extra_cost`, aligned with the rows of each class in `prices`, is added to the costs. `tasks_on`
    says which tasks run, for the constraints between tasks, if it is not those that run now.
    """

    def __init__(
        self,
        state: State,
        classes: Sequence[TaskClass],
        prices: Sequence[Prices],
        free: FreeCapacity | None = None,
        *,
        extra_cost: Sequence[Table] = (),
        tasks_on: TasksOn | None = None,
    ) -> None:
        self.classes = list(classes)
        shapes = [each.shape for each in classes]
        requests = np.array([state.requests(shape) for shape in shapes])
        self.columns = counted_columns(state, requests)
        self.requests: Table = np.ascontiguousarray(requests[:, self.columns])
        uses_devices = any(shape.devices is not None for shape in shapes)
        uses_disks = any(shape.disks is not None for shape in shapes)
        view = state.view()
        room = None
        if free is None:
            disks = view.disks if uses_disks else None
            free = FreeCapacity(view.free_of(self.columns), view.free_devices, disks)
            room = np.concatenate([np.zeros(0, np.int64), *(price.room for price in prices)])
        costs = [price.cost for price in prices]
        if extra_cost:
            costs = [cost + extra for cost, extra in zip(costs, extra_cost, strict=True)]
        self.rules = DomainRules(state, classes if state.relations else (), tasks_on)
        largest = view.capacities[:, self.columns].max(axis=0, initial=1)
        self.packing = Packing(
            requests=self.requests,
            devices=[s.devices and (s.devices.count, s.devices.milli) for s in shapes],
            first=np.cumsum([0, *(len(price.rows) for price in prices)], dtype=np.int64),
            machine=np.concatenate([np.zeros(0, np.int32), *(price.rows for price in prices)]),
            cost=np.concatenate([np.zeros(0, np.int64), *costs]),
            room=room,
            free=np.ascontiguousarray(free.amounts),
            free_devices=list(free.devices) if uses_devices else [],
            # Divides amounts of a resource when sizes of different resources are added.
            scale=np.maximum(largest, 1).tolist(),
            domains=self.rules.columns() if self.rules else None,
            disks=_disks(shapes, free.disks) if uses_disks else None,
        )
        # Pairs of tasks that may still be searched for in vain (see `related_tasks`).
        self.pair_searches_left = MAX_PAIR_SEARCHES
        # By namespace, the searches for sets of tasks that failed; and all sets searched for, each
        # as the units of each class that it needs.
        self.failed_sets: Counter[str] = Counter()
        self.searched_sets: set[tuple[tuple[int, int], ...]] = set()
        self.soft = SoftTerms(state, ())
        # By class with soft terms: its machines, and what it costs there without these terms.
        self._plain_pairs: dict[int, tuple[Table, Table]] = {}
        self._has_soft_costs = False
        self._refused: set[tuple[tuple[int, int], ...]] = set()

    def set_slope(self, prices: Sequence[Prices], waiting: Table) -> None:
        """All classes share the slots of a machine: the slope is the mean over waiting tasks."""
        machines = len(self.packing.slope())
        weight, total = np.zeros(machines, np.int64), np.zeros(machines, np.int64)
        for price, count in zip(prices, waiting, strict=True):
            has_room = price.room > 0
            rows = price.rows[has_room]
            weight[rows] += count
            total[rows] += count * price.slope[has_room]
        self.packing.set_slope(total // np.maximum(weight, 1))

    def open_pairs(self, classes: NDArray[np.bool_]) -> tuple[Pairs, Slots]:
        """The pairs of these classes that have room now, and the slots of the machines."""
        first, machine, room, cost, slots = self.packing.open_pairs(classes)
        slope = self.packing.slope()
        taken = slope * self.packing.counts()
        return Pairs(first, machine, room, cost), Slots(taken, slope, slots)

    def max_cost(self) -> int:
        """An upper bound on the cost of a single placement of this round, its slot included."""
        pairs, slots = self.open_pairs(np.ones(len(self.classes), np.bool_))
        room = np.zeros(len(slots.count), np.int64)
        np.add.at(room, pairs.machine, pairs.room)
        last = slots.slope * np.minimum(slots.count, room)
        return int(pairs.cost.max(initial=0) + last.max(initial=0)) + self.soft.max_cost()

    def use_soft_terms(self, state: State) -> None:
        """Count what tasks prefer of each other. Without this call only requirements count, as it
        is right where the question is what fits."""
        self.soft = SoftTerms(state, self.classes if state.relations else ())
        self._plain_pairs = {number: self.packing.pairs(number) for number in self.soft.classes}

    def count_units(self) -> None:
        """Soft terms see the units that are placed now."""
        if self.soft:
            self.soft.count_units(*self.packing.unit_columns())

    def count_soft_costs(self) -> None:
        """From now on costs include the soft terms: what each unit would cost if it were taken out
        and placed again, with all other units where they are now."""
        self.count_units()
        placed = self.packing.placed() if self.soft else ()
        for number, (machines, cost) in self._plain_pairs.items():
            rows = machines.astype(np.intp)
            where = Candidates(rows, np.zeros(len(rows), np.int64), cost, int(placed[number]))
            self.packing.set_costs(number, cost + self.soft.cost_taken_out(number, where))
        self._has_soft_costs = True

    def leave_out_soft_costs(self) -> None:
        """From now on costs do not include the soft terms: the network prices them itself."""
        if self._has_soft_costs:
            for number, (_, cost) in self._plain_pairs.items():
                self.packing.set_costs(number, cost)
        self._has_soft_costs = False

    def place_gang(self, need: Mapping[int, int]) -> bool:
        """Place the whole gang if it fits; otherwise leave the book unchanged.

        A gang that does not fit is not tried again until a unit is removed; a rollback keeps that
        valid. A gang with constraints between tasks may fit once another unit has been placed.
        """
        counts = tuple(sorted(need.items()))
        if counts in self._refused:
            return False
        if self.packing.place_gang(counts):
            return True
        if not self.is_related(need):
            self._refused.add(counts)
        return False

    def has_rules(self, need: Iterable[int]) -> bool:
        """Whether any of these classes has a rule about other tasks."""
        return bool(self.rules) and any(self.rules.classes[number].rules for number in need)

    def is_related(self, need: Iterable[int]) -> bool:
        """Whether any of these classes has a rule, or is counted by the rules of others."""
        return bool(self.rules) and any(self.rules.is_related(number) for number in need)

    def remove(self, number: int, row: int, count: int) -> None:
        """Take units of this round off a machine."""
        self._refused.clear()
        self.packing.remove(number, row, count)

    def remove_anywhere(self, number: int, count: int) -> None:
        """Take units of a class off the machines where they cost most."""
        own = [(cost, row) for of, row, cost, _ in self.packing.units() if of == number]
        for _, row in sorted(own, reverse=True)[:count]:
            self.remove(number, row, 1)

    def forget_refusals(self) -> None:
        """Units have been moved: a gang that did not fit may fit now."""
        self._refused.clear()

    def units_since(self, mark: int) -> Iterator[tuple[TaskClass, int, tuple[int, ...]]]:
        """Every unit placed since the mark: its class, its machine, its devices."""
        for number, row, devices in self.packing.taken_since(mark):
            yield self.classes[number], row, tuple(devices)


def _disks(
    shapes: Sequence[Shape], free: DiskColumns | None
) -> tuple[tuple[Table, NDArray[np.int32]], list[Taken | None]] | None:
    """The disks of all machines, and by shape what it takes of them, as the core takes them."""
    if free is None:
        return None
    return free.table, [None if s.disks is None else free.taken(s.disks) for s in shapes]


def counted_columns(state: State, requests: Table) -> NDArray[np.intp]:
    """The columns of a book: without ports that only running tasks use, which may be hundreds."""
    return np.flatnonzero(state.resource_table.stated_columns() | requests.any(axis=0))


def make_placements(
    book: Book, state: State, groups: Iterable[WaitingGroup]
) -> tuple[Placement, ...]:
    """Assign the units of each class to its tasks: in queue order, the cheapest machine first."""
    numbers = {each: number for number, each in enumerate(book.classes)}
    class_of = state.relations.class_of
    units: dict[int, list[tuple[int, int, tuple[int, ...]]]] = {}
    for number, row, cost, devices in book.packing.units():
        units.setdefault(number, []).append((cost, row, tuple(devices)))
    for placed in units.values():
        placed.sort(key=lambda unit: unit[0])
    tasks: dict[int, list[Task]] = {}
    for group in groups:
        for task in group.tasks:
            tasks.setdefault(numbers[class_of(task)], []).append(task)
    placements: list[Placement] = []
    for number, members in tasks.items():
        for task, (_, row, devices) in zip(members, units[number], strict=True):
            placements.append(Placement(task, state.name_of(row), devices))
    return tuple(placements)
