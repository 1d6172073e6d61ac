"""One report of a node without a cluster: what `afflux diskio driver --once` prints."""

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from afflux.diskio.block_devices import BlockDevices
from afflux.diskio.counter_source import CounterSource
from afflux.diskio.counters import DeviceNumber
from afflux.diskio.device_profile import DeviceProfile
from afflux.diskio.driver_setup import (
    DiskOptions,
    PreparedDisks,
    managed_disk,
    prepare_disks,
    prepare_normalisers,
    read_profiles,
)
from afflux.diskio.mix_error import mix_error
from afflux.diskio.node_driver import DriverDisk, DriverSettings, NodeDriver
from afflux.diskio.pod_requests import reserved_pod
from afflux.kube import objects
from afflux.kube.object_files import LoadedObjects
from afflux.model.disks import Bandwidth, Normalise, VolumeIO
from afflux.model.errors import InputError

VERSION = 1
# So much that rounding does not show in a factor.
_PROBE_BYTES_PER_SECOND = 10**9

Pause = Callable[[float], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class DriverParts:
    """What a driver is made of on this machine."""

    settings: DriverSettings
    disks: DiskOptions
    devices: BlockDevices
    source: CounterSource


async def single_report(
    parts: DriverParts, loaded: LoadedObjects, pause: Pause
) -> dict[str, object]:
    """What is left of each disk, and why.

    Counters are read twice, a window apart, if the options name disks of this machine. With
    profiles alone their disks are as the profiles name them, and nothing is measured. The reserved
    pods are those of the node's NodeDiskIOInfo object if it is among the loaded objects, else all
    loaded pods of the node.
    """
    settings, options, source = parts.settings, parts.disks, parts.source
    is_here = bool(options.directories or options.devices)
    prepared = await prepare_disks(parts.devices, options) if is_here else _from_profiles(options)
    driver = NodeDriver(settings, prepared.disks, prepared.normalise, reserved_pod)
    pods = [
        each.value
        for each in loaded.of(objects.Pod).values()
        if each.value.spec.node_name == settings.node
    ]
    driver.set_pods(pods, frozenset())
    driver.set_info(_info(settings.node, loaded, pods))
    if is_here:
        driver.sample(time.monotonic(), source.read(driver.cgroup_uids()))
        await pause(settings.window_seconds)
        driver.sample(time.monotonic(), source.read(driver.cgroup_uids()))
    driver.acknowledge(0.0)
    # A reserved pod that is not among the objects is not waited for.
    driver.acknowledge(settings.unknown_seconds)
    return _answer(settings.node, driver, prepared)


def _info(node: str, loaded: LoadedObjects, pods: list[objects.Pod]) -> objects.NodeDiskIOInfo:
    for each in loaded.of(objects.NodeDiskIOInfo).values():
        if (each.value.spec.node_name or each.value.metadata.name) == node:
            return each.value
    listed = tuple(pod.metadata.uid for pod in pods if pod.metadata.uid)
    return objects.NodeDiskIOInfo(
        metadata=objects.Metadata(name=node, generation=0),
        spec=objects.NodeDiskIOInfoSpec(node_name=node, reserved_pods=listed),
    )


def _from_profiles(options: DiskOptions) -> PreparedDisks:
    """The disks that the profiles name; a profile of a model is one disk with its name."""
    profiles: dict[str, DeviceProfile] = {}
    for profile in read_profiles(options.profiles):
        for device_id in profile.devices or (profile.model.replace("/", "_"),):
            profiles.setdefault(device_id, profile)
    if not profiles:
        raise InputError("no disks; expected --profile, --directory or --device")
    contents, normalise = prepare_normalisers(list(profiles.values()), options)
    disks = tuple(
        # Not disks of this machine: no counters have these numbers.
        DriverDisk(managed_disk(device_id, "", profile, options), DeviceNumber(0, number))
        for number, (device_id, profile) in enumerate(profiles.items())
    )
    return PreparedDisks(disks, profiles, contents, normalise)


def _answer(node: str, driver: NodeDriver, prepared: PreparedDisks) -> dict[str, object]:
    remaining = driver.remaining()
    measured = driver.measured()
    return {
        "version": VERSION,
        "node": node,
        "observedGeneration": driver.generation or 0,
        "devices": {
            each.disk.id: {
                "name": each.disk.path,
                "model": each.disk.model,
                "capacity": _figures(each.disk.capacity),
                "left": _figures(remaining.left[each.disk.id]),
                "mixError": mix_errors(
                    each.disk.model, prepared.profiles[each.disk.id], prepared.normalise
                ),
            }
            for each in prepared.disks
        },
        "pods": [
            {
                "uid": charge.pod,
                "device": charge.disk,
                "requested": _figures(charge.requested),
                "measured": _figures(charge.measured),
                "charged": _figures(charge.charged),
            }
            for charge in remaining.charges
        ],
        "unmeasuredPods": sorted(uid for uid, found in measured.items() if not found.is_complete),
    }


def mix_errors(
    model: str, profile: DeviceProfile, normalise: Normalise
) -> Mapping[str, Mapping[str, float]]:
    """By direction: the true cost of a mix relative to that of its mean block size."""

    def factor_of(direction: str) -> Callable[[int], float]:
        def factor(block_bytes: int) -> float:
            amount = _PROBE_BYTES_PER_SECOND
            reads, writes = (amount, 0) if direction == "read" else (0, amount)
            taken = normalise(model, VolumeIO(reads, writes, block_bytes))
            return taken.total / amount if taken is not None else 1.0

        return factor

    found: dict[str, Mapping[str, float]] = {}
    for direction, table in (("read", profile.read), ("write", profile.write)):
        error = mix_error(factor_of(direction), list(table))
        found[direction] = {"atLeast": round(error.at_least, 3), "atMost": round(error.at_most, 3)}
    return found


def _figures(bandwidth: Bandwidth) -> dict[str, int]:
    return {"read": bandwidth.read, "write": bandwidth.write, "total": bandwidth.total}
