"""The IO driver and the aggregator with a real API server, on kernels that tests move."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
from chart_installation import NAMESPACE
from disk_io_cluster import (
    AGGREGATOR,
    CAPACITY,
    DISK,
    DRIVER,
    LONG,
    MIB,
    OBJECTS,
    PODS,
    PROFILE,
    DiskIOCluster,
    less,
)
from testbed import ControlPlane
from testbed.api import ApiError

from afflux.kube import objects
from afflux.kube.disks.disk_reports import (
    DISK_MEASUREMENTS,
    DISK_MODELS,
    ReportedDisks,
    reported_disks,
)
from afflux.model.disks import Bandwidth, Disk, VolumeIO
from afflux.normalisers.normaliser import load_normaliser
from fake_kernel import FakeKernel

REQUEST = {"rbps": "20Mi", "wbps": "10Mi", "blocksize": "32k"}
REPORTED_AT = "afflux.dev/disk-reported-at"


@pytest.fixture
def disks(cluster: ControlPlane, tmp_path: Path) -> Iterator[DiskIOCluster]:
    cluster.create_nodes(2)
    with DiskIOCluster(cluster, tmp_path) as made:
        yield made


@pytest.fixture
def aggregated(cluster: ControlPlane, tmp_path: Path) -> Iterator[DiskIOCluster]:
    cluster.create_nodes(3)
    with DiskIOCluster(cluster, tmp_path, aggregated=True) as made:
        yield made


@contextmanager
def working(kernel: FakeKernel, uid: str, **io: int) -> Iterator[None]:
    """The pod does this much every tenth of a second."""
    stop = threading.Event()

    def work() -> None:
        while not stop.wait(0.1):
            kernel.pod_io(uid, "sda", **io)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def equal(disks: DiskIOCluster, node: str, expected: dict[str, float]) -> Callable[[], bool]:
    return lambda: disks.left(node) == expected


def test_the_driver_creates_its_object_and_reports_its_disks(disks: DiskIOCluster) -> None:
    driver = disks.driver("node-0").start()
    info = disks.info("node-0")
    assert info["spec"] == {"nodeName": "node-0", "reservedPods": []}
    assert json.loads(info["metadata"]["annotations"][DISK_MODELS]) == {DISK: "v/m"}
    assert info["status"] == {
        "observedGeneration": info["metadata"]["generation"],
        "allocatableBandwidth": {DISK: {"name": "/dev/sda", "status": CAPACITY}},
    }
    # As the scheduler reads it.
    found = reported_disks(msgspec.convert(info, objects.NodeDiskIOInfo))
    assert found == ReportedDisks((Disk(DISK, Bandwidth(400 * MIB, 400 * MIB, 500 * MIB), "v/m"),))
    assert driver.metric("afflux_disk_left_bytes_per_second", 'figure="total"') == 500 * MIB
    driver.assert_healthy()
    # Another report, though nothing has changed.
    before = info["metadata"]["annotations"][REPORTED_AT]
    driver.wait_until(
        lambda: disks.info("node-0")["metadata"]["annotations"][REPORTED_AT] > before,
        "a sign of life",
    )
    assert disks.info("node-0")["metadata"]["generation"] == info["metadata"]["generation"]
    assert driver.stop() == 0


def test_a_reserved_pod_is_deducted_and_its_generation_answered_at_once(
    disks: DiskIOCluster,
) -> None:
    driver = disks.driver("node-0", *LONG).start()
    uid = disks.pod("web", "node-0", REQUEST)
    generation = disks.reserve("node-0", uid)
    driver.wait_until(lambda: disks.observed("node-0") == generation, "the answer")
    assert disks.left("node-0") == less(read=20 * MIB, write=10 * MIB)
    # Neither its own writes nor those of pods cause further reports.
    for number in range(20):
        labels = {"metadata": {"labels": {"number": str(number)}}}
        disks.plane.api.patch(f"{PODS}/web", labels)
    # The first one, the answer, and one for a default charge in between at most.
    assert driver.metric("afflux_disk_reports_total") <= 3
    # One that states nothing takes the default; bandwidth comes back when pods leave the list.
    other = disks.pod("quiet", "node-0")
    generation = disks.reserve("node-0", other)
    driver.wait_until(lambda: disks.observed("node-0") == generation, "the answer")
    assert disks.left("node-0") == less(read=5 * MIB, write=5 * MIB)


def test_a_list_is_not_answered_before_its_pods_are_bound(disks: DiskIOCluster) -> None:
    driver = disks.driver("node-0").start()
    first = disks.observed("node-0")
    disks.reserve("node-0", "not-bound-yet")
    seen = driver.metric("afflux_disk_reports_total")
    driver.wait_until(
        lambda: driver.metric("afflux_disk_reports_total") > seen + 3, "some more reports"
    )
    assert disks.observed("node-0") == first
    assert disks.left("node-0") == CAPACITY
    uid = disks.pod("web", "node-0", REQUEST)
    generation = disks.reserve("node-0", uid)
    driver.wait_until(lambda: disks.observed("node-0") == generation, "the answer")
    assert disks.left("node-0") == less(read=20 * MIB, write=10 * MIB)


def test_a_pod_that_does_more_than_it_requests_is_reported_at_once(disks: DiskIOCluster) -> None:
    driver = disks.driver("node-0", *LONG).start()
    uid = disks.pod("web", "node-0", REQUEST)
    generation = disks.reserve("node-0", uid)
    driver.wait_until(lambda: disks.observed("node-0") == generation, "the answer")
    # 40 MiB a second in blocks of 4k, which cost four times as much.
    with working(disks.kernels["node-0"], uid, read_bytes=4 * MIB, read_ios=1024):
        driver.wait_until(
            lambda: disks.left("node-0")["read"] < CAPACITY["read"] - 100 * MIB, "the report"
        )
        assert disks.observed("node-0") == generation
        annotations = disks.info("node-0")["metadata"]["annotations"]
        measured = json.loads(annotations[DISK_MEASUREMENTS])[uid][DISK]
        assert measured["read"] > 100 * MIB
        assert measured["write"] == 0
    # What it requests to write stays deducted.
    assert disks.left("node-0")["write"] == CAPACITY["write"] - 10 * MIB
    assert driver.logged(rf"pod ({uid}) takes ")


def test_a_measured_pod_without_a_request_takes_what_it_does(disks: DiskIOCluster) -> None:
    driver = disks.driver("node-0").start()
    uid = disks.pod("quiet", "node-0")
    disks.reserve("node-0", uid)
    driver.wait_until(equal(disks, "node-0", CAPACITY), "the measurement in place of the default")


def test_after_a_restart_everything_is_as_before(disks: DiskIOCluster) -> None:
    driver = disks.driver("node-0").start()
    uid = disks.pod("web", "node-0", REQUEST)
    generation = disks.reserve("node-0", uid)
    driver.wait_until(lambda: disks.observed("node-0") == generation, "the answer")
    before = disks.info("node-0")
    driver.kill()
    second = disks.pod("more", "node-0", REQUEST)
    generation = disks.reserve("node-0", uid, second)
    driver.start()
    driver.wait_until(lambda: disks.observed("node-0") == generation, "the answer")
    assert disks.left("node-0") == less(read=40 * MIB, write=20 * MIB)
    assert disks.info("node-0")["metadata"]["uid"] == before["metadata"]["uid"]


def test_what_a_deleted_pod_requested_stays_deducted_until_it_leaves_the_list(
    disks: DiskIOCluster,
) -> None:
    driver = disks.driver("node-0").start()
    uid = disks.pod("web", "node-0", REQUEST)
    generation = disks.reserve("node-0", uid)
    driver.wait_until(lambda: disks.observed("node-0") == generation, "the answer")
    disks.plane.api.delete(f"{PODS}/web", gracePeriodSeconds=0)
    other = disks.pod("other", "node-0", REQUEST)
    generation = disks.reserve("node-0", uid, other)
    driver.wait_until(lambda: disks.observed("node-0") == generation, "the answer")
    assert disks.left("node-0") == less(read=40 * MIB, write=20 * MIB)
    generation = disks.reserve("node-0", other)
    driver.wait_until(lambda: disks.observed("node-0") == generation, "the answer")
    assert disks.left("node-0") == less(read=20 * MIB, write=10 * MIB)


def test_a_deleted_object_is_created_again(disks: DiskIOCluster) -> None:
    driver = disks.driver("node-0").start()
    before = disks.info("node-0")["metadata"]["uid"]
    disks.plane.api.delete(f"{OBJECTS}/node-0")

    def is_new() -> bool:
        found = disks.info("node-0")
        return bool(found) and found["metadata"]["uid"] != before and "status" in found

    driver.wait_until(is_new, "a new object with a status")
    assert disks.left("node-0") == CAPACITY
    driver.assert_healthy()


def test_the_driver_outlives_the_api_server(disks: DiskIOCluster) -> None:
    driver = disks.driver("node-0").start()
    uid = disks.pod("web", "node-0", REQUEST)
    disks.plane.restart("kube-apiserver")
    generation = disks.reserve("node-0", uid)
    driver.wait_until(lambda: disks.observed("node-0") == generation, "the answer")
    assert disks.left("node-0") == less(read=20 * MIB, write=10 * MIB)
    driver.assert_healthy()


def test_the_normaliser_that_the_driver_serves_is_the_one_it_uses(disks: DiskIOCluster) -> None:
    driver = disks.driver("node-0").start()
    served, content = driver.ask("normalisers/v/m")
    assert served
    taken = load_normaliser(content.encode()).estimate(VolumeIO(MIB, 0, 4096)).taken
    assert taken.read == 4 * MIB == MIB * PROFILE["read"]["32k"] // PROFILE["read"]["4k"]
    served, complaint = driver.ask("normalisers/v/other")
    assert not served
    assert "v/m" in complaint


def test_the_rights_of_the_driver_are_enough_and_not_more(disks: DiskIOCluster) -> None:
    disks.driver("node-0").start()
    api = disks.plane.api_with_token(disks.plane.service_account_token(NAMESPACE, DRIVER))
    try:
        for path in (
            "/api/v1/namespaces/kube-system/secrets",
            "/apis/ioi.intel.com/v1/namespaces/default/nodediskioinfos",
            "/api/v1/nodes",
        ):
            with pytest.raises(ApiError, match="403"):
                api.get(path)
        with pytest.raises(ApiError, match="403"):
            api.delete(f"{OBJECTS}/node-0")
    finally:
        api.close()


# --- The aggregator


def test_an_aggregator_writes_for_all_nodes(aggregated: DiskIOCluster) -> None:
    disks = aggregated
    aggregator = disks.aggregator("--account", f"{NAMESPACE}:{DRIVER}").start()
    port = aggregator.logged(r"port (\d+)")
    to_it = ("--aggregator", f"http://127.0.0.1:{port}", "--aggregator-token",
             str(disks.driver_token()))  # fmt: skip
    nodes = [f"node-{index}" for index in range(3)]
    drivers = {node: disks.driver(node, *to_it).start() for node in nodes}
    for node, driver in drivers.items():
        uid = disks.pod(f"on-{node}", node, REQUEST)
        generation = disks.reserve(node, uid)
        driver.wait_until(
            lambda node=node, generation=generation: disks.observed(node) == generation,
            "the answer",
        )
        assert disks.left(node) == less(read=20 * MIB, write=10 * MIB)
    assert aggregator.metric("afflux_disk_aggregator_nodes") == 3
    # It keeps nothing: after a restart on the same port the drivers find it again.
    aggregator.kill()
    again = disks.aggregator("--account", f"{NAMESPACE}:{DRIVER}", "--port", str(port)).start()
    generation = disks.reserve("node-1")
    again.wait_until(lambda: disks.observed("node-1") == generation, "the answer")
    assert disks.left("node-1") == CAPACITY
    assert again.stop() == 0
    for driver in drivers.values():
        driver.assert_healthy()


def test_only_drivers_may_report_to_the_aggregator(aggregated: DiskIOCluster) -> None:
    disks = aggregated
    aggregator = disks.aggregator("--account", f"{NAMESPACE}:{DRIVER}").start()
    port = aggregator.logged(r"port (\d+)")
    good = disks.driver_token().read_text()
    # A token of another account, and one of the right account for another audience.
    wrong = {
        "other": disks.plane.service_account_token(NAMESPACE, AGGREGATOR),
        "audience": disks.plane.service_account_token(NAMESPACE, DRIVER),
        "garbage": good[:-4],
    }
    for name, token in wrong.items():
        file = disks.kubeconfig.parent / f"{name}.token"
        file.write_text(token)
        driver = disks.driver(
            "node-0", "--aggregator", f"http://127.0.0.1:{port}", "--aggregator-token", str(file)
        ).start(ready=False)
        driver.wait_until(
            lambda driver=driver: driver.metric("afflux_disk_failed_reports_total") > 0, "a refusal"
        )
        assert driver.logged("not reported, .* (401|403) ")
        driver.close()
    assert "status" not in disks.info("node-0")
    assert aggregator.metric("afflux_disk_aggregator_reports_total", "refused") >= 3
    aggregator.assert_healthy()


def test_a_shared_token_is_enough_where_tokens_cannot_be_reviewed(
    aggregated: DiskIOCluster, tmp_path: Path
) -> None:
    disks = aggregated
    token = tmp_path / "shared"
    token.write_text("a-long-secret\n")
    aggregator = disks.aggregator("--token-file", str(token)).start()
    port = aggregator.logged(r"port (\d+)")
    disks.driver(
        "node-0", "--aggregator", f"http://127.0.0.1:{port}", "--aggregator-token", str(token)
    ).start()
    aggregator.wait_until(lambda: disks.observed("node-0") is not None, "the report")
    assert disks.left("node-0") == CAPACITY
