"""The machine types of synthetic clusters, and the task sizes that fit on them.

The tables come first; the functions below choose the sizes that a given cluster can hold.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from afflux.cluster.task_room import FreeCapacity, room_of
from afflux.model.devices import WHOLE_MILLI, DeviceRequest
from afflux.model.machine import Machine
from afflux.model.resources import CPU, MEMORY, PODS, amount_of, resources
from afflux.model.selectors import ANYWHERE, NodeAffinity, Requirement, Term
from afflux.model.task import Shape
from afflux.sim.openb import GPU_MODEL_LABEL, MIB
from afflux.sim.random_variables import WeightedValues

MACHINE_TYPE_LABEL = "machine-type"
PODS_PER_MACHINE = 110


def _machine_type(
    name: str, cores: int, memory_gib: int, devices: int = 0, model: str = ""
) -> Machine:
    labels = {MACHINE_TYPE_LABEL: name} | ({GPU_MODEL_LABEL: model} if model else {})
    amounts = {CPU: cores * 1000, MEMORY: memory_gib * 1024 * MIB, PODS: PODS_PER_MACHINE}
    return Machine(name, resources(amounts), devices, labels)


CPU_FLEET: WeightedValues[Machine] = (
    (_machine_type("standard", 8, 32), 0.50),
    (_machine_type("compact", 4, 16), 0.20),
    (_machine_type("big", 16, 64), 0.20),
    (_machine_type("memory", 8, 64), 0.10),
)
GPU_FLEET: WeightedValues[Machine] = (
    (_machine_type("gpu-large", 96, 768, 8, "large"), 0.30),
    (_machine_type("gpu-small", 32, 256, 4, "small"), 0.30),
    (_machine_type("standard", 8, 32), 0.40),
)

# (cpu_milli, memory_mib) and weight; from 1 to 8 GiB per core, mostly 2 to 4.
SERVICE_SIZES: WeightedValues[tuple[int, int]] = (
    ((250, 512), 0.15),
    ((500, 1024), 0.20),
    ((1000, 2048), 0.20),
    ((1000, 4096), 0.15),
    ((2000, 4096), 0.10),
    ((2000, 8192), 0.10),
    ((4000, 8192), 0.05),
    ((4000, 32768), 0.05),
)
BATCH_SIZES: WeightedValues[tuple[int, int]] = (
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
GPU_SIZES: WeightedValues[DeviceRequest] = (
    (DeviceRequest(1, 250), 0.20),
    (DeviceRequest(1, 500), 0.20),
    (DeviceRequest(1, WHOLE_MILLI), 0.35),
    (DeviceRequest(2, WHOLE_MILLI), 0.13),
    (DeviceRequest(4, WHOLE_MILLI), 0.08),
    (DeviceRequest(8, WHOLE_MILLI), 0.04),
)
# Requested with a whole device; with a share of a device, the same share of these.
CPU_MILLI_PER_DEVICE = 6000
MEMORY_MIB_PER_DEVICE = 48 * 1024
MODEL_SHARE = 0.25  # of the tasks with devices require one GPU model


@dataclass(frozen=True, slots=True)
class Cluster:
    """Machine types, each with its number of machines; types without machines are left out."""

    types: tuple[tuple[Machine, int], ...]

    def room(self, shape: Shape) -> int:
        """How many tasks of this shape the empty cluster takes."""
        return sum(count * _room(shape, machine) for machine, count in self.types)

    def machines(self) -> Iterator[Machine]:
        """Every single machine, type by type."""
        for machine, count in self.types:
            for index in range(count):
                yield replace(machine, name=f"{machine.name}-{index:04d}")


def make_cluster(fleet: WeightedValues[Machine], machines: int) -> Cluster:
    """A cluster of `machines` machines: by the shares of the types, by largest remainders."""
    exact = [machines * share for _, share in fleet]
    counts = [int(share) for share in exact]
    by_remainder = sorted(range(len(fleet)), key=lambda index: counts[index] - exact[index])
    for index in by_remainder[: machines - sum(counts)]:
        counts[index] += 1
    types = ((machine, count) for (machine, _), count in zip(fleet, counts, strict=True))
    return Cluster(tuple((machine, count) for machine, count in types if count))


def feasible_shapes(
    cluster: Cluster, sizes: WeightedValues[tuple[int, int]], gpu: float
) -> WeightedValues[Shape]:
    """The shapes that fit on this cluster, with weights; a share `gpu` of them has devices."""
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


def elementwise_max(shape: Shape, *plain: Shape) -> Shape:
    """The shape with the largest request for each resource; `plain` shapes have no devices."""
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
    """Cached, so that tasks of one size share one shape object."""
    requests = resources({CPU: cpu_milli, MEMORY: memory_mib * MIB, PODS: 1})
    return Shape(requests, devices, affinity)


def _room(shape: Shape, machine: Machine) -> int:
    if not shape.affinity.matches(machine.name, machine.labels):
        return 0
    names, amounts = zip(*shape.requests, strict=True)
    offered = np.array([[amount_of(machine.capacity, name) for name in names]])
    free = FreeCapacity(offered, [machine.free_devices()])
    room = room_of(np.array(amounts), shape, free)
    return int(room[0])
