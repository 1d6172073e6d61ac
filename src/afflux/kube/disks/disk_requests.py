"""What a pod does on disks: what its annotation states, or else the default charge."""

from collections.abc import Container
from dataclasses import dataclass

from afflux.kube import objects
from afflux.kube.disks.annotations import StatedDiskIO, StatedVolume, stated_disk_io
from afflux.kube.disks.counted_volumes import counts, volume_named
from afflux.kube.input_errors import shown
from afflux.kube.volumes.storage import Storage
from afflux.model.disks import DiskRequest, VolumeIO
from afflux.model.errors import InputError

MIB = 2**20
# No volume has this name.
WHOLE_POD = "*"
DEFAULT_CHARGE = DiskRequest((VolumeIO(5 * MIB, 5 * MIB),), is_stated=False)


@dataclass(frozen=True, slots=True)
class DiskCounting:
    """For which pods disk bandwidth counts.

    `schedulers` are the scheduler names whose profile has the policy disk-io, None for all pods.
    `default` is the charge of their pods without an annotation, None for no charge.
    """

    schedulers: Container[str] | None = None
    default: DiskRequest | None = DEFAULT_CHARGE

    def counts(self, scheduler: str) -> bool:
        return self.schedulers is None or scheduler in self.schedulers


def waiting_request(
    pod: objects.Pod, counting: DiskCounting, storage: Storage | None
) -> DiskRequest | None:
    """The request of a pod of a scheduler that counts; an InputError for what cannot be used."""
    stated = stated_disk_io(pod.metadata.annotations)
    return counting.default if stated is None else _request(pod, stated, storage)


def running_request(
    pod: objects.Pod, scheduler: str, counting: DiskCounting, storage: Storage | None
) -> DiskRequest | None:
    """The request of a pod on a node. Also pods of other schedulers count if they have an
    annotation; one that cannot be used counts as the default charge."""
    try:
        stated = stated_disk_io(pod.metadata.annotations)
        if stated is not None:
            return _request(pod, stated, storage)
    except InputError:
        return counting.default
    return counting.default if counting.counts(scheduler) else None


def disk_volume_names(pod: objects.Pod, storage: Storage | None) -> tuple[str, ...]:
    """The names of the volumes in the pod's disk request, in its order; empty if it states none.
    The name of what is stated for the pod as a whole is `WHOLE_POD`."""
    try:
        stated = stated_disk_io(pod.metadata.annotations)
        return (
            ()
            if stated is None
            else tuple(v.name or WHOLE_POD for v in _counted(pod, stated, storage))
        )
    except InputError:
        return ()


def _request(pod: objects.Pod, stated: StatedDiskIO, storage: Storage | None) -> DiskRequest | None:
    """None if everything that is stated is on volumes that do not count."""
    volumes = tuple(volume.io for volume in _counted(pod, stated, storage))
    return DiskRequest(volumes) if volumes else None


def _counted(pod: objects.Pod, stated: StatedDiskIO, storage: Storage | None) -> list[StatedVolume]:
    found: list[StatedVolume] = []
    for each in stated.volumes:
        if each.name is None:
            found.append(each)
            continue
        named = volume_named(pod, each.name)
        if named is None:
            raise InputError(
                f"annotation {stated.annotation}: {shown(each.name)}, expected the name of one of"
                " spec.volumes"
            )
        index, volume = named
        if counts(pod, volume, index, storage):
            found.append(each)
    return found
