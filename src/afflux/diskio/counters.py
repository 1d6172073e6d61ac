"""The kernel's counters of disk IO: of a cgroup in version 2 and version 1, and of whole disks.

Pure parsers of `io.stat`, `blkio.throttle.io_service_bytes` with `io_serviced`, and
`/proc/diskstats`. Lines that are not counters are skipped: kernels add keys and lines, and a disk
may vanish while a file is read. Not here: where these files are (`pod_cgroups`) and what
differences of counters mean (`sampling`).
"""

from collections.abc import Mapping
from dataclasses import dataclass

# /proc/diskstats counts in sectors of this size, whatever the disk's own sectors are.
SECTOR_BYTES = 512


@dataclass(frozen=True, slots=True, order=True)
class DeviceNumber:
    """The number by which the kernel knows a block device."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}:{self.minor}"


@dataclass(frozen=True, slots=True)
class IOCounters:
    """What was read and written since some beginning."""

    read_bytes: int = 0
    write_bytes: int = 0
    read_ios: int = 0
    write_ios: int = 0

    def __add__(self, other: "IOCounters") -> "IOCounters":
        return IOCounters(
            self.read_bytes + other.read_bytes,
            self.write_bytes + other.write_bytes,
            self.read_ios + other.read_ios,
            self.write_ios + other.write_ios,
        )

    def __sub__(self, other: "IOCounters") -> "IOCounters":
        return IOCounters(
            self.read_bytes - other.read_bytes,
            self.write_bytes - other.write_bytes,
            self.read_ios - other.read_ios,
            self.write_ios - other.write_ios,
        )

    @property
    def went_back(self) -> bool:
        """Whether this is a difference of counters that began anew in between."""
        return min(self.read_bytes, self.write_bytes, self.read_ios, self.write_ios) < 0


NO_IO = IOCounters()
DeviceCounters = Mapping[DeviceNumber, IOCounters]


def device_number(text: str) -> DeviceNumber | None:
    """`8:16`; None for anything else."""
    major, colon, minor = text.partition(":")
    if not colon or not _is_count(major) or not _is_count(minor):
        return None
    return DeviceNumber(int(major), int(minor))


def parse_io_stat(text: str) -> dict[DeviceNumber, IOCounters]:
    """The file `io.stat` of a cgroup of version 2: one line for each device.

    `8:0 rbytes=180224 wbytes=0 rios=3 wios=0 dbytes=0 dios=0`
    """
    found: dict[DeviceNumber, IOCounters] = {}
    for line in text.splitlines():
        # A kernel bug printed devices without counters in front of the next device's line
        # (`8:0 8:16 rbytes=...`): the counters belong to the last one.
        device: DeviceNumber | None = None
        values: dict[str, int] = {}
        for word in line.split():
            key, is_pair, value = word.partition("=")
            if not is_pair:
                device = device_number(word) or device
            elif _is_count(value):
                values[key] = int(value)
        if device is not None and values:
            found[device] = found.get(device, NO_IO) + IOCounters(
                values.get("rbytes", 0),
                values.get("wbytes", 0),
                values.get("rios", 0),
                values.get("wios", 0),
            )
    return found


def parse_blkio(service_bytes: str, serviced: str) -> dict[DeviceNumber, IOCounters]:
    """The two files of a cgroup of version 1: bytes, and numbers of requests.

    Each has lines such as `8:0 Read 4096` for Read, Write, Sync, Async, Discard and Total, of which
    the first two add up to what counts here. Buffered writes are charged to the cgroup of the
    kernel's writeback thread, not to the one that wrote: only version 2 attributes them.
    """
    amounts, requests = _by_direction(service_bytes), _by_direction(serviced)
    return {
        device: IOCounters(
            amounts.get(device, {}).get("Read", 0),
            amounts.get(device, {}).get("Write", 0),
            requests.get(device, {}).get("Read", 0),
            requests.get(device, {}).get("Write", 0),
        )
        for device in sorted({*amounts, *requests})
    }


def parse_diskstats(text: str) -> dict[DeviceNumber, IOCounters]:
    """`/proc/diskstats`: the IO of every disk and partition, of all its users.

    Fields: major, minor, name, reads, reads merged, sectors read, milliseconds reading, writes,
    writes merged, sectors written, ...
    """
    found: dict[DeviceNumber, IOCounters] = {}
    for line in text.splitlines():
        fields = line.split()
        if len(fields) < 10:
            continue
        numbers = [*fields[:2], *fields[3:10]]
        if not all(map(_is_count, numbers)):
            continue
        major, minor, reads, _, sectors_read, _, writes, _, sectors_written = map(int, numbers)
        found[DeviceNumber(major, minor)] = IOCounters(
            sectors_read * SECTOR_BYTES, sectors_written * SECTOR_BYTES, reads, writes
        )
    return found


def _by_direction(text: str) -> dict[DeviceNumber, dict[str, int]]:
    found: dict[DeviceNumber, dict[str, int]] = {}
    for line in text.splitlines():
        match line.split():
            case [number, ("Read" | "Write") as direction, amount] if _is_count(amount):
                device = device_number(number)
                if device is not None:
                    found.setdefault(device, {})[direction] = int(amount)
            case _:
                pass
    return found


def _is_count(text: str) -> bool:
    # Twenty digits hold every 64-bit counter.
    return text.isascii() and text.isdigit() and len(text) <= 20
