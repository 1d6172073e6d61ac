"""The driver of one node, without network and clock: objects and counters in, reports out.

It holds the pods of the node and its NodeDiskIOInfo object as the API server knows them, the
samples of counters, and the answer to the newest list of reserved pods that can be given. What a
reserved pod requests is remembered after the pod has gone, until it leaves the list: the scheduler
gives back exactly what was charged.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from afflux.diskio.acknowledgement import DEFAULT_UNKNOWN_SECONDS, Acknowledgement
from afflux.diskio.counter_source import Counters
from afflux.diskio.counters import DeviceNumber
from afflux.diskio.node_reports import NodeReport, device_status, encode_measurements
from afflux.diskio.remaining_bandwidth import (
    BandwidthModel,
    ManagedDisk,
    Measured,
    PodCharge,
    Remaining,
    ReservedPod,
)
from afflux.diskio.sampling import IORate, RateSampler
from afflux.kube import objects
from afflux.kube.disks.disk_devices import RESERVED_DISKS
from afflux.model.disks import DiskRequest, Normalise

# The kubelet names the cgroup of a static pod by this annotation, not by the uid of its mirror pod.
STATIC_POD_HASH = "kubernetes.io/config.hash"
# An excess is reported at once when it has grown by this share of the disk's capacity.
_EXCESS_STEP = 0.01

ReadPod = Callable[[objects.Pod, objects.NodeDiskIOInfo | None], ReservedPod]


@dataclass(frozen=True, slots=True)
class DriverDisk:
    """A disk of the node: what is reported of it, and its number in counters."""

    disk: ManagedDisk
    number: DeviceNumber


@dataclass(frozen=True, slots=True)
class DriverSettings:
    """`counts_other_io`: what a disk does besides the pods is deducted too."""

    node: str
    window_seconds: float = 10.0
    unknown_seconds: float = DEFAULT_UNKNOWN_SECONDS
    default_request: DiskRequest | None = None
    counts_other_io: bool = False


class NodeDriver:
    def __init__(
        self,
        settings: DriverSettings,
        disks: Sequence[DriverDisk],
        normalise: Normalise,
        read_pod: ReadPod,
    ) -> None:
        self._settings = settings
        self._disks = [each.disk for each in disks]
        self.disk_ids = {each.number: each.disk.id for each in disks}
        self._read_pod = read_pod
        self._model = BandwidthModel(self._disks, normalise, settings.default_request)
        self._acknowledgement = Acknowledgement(settings.unknown_seconds)
        self._pods: dict[str, objects.Pod] = {}
        self._requests: dict[str, ReservedPod] = {}
        self._pod_rates = RateSampler[str](settings.window_seconds)
        self._disk_rates = RateSampler[str](settings.window_seconds)
        # What each pod was charged on each disk by the last report.
        self._reported: dict[tuple[str, str], PodCharge] = {}
        self._last_sequence = 0
        self._info: objects.NodeDiskIOInfo | None = None

    # --- Objects

    @property
    def info(self) -> objects.NodeDiskIOInfo | None:
        """The object of the node, as it was seen last."""
        return self._info

    def set_info(self, info: objects.NodeDiskIOInfo | None) -> bool:
        """The object was changed or deleted; returns whether its list of reserved pods, or what
        the scheduler has noted with it, is another one. The driver's own writes change neither."""
        before, self._info = self._info, info
        return _of_scheduler(before) != _of_scheduler(info)

    def set_pods(self, pods: Sequence[objects.Pod], unreadable: frozenset[str]) -> None:
        """All pods of the node; the last state of the unreadable ones, by uid, stays valid."""
        found = {pod.metadata.uid or "": pod for pod in pods}
        self._pods = {uid: self._pods[uid] for uid in self._pods if uid in unreadable} | found

    def set_pod(self, pod: objects.Pod) -> bool:
        """A pod was added or changed; returns whether it was reserved and not known before."""
        uid = pod.metadata.uid or ""
        is_new = uid not in self._pods
        self._pods[uid] = pod
        reserved = (self._info.spec.reserved_pods or ()) if self._info is not None else ()
        return is_new and uid in reserved

    def remove_pod(self, pod: objects.Pod) -> None:
        """A pod was deleted. What it requested is remembered while it is reserved."""
        uid = pod.metadata.uid or ""
        self._remember([uid])
        self._pods.pop(uid, None)

    def cgroup_uids(self) -> dict[str, str]:
        """By the uid of each pod the name by which the kubelet knows its cgroup."""
        return {
            uid: (pod.metadata.annotations or {}).get(STATIC_POD_HASH, uid)
            for uid, pod in self._pods.items()
        }

    # --- Counters

    def sample(self, now: float, counters: Counters) -> None:
        """Takes one reading of all counters."""
        self._pod_rates.sample(now, counters.pods)
        self._disk_rates.sample(now, {self._settings.node: counters.disks})

    def measured(self) -> dict[str, Measured]:
        """What the pods of the node do."""
        return {
            uid: Measured(
                {
                    self.disk_ids[number]: rate
                    for number, rate in self._pod_rates.rates(uid).items()
                    if number in self.disk_ids
                },
                self._pod_rates.is_measured(uid),
            )
            for uid in self._pods
        }

    def other_io(self) -> dict[str, IORate]:
        """What each disk does besides the pods: the system, and buffered writes that cgroups of
        version 1 charge to nothing else."""
        pods = [self._pod_rates.rates(uid) for uid in self._pods]
        found: dict[str, IORate] = {}
        for number, rate in self._disk_rates.rates(self._settings.node).items():
            if number in self.disk_ids:
                of_pods = [rates[number] for rates in pods if number in rates]
                found[self.disk_ids[number]] = IORate(
                    max(0, rate.read - sum(each.read for each in of_pods)),
                    max(0, rate.write - sum(each.write for each in of_pods)),
                    rate.read_block_bytes,
                    rate.write_block_bytes,
                    rate.seconds,
                )
        return found

    # --- Reports

    def acknowledge(self, now: float) -> bool:
        """Looks at the newest list of reserved pods; returns whether another one is answered."""
        info = self._info
        if info is None:
            return False
        reserved = info.spec.reserved_pods or ()
        self._remember(reserved)
        changed = self._acknowledgement.observe(
            info.metadata.uid or "", info.metadata.generation or 0, reserved, self._requests, now
        )
        kept = {*reserved, *self._acknowledgement.pods}
        for uid in self._requests.keys() - kept:
            del self._requests[uid]
        return changed

    @property
    def generation(self) -> int | None:
        """The generation that reports answer; None before the first one."""
        return self._acknowledgement.generation

    def awaited(self, now: float) -> list[str]:
        """The reserved pods whose binding the answer to the newest list waits for."""
        return self._acknowledgement.awaited(now)

    def given_up(self, now: float) -> list[str]:
        """The reserved pods that do not exist here."""
        return self._acknowledgement.given_up(now)

    def remaining(self) -> Remaining:
        """What the pods of the list that is answered leave."""
        default = self._settings.default_request
        pods = [
            self._requests.get(uid, ReservedPod(uid, default)) for uid in self._acknowledgement.pods
        ]
        others = self.other_io() if self._settings.counts_other_io else None
        return self._model.remaining(pods, self.measured(), others)

    def excesses(self, remaining: Remaining) -> list[PodCharge]:
        """The pods that do more than they request, and more than the last report has charged."""
        capacity = {disk.id: disk.capacity.total for disk in self._disks}
        found: list[PodCharge] = []
        for charge in remaining.charges:
            before = self._reported.get((charge.pod, charge.disk))
            charged = before.charged.total if before is not None else charge.requested.total
            step = capacity[charge.disk] * _EXCESS_STEP
            if charge.is_excess and charge.charged.total > charged + step:
                found.append(charge)
        return found

    def report(self, remaining: Remaining, sequence: int) -> NodeReport | None:
        """The report to write; None while there is no object to write it to. A larger `sequence`
        is a later report; it is raised if the clock went back."""
        info = self._info
        if info is None:
            return None
        self._reported = {(each.pod, each.disk): each for each in remaining.charges}
        self._last_sequence = max(sequence, self._last_sequence + 1)
        return NodeReport(
            self._settings.node,
            info.metadata.uid or "",
            self._last_sequence,
            self.generation or 0,
            {disk.id: device_status(disk.path, remaining.left[disk.id]) for disk in self._disks},
            {disk.id: disk.model for disk in self._disks if disk.model},
            encode_measurements(remaining),
            is_unacknowledged=self.generation is None,
        )

    def _remember(self, uids: Sequence[str]) -> None:
        for uid in uids:
            pod = self._pods.get(uid)
            if pod is not None:
                self._requests[uid] = self._read_pod(pod, self._info)


def _of_scheduler(info: objects.NodeDiskIOInfo | None) -> tuple[object, ...]:
    if info is None:
        return ()
    metadata = info.metadata
    noted = (metadata.annotations or {}).get(RESERVED_DISKS)
    return metadata.uid, metadata.generation, info.spec.reserved_pods, noted
