"""The disks of synthetic clusters, and what tasks do on them.

Two kinds of disks, with the tables by which a byte in small blocks costs them more; profiles of
reading and writing, from streams in large blocks to databases in small ones.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from afflux.model.disks import Bandwidth, Disk, DiskReport, DiskRequest, VolumeIO
from afflux.model.machine import Machine
from afflux.model.task import Shape
from afflux.normalisers.coefficient_table import CoefficientTable, Factors
from afflux.sim.random_variables import WeightedValues, weighted_choice

KIB, MB = 1024, 1_000_000

FLASH, SOLID_STATE = "synthetic/flash", "synthetic/solid-state"
# What an idle disk offers in blocks of 32 KiB and more.
_CAPACITY = {
    FLASH: Bandwidth(read=2_800 * MB, write=1_100 * MB, total=2_800 * MB),
    SOLID_STATE: Bandwidth(read=520 * MB, write=450 * MB, total=520 * MB),
}
_BLOCK_BYTES = (4 * KIB, 8 * KIB, 16 * KIB, 32 * KIB)
# By block size, in millionths.
_TABLES = {
    FLASH: CoefficientTable(
        FLASH,
        Factors(_BLOCK_BYTES, (2_600_000, 1_700_000, 1_200_000, 1_000_000)),
        Factors(_BLOCK_BYTES, (3_100_000, 2_000_000, 1_400_000, 1_000_000)),
    ),
    SOLID_STATE: CoefficientTable(
        SOLID_STATE,
        Factors(_BLOCK_BYTES, (5_000_000, 3_200_000, 1_500_000, 1_000_000)),
        Factors(_BLOCK_BYTES, (6_100_000, 3_500_000, 2_100_000, 1_000_000)),
    ),
}
# Machines of these types have flash disks, two of them if they are big; the others have one
# solid-state disk.
_FLASH_DISKS = {"big": 2, "memory": 1}

PROFILES: WeightedValues[VolumeIO] = (
    (VolumeIO(read=10 * MB, write=10 * MB, block_bytes=64 * KIB), 0.40),  # logs and files
    (VolumeIO(read=120 * MB, write=10 * MB, block_bytes=128 * KIB), 0.25),  # scans
    (VolumeIO(read=25 * MB, write=15 * MB, block_bytes=4 * KIB), 0.20),  # databases
    (VolumeIO(read=10 * MB, write=100 * MB, block_bytes=16 * KIB), 0.15),  # checkpoints
)


def disks_of(machines: Sequence[Machine], type_label: str) -> tuple[DiskReport, ...]:
    """The disks of these machines, all idle, by the type of each machine."""
    return tuple(
        DiskReport(machine.name, _disks(machine.labels.get(type_label, ""))) for machine in machines
    )


def normalise(model: str, volume: VolumeIO) -> Bandwidth | None:
    """What this takes of a disk of these models, by its table."""
    table = _TABLES.get(model)
    return None if table is None else table.estimate(volume).taken


def draw_profile(rng: np.random.Generator, share: float) -> VolumeIO | None:
    """What the tasks of a job do on disks; with this share they do something."""
    does, profile = rng.random() < share, weighted_choice(rng, PROFILES)
    return profile if does else None


@cache
def on_disk(shape: Shape, profile: VolumeIO) -> Shape:
    """Cached, so that tasks that ask for the same share one shape object."""
    return replace(shape, disks=DiskRequest((profile,)))


@cache
def _disks(machine_type: str) -> tuple[Disk, ...]:
    model = FLASH if machine_type in _FLASH_DISKS else SOLID_STATE
    number = _FLASH_DISKS.get(machine_type, 1)
    return tuple(Disk(f"disk-{index}", _CAPACITY[model], model) for index in range(number))
