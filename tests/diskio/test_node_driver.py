"""The driver of a node as a whole, without a network: a kernel that the test moves, objects that
the test writes, a clock in its hand."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from afflux.diskio.counter_source import CounterSource
from afflux.diskio.counters import DeviceNumber
from afflux.diskio.device_profile import DeviceProfile
from afflux.diskio.local_normalisers import contents_by_model, local_normalise
from afflux.diskio.node_driver import STATIC_POD_HASH, DriverDisk, DriverSettings, NodeDriver
from afflux.diskio.node_reports import MAX_MEASUREMENTS_BYTES
from afflux.diskio.pod_cgroups import Version
from afflux.diskio.pod_requests import reserved_pod
from afflux.diskio.remaining_bandwidth import ManagedDisk
from afflux.kube import objects
from afflux.model.disks import Bandwidth, DiskRequest, VolumeIO
from fake_kernel import FakeKernel, Layout

MIB = 1 << 20
SDA, SDB = DeviceNumber(8, 0), DeviceNumber(8, 16)
# Small blocks cost four times as much.
TABLE = {4096: 100 * MIB, 32768: 400 * MIB}
PROFILE = DeviceProfile("v/m", TABLE, TABLE, 500 * MIB)
NORMALISE = local_normalise(contents_by_model([PROFILE], {}))
DEFAULT = DiskRequest((VolumeIO(5 * MIB, 5 * MIB),), is_stated=False)
CAPACITY = PROFILE.capacity


def pod(uid: str, request: Any = None, **annotations: str) -> objects.Pod:
    if request is not None:
        annotations["blockio.kubernetes.io/resources"] = json.dumps(request)
    volumes = [
        {"name": "scratch", "emptyDir": {}},
        {"name": "memory", "emptyDir": {"medium": "Memory"}},
        {"name": "claimed", "persistentVolumeClaim": {"claimName": "c"}},
    ]
    found = {
        "metadata": {"name": uid, "uid": uid, "annotations": annotations},
        "spec": {"nodeName": "n", "volumes": volumes},
    }
    return msgspec.json.decode(json.dumps(found), type=objects.Pod)


def info(generation: int, *uids: str, uid: str = "o", **annotations: str) -> objects.NodeDiskIOInfo:
    return objects.NodeDiskIOInfo(
        metadata=objects.Metadata(
            name="n", uid=uid, generation=generation, annotations=annotations
        ),
        spec=objects.NodeDiskIOInfoSpec(node_name="n", reserved_pods=uids),
    )


class Node:
    """A node with two disks, its driver, and its clock."""

    def __init__(self, kernel: FakeKernel, *, counts_other_io: bool = False) -> None:
        self.kernel = kernel
        self.now = 1000.0
        self.source = CounterSource(kernel.proc, kernel.cgroup)
        disks = [
            DriverDisk(ManagedDisk(disk, path, "v/m", CAPACITY), kernel.add_disk(name, str(number)))
            for disk, path, name, number in (
                ("one", "/dev/sda", "sda", SDA), ("two", "/dev/sdb", "sdb", SDB),
            )
        ]  # fmt: skip
        settings = DriverSettings(
            "n", 10.0, default_request=DEFAULT, counts_other_io=counts_other_io
        )
        self.driver = NodeDriver(settings, disks, NORMALISE, reserved_pod)

    def pass_seconds(self, seconds: int, *io: tuple[str, str, dict[str, int]]) -> None:
        """Samples every second, in which these pods do this on these disks."""
        for _ in range(seconds):
            self.now += 1.0
            for uid, disk, amounts in io:
                self.kernel.pod_io(uid, disk, **amounts)
            self.driver.sample(self.now, self.source.read(self.driver.cgroup_uids()))

    def left(self) -> dict[str, Bandwidth]:
        self.driver.acknowledge(self.now)
        return dict(self.driver.remaining().left)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(FakeKernel(tmp_path))


def minus(read: int = 0, write: int = 0) -> Bandwidth:
    return Bandwidth(CAPACITY.read - read, CAPACITY.write - write, CAPACITY.total - read - write)


READS = {"read_bytes": 20 * MIB, "read_ios": 20 * MIB // 4096}


@pytest.mark.parametrize(
    ("version", "layout"),
    [("v1", "cgroupfs"), ("v1", "systemd"), ("v2", "cgroupfs"), ("v2", "systemd")],
)
def test_a_pod_is_charged_what_it_does_while_that_is_more_than_it_requests(
    tmp_path: Path, version: Version, layout: Layout
) -> None:
    node = Node(FakeKernel(tmp_path, version, layout))
    node.kernel.add_pod("a", "burstable")
    requested = {"scratch": {"requests": {"rbps": "10Mi/32k", "wbps": "1Mi/32k"}}}
    devices = json.dumps({"scratch": "two"})
    node.driver.set_pods([pod("a", requested, **{"afflux.dev/disk-devices": devices})], frozenset())
    node.driver.set_info(info(2, "a"))
    node.pass_seconds(2)
    assert node.left() == {"one": CAPACITY, "two": minus(10 * MIB, MIB)}
    node.pass_seconds(10, ("a", "sdb", READS))
    # 20 MiB/s in blocks of 4k are 80 MiB/s. Each figure is the larger one, the total too.
    taken = minus(80 * MIB, MIB)
    expected = Bandwidth(taken.read, taken.write, CAPACITY.total - 80 * MIB)
    assert node.left() == {"one": CAPACITY, "two": expected}
    node.pass_seconds(11)
    assert node.left()["two"] == minus(10 * MIB, MIB)


def test_an_excess_is_told_once_until_it_has_grown(node: Node) -> None:
    node.kernel.add_pod("a")
    node.driver.set_pods([pod("a", {"rbps": "10Mi", "blocksize": "4k"})], frozenset())
    node.driver.set_info(info(2, "a"))
    node.pass_seconds(2)
    assert node.left()["one"] == minus(40 * MIB)

    def excesses() -> list[tuple[str, str]]:
        node.driver.acknowledge(node.now)
        return [(each.pod, each.disk) for each in node.driver.excesses(node.driver.remaining())]

    assert excesses() == []
    node.pass_seconds(1, ("a", "sda", READS))
    node.pass_seconds(9, ("a", "sda", READS))
    assert excesses() == [("a", "one")]
    node.driver.report(node.driver.remaining(), 1)
    assert excesses() == []
    node.pass_seconds(3, ("a", "sda", READS), ("a", "sda", READS))
    assert excesses() == [("a", "one")]


def test_the_writes_of_the_driver_change_nothing_of_the_scheduler(node: Node) -> None:
    """Otherwise each report would cause the next one."""
    assert node.driver.set_info(info(2, "a"))
    assert not node.driver.set_info(info(2, "a", **{"afflux.dev/disk-reported-at": "now"}))
    assert node.driver.set_info(info(2, "a", **{"afflux.dev/reserved-disks": "{}"}))
    assert node.driver.set_info(info(3, "a"))
    assert node.driver.set_info(info(3, "a", uid="another"))
    assert node.driver.set_info(None)
    assert not node.driver.set_info(None)


def test_a_pod_matters_at_once_only_if_it_is_reserved_and_new(node: Node) -> None:
    assert not node.driver.set_pod(pod("a"))
    node.driver.set_info(info(2, "a", "b"))
    assert not node.driver.set_pod(pod("a"))
    assert node.driver.set_pod(pod("b"))
    assert not node.driver.set_pod(pod("b"))


def test_nothing_is_answered_before_the_first_list_is_known(node: Node) -> None:
    assert node.driver.report(node.driver.remaining(), 1) is None
    node.driver.set_info(info(5, "a"))
    assert not node.driver.acknowledge(node.now)
    report = node.driver.report(node.driver.remaining(), 1)
    assert report is not None
    assert (report.is_unacknowledged, report.observed_generation) == (True, 0)
    node.driver.set_pod(pod("a"))
    assert node.driver.acknowledge(node.now)
    report = node.driver.report(node.driver.remaining(), 1)
    assert report is not None
    assert (report.is_unacknowledged, report.observed_generation) == (False, 5)
    # Later reports have larger numbers, also if the clock went back.
    assert report.sequence == 2


def test_a_pod_that_was_never_bound_is_charged_the_default_after_a_while(node: Node) -> None:
    node.driver.set_info(info(2, "ghost"))
    assert not node.driver.acknowledge(node.now)
    assert node.driver.awaited(node.now) == ["ghost"]
    node.now += 60.0
    assert node.driver.acknowledge(node.now)
    assert node.driver.given_up(node.now) == ["ghost"]
    assert node.left()["one"] == minus(5 * MIB, 5 * MIB)


def test_a_deleted_pod_is_charged_until_it_leaves_the_list(node: Node) -> None:
    node.driver.set_pods([pod("a", {"wbps": "7Mi"})], frozenset())
    node.driver.set_info(info(2, "a"))
    expected = node.left()
    assert expected["one"] == minus(0, 7 * MIB)
    node.driver.remove_pod(pod("a"))
    node.driver.set_info(info(3, "a", "b"))
    node.driver.set_pod(pod("b", {"wbps": "1Mi"}))
    assert node.left()["one"] == minus(0, 8 * MIB)
    node.driver.set_info(info(4, "b"))
    assert node.left()["one"] == minus(0, 1 * MIB)
    # Listed again, it is unknown.
    node.driver.set_info(info(5, "a", "b"))
    assert not node.driver.acknowledge(node.now)


def test_a_new_list_of_all_pods_forgets_those_that_have_gone(node: Node) -> None:
    node.driver.set_pods([pod("a"), pod("b"), pod("c")], frozenset())
    node.driver.set_pods([pod("a")], frozenset({"b"}))
    assert set(node.driver.cgroup_uids()) == {"a", "b"}


def test_the_cgroup_of_a_static_pod_has_the_hash_for_a_name(node: Node) -> None:
    node.driver.set_pods([pod("mirror", **{STATIC_POD_HASH: "hash"})], frozenset())
    assert node.driver.cgroup_uids() == {"mirror": "hash"}
    node.kernel.add_pod("hash")
    node.pass_seconds(12, ("hash", "sda", READS))
    rates = node.driver.measured()["mirror"].rates
    assert rates["one"].read == 20 * MIB


def test_other_io_of_a_disk_is_what_no_pod_does(tmp_path: Path) -> None:
    node = Node(FakeKernel(tmp_path), counts_other_io=True)
    node.kernel.add_pod("a")
    node.driver.set_pods([pod("a")], frozenset())
    node.driver.set_info(info(1))
    for _ in range(12):
        node.kernel.disk_io("sda", write_bytes=3 * MIB, write_ios=3 * MIB // 32768)
        node.pass_seconds(1, ("a", "sda", READS))
    assert node.driver.other_io()["one"].write == 3 * MIB
    assert node.driver.other_io()["one"].read == 0
    # The pod is not in the list: the scheduler deducts it.
    assert node.left() == {"one": minus(0, 3 * MIB), "two": CAPACITY}


# --- What is requested


def test_volumes_that_are_not_on_a_disk_of_the_node_do_not_count(node: Node) -> None:
    stated = {name: {"requests": {"rbps": "1Mi/32k"}} for name in ("scratch", "memory", "claimed")}
    found = reserved_pod(pod("a", stated), None)
    assert found.volumes == ("scratch",)
    # A claim counts if the scheduler has given it a disk, in the pod or in the object.
    given = json.dumps({"claimed": "two", "scratch": "one"})
    found = reserved_pod(pod("a", stated, **{"afflux.dev/disk-devices": given}), None)
    assert found.disks == {"claimed": "two", "scratch": "one"}
    assert found.volumes == ("claimed", "scratch")
    stated.pop("memory")
    noted = {"afflux.dev/reserved-disks": json.dumps({"a": ["two", "one"]})}
    found = reserved_pod(pod("a", stated), info(1, "a", **noted))
    assert found.disks == {"claimed": "two", "scratch": "one"}


def test_an_annotation_that_cannot_be_read_counts_as_none() -> None:
    assert reserved_pod(pod("a", {"rbps": "much"}), None).request is None
    assert reserved_pod(pod("a"), None).request is None
    only_memory = {"memory": {"requests": {"rbps": "1Mi"}}}
    assert reserved_pod(pod("a", only_memory), None).request == DiskRequest(())


# --- What is reported


def test_measurements_are_bounded_and_keep_the_pods_that_do_most(node: Node) -> None:
    many = [f"{number:036d}" for number in range(1500)]
    node.driver.set_pods([pod(uid) for uid in many], frozenset())
    for uid in many:
        node.kernel.add_pod(uid)
    node.driver.set_info(info(1, *many))
    node.pass_seconds(1)
    busy = [
        (uid, "sda", {"read_bytes": 4096 * (index + 1), "read_ios": 1 + index})
        for index, uid in enumerate(many)
    ]
    node.pass_seconds(1, *busy)
    node.driver.acknowledge(node.now)
    report = node.driver.report(node.driver.remaining(), 1)
    assert report is not None
    assert len(report.measurements) <= MAX_MEASUREMENTS_BYTES
    found = json.loads(report.measurements)
    assert 100 < len(found) < 1500
    assert sorted(found) == many[-len(found) :]
    assert report.models == {"one": "v/m", "two": "v/m"}
