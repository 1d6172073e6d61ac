"""What is left of each disk: its capacity, minus what the reserved pods take.

A pod takes of a disk the larger of what it requests and what it was measured to do, each normalised
for the model of the disk by the same function. The result is never below 0. A pod that states no
request takes a default charge until it is measured. Pure: pods, rates and profiles are arguments.

A volume is on the disk that the scheduler wrote into the pod's annotation; else, of a pod that is
measured, on the disk it uses most; else on the one that the scheduler's rule gives: the fullest on
which the volume fits, for a default charge the one with most left.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from afflux.diskio.sampling import IORate
from afflux.model.disks import Bandwidth, DiskRequest, Normalise, VolumeIO

NO_BANDWIDTH = Bandwidth(0, 0, 0)


@dataclass(frozen=True, slots=True)
class ManagedDisk:
    """A disk that the driver reports. `model` is empty if nothing normalises for it."""

    id: str
    path: str
    model: str
    capacity: Bandwidth


@dataclass(frozen=True, slots=True)
class ReservedPod:
    """A pod in reservedPods. `volumes` are the names of the volumes of its request, in order;
    `disks` says by volume where the scheduler has put it."""

    uid: str
    request: DiskRequest | None
    volumes: tuple[str, ...] = ()
    disks: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Measured:
    """What a pod does, by the id of the disk. `is_complete`: over a whole window, so that nothing
    means idle."""

    rates: Mapping[str, IORate] = field(default_factory=dict[str, IORate])
    is_complete: bool = False


@dataclass(frozen=True, slots=True)
class PodCharge:
    """What a pod takes of one disk: requested, measured, and charged, the larger of both."""

    pod: str
    disk: str
    requested: Bandwidth
    measured: Bandwidth

    @property
    def charged(self) -> Bandwidth:
        """The larger one of each figure."""
        return _larger(self.requested, self.measured)

    @property
    def is_excess(self) -> bool:
        """Whether the pod does more than it requests."""
        return self.charged != self.requested


@dataclass(frozen=True, slots=True)
class Remaining:
    """What is left of each disk by id, and why."""

    left: Mapping[str, Bandwidth]
    charges: tuple[PodCharge, ...]


class BandwidthModel:
    """Computes what is left. Remembers on which disk it has put a volume, so that a report does not
    move it while nothing new is known."""

    def __init__(
        self,
        disks: Sequence[ManagedDisk],
        normalise: Normalise,
        default_request: DiskRequest | None,
    ) -> None:
        self._disks = {disk.id: disk for disk in disks}
        self._normalise = normalise
        self._default_request = default_request
        # By pod and volume; only those that no annotation and no measurement places.
        self._chosen: dict[tuple[str, int], str] = {}

    def remaining(
        self,
        pods: Sequence[ReservedPod],
        measured: Mapping[str, Measured],
        others: Mapping[str, IORate] | None = None,
    ) -> Remaining:
        """What these pods leave. `others`: rates by disk that are to be deducted besides."""
        left = {
            disk.id: _minus(disk.capacity, self._of_rate(disk, (others or {}).get(disk.id)))
            for disk in self._disks.values()
        }
        self._forget({pod.uid for pod in pods})
        charges: list[PodCharge] = []
        for pod in pods:
            found = measured.get(pod.uid, Measured())
            for charge in self._charges(pod, found, left):
                charges.append(charge)
                left[charge.disk] = _minus(left[charge.disk], charge.charged)
        return Remaining(left, tuple(charges))

    # --- One pod

    def _charges(
        self, pod: ReservedPod, measured: Measured, left: Mapping[str, Bandwidth]
    ) -> list[PodCharge]:
        does = {
            disk.id: self._of_rate(disk, measured.rates.get(disk.id))
            for disk in self._disks.values()
        }
        requested = dict.fromkeys(self._disks, NO_BANDWIDTH)
        request = pod.request
        if request is None and not measured.is_complete:
            request = self._default_request
        # Of several volumes, each one sees what those before it have taken.
        room = dict(left)
        for number, volume in enumerate(request.volumes if request else ()):
            disk = self._disk_of(pod, number, volume, does, room)
            if disk is not None:
                takes = self._of_volume(disk, volume)
                requested[disk.id] = _plus(requested[disk.id], takes)
                room[disk.id] = _minus(room[disk.id], takes)
        return [
            PodCharge(pod.uid, disk, requested[disk], does[disk])
            for disk in self._disks
            if requested[disk] != NO_BANDWIDTH or does[disk] != NO_BANDWIDTH
        ]

    def _disk_of(
        self,
        pod: ReservedPod,
        number: int,
        volume: VolumeIO,
        does: Mapping[str, Bandwidth],
        room: Mapping[str, Bandwidth],
    ) -> ManagedDisk | None:
        if not self._disks:
            return None
        name = pod.volumes[number] if number < len(pod.volumes) else ""
        stated = self._disks.get(pod.disks.get(name, ""))
        if stated is not None:
            return stated
        key = (pod.uid, number)
        busiest = max(does, key=lambda disk: does[disk].total)
        if does[busiest].total > 0:
            self._chosen[key] = busiest
        elif key not in self._chosen:
            self._chosen[key] = self._by_rule(volume, is_stated=pod.request is not None, room=room)
        return self._disks[self._chosen[key]]

    def _by_rule(self, volume: VolumeIO, *, is_stated: bool, room: Mapping[str, Bandwidth]) -> str:
        """The scheduler's rule; where the volume fits nowhere, the disk with most left."""
        if is_stated:
            fitting = [
                disk.id
                for disk in self._disks.values()
                if _fits(self._of_volume(disk, volume), room[disk.id])
            ]
            if fitting:
                return min(fitting, key=lambda disk: room[disk].total)
        return max(self._disks, key=lambda disk: room[disk].total)

    def _forget(self, existing: set[str]) -> None:
        for key in [key for key in self._chosen if key[0] not in existing]:
            del self._chosen[key]

    # --- Normalised

    def _of_volume(self, disk: ManagedDisk, volume: VolumeIO) -> Bandwidth:
        """What a volume takes; all of a disk for which that cannot be known."""
        return self._normalise(disk.model, volume) or disk.capacity

    def _of_rate(self, disk: ManagedDisk, rate: IORate | None) -> Bandwidth:
        """What a rate takes: reads and writes apart, as they have block sizes of their own."""
        if rate is None:
            return NO_BANDWIDTH
        taken = NO_BANDWIDTH
        for stream in (rate.as_reads(), rate.as_writes()):
            if stream.read or stream.write:
                taken = _plus(taken, self._of_volume(disk, stream))
        return taken


def _fits(takes: Bandwidth, room: Bandwidth) -> bool:
    return takes.read <= room.read and takes.write <= room.write and takes.total <= room.total


def _plus(one: Bandwidth, other: Bandwidth) -> Bandwidth:
    return Bandwidth(one.read + other.read, one.write + other.write, one.total + other.total)


def _minus(one: Bandwidth, other: Bandwidth) -> Bandwidth:
    return Bandwidth(
        max(0, one.read - other.read),
        max(0, one.write - other.write),
        max(0, one.total - other.total),
    )


def _larger(one: Bandwidth, other: Bandwidth) -> Bandwidth:
    return Bandwidth(
        max(one.read, other.read), max(one.write, other.write), max(one.total, other.total)
    )
