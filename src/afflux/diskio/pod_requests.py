"""What a pod of this node requests of its disks, as the driver counts it.

The scheduler knows which claims are on local volumes; the driver does not read claims. So it counts
a volume by claim if the scheduler has given it a disk, which the pod or the NodeDiskIOInfo object
says. An annotation that cannot be read counts as none, as it does for the scheduler.
"""

from afflux.diskio.remaining_bandwidth import ReservedPod
from afflux.kube import objects
from afflux.kube.disks.annotations import StatedVolume, stated_disk_io
from afflux.kube.disks.counted_volumes import counts, volume_named
from afflux.kube.disks.disk_devices import given_disks, reserved_disks
from afflux.kube.disks.disk_requests import WHOLE_POD
from afflux.model.disks import DiskRequest
from afflux.model.errors import InputError


def reserved_pod(pod: objects.Pod, info: objects.NodeDiskIOInfo | None) -> ReservedPod:
    """The pod's request, and the disks that it was given."""
    uid = pod.metadata.uid or ""
    annotations = pod.metadata.annotations
    try:
        stated = stated_disk_io(annotations)
    except InputError:
        stated = None
    if stated is None:
        return ReservedPod(uid, None)
    given: dict[str, str] = {}
    for volume in stated.volumes:
        if found := given_disks(annotations, (_name(volume),)):
            given[_name(volume)] = found[0]
    noted: tuple[str, ...] = ()
    if info is not None and not given:
        noted = reserved_disks(info.metadata.annotations).get(uid, ())
    counted = [
        volume
        for volume in stated.volumes
        # As many disks as volumes: the scheduler counts each of them.
        if len(noted) == len(stated.volumes) or _name(volume) in given or _counts(pod, volume)
    ]
    if len(noted) == len(counted):
        given |= {_name(volume): disk for volume, disk in zip(counted, noted, strict=True)}
    return ReservedPod(
        uid,
        # Without a volume that counts, the pod requests nothing here.
        DiskRequest(tuple(volume.io for volume in counted)),
        tuple(map(_name, counted)),
        given,
    )


def _name(volume: StatedVolume) -> str:
    return volume.name or WHOLE_POD


def _counts(pod: objects.Pod, volume: StatedVolume) -> bool:
    if volume.name is None:
        return True
    found = volume_named(pod, volume.name)
    return found is not None and counts(pod, found[1], found[0], None)
