"""What is known of every disk from the objects alone: what is left, reserved and measured.

For people: the account of a running scheduler knows what was decided since the last reports, too.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from afflux.kube import objects
from afflux.kube.disks.disk_devices import reserved_disks
from afflux.kube.disks.disk_reports import Measured, measurements, node_name, reported_disks
from afflux.kube.disks.disk_requests import DiskCounting, running_request
from afflux.model.disks import Disk, VolumeIO

# Written by a driver with every report.
REPORTED_AT = "afflux.dev/disk-reported-at"
_NOT_COUNTED = DiskCounting(frozenset[str](), None)
_NOTHING = VolumeIO(0, 0)
_IDLE = Measured()


@dataclass(frozen=True, slots=True)
class PodOnDisk:
    """A reserved pod: its name, empty if there is no such pod; what it states for volumes on this
    disk and what it was measured to do, in bytes per second."""

    uid: str
    name: str
    stated_read: int
    stated_write: int
    measured: Measured


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node, its disks and the pods on each; reserved pods of which no disk is known are under an
    empty id. `remarks` say what is wrong or out of date."""

    node: str
    generation: int
    observed: int
    reported_at: str
    disks: tuple[tuple[Disk, str], ...]
    pods: Mapping[str, tuple[PodOnDisk, ...]]
    remarks: tuple[str, ...]


def disk_overview(
    infos: Iterable[objects.NodeDiskIOInfo], pods: Iterable[objects.Pod]
) -> list[NodeView]:
    """The nodes by name; of several objects for one, the older first, which counts."""
    by_uid = {pod.metadata.uid or "": pod for pod in pods}
    ordered = sorted(infos, key=_order)
    views: list[NodeView] = []
    for number, info in enumerate(ordered):
        is_second = number > 0 and node_name(ordered[number - 1]) == node_name(info)
        views.append(_view(info, by_uid, is_second=is_second))
    return views


def _order(info: objects.NodeDiskIOInfo) -> tuple[str, str, str]:
    metadata = info.metadata
    name = f"{metadata.namespace}/{metadata.name}"
    return node_name(info), metadata.creation_timestamp or "", name


def _view(
    info: objects.NodeDiskIOInfo, pods: Mapping[str, objects.Pod], *, is_second: bool
) -> NodeView:
    reported = reported_disks(info)
    stated = (info.status.allocatable_bandwidth or {}) if info.status is not None else {}
    observed = (info.status.observed_generation or 0) if info.status is not None else 0
    generation = info.metadata.generation or observed
    remarks: list[str] = []
    if is_second:
        remarks.append("not used: another object of this node is older")
    if reported is None:
        remarks.append("nothing reported")
    else:
        remarks += reported.problems
        if observed < generation:
            remarks.append(f"not used: answers generation {observed}")
    found: dict[str, list[PodOnDisk]] = {}
    measured, noted = measurements(info), reserved_disks(info.metadata.annotations)
    for uid in info.spec.reserved_pods or ():
        for disk, volumes in _volumes(noted.get(uid, ()), pods.get(uid)).items():
            on_disk = measured.get(uid, {}).get(disk, _IDLE)
            pod = pods.get(uid)
            name = f"{pod.metadata.namespace}/{pod.metadata.name}" if pod is not None else ""
            read, write = (sum(amounts) for amounts in zip(*volumes, strict=True))
            found.setdefault(disk, []).append(PodOnDisk(uid, name, read, write, on_disk))
    disks = reported.disks if reported is not None else ()
    return NodeView(
        node_name(info),
        generation,
        observed,
        (info.metadata.annotations or {}).get(REPORTED_AT, ""),
        tuple((disk, stated[disk.id].name or "") for disk in disks),
        {disk: tuple(each) for disk, each in found.items()},
        tuple(remarks),
    )


def _volumes(disks: tuple[str, ...], pod: objects.Pod | None) -> dict[str, list[tuple[int, int]]]:
    """What a reserved pod states to read and to write, by disk."""
    request = None
    if pod is not None:
        # Which claims are local is not known here: the number of disks says what counts.
        request = running_request(pod, "", _NOT_COUNTED, None)
    volumes = request.volumes if request is not None else ()
    if not volumes or len(disks) != len(volumes):
        disks = disks[:1] or ("",)
        volumes = (_NOTHING,)
    by_disk: dict[str, list[tuple[int, int]]] = {}
    for disk, volume in zip(disks, volumes, strict=True):
        by_disk.setdefault(disk, []).append((volume.read, volume.write))
    return by_disk
