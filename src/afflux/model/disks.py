"""Disk bandwidth: what tasks do on disks, and what each disk has left.

A disk has no fixed bandwidth: small blocks cost it more than large ones, and writing more than
reading. So what a task does on a volume is *normalised* for the model of a disk: converted into the
bandwidth that it takes of what the disk reports as left. Disks are tracked one by one, as bandwidth
of different disks never adds up.
"""

from collections.abc import Callable
from dataclasses import dataclass

# Where a task does not say in which blocks it reads and writes.
DEFAULT_BLOCK_BYTES = 32 * 1024


@dataclass(frozen=True, slots=True)
class Bandwidth:
    """Normalised bytes per second, of a disk or taken from it."""

    read: int
    write: int
    total: int


@dataclass(frozen=True, slots=True)
class VolumeIO:
    """What a task does on one volume: bytes per second, in blocks of `block_bytes`."""

    read: int
    write: int
    block_bytes: int = DEFAULT_BLOCK_BYTES


@dataclass(frozen=True, slots=True)
class DiskRequest:
    """What a task does on disks: each of the volumes is on one disk, several may share one.

    A task that states it runs only on a machine whose disks are known. A charge that is not stated
    is a default for tasks that say nothing: it counts only where disks are known.
    """

    volumes: tuple[VolumeIO, ...]
    is_stated: bool = True


@dataclass(frozen=True, slots=True)
class Disk:
    """A disk of a machine. `model` is vendor/model, empty if that is not known; `left` is what the
    tasks that its report acknowledges leave of it."""

    id: str
    left: Bandwidth
    model: str = ""


@dataclass(frozen=True, slots=True)
class DiskReport:
    """The disks of a machine, as its IO driver reports them.

    What the `acknowledged` tasks take, by id, is not in `left` any more; what all other tasks take
    still is. With `refused` the disks take no task that states what it does on them, for that
    reason.
    """

    machine: str
    disks: tuple[Disk, ...]
    acknowledged: frozenset[str] = frozenset()
    refused: str = ""


Normalise = Callable[[str, VolumeIO], Bandwidth | None]
"""What this takes of a disk of this model; None if it cannot be known, so that it fits nowhere."""


def as_stated(model: str, volume: VolumeIO) -> Bandwidth | None:
    """Without a normaliser: on a disk of unknown model a task takes what it states."""
    if model:
        return None
    return Bandwidth(volume.read, volume.write, volume.read + volume.write)
