"""IO drivers, aggregator, API server and scheduler together: the whole protocol of disk IO, with
the normaliser that a driver serves, on kernels that the test moves."""

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from chart_installation import NAMESPACE, install
from cluster_objects import create, delete, node_of, wait_for_reason, wait_placed
from disk_io_cluster import CAPACITY, DRIVER, MIB, DiskIOCluster
from live_manifests import pod
from scheduler_process import WITHOUT_ELECTION, AffluxProcess, Scheduler, Schedulers
from testbed import ControlPlane, Manifest
from testbed.api import ApiError

from afflux.normalisers.signatures import (
    Signed,
    content_digest,
    parse_private_key,
    private_key_pem,
    public_key,
    public_key_pem,
    sign,
)
from fake_kernel import FakeKernel

pytestmark = pytest.mark.long

KEY = parse_private_key(private_key_pem(b"v" * 32))
NODES = ("node-0000", "node-0001")
MAPS = "/api/v1/namespaces/default/configmaps"
# In blocks of 4 KiB the disks of the cluster are four times as slow.
FACTOR = 4
FULL = "0/2 nodes are available: 2 node(s) had insufficient disk bandwidth."


def stating(mib: int, block_size: str = "32k") -> dict[str, str]:
    request = {"rbps": f"{mib}Mi", "blocksize": block_size}
    return {"blockio.kubernetes.io/throughput": json.dumps(request)}


class Together:
    """Two nodes with drivers that report to an aggregator, and a scheduler that counts disks."""

    def __init__(self, plane: ControlPlane, disks: DiskIOCluster, directory: Path) -> None:
        self.plane, self.disks = plane, disks
        aggregator = disks.aggregator("--account", f"{NAMESPACE}:{DRIVER}").start()
        port = aggregator.logged(r"port (\d+)")
        to_it = ("--aggregator", f"http://127.0.0.1:{port}", "--aggregator-token",
                 str(disks.driver_token()))  # fmt: skip
        self.drivers = {node: disks.driver(node, *to_it).start() for node in NODES}
        self.keys = directory / "keys"
        self.keys.mkdir()
        (self.keys / "vendor.pub").write_bytes(public_key_pem(public_key(KEY)))
        self.sections: dict[str, Any] = {
            "policies": [{"name": "cpu-memory"}, {"name": "disk-io"}],
            "diskIO": {"namespace": NAMESPACE, "trustedKeys": str(self.keys)},
            "leaderElection": {"resourceName": "together", **WITHOUT_ELECTION},
        }

    def announce(self, driver: AffluxProcess) -> None:
        """The ConfigMap, with the normaliser that this driver serves at its own address."""
        served, content = driver.ask("normalisers/v/m")
        assert served
        port = driver.logged(r"serving health and metrics on .*, port (\d+)")
        signed = Signed("v", "m", 1, content_digest(content.encode()))
        entry = {
            "vendorName": "v",
            "model": "m",
            "url": f"http://127.0.0.1:{port}/normalisers/v/m",
            "version": 1,
            "digest": signed.digest,
            "keyId": "vendor",
            "signature": sign(KEY, signed),
        }
        body: Manifest = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "normalization-func", "namespace": "default"},
            "data": {"diskVendors": json.dumps([entry])},
        }
        self.plane.api.create(MAPS, body)

    def reserved(self, node: str) -> set[str]:
        return set(self.disks.info(node)["spec"].get("reservedPods", ()))

    def uid(self, name: str) -> str:
        return self.plane.pod(name)["metadata"]["uid"]

    def started(self, name: str) -> FakeKernel:
        """What a kubelet would do for a bound pod: its cgroup appears on its node."""
        node = node_of(self.plane, name)
        assert node is not None
        kernel = self.disks.kernels[node]
        kernel.add_pod(self.uid(name), "besteffort")
        return kernel

    def acknowledged(self, *nodes: str) -> bool:
        return all(
            info["status"]["observedGeneration"] == info["metadata"]["generation"]
            for info in map(self.disks.info, nodes)
        )


@pytest.fixture
def together(cluster: ControlPlane, tmp_path: Path) -> Iterator[Together]:
    cluster.create_nodes(len(NODES))
    with DiskIOCluster(cluster, tmp_path / "io", aggregated=True) as disks:
        yield Together(cluster, disks, tmp_path)
    with suppress(ApiError):
        cluster.api.delete(f"{MAPS}/normalization-func")


@contextmanager
def scheduling(together: Together, directory: Path) -> Iterator[Scheduler]:
    sections = together.sections
    rights = install(together.plane, NAMESPACE, release="together", config=sections)
    with Schedulers(together.plane, rights, directory) as made:
        yield made.start(**sections)


@contextmanager
def reading(kernel: FakeKernel, uid: str, mib_per_second: int) -> Iterator[None]:
    """The pod reads this much in blocks of 32 KiB."""
    stop = Event()

    def work() -> None:
        while not stop.wait(0.1):
            amount = mib_per_second * MIB // 10
            kernel.pod_io(uid, "sda", read_bytes=amount, read_ios=amount // 32768)

    thread = Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def test_the_whole_protocol(together: Together, tmp_path: Path) -> None:
    plane, disks = together.plane, together.disks
    with scheduling(together, tmp_path) as afflux:
        # Without a normaliser of the model no pod with an annotation is placed.
        create(plane, pod("early", annotations=stating(10)))
        wait_for_reason(
            plane,
            "early",
            "0/2 nodes are available: 2 node(s) had disks of a model without a normalisation"
            " function.",
        )
        together.announce(together.drivers[NODES[0]])
        wait_placed(plane, "early")
        delete(plane, "Pod", "early")

        # 80 MiB/s in small blocks take 320 of the 400 that a disk reads: one pod for each node.
        create(plane, *(pod(f"small{n}", annotations=stating(80, "4k")) for n in range(3)))
        plane.wait_until(
            lambda: sum(node_of(plane, f"small{n}") is not None for n in range(3)) == 2,
            "two pods to be bound",
        )
        (waiting,) = (f"small{n}" for n in range(3) if node_of(plane, f"small{n}") is None)
        wait_for_reason(plane, waiting, FULL)
        # The drivers answer with what the requests leave.
        placed = [f"small{n}" for n in range(3) if f"small{n}" != waiting]
        for name in placed:
            node = together.plane.pod(name)["spec"]["nodeName"]
            assert together.uid(name) in together.reserved(node)
            plane.wait_until(
                lambda node=node: (
                    together.acknowledged(node)
                    and disks.left(node)["read"] == CAPACITY["read"] - 80 * MIB * FACTOR
                ),
                f"the driver of {node}",
            )
        # Nothing is deducted twice: what the drivers say is left can be used.
        create(plane, pod("rest", annotations=stating(60)))
        wait_placed(plane, "rest")
        # When one ends, its bandwidth goes to the pod that waits.
        delete(plane, "Pod", placed[0])
        wait_placed(plane, waiting)
        afflux.assert_healthy()


def test_what_a_pod_does_beyond_its_request_keeps_others_away(
    together: Together, tmp_path: Path
) -> None:
    plane, disks = together.plane, together.disks
    together.announce(together.drivers[NODES[1]])
    with scheduling(together, tmp_path) as afflux:
        create(plane, pod("greedy", annotations=stating(10)))
        wait_placed(plane, "greedy")
        busy = plane.pod("greedy")["spec"]["nodeName"]
        (idle,) = (node for node in NODES if node != busy)
        with reading(together.started("greedy"), together.uid("greedy"), 300):
            plane.wait_until(
                lambda: disks.left(busy)["read"] < CAPACITY["read"] - 200 * MIB, "the measurement"
            )
            create(plane, *(pod(f"large{n}", annotations=stating(250)) for n in range(2)))
            plane.wait_until(
                lambda: {node_of(plane, "large0"), node_of(plane, "large1")} == {idle, None},
                "one of two pods to be bound to the idle node",
            )
            (waiting,) = (n for n in ("large0", "large1") if node_of(plane, n) is None)
            wait_for_reason(plane, waiting, FULL)
        # The pod does nothing any more: its request of 10 MiB/s leaves room for the other.
        wait_placed(plane, waiting)
        assert node_of(plane, waiting) == busy
        afflux.assert_healthy()


def test_a_new_scheduler_and_a_new_driver_continue(together: Together, tmp_path: Path) -> None:
    plane, disks = together.plane, together.disks
    together.announce(together.drivers[NODES[0]])
    with scheduling(together, tmp_path) as afflux:
        create(plane, *(pod(f"p{n}", annotations=stating(150)) for n in range(4)))
        wait_placed(plane, *(f"p{n}" for n in range(4)))
        afflux.kill()
        driver = together.drivers[NODES[1]]
        driver.kill()
        create(plane, pod("next", annotations=stating(150)))
        afflux.start()
        wait_for_reason(plane, "next", FULL)
        driver.start()
        plane.wait_until(lambda: together.acknowledged(*NODES), "the drivers")
        assert [disks.left(node)["read"] for node in NODES] == [CAPACITY["read"] - 300 * MIB] * 2
        gone = next(n for n in range(4) if node_of(plane, f"p{n}") == NODES[1])
        delete(plane, "Pod", f"p{gone}")
        wait_placed(plane, "next")
        assert node_of(plane, "next") == NODES[1]
        afflux.assert_healthy()
