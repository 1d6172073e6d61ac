"""The cgroup of a pod, and its IO counters, by the layouts that the kubelet makes.

The kubelet puts a pod into `kubepods[/QOS]/podUID` with the cgroupfs driver, or into
`kubepods.slice/[kubepods-QOS.slice/]kubepods[-QOS]-podUID.slice` with the systemd driver, where
dashes of the uid become underscores; a guaranteed pod is in neither of the QOS directories. With
`--cgroup-root` the names have a prefix. Version 2 has one tree, version 1 one for each controller,
of which `blkio` has the counters; a hybrid machine counts as version 1, if blkio is mounted there.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from afflux.diskio.counters import NO_IO, DeviceNumber, IOCounters, parse_blkio, parse_io_stat
from afflux.model.errors import InputError

Version = Literal["v1", "v2"]

_QOS = ("burstable", "besteffort")
_BYTES = "blkio.throttle.io_service_bytes"
_IOS = "blkio.throttle.io_serviced"


@dataclass(frozen=True, slots=True)
class CgroupTree:
    """Where the counters are: the root of the tree that has them, and its version."""

    root: Path
    version: Version


def find_tree(cgroup_root: Path) -> CgroupTree:
    """Looks at what is mounted: an InputError if there is nothing that counts IO."""
    controllers = cgroup_root / "cgroup.controllers"
    if controllers.exists():
        if "io" in controllers.read_text().split():
            return CgroupTree(cgroup_root, "v2")
        raise InputError(
            f"{controllers}: does not list io; expected a kernel with the io controller, or cgroup"
            " version 1 with blkio"
        )
    if (cgroup_root / "blkio" / _BYTES).exists():
        return CgroupTree(cgroup_root / "blkio", "v1")
    raise InputError(
        f"{cgroup_root}: neither cgroup version 2 (cgroup.controllers) nor version 1 with blkio"
        f" (blkio/{_BYTES}); expected the mount of the host, such as /sys/fs/cgroup"
    )


def pod_directory(tree: CgroupTree, cgroup_uid: str, prefix: str = "") -> Path | None:
    """The directory of a pod; None while it has none. `prefix` is the kubelet's --cgroup-root."""
    if not cgroup_uid or "/" in cgroup_uid or cgroup_uid.startswith("."):
        return None
    for candidate in _candidates(cgroup_uid, prefix):
        directory = tree.root / candidate
        # False too if it may not be looked at.
        if os.path.isdir(directory):
            return directory
    return None


def _candidates(uid: str, prefix: str) -> Iterator[str]:
    parts = [part for part in prefix.split("/") if part]
    # cgroupfs
    top = "/".join([*parts, "kubepods"])
    yield f"{top}/pod{uid}"
    for qos in _QOS:
        yield f"{top}/{qos}/pod{uid}"
    # systemd: the name of a slice repeats those of all slices above it.
    slices: list[str] = []
    names: list[str] = []
    for part in [*parts, "kubepods"]:
        names.append(part)
        slices.append(f"{'-'.join(names)}.slice")
    top, name, escaped = "/".join(slices), "-".join(names), uid.replace("-", "_")
    yield f"{top}/{name}-pod{escaped}.slice"
    for qos in _QOS:
        yield f"{top}/{name}-{qos}.slice/{name}-{qos}-pod{escaped}.slice"


def read_counters(tree: CgroupTree, directory: Path) -> dict[DeviceNumber, IOCounters] | None:
    """The counters of a cgroup and of all below it; None if it has vanished."""
    try:
        if tree.version == "v2":
            return parse_io_stat((directory / "io.stat").read_text())
        recursive = directory / f"{_BYTES}_recursive"
        if recursive.exists():
            serviced = (directory / f"{_IOS}_recursive").read_text()
            return parse_blkio(recursive.read_text(), serviced)
        return _summed(directory)
    except OSError:
        return None


def _summed(directory: Path) -> dict[DeviceNumber, IOCounters]:
    """Old kernels count only in the cgroup itself: the containers' are below that of the pod."""
    total: dict[DeviceNumber, IOCounters] = {}
    for folder, _, files in os.walk(directory):
        if _BYTES in files and _IOS in files:
            service_bytes = Path(folder, _BYTES).read_text()
            own = parse_blkio(service_bytes, Path(folder, _IOS).read_text())
            for device, counters in own.items():
                total[device] = total.get(device, NO_IO) + counters
    return total
