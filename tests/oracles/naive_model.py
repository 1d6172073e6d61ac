"""The rules of Kubernetes and of the model, task by task and machine by machine, in plain loops.

Written from the documentation and not from the source, so that a mistake has to be made twice.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import combinations, product

from afflux.model.disks import Disk, DiskReport
from afflux.model.machine import Machine
from afflux.model.placement import Placement
from afflux.model.selectors import NodeAffinity, Requirement, Term
from afflux.model.taints import Taint, Toleration
from afflux.model.task import Shape, Task
from afflux.model.waiting_group import WaitingGroup
from oracles.disks import DiskRoom, Prices


def holds(requirement: Requirement, value: str | None) -> bool:
    has = value is not None
    numbers = None
    if requirement.operator in ("Gt", "Lt") and has:
        try:
            numbers = (int(value), int(requirement.values[0]))
        except ValueError:
            numbers = None
    return {
        "In": has and value in requirement.values,
        "NotIn": not has or value not in requirement.values,
        "Exists": has,
        "DoesNotExist": not has,
        "Gt": numbers is not None and numbers[0] > numbers[1],
        "Lt": numbers is not None and numbers[0] < numbers[1],
    }[requirement.operator]


def term_holds(term: Term, machine: Machine) -> bool:
    verdicts = [holds(r, machine.labels.get(r.key)) for r in term.labels]
    verdicts += [holds(r, machine.name) for r in term.names]
    return bool(verdicts) and all(verdicts)


def affinity_holds(affinity: NodeAffinity, machine: Machine) -> bool:
    for key, value in affinity.selector:
        if key not in machine.labels or machine.labels[key] != value:
            return False
    if affinity.required is None:
        return True
    return any(term_holds(term, machine) for term in affinity.required)


def tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    for toleration in tolerations:
        same_effect = toleration.effect in ("", taint.effect)
        same_key = toleration.key in ("", taint.key)
        if not (same_effect and same_key):
            continue
        if toleration.operator == "Exists":
            return True
        if toleration.operator == "Equal" and toleration.key and toleration.value == taint.value:
            return True
        if toleration.operator in ("Gt", "Lt") and holds(
            Requirement("", toleration.operator, (toleration.value,)), taint.value
        ):
            return True
    return False


def admits(machine: Machine, shape: Shape) -> bool:
    """Cordons, taints, node affinity and the reach of volumes."""
    for reachability in shape.reachability:
        if not any(term_holds(term, machine) for term in reachability.terms):
            return False
    taints = [taint for taint in machine.taints if taint.effect != "PreferNoSchedule"]
    if machine.unschedulable:
        taints.append(Taint("node.kubernetes.io/unschedulable", "NoSchedule"))
    return all(tolerated(taint, shape.tolerations) for taint in taints) and affinity_holds(
        shape.affinity, machine
    )


def image_score(world: "World", machine: Machine, shape: Shape) -> int:
    """kube-scheduler's ImageLocality: 0 to 100."""
    if shape.images is None:
        return 100
    mebibyte = 1024 * 1024
    total = 0
    for name in shape.images.names:
        having = sum(name in other.images for other in world.machines.values())
        if name in machine.images:
            total += machine.images[name] * having // len(world.machines)
    low, high = 23 * mebibyte, 1000 * mebibyte * shape.images.image_count
    return 100 * (min(max(total, low), high) - low) // (high - low)


def unstated(name: str) -> int:
    """The amount of a resource on a machine that does not state it."""
    if name.startswith("port/"):
        return 1 if "@" in name else 2**20
    return 2**31 if name.startswith("attach/") else 0


def host_ports(shape: Shape) -> set[tuple[str, str]]:
    """(protocol/port, address) pairs, the address * for all of them."""
    asked = {name: amount for name, amount in shape.requests if name.startswith("port/")}
    whole = {(name, "*") for name, amount in asked.items() if amount > 1}
    return whole | {tuple(name.split("@")) for name in asked if "@" in name}


def ports_clash(one: Iterable[tuple[str, str]], other: Iterable[tuple[str, str]]) -> bool:
    return any(
        port == taken and (address == held or "*" in (address, held))
        for port, address in one
        for taken, held in other
    )


@dataclass
class Room:
    """What is left on one machine."""

    machine: Machine
    free: dict[str, int]
    devices: list[int]
    disks: DiskRoom = field(default_factory=DiskRoom)
    ports: list[tuple[str, str]] = field(default_factory=list)

    def left(self, name: str) -> int:
        return self.free.get(name, unstated(name))

    def fits(self, shape: Shape) -> bool:
        if ports_clash(host_ports(shape), self.ports):
            return False
        enough = all(
            self.left(name) >= asked
            for name, asked in shape.requests
            if not name.startswith("port/")
        )
        if enough and shape.devices is not None:
            usable = [left for left in self.devices if left >= shape.devices.milli]
            enough = len(usable) >= shape.devices.count
        return enough and self.disks.fits(shape.disks)

    def take(self, shape: Shape, shares: Iterable[int], disks: tuple[int, ...]) -> None:
        """It has shares of devices, and a disk for each volume."""
        for name, asked in shape.requests:
            self.free[name] = self.left(name) - asked
        for index in shares:
            self.devices[index] -= shape.devices.milli
        self.disks.take(shape.disks, disks)
        self.ports += host_ports(shape)


def shares_and_disks(
    shape: Shape, devices: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    count = shape.devices.count if shape.devices else 0
    return devices[:count], devices[count:]


@dataclass
class World:
    """The cluster as a list of facts: machines by name, and running tasks with their devices.

    `disks` has what the disks of a machine would have left without any task, and `on_disks` the ids
    of the disks that the volumes of a task are on.
    """

    machines: dict[str, Machine] = field(default_factory=dict)
    running: dict[str, tuple[Task, str, tuple[int, ...]]] = field(default_factory=dict)
    disks: dict[str, tuple[Disk, ...]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    on_disks: dict[str, tuple[str, ...]] = field(default_factory=dict)
    prices: Prices = field(default_factory=Prices)

    def rooms(self) -> dict[str, Room]:
        rooms = {
            name: Room(machine, dict(machine.capacity), [1000] * machine.devices)
            for name, machine in self.machines.items()
        }
        for name, disks in self.disks.items():
            if name in rooms:
                known = DiskReport(name, disks, refused=self.refused.get(name, ""))
                left = {d.id: [d.left.read, d.left.write, d.left.total] for d in disks}
                rooms[name].disks = DiskRoom(known, left, self.prices)
        for task, name, devices in self.running.values():
            index = {disk.id: i for i, disk in enumerate(self.disks.get(name, ()))}
            on = tuple(index[i] for i in self.on_disks.get(task.id, ()))
            rooms[name].take(task.shape, devices, on)
        return rooms

    def set_machine(self, machine: Machine) -> None:
        self.machines[machine.name] = machine
        for task, name, devices in list(self.running.values()):
            if name == machine.name:
                left = tuple(index for index in devices if index < machine.devices)
                self.running[task.id] = (task, name, left)

    def remove_machine(self, name: str) -> list[str]:
        del self.machines[name]
        lost = [task.id for task, where, _ in self.running.values() if where == name]
        for task_id in lost:
            del self.running[task_id]
        return lost

    def run(self, task: Task, name: str, devices: tuple[int, ...] | None = None) -> None:
        """Without given devices the task takes the fullest ones with enough left, or none. Disks
        that come after them are in `on_disks`."""
        before = self.running.pop(task.id, None)
        wanted = task.shape.devices
        if devices is not None:
            devices, _ = shares_and_disks(task.shape, devices)
        if wanted is None:
            devices = ()
        elif devices is None and before is not None and before[1] == name:
            devices = before[2]
        elif devices is None:
            free = self.rooms()[name].devices
            usable = [i for i in range(len(free)) if free[i] >= wanted.milli]
            usable.sort(key=lambda i: (free[i], i))
            enough = len(usable) >= wanted.count
            devices = tuple(usable[: wanted.count]) if enough else ()
        self.running[task.id] = (task, name, devices)

    def end(self, task_id: str) -> None:
        self.running.pop(task_id, None)


def broken_rules(
    world: World, waiting: Iterable[WaitingGroup], placements: Iterable[Placement]
) -> list[str]:
    """What is wrong with a plan made in this world; empty if nothing is."""
    wrong: list[str] = []
    groups = {task.id: group for group in waiting for task in group.tasks}
    seen: dict[str, int] = {}
    rooms = world.rooms()
    asked: set[tuple[str, str]] = set()
    for placement in placements:
        task, name = placement.task, placement.machine
        seen[task.id] = seen.get(task.id, 0) + 1
        if task.id not in groups:
            wrong.append(f"{task.id} was not waiting")
        if any(member.blocked for member in groups[task.id].tasks):
            wrong.append(f"{task.id} is blocked, or a member of its group is")
        if not admits(world.machines[name], task.shape):
            wrong.append(f"{task.id} is not admitted on {name}")
        wanted = task.shape.devices
        count = wanted.count if wanted else 0
        shares, disks = shares_and_disks(task.shape, placement.devices)
        if len(shares) != count or len(set(shares)) != count:
            wrong.append(f"{task.id} has the devices {shares}")
        if task.shape.disks is None:
            wrong += [f"{task.id} has the disks {disks}"] if disks else []
        elif disks not in rooms[name].disks.choices(task.shape.disks):
            wrong.append(f"{task.id} does not fit on the disks {disks} of {name}")
        if ports_clash(host_ports(task.shape), rooms[name].ports):
            wrong.append(f"{task.id}: a port of {name} is taken")
        rooms[name].take(task.shape, shares, disks)
        asked |= {(name, resource) for resource, _ in task.shape.requests}
        wrong += [f"{task.id}: device {i} of {name}" for i in shares if rooms[name].devices[i] < 0]
    wrong += [f"{name} lacks {r}" for name, r in sorted(asked) if rooms[name].left(r) < 0]
    wrong += [f"{task} placed {times} times" for task, times in seen.items() if times != 1]
    for group in {group.name: group for group in groups.values()}.values():
        placed = sum(task.id in seen for task in group.tasks)
        if placed not in (0, len(group.tasks)):
            wrong.append(f"group {group.name}: {placed} of {len(group.tasks)}")
    return wrong


def fits_somewhere(rooms: dict[str, Room], shape: Shape) -> bool:
    return any(room.fits(shape) and admits(room.machine, shape) for room in rooms.values())


def fits_by_trial(rooms: dict[str, Room], shapes: list[Shape]) -> bool:
    """Whether all of these fit together: every machine and choice of devices tried in turn."""
    if not shapes:
        return True
    shape, *others = shapes
    for room in rooms.values():
        if not room.fits(shape) or not admits(room.machine, shape):
            continue
        before = (dict(room.free), list(room.devices), list(room.ports))
        disks_before = {name: list(left) for name, left in room.disks.left.items()}
        wanted = shape.devices
        choices = [()]
        if wanted is not None:
            usable = [i for i, left in enumerate(room.devices) if left >= wanted.milli]
            choices = list(combinations(usable, wanted.count))
        on_disks = room.disks.choices(shape.disks) if shape.disks else [()]
        for devices, disks in product(choices, on_disks):
            room.take(shape, devices, disks)
            found = fits_by_trial(rooms, others)
            room.free, room.devices, room.ports = (
                dict(before[0]),
                list(before[1]),
                list(before[2]),
            )
            room.disks.left = {name: list(left) for name, left in disks_before.items()}
            if found:
                return True
    return False
