"""Which disk a path is on, and what that disk is: its id, model and number.

Reads `/proc/self/mountinfo` and `/sys`, whose roots are arguments: in a container the host's `/sys`
may be mounted elsewhere, and tests use a directory. A partition leads to its whole disk, and a
device-mapper or RAID device to the disk below it, if there is exactly one: counters of cgroups and
profiles are of whole disks. Not here: counters of IO.
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from afflux.diskio.counters import DeviceNumber, device_number
from afflux.model.errors import InputError

_MAX_STACKED = 8
_OCTAL = re.compile(r"\\([0-7]{3})")
_NOT_IN_ID = re.compile(r"[^A-Za-z0-9_.-]+")
_MAX_ID = 128


@dataclass(frozen=True, slots=True)
class Mount:
    """One line of mountinfo: what is mounted where, from which device."""

    device: DeviceNumber
    mount_point: str
    source: str


@dataclass(frozen=True, slots=True)
class BlockDevice:
    """A whole disk. `id` stays the same over restarts if the disk has a serial number; `model` is
    vendor/model, empty if the kernel knows neither."""

    number: DeviceNumber
    name: str
    id: str
    model: str

    @property
    def path(self) -> str:
        """Where it is in /dev."""
        return f"/dev/{self.name}"


# --- Mounts


def parse_mountinfo(text: str) -> list[Mount]:
    """`/proc/self/mountinfo`: id, parent, major:minor, root, mount point, options, optional fields,
    `-`, type, source, options. Spaces in paths are written in octal."""
    mounts: list[Mount] = []
    for line in text.splitlines():
        fields = line.split(" ")
        if len(fields) < 6 or "-" not in fields[6:]:
            continue
        after = fields[fields.index("-", 6) + 1 :]
        device = device_number(fields[2])
        if device is not None and len(after) >= 2:
            mounts.append(Mount(device, _unescaped(fields[4]), _unescaped(after[1])))
    return mounts


def mount_of(path: str, mounts: list[Mount]) -> Mount | None:
    """The mount that a path, absolute and without links, is on: of the longest mount points that
    contain it the last, which hides the others."""
    best: Mount | None = None
    for mount in mounts:
        point = mount.mount_point.rstrip("/")
        contains = path == (point or "/") or path.startswith(f"{point}/")
        if contains and (best is None or len(mount.mount_point) >= len(best.mount_point)):
            best = mount
    return best


def _unescaped(text: str) -> str:
    return _OCTAL.sub(lambda match: chr(int(match[1], 8)), text)


# --- Devices


class BlockDevices:
    """The disks that `/proc` and `/sys` at these roots show."""

    def __init__(self, proc: Path = Path("/proc"), sys: Path = Path("/sys")) -> None:
        self._proc = proc
        self._sys = sys

    def of_path(self, path: str) -> BlockDevice:
        """The disk that holds a directory; an InputError if it is on none that counts here."""
        real = os.path.realpath(path)
        try:
            mounts = parse_mountinfo((self._proc / "self/mountinfo").read_text(errors="replace"))
        except OSError as error:
            raise InputError(
                f"{self._proc}/self/mountinfo: {error.strerror}; expected a list of mounts"
            ) from None
        mount = mount_of(real, mounts)
        if mount is None:
            raise InputError(f"{path!r:.200}: no mount in {self._proc}/self/mountinfo contains it")
        found = self._whole_disk(mount.device)
        if found is None and mount.source.startswith("/dev/"):
            # File systems such as btrfs have numbers of their own: the source names a device.
            found = self._named(os.path.basename(os.path.realpath(mount.source)))
        if found is None:
            raise InputError(
                f"{path!r:.200}: is on {mount.source!r:.80} ({mount.device}), which is not on one"
                " disk; expected a directory on a file system of a single local disk"
            )
        return self._described(found)

    def named(self, name: str) -> BlockDevice:
        """The whole disk of this name, with or without /dev/."""
        found = self._named(name.removeprefix("/dev/"))
        if found is None:
            raise InputError(
                f"{name!r:.80}: no such block device; expected one of {self._sys}/block"
            )
        return self._described(found)

    def mounted_parts(self, device: BlockDevice) -> list[str]:
        """The mount points of file systems on a disk, on its partitions, or on devices above it."""
        try:
            mounts = parse_mountinfo((self._proc / "self/mountinfo").read_text(errors="replace"))
        except OSError:
            return []
        parts = self._parts(self._sys / "block" / device.name, 0)
        return sorted({each.mount_point for each in mounts if each.device in parts})

    def logical_block_bytes(self, device: BlockDevice) -> int:
        """The smallest block that the disk reads or writes."""
        text = _read(self._sys / "block" / device.name / "queue/logical_block_size")
        return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 512

    def _parts(self, directory: Path, depth: int) -> set[DeviceNumber]:
        numbers: set[DeviceNumber] = set()
        number = device_number(_read(directory / "dev"))
        if number is not None:
            numbers.add(number)
        for part in _children(directory):
            if (part / "partition").exists():
                numbers |= self._parts(part, depth + 1)
        if depth < _MAX_STACKED:
            for holder in _children(directory / "holders"):
                numbers |= self._parts(self._sys / "block" / holder.name, depth + 1)
        return numbers

    def _named(self, name: str) -> Path | None:
        if not name or "/" in name:
            return None
        directory = self._sys / "class/block" / name
        if not directory.exists():
            directory = self._sys / "block" / name
        number = device_number(_read(directory / "dev"))
        return None if number is None else self._whole_disk(number)

    def _whole_disk(self, number: DeviceNumber) -> Path | None:
        """The directory of the whole disk in /sys; None if there is none, or several."""
        directory = self._sys / "dev/block" / str(number)
        for _ in range(_MAX_STACKED):
            if not directory.exists():
                return None
            directory = directory.resolve()
            if (directory / "partition").exists():
                directory = directory.parent
            below = _children(directory / "slaves")
            if not below:
                return directory
            if len(below) > 1:
                return None
            directory = below[0]
        return None

    def _described(self, directory: Path) -> BlockDevice:
        name = directory.name
        number = device_number(_read(directory / "dev"))
        if number is None:
            raise InputError(f"{directory}/dev: expected the number of a block device")
        vendor, model = _vendor_and_model(directory)
        serial = _serial(directory)
        label = "_".join(part for part in (vendor, serial or name) if part)
        return BlockDevice(
            number,
            name,
            _NOT_IN_ID.sub("_", label).strip("_")[:_MAX_ID] or name,
            f"{vendor}/{model}" if vendor and model else "",
        )


def _vendor_and_model(directory: Path) -> tuple[str, str]:
    """From `device/vendor` and `device/model`. NVMe disks have the vendor as the first word of the
    model, and SATA disks have `ATA` for a vendor."""
    vendor, model = _read(directory / "device/vendor"), _read(directory / "device/model")
    if not model:
        return ("", "")
    if not vendor or vendor == "ATA":
        first, _, rest = model.partition(" ")
        vendor, model = (first, rest.strip()) if rest else (vendor or "unknown", model)
    return _NOT_IN_ID.sub("-", vendor).strip("-"), _NOT_IN_ID.sub("-", model).strip("-")


def _serial(directory: Path) -> str:
    for name in ("device/serial", "serial", "device/wwid", "wwid"):
        if text := _read(directory / name):
            return text
    # SCSI: page 80 has a header of four bytes before the serial number.
    try:
        page = (directory / "device/vpd_pg80").read_bytes()
    except OSError:
        return ""
    return page[4:].decode("ascii", errors="ignore").strip("\0 ")


def _children(directory: Path) -> list[Path]:
    try:
        return sorted(directory.iterdir())
    except OSError:
        return []


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip().strip("\0")
    except OSError:
        return ""
