"""Which disk each volume of a pod was given, as annotations.

A bound pod has `afflux.dev/disk-devices`: the id of the disk by the name of the volume, "*" for the
pod as a whole. The scheduler writes it with the binding. The NodeDiskIOInfo object has
`afflux.dev/reserved-disks`: the ids of the disks, in the order of the pod's volumes, by the uid of
the reserved pod. It is written together with reservedPods, so that the driver knows the disk of a
pod that is not bound yet.
"""

from collections.abc import Mapping, Sequence

import msgspec

DISK_DEVICES = "afflux.dev/disk-devices"
RESERVED_DISKS = "afflux.dev/reserved-disks"

_devices = msgspec.json.Decoder(dict[str, str])
_reserved = msgspec.json.Decoder(dict[str, tuple[str, ...]])


def devices_annotation(volumes: Sequence[str], disks: Sequence[str]) -> dict[str, str]:
    """The annotation of a pod whose volumes were given these disks; none if they are not known."""
    if not disks or len(disks) != len(volumes):
        return {}
    given = dict(zip(volumes, disks, strict=True))
    return {DISK_DEVICES: msgspec.json.encode(given, order="sorted").decode()}


def given_disks(annotations: Mapping[str, str] | None, volumes: Sequence[str]) -> tuple[str, ...]:
    """The disks of these volumes by a pod's annotation; empty if it does not name all of them."""
    text = (annotations or {}).get(DISK_DEVICES)
    if text is None or not volumes:
        return ()
    try:
        given = _devices.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return ()
    found = tuple(given.get(name, "") for name in volumes)
    return found if all(found) else ()


def reserved_annotation(disks: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """The annotation of a NodeDiskIOInfo whose reserved pods were given these disks, by uid."""
    return {RESERVED_DISKS: msgspec.json.encode(disks, order="sorted").decode()}


def reserved_disks(annotations: Mapping[str, str] | None) -> dict[str, tuple[str, ...]]:
    """The disks of reserved pods by uid; empty if the annotation cannot be read."""
    text = (annotations or {}).get(RESERVED_DISKS)
    try:
        return {} if text is None else _reserved.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return {}
