"""The machines of a synthetic cluster, and the sizes of which its tasks are made.

Tables first; below them, which of the sizes a given cluster can hold.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

from afflux.model.devices import WHOLE_MILLI, DeviceRequest, room_on_devices
from afflux.model.machine import Machine
from afflux.model.resources import CPU, MEMORY, PODS, amount_of, resources
from afflux.model.selectors import ANYWHERE, NodeAffinity, Requirement, Term
from afflux.model.task import Shape
from afflux.sim.distributions import Table
from afflux.sim.openb import GPU_MODEL_LABEL, MIB

MACHINE_TYPE_LABEL = "machine-type"
PODS_PER_MACHINE = 110


def _type(name: str, cores: int, memory_gib: int, devices: int = 0, model: str = "") -> Machine:
    labels = {MACHINE_TYPE_LABEL: name} | ({GPU_MODEL_LABEL: model} if model else {})
    amounts = {CPU: cores * 1000, MEMORY: memory_gib * 1024 * MIB, PODS: PODS_PER_MACHINE}
    return Machine(name, resources(amounts), devices, labels)


CPU_FLEET: Table[Machine] = (
    (_type("standard", 8, 32), 0.50),
    (_type("compact", 4, 16), 0.20),
    (_type("big", 16, 64), 0.20),
    (_type("memory", 8, 64), 0.10),
)
GPU_FLEET: Table[Machine] = (
    (_type("gpu-large", 96, 768, 8, "large"), 0.30),
    (_type("gpu-small", 32, 256, 4, "small"), 0.30),
    (_type("standard", 8, 32), 0.40),
)

# (cpu_milli, memory_mib) and how often; from 1 to 8 GiB per core, mostly 2 to 4.
SERVICE_SIZES: Table[tuple[int, int]] = (
    ((250, 512), 0.15),
    ((500, 1024), 0.20),
    ((1000, 2048), 0.20),
    ((1000, 4096), 0.15),
    ((2000, 4096), 0.10),
    ((2000, 8192), 0.10),
    ((4000, 8192), 0.05),
    ((4000, 32768), 0.05),
)
BATCH_SIZES: Table[tuple[int, int]] = (
    ((500, 1024), 0.05),
    ((1000, 2048), 0.10),
    ((1000, 8192), 0.05),
    ((2000, 4096), 0.15),
    ((2000, 8192), 0.10),
    ((3000, 6144), 0.10),
    ((4000, 4096), 0.10),
    ((4000, 16384), 0.15),
    ((4000, 32768), 0.05),
    ((6000, 12288), 0.10),
    ((8000, 32768), 0.05),
)
GPU_SIZES: Table[DeviceRequest] = (
    (DeviceRequest(1, 250), 0.20),
    (DeviceRequest(1, 500), 0.20),
    (DeviceRequest(1, WHOLE_MILLI), 0.35),
    (DeviceRequest(2, WHOLE_MILLI), 0.13),
    (DeviceRequest(4, WHOLE_MILLI), 0.08),
    (DeviceRequest(8, WHOLE_MILLI), 0.04),
)
# What comes with a whole device; a share of a device comes with the same share of these.
CPU_MILLI_PER_DEVICE = 6000
MEMORY_MIB_PER_DEVICE = 48 * 1024
MODEL_SHARE = 0.25  # of the tasks with devices insist on one model


@dataclass(frozen=True, slots=True)
class Cluster:
    """Machine types with how many there are of each; types without machines are left out."""

    types: tuple[tuple[Machine, int], ...]

    def room(self, shape: Shape) -> int:
        """How many tasks of this shape the empty cluster takes."""
        return sum(count * _room(shape, machine) for machine, count in self.types)

    def machines(self) -> Iterator[Machine]:
        """Every single machine, type by type."""
        for machine, count in self.types:
            for index in range(count):
                yield replace(machine, name=f"{machine.name}-{index:04d}")


def deal(fleet: Table[Machine], machines: int) -> Cluster:
    """So many machines by the shares of their types, the rest going to the largest remainders."""
    exact = [machines * share for _, share in fleet]
    counts = [int(share) for share in exact]
    by_remainder = sorted(range(len(fleet)), key=lambda index: counts[index] - exact[index])
    for index in by_remainder[: machines - sum(counts)]:
        counts[index] += 1
    types = ((machine, count) for (machine, _), count in zip(fleet, counts, strict=True))
    return Cluster(tuple((machine, count) for machine, count in types if count))


def menu(cluster: Cluster, sizes: Table[tuple[int, int]], gpu: float) -> Table[Shape]:
    """What tasks may ask for, a share `gpu` of it with devices.

    What no machine of this cluster could hold is not on it.
    """
    listed = [(_shape(cpu, memory), (1 - gpu) * weight) for (cpu, memory), weight in sizes]
    models = [machine.labels[GPU_MODEL_LABEL] for machine, _ in cluster.types if machine.devices]
    for devices, weight in GPU_SIZES:
        milli = devices.count * devices.milli
        cpu_milli = CPU_MILLI_PER_DEVICE * milli // WHOLE_MILLI
        memory_mib = MEMORY_MIB_PER_DEVICE * milli // WHOLE_MILLI
        listed.append((_shape(cpu_milli, memory_mib, devices), gpu * weight * (1 - MODEL_SHARE)))
        for model in models:
            only = Requirement(GPU_MODEL_LABEL, "In", (model,))
            affinity = NodeAffinity(required=(Term(labels=(only,)),))
            insisting = _shape(cpu_milli, memory_mib, devices, affinity)
            listed.append((insisting, gpu * weight * MODEL_SHARE / len(models)))
    return [(shape, weight) for shape, weight in listed if weight > 0 and cluster.room(shape)]


def cover(shape: Shape, *plain: Shape) -> Shape:
    """The least shape that is no smaller than any of these; `plain` ones have no devices."""
    shapes = (shape, *plain)
    names = {name for each in shapes for name, _ in each.requests}
    most = {name: max(amount_of(each.requests, name) for each in shapes) for name in names}
    return replace(shape, requests=resources(most))


@cache
def _shape(
    cpu_milli: int,
    memory_mib: int,
    devices: DeviceRequest | None = None,
    affinity: NodeAffinity = ANYWHERE,
) -> Shape:
    """Tasks of one size share one shape, whichever menu they chose from."""
    requests = resources({CPU: cpu_milli, MEMORY: memory_mib * MIB, PODS: 1})
    return Shape(requests, devices, affinity)


def _room(shape: Shape, machine: Machine) -> int:
    if not shape.affinity.matches(machine.name, machine.labels):
        return 0
    room = min(amount_of(machine.capacity, name) // amount for name, amount in shape.requests)
    if shape.devices is None or room == 0:
        return room
    return min(room, room_on_devices(machine.free_devices(), shape.devices))
