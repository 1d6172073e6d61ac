"""A NodeDiskIOInfo object to the disks of a node.

A figure that makes no sense (negative, not a number, missing) never becomes room: that disk has
nothing left, and the problem is named. Without the models of the disks nothing is known about what
a request takes of them, so that an annotation that cannot be read refuses the whole report.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import msgspec

from afflux.kube import objects
from afflux.kube.input_errors import shown
from afflux.model.disks import Bandwidth, Disk

# Written by the driver: the vendor and model of each disk, and what pods do on them.
DISK_MODELS = "afflux.dev/disk-models"
DISK_MEASUREMENTS = "afflux.dev/disk-measurements"

UNREADABLE_MODELS = "node(s) had disks whose models cannot be read"

# Machines with dozens of disks exist. Disks beyond this number get no pods.
MAX_DISKS = 64
# Longer than every model that a normaliser can be for. Ids are at most as long.
MAX_NAME_CHARACTERS = 253
MAX_MEASUREMENT_CHARACTERS = 262_144
# A thousand disks of this bandwidth still add up within 64 bits.
_MAX_BYTES_PER_SECOND = 2**53
_NOTHING = Bandwidth(0, 0, 0)

_models = msgspec.json.Decoder(dict[str, str])


class Measured(msgspec.Struct, frozen=True):
    """What a pod does on a disk, in bytes per second."""

    read: float = 0.0
    write: float = 0.0


Measurements = Mapping[str, Mapping[str, Measured]]
"""By the uid of the pod and the id of the disk."""

_measurements = msgspec.json.Decoder(dict[str, dict[str, Measured]])


@dataclass(frozen=True, slots=True)
class ReportedDisks:
    """The disks in the order of their ids; the reason for which they take no pod that states what
    it does, if there is one; and what is wrong with the figures."""

    disks: tuple[Disk, ...]
    refused: str = ""
    problems: tuple[str, ...] = ()


def node_name(info: objects.NodeDiskIOInfo) -> str:
    """The node whose disks these are."""
    return info.spec.node_name or info.metadata.name or ""


def reported_disks(info: objects.NodeDiskIOInfo) -> ReportedDisks | None:
    """The disks by the object's status; None if the driver has not reported any."""
    found = info.status.allocatable_bandwidth if info.status is not None else None
    if not found:
        return None
    problems: list[str] = []
    models = _read_models(info, problems)
    ids = sorted(each for each in found if len(each) <= MAX_NAME_CHARACTERS)
    if len(ids) < len(found):
        problems.append(
            f"status.allocatableBandwidth: {len(found) - len(ids)} ids of disks, expected at most"
            f" {MAX_NAME_CHARACTERS} characters each; these disks are not used"
        )
    if len(ids) > MAX_DISKS:
        problems.append(
            f"status.allocatableBandwidth: {len(ids)} disks, expected at most {MAX_DISKS}; the"
            f" others are not used"
        )
    disks = tuple(
        Disk(
            each,
            _left(found[each], each, problems),
            # Cut, it still has no normaliser, and takes no memory wherever it is remembered.
            (models or {}).get(each, "")[:MAX_NAME_CHARACTERS],
        )
        for each in ids[:MAX_DISKS]
    )
    return ReportedDisks(disks, UNREADABLE_MODELS if models is None else "", tuple(problems))


def scaled(disk: Disk, factor: float) -> Disk:
    """The disk with this share of what it has left."""
    left = disk.left
    return replace(
        disk,
        left=Bandwidth(int(left.read * factor), int(left.write * factor), int(left.total * factor)),
    )


def measurements(info: objects.NodeDiskIOInfo) -> Measurements:
    """What the driver has measured; nothing if it cannot be read."""
    text = (info.metadata.annotations or {}).get(DISK_MEASUREMENTS)
    if text is None or len(text) > MAX_MEASUREMENT_CHARACTERS:
        return {}
    try:
        return _measurements.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return {}


def _read_models(info: objects.NodeDiskIOInfo, problems: list[str]) -> dict[str, str] | None:
    text = (info.metadata.annotations or {}).get(DISK_MODELS)
    if text is None:
        return {}
    try:
        return _models.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        problems.append(
            f"annotation {DISK_MODELS}: {shown(text)}, expected JSON such as"
            ' {"DEVICE": "vendor/model"}'
        )
        return None


def _left(stated: objects.DeviceBandwidth, disk: str, problems: list[str]) -> Bandwidth:
    # The KEP's sample has the figures beside the name, its types have them in `status`.
    figures: objects.BlockIO = stated if stated.status is None else stated.status
    left: list[int] = []
    for name in ("read", "write", "total"):
        value = getattr(figures, name)
        if not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
            problems.append(
                f"status.allocatableBandwidth[{disk}].{name}: "
                f"{'missing' if value is None else shown(value)}, expected bytes per second, 0 or"
                " more; the disk counts as full"
            )
            return _NOTHING
        left.append(min(int(value), _MAX_BYTES_PER_SECOND))
    return Bandwidth(*left)
