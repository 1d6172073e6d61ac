"""The counters of pods in the cgroup layouts that the kubelet makes."""

from itertools import product
from pathlib import Path

import pytest

from afflux.diskio.counter_source import CounterSource
from afflux.diskio.counters import IOCounters
from afflux.diskio.pod_cgroups import Version, find_tree, pod_directory
from afflux.model.errors import InputError
from fake_kernel import FakeKernel, Layout

UID = "7f69dbf7-f6e3-4434-9be8-fca2f8a1543d"


@pytest.mark.parametrize(
    ("version", "layout", "qos"),
    list(product(("v1", "v2"), ("cgroupfs", "systemd"), ("", "burstable", "besteffort"))),
)
def test_a_pod_is_found_in_every_layout(
    tmp_path: Path, version: Version, layout: Layout, qos: str
) -> None:
    kernel = FakeKernel(tmp_path, version, layout)
    device = kernel.add_disk("sda", "8:0")
    kernel.add_pod(UID, qos)
    kernel.add_pod(f"{UID}0", qos)
    kernel.pod_io(UID, "sda", read_bytes=4096, read_ios=1, write_bytes=512, write_ios=1)
    kernel.disk_io("sda", write_bytes=512, write_ios=1)
    source = CounterSource(kernel.proc, kernel.cgroup)
    assert source.tree is not None
    assert source.tree.version == version
    read = source.read({UID: UID, "unknown": "unknown"})
    assert read.pods == {UID: {device: IOCounters(4096, 512, 1, 1)}}
    assert read.disks == {device: IOCounters(4096, 1024, 1, 2)}


@pytest.mark.parametrize(
    ("prefix", "directory"),
    [
        ("/node", f"node/kubepods/burstable/pod{UID}"),
        ("/node/a", f"node.slice/node-a.slice/node-a-kubepods.slice/"
         f"node-a-kubepods-pod{UID.replace('-', '_')}.slice"),
    ],
)  # fmt: skip
def test_the_cgroup_root_of_the_kubelet_is_a_prefix(
    tmp_path: Path, prefix: str, directory: str
) -> None:
    tree = find_tree(FakeKernel(tmp_path).cgroup)
    (tree.root / directory).mkdir(parents=True)
    assert pod_directory(tree, UID, prefix) == tree.root / directory
    assert pod_directory(tree, UID) is None


def test_old_kernels_of_version_1_count_in_the_containers(tmp_path: Path) -> None:
    kernel = FakeKernel(tmp_path, "v1", recursive=False)
    device = kernel.add_disk("sda", "8:0")
    kernel.add_pod(UID)
    kernel.pod_io(UID, "sda", write_bytes=512, write_ios=1)
    source = CounterSource(kernel.proc, kernel.cgroup)
    assert source.read({UID: UID}).pods == {UID: {device: IOCounters(0, 512, 0, 1)}}


def test_a_disk_of_which_version_1_counts_nothing_is_named(tmp_path: Path) -> None:
    silent = FakeKernel(tmp_path / "silent", "v1", counts=False)
    disk = silent.add_disk("sda", "8:0")
    assert CounterSource(silent.proc, silent.cgroup).uncounted([disk]) == [disk]
    for version in ("v1", "v2"):
        kernel = FakeKernel(tmp_path / version, version)
        assert (
            CounterSource(kernel.proc, kernel.cgroup).uncounted([kernel.add_disk("sda", "8:0")])
            == []
        )


def test_a_pod_that_vanishes_is_not_an_error(tmp_path: Path) -> None:
    kernel = FakeKernel(tmp_path)
    kernel.add_pod(UID)
    source = CounterSource(kernel.proc, kernel.cgroup)
    assert source.read({UID: UID}).pods == {UID: {}}
    kernel.remove_pod(UID)
    assert source.read({UID: UID}).pods == {}


@pytest.mark.parametrize("uid", ["", "..", "../x", "a/b", "."])
def test_a_uid_is_no_path(tmp_path: Path, uid: str) -> None:
    tree = find_tree(FakeKernel(tmp_path).cgroup)
    (tree.root / "kubepods").mkdir()
    assert pod_directory(tree, uid) is None


def test_what_cannot_count_is_said(tmp_path: Path) -> None:
    kernel = FakeKernel(tmp_path)
    (kernel.cgroup / "cgroup.controllers").write_text("hugetlb\n")
    with pytest.raises(InputError, match="does not list io"):
        find_tree(kernel.cgroup)
    with pytest.raises(InputError, match="neither cgroup version 2"):
        find_tree(tmp_path / "nothing")
    source = CounterSource(kernel.proc, tmp_path / "nothing")
    assert "neither cgroup version 2" in source.problem
    assert source.read({UID: UID}).pods == {}
