"""What the driver needs before it runs: the disks of the node, their profiles, their normalisers.

The disks are those that hold the given directories, and given devices. The profile of a disk is a
given one, else the one that was measured before and is kept in the directory, else it is measured
now, on a file in the directory. A device without a directory needs a given profile: the driver
never writes to a raw device (`measure_once` does, for `afflux diskio profile --raw-device`).
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from afflux.atomic_write import atomic_write
from afflux.bounded_read import read_file
from afflux.diskio.block_devices import BlockDevice, BlockDevices
from afflux.diskio.device_profile import (
    DeviceProfile,
    check_model,
    decode_profile,
    encode_profile,
    find_profile,
)
from afflux.diskio.fio_benchmark import BenchmarkOptions, measure_profile
from afflux.diskio.local_normalisers import contents_by_model, local_normalise
from afflux.diskio.node_driver import DriverDisk
from afflux.diskio.remaining_bandwidth import ManagedDisk
from afflux.model.disks import Normalise
from afflux.model.errors import InputError

KEPT_PROFILE = ".afflux-disk-profile.json"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DiskOptions:
    """Which disks, and how their profiles are had.

    `models` names the models of disks by id, where the kernel does not. With `as_stated` no model
    is reported, so that requests count as they are stated.
    """

    directories: Sequence[str] = ()
    devices: Sequence[str] = ()
    profiles: Sequence[str] = ()
    normalisers: Mapping[str, str] = field(default_factory=dict[str, str])
    models: Mapping[str, str] = field(default_factory=dict[str, str])
    file_bytes: int = 1 << 30
    step_seconds: int = 5
    measure_again: bool = False
    as_stated: bool = False


@dataclass(frozen=True, slots=True)
class PreparedDisks:
    """The disks with their profiles, and what normalises for them."""

    disks: tuple[DriverDisk, ...]
    profiles: Mapping[str, DeviceProfile]
    contents: Mapping[str, bytes]
    normalise: Normalise


async def prepare_disks(devices: BlockDevices, options: DiskOptions) -> PreparedDisks:
    """Finds the disks and their profiles; an InputError names what is missing."""
    given = read_profiles(options.profiles)
    found: dict[str, tuple[BlockDevice, DeviceProfile]] = {}
    for directory in options.directories:
        device = devices.of_path(directory)
        if device.id in found:
            continue
        model = _model(device, options)
        profile = find_profile(given, device.id, model)
        if profile is None:
            profile = await _profile_in(devices, device, model, directory, options)
        found[device.id] = (device, profile)
    for name in options.devices:
        device = devices.named(name)
        profile = find_profile(given, device.id, _model(device, options))
        if profile is None:
            raise InputError(
                f"--device: {name!r:.80}: no --profile names {device.id} or its model; expected"
                " one, as the driver writes to no device"
            )
        found[device.id] = (device, profile)
    for device, profile in found.values():
        _log.info("disk %s (%s), model %s", device.id, device.path, profile.model or "unknown")
    profiles = {device.id: profile for device, profile in found.values()}
    # Of all given profiles, so that every driver serves the normalisers of all models.
    contents, normalise = prepare_normalisers([*given, *profiles.values()], options)
    return PreparedDisks(
        tuple(
            DriverDisk(managed_disk(device.id, device.path, profile, options), device.number)
            for device, profile in found.values()
        ),
        profiles,
        contents,
        normalise,
    )


def read_profiles(paths: Sequence[str]) -> list[DeviceProfile]:
    """The profiles in these files."""
    return [decode_profile(read_file(path), path) for path in paths]


def managed_disk(
    device_id: str, path: str, profile: DeviceProfile, options: DiskOptions
) -> ManagedDisk:
    """What is reported of a disk with this profile."""
    model = "" if options.as_stated else profile.model
    return ManagedDisk(device_id, path, model, profile.capacity)


def prepare_normalisers(
    profiles: Sequence[DeviceProfile], options: DiskOptions
) -> tuple[dict[str, bytes], Normalise]:
    """The contents by model, and the function over them."""
    given = {model: read_file(path) for model, path in options.normalisers.items()}
    for model in given:
        check_model(model, "--normaliser")
    contents = contents_by_model(profiles, given)
    return contents, local_normalise(contents)


async def _profile_in(
    devices: BlockDevices,
    device: BlockDevice,
    model: str,
    directory: str,
    options: DiskOptions,
) -> DeviceProfile:
    """The profile that is kept in the directory, or a new one."""
    kept = Path(directory, KEPT_PROFILE)
    if kept.exists() and not options.measure_again:
        profile = decode_profile(read_file(str(kept)), str(kept))
        if device.id in profile.devices:
            _log.info("the profile of %s is that of %s", device.id, kept)
            return replace(profile, model=model)
    profile = await measure_profile(
        _benchmark(devices, device, model, options, directory=directory), _log_step
    )
    with atomic_write(kept) as file:
        file.write(encode_profile(profile).decode())
    return profile


async def measure_once(
    devices: BlockDevices, options: DiskOptions, *, directory: str = "", raw_device: str = ""
) -> DeviceProfile:
    """The profile of the disk of a directory, or of a raw device that no file system uses."""
    device = devices.named(raw_device) if raw_device else devices.of_path(directory)
    if other := options.models.keys() - {device.id}:
        raise InputError(f"--model: {min(other)!r:.80}, expected {device.id}, the disk's id")
    mounted = devices.mounted_parts(device) if raw_device else []
    if mounted:
        raise InputError(
            f"--raw-device: {device.path}: {', '.join(mounted)[:200]} is mounted from it;"
            " expected a device without a file system in use, as writing destroys what is on it"
        )
    path = device.path if raw_device else ""
    model = _model(device, options)
    benchmark = _benchmark(devices, device, model, options, directory=directory, raw_device=path)
    return await measure_profile(benchmark, _log_step)


def _model(device: BlockDevice, options: DiskOptions) -> str:
    model = options.models.get(device.id, device.model)
    if model:
        check_model(model, f"the model of {device.id}")
    return model


def _benchmark(
    devices: BlockDevices,
    device: BlockDevice,
    model: str,
    options: DiskOptions,
    *,
    directory: str = "",
    raw_device: str = "",
) -> BenchmarkOptions:
    where = raw_device or directory
    _log.info("measuring the profile of %s at %s with fio", device.id, where)
    return BenchmarkOptions(
        model,
        device.id,
        directory,
        raw_device,
        options.file_bytes,
        options.step_seconds,
        logical_block_bytes=devices.logical_block_bytes(device),
    )


def _log_step(result: str) -> None:
    _log.info("%s", result)
