"""Random clusters and workloads with every kind of machine, shape and group."""

from dataclasses import dataclass, replace
from itertools import count
from random import Random

from afflux.model import reason
from afflux.model.devices import DeviceRequest
from afflux.model.images import Images
from afflux.model.implied_resources import HostPort, attachment_resource, port_requests
from afflux.model.machine import Machine
from afflux.model.reachability import Reachability
from afflux.model.resources import resources
from afflux.model.selectors import ANYWHERE, NodeAffinity, Requirement, Term
from afflux.model.taints import UNSCHEDULABLE_KEY, Taint, Toleration
from afflux.model.task import Shape, Task
from afflux.model.waiting_group import WaitingGroup
from oracles.disks import random_request

SCALES = {
    "cpu": 16,
    "memory": 40,
    "ephemeral-storage": 12,
    "example.com/unit": 6,
    "example.com/rare": 3,
}
TAINTS = (
    Taint("dedicated", "NoSchedule", "batch"),
    Taint("dedicated", "NoExecute", "web"),
    Taint("slow", "PreferNoSchedule"),
    Taint("age", "NoSchedule", "7"),
)
TOLERATIONS = (
    Toleration("dedicated", "Equal", "batch", "NoSchedule"),
    Toleration("dedicated", "Exists"),
    Toleration(operator="Exists"),
    Toleration("age", "Gt", "5"),
    Toleration("age", "Lt", "5", "NoSchedule"),
    Toleration(UNSCHEDULABLE_KEY, "Exists", effect="NoSchedule"),
)
PORTS = tuple(
    HostPort(protocol, port, address)
    for protocol, port in (("TCP", 80), ("TCP", 443), ("UDP", 80))
    for address in (None, None, "10.0.0.1", "10.0.0.2", "::")
)
MIB = 1024 * 1024
IMAGES = {"a:1": 40 * MIB, "b:1": 300 * MIB, "c:latest": 900 * MIB, "d:1": 5000 * MIB}
VOLUME_REASONS = (
    reason.VOLUME_AFFINITY,
    reason.VOLUME_MISSING,
    reason.VOLUME_SPACE,
    reason.VOLUME_ZONE,
    reason.driver_missing("disk.example.com"),
)
DRIVERS = ("disk.example.com", "file.example.com")
LABELS = {"zone": ("a", "b", "c"), "disk": ("ssd", "hdd"), "rank": ("1", "2", "30", "x")}


def random_requirement(rng: Random) -> Requirement:
    key = rng.choice(list(LABELS))
    operator = rng.choice(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
    if operator in ("Exists", "DoesNotExist"):
        return Requirement(key, operator)
    if operator in ("Gt", "Lt"):
        return Requirement(key, operator, (str(rng.randint(0, 31)),))
    return Requirement(key, operator, tuple(rng.sample(LABELS[key], rng.randint(1, 2))))


def random_term(rng: Random) -> Term:
    names = ()
    if rng.random() < 0.15:
        wanted = tuple(f"m{rng.randint(0, 5)}" for _ in range(rng.randint(1, 3)))
        names = (Requirement("metadata.name", rng.choice(("In", "NotIn")), wanted),)
    return Term(tuple(random_requirement(rng) for _ in range(rng.randint(0, 2))), names)


def random_affinity(rng: Random) -> NodeAffinity:
    selector = ()
    if rng.random() < 0.3:
        key = rng.choice(list(LABELS))
        selector = ((key, rng.choice(LABELS[key])),)
    required = None
    if rng.random() < 0.6:
        required = tuple(random_term(rng) for _ in range(rng.randint(0, 2)))
    preferred = tuple(
        (rng.randint(1, 100), random_term(rng)) for _ in range(rng.choice((0, 0, 1, 2)))
    )
    return NodeAffinity(selector, required, preferred)


@dataclass
class Generator:
    """One random cluster: which resources and devices there are, and how full it is.

    With `gangs_only` there are mostly gangs, and little but packing keeps them waiting.
    """

    rng: Random
    gangs_only: bool = False
    largest_machines: int = 7
    largest_groups: int = 14
    with_disks: bool = False

    def __post_init__(self) -> None:
        rng = self.rng
        self.names = ["cpu", "memory"] + [n for n in list(SCALES)[2:] if rng.random() < 0.35]
        self.with_devices = rng.random() < 0.4
        self.constrained = rng.random() < 0.5
        self.with_ports = rng.random() < 0.35
        self.with_volumes = rng.random() < 0.35
        self.tightness = rng.choice((0.15, 0.3, 0.6))
        self.priorities = rng.choice(((0,), (0,), (0, 10), (-5, 0, 10)))
        self.gangs = rng.choice((0.0, 0.25, 0.6))
        if self.gangs_only:
            self.constrained = False
            self.tightness = 0.5
            self.gangs = 0.9
        self.shapes = [self.shape() for _ in range(rng.randint(1, 6))]
        self._numbers = count()

    def machine(self, name: str) -> Machine:
        rng = self.rng
        capacity = {
            resource: rng.randint(SCALES[resource] // 3, SCALES[resource])
            for resource in self.names
            if resource != "example.com/rare" or rng.random() < 0.5
        }
        if self.with_volumes:
            capacity |= {
                attachment_resource(d): rng.randint(1, 4) for d in DRIVERS if rng.random() < 0.6
            }
        capacity["pods"] = 110 if self.gangs_only else rng.choice((0, 1, 2, 3, 4, 6, 9, 110))
        labels = {k: rng.choice(v) for k, v in LABELS.items() if rng.random() < 0.6}
        constrained = self.constrained
        return Machine(
            name,
            resources(capacity),
            devices=rng.choice((0, 1, 2, 3)) if self.with_devices else 0,
            labels=labels if constrained else {},
            taints=tuple(t for t in TAINTS if constrained and rng.random() < 0.12),
            unschedulable=constrained and rng.random() < 0.08,
            images={n: size for n, size in IMAGES.items() if constrained and rng.random() < 0.5},
        )

    def machines(self) -> list[Machine]:
        return [self.machine(f"m{i}") for i in range(self.rng.randint(1, self.largest_machines))]

    def resized(self, machine: Machine) -> Machine:
        """The same machine with a changed description."""
        other = self.machine(machine.name)
        kind = self.rng.randrange(3)
        if kind == 0:
            pods = dict(machine.capacity) | {"pods": self.rng.randint(0, 5)}
            return replace(machine, capacity=resources(pods))
        return replace(machine, devices=other.devices) if kind == 1 else other

    def shape(self) -> Shape:
        rng = self.rng
        requests = {"pods": 1}
        for resource in self.names:
            if rng.random() < (0.8 if resource in ("cpu", "memory") else 0.3):
                requests[resource] = rng.randint(1, max(1, int(SCALES[resource] * self.tightness)))
        if rng.random() < 0.02:
            requests["example.com/nowhere"] = 1
        if self.with_ports and rng.random() < 0.5:
            requests |= port_requests(rng.sample(PORTS, rng.randint(1, 3)))
        if self.with_volumes and rng.random() < 0.5:
            requests[attachment_resource(rng.choice(DRIVERS))] = rng.randint(1, 2)
        devices = None
        if self.with_devices and rng.random() < 0.6:
            devices = DeviceRequest(
                rng.choice((1, 1, 2, 3)), rng.choice((150, 250, 340, 500, 600, 1000))
            )
        constrained = self.constrained
        return Shape(
            resources(requests),
            devices,
            random_affinity(rng) if constrained and rng.random() < 0.4 else ANYWHERE,
            tuple(t for t in TOLERATIONS if constrained and rng.random() < 0.15),
            self.reachability() if constrained and self.with_volumes and rng.random() < 0.5 else (),
            self.images() if constrained and rng.random() < 0.4 else None,
            disks=random_request(rng) if self.with_disks and rng.random() < 0.7 else None,
        )

    def reachability(self) -> tuple[Reachability, ...]:
        rng = self.rng
        return tuple(
            Reachability(rng.choice(VOLUME_REASONS), tuple(random_term(rng) for _ in range(count)))
            for count in rng.choices((0, 1, 2, 3), (1, 6, 4, 4), k=rng.randint(1, 3))
        )

    def images(self) -> Images:
        names = sorted(self.rng.choices(list(IMAGES), k=self.rng.randint(1, 3)))
        return Images(tuple(names), len(names) + self.rng.randint(0, 2))

    def task(self, name: str) -> Task:
        rng = self.rng
        blocked = "spec.schedulingGates: waits" if rng.random() < 0.02 else None
        shape = self.shape() if rng.random() < 0.05 else rng.choice(self.shapes)
        return Task(name, name, shape, blocked)

    def group(self) -> WaitingGroup:
        rng = self.rng
        name = f"g{next(self._numbers)}"
        size = rng.randint(2, 6) if rng.random() < self.gangs else 1
        return WaitingGroup(
            name,
            tuple(self.task(f"{name}.{i}") for i in range(size)),
            rng.choice(self.priorities),
            rng.choice((0.0, 60.0, 5000.0, 100_000.0)),
        )

    def groups(self) -> list[WaitingGroup]:
        return [self.group() for _ in range(self.rng.randint(1, self.largest_groups))]
