"""The book of a round: the exact account of free capacity while placements are tried.

Tasks of one class are interchangeable, so the book counts units of classes on machines; which
task gets which unit is decided at the end of the round.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from afflux.cluster import task_room
from afflux.cluster.state import State
from afflux.model.devices import choose_devices, take_devices
from afflux.model.group import Group
from afflux.model.placement import Placement
from afflux.model.task import Shape, Task
from afflux.network.pricing import Prices
from afflux.network.routing import MachineArcs

Table = NDArray[np.int64]


class Book:
    """Rows are classes, columns machines, in `room`, `cost` and `units`."""

    def __init__(self, state: State, shapes: Sequence[Shape], prices: Sequence[Prices]) -> None:
        self.shapes = list(shapes)
        requests = np.array([state.requests(shape) for shape in shapes])
        # Ports that only running tasks use are left out: there may be hundreds of them.
        columns = np.flatnonzero(state.resource_table.stated_columns() | requests.any(axis=0))
        view = state.view()
        self.columns: NDArray[np.intp] = columns
        self.requests: Table = requests[:, columns]
        self.free: Table = view.free_of(columns)
        self.free_devices = list(view.free_devices)
        # Divides amounts of a resource when sizes of different resources are added.
        largest = view.capacities[:, columns].max(axis=0, initial=1)
        self.scale: NDArray[np.float64] = np.maximum(largest, 1)
        self.room: Table = np.array([price.room for price in prices]).reshape(len(shapes), -1)
        self.cost: Table = np.array([price.cost for price in prices]).reshape(len(shapes), -1)
        # The room at the start of the round: only tasks of this round can be moved.
        self.max_room = self.room.copy()
        self.admitted: NDArray[np.bool_] = self.room > 0
        self.units: Table = np.zeros_like(self.room)
        self.count: Table = np.zeros(self.room.shape[1], np.int64)
        self.slope: Table = np.zeros(self.room.shape[1], np.int64)
        self._with_devices = [n for n, shape in enumerate(shapes) if shape.devices is not None]
        self._refused: set[tuple[tuple[int, int], ...]] = set()
        self._log: list[tuple[int, int, int, list[tuple[int, ...]]]] = []
        self._taken: dict[tuple[int, int], list[tuple[int, ...]]] = {}

    def set_slope(self, prices: Sequence[Prices], waiting: Table) -> None:
        """All classes share the slots of a machine: the slope is the mean over waiting tasks."""
        weight = self.admitted * waiting[:, None]
        total = np.maximum(weight.sum(axis=0), 1)
        slopes = np.array([price.slope for price in prices]).reshape(self.room.shape)
        self.slope = (weight * slopes).sum(axis=0) // total

    def machine_arcs(self) -> MachineArcs:
        """Capacities and costs of the arcs to and from machines, as of now."""
        usable = self.room > 0
        slots = np.full(len(self.count), task_room.UNLIMITED, np.int64)
        for resource in range(self.requests.shape[1]):
            asked = np.where(usable, self.requests[:, resource, None], task_room.UNLIMITED << 28)
            least = asked.min(axis=0, initial=task_room.UNLIMITED << 28)
            limit = np.maximum(self.free[:, resource], 0) // np.maximum(least, 1)
            np.minimum(slots, np.where(least > 0, limit, slots), out=slots)
        return MachineArcs(self.room, self.cost, self.slope * self.count, self.slope, slots)

    def max_cost(self) -> int:
        """An upper bound on the cost of a single placement of this round, its slot included."""
        slots = np.minimum(self.machine_arcs().slots, self.max_room.sum(axis=0))
        return int(self.cost.max(initial=0) + (self.slope * slots).max(initial=0))

    def marginal_cost(self, number: int) -> Table:
        """The cost of one more task of a class on each machine, its slot included."""
        return self.cost[number] + self.slope * self.count

    def place(
        self, number: int, row: int, count: int = 1, devices: Sequence[tuple[int, ...]] = ()
    ) -> None:
        """Put units of a class on a machine; there must be room.

        `devices` has the devices of each unit; without it each unit takes the fullest that fit.
        """
        self._log.append((number, row, count, self._take(number, row, count, devices)))
        self.refresh(np.array([row]))

    def remove(self, number: int, row: int, count: int = 1) -> None:
        """Take units of this round off a machine."""
        self._refused.clear()
        self._log.append((number, row, -count, self._release(number, row, count)))
        self.refresh(np.array([row]))

    def remember_refusal(self, need: Mapping[int, int]) -> None:
        """Remember that a gang with these counts does not fit, until a unit is removed."""
        self._refused.add(tuple(sorted(need.items())))

    def has_refused(self, need: Mapping[int, int]) -> bool:
        """Whether a gang with these counts is known not to fit; a rollback keeps this valid."""
        return tuple(sorted(need.items())) in self._refused

    def mark(self) -> int:
        """A point to roll back to."""
        return len(self._log)

    def placed_since(self, mark: int) -> Iterator[tuple[int, int, tuple[int, ...]]]:
        """Every unit placed since the mark: its class, its machine, its devices."""
        for number, row, count, devices in self._log[mark:]:
            for indices in devices or [()] * count:
                yield number, row, indices

    def rollback(self, mark: int) -> None:
        """Undo everything placed and removed since the mark, devices included."""
        changed_rows: set[int] = set()
        while len(self._log) > mark:
            number, row, count, devices = self._log.pop()
            changed_rows.add(row)
            if count > 0:
                self._release(number, row, count)
            else:
                self._take(number, row, -count, devices)
        if changed_rows:
            self.refresh(np.array(sorted(changed_rows)))

    def set_free_capacity(
        self, free: Table, free_devices: list[tuple[int, ...]], admitted: NDArray[np.bool_]
    ) -> None:
        """Replace the free capacity by that of another time, before anything is placed.

        `admitted` has the machines that each class may use, whether or not it fits there now.
        """
        self.free, self.free_devices, self.admitted = free, free_devices, admitted
        self.refresh(np.arange(len(self.count)))
        self.max_room = self.room.copy()

    def place_table(self, units: Table, rows: NDArray[np.intp]) -> None:
        """Put whole columns of units, without devices, on machines where all of them fit."""
        self.free[rows] -= units[:, rows].T @ self.requests
        self.units[:, rows] += units[:, rows]
        self.count[rows] += units[:, rows].sum(axis=0)
        self.refresh(rows)

    def refresh(self, rows: NDArray[np.intp]) -> None:
        """Compute the room of every class on these machines again."""
        room = task_room.rooms(self.free[rows], self.requests)
        for number in self._with_devices:
            request = self.shapes[number].devices
            if request is not None:
                devices = [self.free_devices[int(row)] for row in rows]
                np.minimum(room[number], task_room.device_room(devices, request), out=room[number])
        self.room[:, rows] = room * self.admitted[:, rows]

    def placement_cost(self) -> int:
        """What everything placed in this round costs."""
        slots = self.slope * (self.count * (self.count - 1) // 2)
        return int((self.cost * self.units).sum() + slots.sum())

    def devices_of(self, number: int, row: int) -> list[tuple[int, ...]]:
        """Which devices the units of a class take on a machine, one entry per unit."""
        return self._taken.get((number, row), [])

    def placed_units(self) -> list[tuple[int, int, tuple[int, ...]]]:
        """Every unit of this round: its class, its machine, its devices."""
        found: list[tuple[int, int, tuple[int, ...]]] = []
        for number, row in np.argwhere(self.units).tolist():
            devices = self._taken.get((number, row)) or [()] * int(self.units[number, row])
            found += [(number, row, indices) for indices in devices]
        return found

    def replace_units(self, units: Iterable[tuple[int, int, tuple[int, ...]]]) -> None:
        """Replace all units of this round by these; earlier marks are no longer valid."""
        for number, row in np.argwhere(self.units).tolist():
            self._release(number, row, int(self.units[number, row]))
        for number, row, devices in units:
            self._take(number, row, 1, [devices] if devices else [])
        self._log.clear()
        self._refused.clear()
        self.refresh(np.arange(len(self.count)))

    def uses_devices(self, units: Table) -> NDArray[np.bool_]:
        """The machines on which these units would take devices."""
        return np.asarray(units[self._with_devices].any(axis=0), np.bool_)

    def usable_classes(self) -> NDArray[np.bool_]:
        """The classes that still have room somewhere."""
        return np.asarray(self.room.any(axis=1), np.bool_)

    def _take(
        self, number: int, row: int, count: int, devices: Sequence[tuple[int, ...]]
    ) -> list[tuple[int, ...]]:
        self.free[row] -= count * self.requests[number]
        self.units[number, row] += count
        self.count[row] += count
        request = self.shapes[number].devices
        if request is None:
            return []
        chosen: list[tuple[int, ...]] = []
        for unit in range(count):
            free = self.free_devices[row]
            further = count - unit - 1
            indices = devices[unit] if devices else choose_devices(free, request, further)
            if indices is None:
                raise AssertionError("no devices are free where the book had room")
            chosen.append(indices)
            self.free_devices[row] = take_devices(free, indices, request.milli)
        self._taken.setdefault((number, row), []).extend(chosen)
        return chosen

    def _release(self, number: int, row: int, count: int) -> list[tuple[int, ...]]:
        self.free[row] += count * self.requests[number]
        self.units[number, row] -= count
        self.count[row] -= count
        request = self.shapes[number].devices
        if request is None:
            return []
        taken = self._taken[number, row]
        released, self._taken[number, row] = taken[-count:], taken[:-count]
        for indices in released:
            self.free_devices[row] = take_devices(self.free_devices[row], indices, -request.milli)
        return released


def make_placements(book: Book, state: State, groups: Iterable[Group]) -> tuple[Placement, ...]:
    """Assign the units of each class to its tasks: in queue order, the cheapest machine first."""
    numbers = {shape: number for number, shape in enumerate(book.shapes)}
    tasks: dict[int, list[Task]] = {}
    for group in groups:
        for task in group.tasks:
            tasks.setdefault(numbers[task.shape], []).append(task)
    placements: list[Placement] = []
    for number, members in tasks.items():
        rows = np.flatnonzero(book.units[number])
        rows = rows[np.argsort(book.cost[number, rows], kind="stable")]
        remaining = iter(members)
        for row in map(int, rows):
            devices = book.devices_of(number, row) or [()] * int(book.units[number, row])
            name = state.name_of(row)
            placements += [Placement(next(remaining), name, indices) for indices in devices]
    return tuple(placements)
