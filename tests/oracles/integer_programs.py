"""Placement as an integer program, exact for every resource, every device and every disk.

Units of one class on one machine are counted. Of each device of a machine a class takes a number of
slots, at most one per unit; t units that need k different devices each fit exactly if t * k slots
are taken and no device gives more than t. Of each volume a disk has a number of units.
"""

from collections.abc import Callable, Sequence

from afflux.model.disks import DiskRequest
from afflux.model.task import Shape
from afflux.model.waiting_group import WaitingGroup
from oracles.disks import kinds, taken_of
from oracles.highs import Highs, Program, Terms
from oracles.naive_model import Room, admits


class PlacementProgram:
    """Which groups are placed, all or nothing, on what is left of some machines."""

    def __init__(self, rooms: dict[str, Room], groups: Sequence[WaitingGroup]) -> None:
        self.program = Program()
        self.opened: dict[str, tuple[int, WaitingGroup]] = {}
        self.units: list[tuple[int, Shape, str]] = []
        self._rooms = list(rooms.values())
        self._asked: dict[tuple[int, str], Terms] = {}
        self._held: dict[tuple[int, int], Terms] = {}
        # By machine, disk and kind (read, write, total), what is taken.
        self._on_disks: dict[tuple[int, str, int], Terms] = {}
        # Equal groups of one would only make the search longer: they are counted, and their class
        # has one variable.
        self.pools: dict[tuple[int, Shape], tuple[int, list[WaitingGroup]]] = {}
        pools: dict[tuple[int, Shape], list[WaitingGroup]] = {}
        for group in groups:
            if len(group.tasks) == 1:
                pools.setdefault((group.priority, group.tasks[0].shape), []).append(group)
            else:
                opened = self.program.variable(0, 1)
                self.opened[group.name] = (opened, group)
                self._place_whole(opened, group)
        for key, members in pools.items():
            count = self.program.variable(0, len(members))
            self.pools[key] = (count, members)
            self._spread(count, key[1], 1, len(members))
        self._limit()

    def placed(self, priority: int) -> Terms:
        """The number of tasks placed at one priority."""
        gangs = [
            (column, float(len(group.tasks)))
            for column, group in self.opened.values()
            if group.priority == priority
        ]
        return gangs + [
            (column, 1.0) for (p, _), (column, _) in self.pools.items() if p == priority
        ]

    def _place_whole(self, opened: int, group: WaitingGroup) -> None:
        need: dict[Shape, int] = {}
        for task in group.tasks:
            need[task.shape] = need.get(task.shape, 0) + 1
        for shape, count in need.items():
            self._spread(opened, shape, count, count)

    def _spread(self, opened: int, shape: Shape, each: int, most: int) -> None:
        """`each` units of the shape per unit of `opened`, on any machines."""
        units: Terms = []
        for index, room in enumerate(self._rooms):
            if not room.fits(shape) or not admits(room.machine, shape):
                continue
            unit = self.program.variable(0, most)
            units.append((unit, 1.0))
            self.units.append((unit, shape, room.machine.name))
            for name, asked in shape.requests:
                self._asked.setdefault((index, name), []).append((unit, float(asked)))
            if shape.devices is not None:
                self._take(index, unit, shape, most)
            if shape.disks is not None:
                self._take_disks(index, unit, shape.disks, most)
        self.program.row(0, 0, [*units, (opened, -float(each))])

    def _take(self, index: int, unit: int, shape: Shape, most: int) -> None:
        places: Terms = []
        for device in range(len(self._rooms[index].devices)):
            place = self.program.variable(0, most)
            places.append((place, 1.0))
            self.program.row(None, 0, [(place, 1.0), (unit, -1.0)])
            self._held.setdefault((index, device), []).append((place, float(shape.devices.milli)))
        self.program.row(0, 0, [*places, (unit, -float(shape.devices.count))])

    def _take_disks(self, index: int, unit: int, request: DiskRequest, most: int) -> None:
        """Every volume of a unit is on one disk; nothing is taken where no disks are known."""
        room = self._rooms[index].disks
        if not room.is_known or room.report is None:
            return
        for volume in request.volumes:
            places: Terms = []
            for disk in room.report.disks:
                taken = taken_of(room.prices, disk, volume, request)
                if taken is None or not _has_left(room.left[disk.id], kinds(taken)):
                    continue
                place = self.program.variable(0, most)
                places.append((place, 1.0))
                for kind, amount in enumerate(kinds(taken)):
                    if amount:
                        used = self._on_disks.setdefault((index, disk.id, kind), [])
                        used.append((place, float(amount)))
            self.program.row(0, 0, [*places, (unit, -1.0)])

    def _limit(self) -> None:
        for (index, disk, kind), terms in self._on_disks.items():
            self.program.row(None, self._rooms[index].disks.left[disk][kind], terms)
        for (index, name), terms in self._asked.items():
            self.program.row(None, self._rooms[index].left(name), terms)
        for (index, device), terms in self._held.items():
            self.program.row(None, self._rooms[index].devices[device], terms)


def _has_left(left: list[int], asked: tuple[int, ...]) -> bool:
    return all(not amount or amount <= there for amount, there in zip(asked, left, strict=True))


def least_cost(
    highs: Highs,
    rooms: dict[str, Room],
    groups: Sequence[WaitingGroup],
    worth: Callable[[WaitingGroup], int],
    cost: Callable[[Shape, str], int] | None = None,
    slope: Callable[[str], int] | None = None,
) -> int:
    """The least cost of any plan: what waits costs its worth, what is placed its cost, and the
    k-th task on a machine (k from 0) k times its slope more."""
    placement = PlacementProgram(rooms, groups)
    program = placement.program
    total = sum(worth(group) for group in groups)
    prices = [(column, -float(worth(group))) for column, group in placement.opened.values()]
    for count, members in placement.pools.values():
        placed = [(program.variable(0, 1), -float(worth(group))) for group in members]
        program.row(0, 0, [(count, -1.0), *((column, 1.0) for column, _ in placed)])
        prices += placed
    if cost is not None and slope is not None:
        prices += [(unit, float(cost(shape, name))) for unit, shape, name in placement.units]
        for name in rooms:
            here = [unit for unit, _, where in placement.units if where == name]
            most = sum(int(program.columns[unit][1]) for unit in here)
            slots = [(program.variable(0, 1), float(k * slope(name))) for k in range(most)]
            program.row(
                0, 0, [*((unit, 1.0) for unit in here), *((slot, -1.0) for slot, _ in slots)]
            )
            prices += slots
    program.set_objective(prices)
    return round(total + highs.solve(program).value)


def can_place_whole(highs: Highs, rooms: dict[str, Room], group: WaitingGroup) -> bool:
    """Whether the whole group has room; arithmetic decides where it can, the program otherwise."""
    need: dict[Shape, int] = {}
    for task in group.tasks:
        need[task.shape] = need.get(task.shape, 0) + 1
    for shape, count in need.items():
        if sum(_most(room, shape, count) for room in rooms.values()) < count:
            return False
    if len(group.tasks) == 1:
        return True
    placement = PlacementProgram(rooms, [group])
    for column, _ in placement.opened.values():
        placement.program.row(1, 1, [(column, 1.0)])
    return highs.solve(placement.program).value is not None


def _most(room: Room, shape: Shape, count: int) -> int:
    """An upper bound on how many such tasks the machine takes."""
    if not room.fits(shape) or not admits(room.machine, shape):
        return 0
    for name, asked in shape.requests:
        count = min(count, room.left(name) // asked)
    return count


def most_placed(
    highs: Highs, rooms: dict[str, Room], groups: Sequence[WaitingGroup]
) -> dict[int, int]:
    """The largest numbers of tasks by priority, the highest priority first."""
    placement = PlacementProgram(rooms, groups)
    counts: dict[int, int] = {}
    for priority in sorted({group.priority for group in groups}, reverse=True):
        terms = placement.placed(priority)
        placement.program.set_objective([(column, -weight) for column, weight in terms])
        best = round(-highs.solve(placement.program).value)
        counts[priority] = best
        placement.program.row(best, best, terms)
    return counts
