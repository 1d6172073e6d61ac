"""Reads the counters of pods and disks from the files of the kernel, at given roots."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from afflux.diskio.counters import DeviceNumber, IOCounters, parse_diskstats
from afflux.diskio.pod_cgroups import CgroupTree, find_tree, pod_directory, read_counters
from afflux.model.errors import InputError

PodCounters = Mapping[str, Mapping[DeviceNumber, IOCounters]]


@dataclass(frozen=True, slots=True)
class Counters:
    """One reading: pods by uid, without those that have no cgroup, and disks with partitions."""

    pods: PodCounters
    disks: Mapping[DeviceNumber, IOCounters]


class CounterSource:
    """`prefix` is the kubelet's --cgroup-root. Without a usable tree of cgroups pods are not
    measured; `problem` says why."""

    def __init__(self, proc: Path, cgroup_root: Path, prefix: str = "") -> None:
        self._proc = proc
        self._prefix = prefix
        self.tree: CgroupTree | None = None
        self.problem = ""
        try:
            self.tree = find_tree(cgroup_root)
        except (InputError, OSError) as error:
            self.problem = str(error)

    def read(self, cgroup_uids: Mapping[str, str]) -> Counters:
        """`cgroup_uids` are by uid the names by which the kubelet knows the pods."""
        pods: dict[str, Mapping[DeviceNumber, IOCounters]] = {}
        tree = self.tree
        for uid, cgroup_uid in cgroup_uids.items():
            if tree is None:
                break
            directory = pod_directory(tree, cgroup_uid, self._prefix)
            found = None if directory is None else read_counters(tree, directory)
            if found is not None:
                pods[uid] = found
        return Counters(pods, self._of_disks())

    def uncounted(self, disks: Iterable[DeviceNumber]) -> list[DeviceNumber]:
        """The disks of which cgroups of version 1 count nothing. Newer kernels begin to count when
        a throttle rule for the disk is written for the first time."""
        if self.tree is None or self.tree.version != "v1":
            return []
        counted = read_counters(self.tree, self.tree.root) or {}
        return [disk for disk in disks if disk not in counted]

    def _of_disks(self) -> Mapping[DeviceNumber, IOCounters]:
        try:
            return parse_diskstats((self._proc / "diskstats").read_text())
        except OSError:
            return {}
