"""A kernel in a directory: /proc, /sys and /sys/fs/cgroup with disks and pods whose counters a test
moves, in both versions of cgroups and in the layouts of both cgroup drivers of the kubelet."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from afflux.diskio.counters import NO_IO, DeviceNumber, IOCounters
from afflux.diskio.pod_cgroups import Version

Layout = Literal["cgroupfs", "systemd"]


@dataclass
class FakeDisk:
    number: DeviceNumber
    name: str
    counters: IOCounters = NO_IO


@dataclass
class FakePod:
    uid: str
    directory: Path
    counters: dict[DeviceNumber, IOCounters] = field(default_factory=dict)


class FakeKernel:
    """`proc`, `sys` and `cgroup` are the roots to give to what is tested."""

    def __init__(
        self,
        root: Path,
        version: Version = "v2",
        layout: Layout = "cgroupfs",
        *,
        recursive: bool = True,
        counts: bool = True,
    ) -> None:
        self.proc, self.sys, self.cgroup = root / "proc", root / "sys", root / "sys/fs/cgroup"
        self._version = version
        self._layout = layout
        self._recursive = recursive
        # Version 1 of newer kernels counts nothing before the first throttle rule.
        self._counts = counts
        self._mounts: list[str] = []
        self._disks: dict[str, FakeDisk] = {}
        self._pods: dict[str, FakePod] = {}
        self._tree = self.cgroup if version == "v2" else self.cgroup / "blkio"
        self._tree.mkdir(parents=True)
        (self.proc / "self").mkdir(parents=True)
        (self.sys / "dev/block").mkdir(parents=True)
        (self.sys / "class/block").mkdir(parents=True)
        (self.sys / "block").mkdir()
        if version == "v2":
            (self.cgroup / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
        else:
            self._write_cgroup(self._tree, {})
        self._write_diskstats()
        self._write_mounts()

    # --- Disks

    def add_disk(self, name: str, number: str, **files: str) -> DeviceNumber:
        """A whole disk; `files` are those of its directory, `__` stands for a slash."""
        directory = self.sys / "devices/pci0000:00" / name
        device = self._add_device(directory, number, name)
        (self.sys / "block" / name).symlink_to(directory)
        (directory / "slaves").mkdir()
        (directory / "holders").mkdir()
        (directory / "queue").mkdir()
        (directory / "queue/logical_block_size").write_text("512\n")
        for file, text in files.items():
            path = directory / file.replace("__", "/")
            path.parent.mkdir(exist_ok=True)
            path.write_text(f"{text}\n")
        self._disks[name] = FakeDisk(device, name)
        self._write_diskstats()
        return device

    def add_partition(self, disk: str, name: str, number: str) -> None:
        directory = self.sys / "devices/pci0000:00" / disk / name
        self._add_device(directory, number, name)
        (directory / "partition").write_text("1\n")

    def stack(self, name: str, number: str, *below: str) -> None:
        """A device-mapper or RAID device above others."""
        self.add_disk(name, number)
        for each in below:
            lower = (self.sys / "class/block" / each).resolve()
            (self.sys / "devices/pci0000:00" / name / "slaves" / each).symlink_to(lower)
            (lower / "holders").mkdir(exist_ok=True)
            (lower / "holders" / name).symlink_to(self.sys / "devices/pci0000:00" / name)

    def mount(self, point: str, number: str, source: str = "/dev/x") -> None:
        written = str(point).replace(" ", "\\040")
        self._mounts.append(f"30 1 {number} / {written} rw,relatime shared:1 - ext4 {source} rw")
        self._write_mounts()

    def disk_io(self, name: str, **more: int) -> None:
        """IO of the system on a disk."""
        self._disks[name].counters += IOCounters(**more)
        self._write_diskstats()

    # --- Pods

    def add_pod(self, uid: str, qos: str = "") -> None:
        """The cgroup of a pod with one container in it; empty `qos`: guaranteed."""
        if self._layout == "cgroupfs":
            directory = self._tree / "kubepods" / qos / f"pod{uid}"
        else:
            name = "-".join(part for part in ("kubepods", qos) if part)
            escaped = uid.replace("-", "_")
            directory = self._tree / "kubepods.slice" / (f"{name}.slice" if qos else "")
            directory /= f"{name}-pod{escaped}.slice"
        (directory / "container").mkdir(parents=True)
        self._pods[uid] = FakePod(uid, directory)
        self._write_pod(self._pods[uid])

    def remove_pod(self, uid: str) -> None:
        pod = self._pods.pop(uid)
        for directory in (pod.directory / "container", pod.directory):
            for file in directory.iterdir():
                file.unlink()
            directory.rmdir()

    def pod_io(self, uid: str, disk: str, **more: int) -> None:
        """IO of a pod, which is IO of the disk too."""
        pod, device = self._pods[uid], self._disks[disk].number
        pod.counters[device] = pod.counters.get(device, NO_IO) + IOCounters(**more)
        self.disk_io(disk, **more)
        self._write_pod(pod)

    def reset_pod(self, uid: str) -> None:
        """The counters of a pod begin again."""
        self._pods[uid].counters.clear()
        self._write_pod(self._pods[uid])

    # --- Files

    def _add_device(self, directory: Path, number: str, name: str) -> DeviceNumber:
        directory.mkdir(parents=True)
        (directory / "dev").write_text(f"{number}\n")
        (self.sys / "dev/block" / number).symlink_to(directory)
        (self.sys / "class/block" / name).symlink_to(directory)
        major, minor = number.split(":")
        return DeviceNumber(int(major), int(minor))

    def _write_pod(self, pod: FakePod) -> None:
        inside = pod.directory / "container"
        if self._version == "v2" or self._recursive:
            self._write_cgroup(pod.directory, pod.counters)
        else:
            self._write_cgroup(pod.directory, {})
        self._write_cgroup(inside, pod.counters)

    def _write_cgroup(self, directory: Path, counters: dict[DeviceNumber, IOCounters]) -> None:
        if self._version == "v2":
            lines = [
                f"{device} rbytes={c.read_bytes} wbytes={c.write_bytes} rios={c.read_ios}"
                f" wios={c.write_ios} dbytes=0 dios=0\n"
                for device, c in counters.items()
            ]
            _write(directory / "io.stat", "".join(lines))
            return
        suffixes = ("", "_recursive") if self._recursive else ("",)
        for suffix in suffixes:
            for name, read, write in (
                ("io_service_bytes", "read_bytes", "write_bytes"),
                ("io_serviced", "read_ios", "write_ios"),
            ):
                lines = [
                    f"{device} Read {getattr(c, read)}\n{device} Write {getattr(c, write)}\n"
                    f"{device} Total {getattr(c, read) + getattr(c, write)}\n"
                    for device, c in counters.items()
                ]
                text = "".join([*lines, "Total 0\n"])
                _write(directory / f"blkio.throttle.{name}{suffix}", text)

    def _write_diskstats(self) -> None:
        lines = [
            f"{disk.number.major:4} {disk.number.minor:7} {disk.name} {c.read_ios} 0"
            f" {c.read_bytes // 512} 0 {c.write_ios} 0 {c.write_bytes // 512} 0 0 0 0\n"
            for disk in self._disks.values()
            for c in [disk.counters]
        ]
        _write(self.proc / "diskstats", "".join(lines))
        if self._version == "v1" and self._counts:
            counted = {disk.number: disk.counters for disk in self._disks.values()}
            self._write_cgroup(self._tree, counted)

    def _write_mounts(self) -> None:
        (self.proc / "self/mountinfo").write_text("\n".join([*self._mounts, ""]))


def _write(path: Path, text: str) -> None:
    """At once, as the kernel does: a reader sees all of the old text or all of the new one."""
    beside = path.with_name(f".{path.name}.new")
    beside.write_text(text)
    beside.replace(path)
