"""Normalisers are loaded, replaced and refused while the scheduler runs."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from cluster_objects import create, delete, wait_for_reason, wait_placed
from fake_disk_drivers import Drivers, stating
from live_manifests import pod
from scheduler_process import NAMESPACE, WITHOUT_ELECTION, Scheduler
from shared_scheduler import empty_cluster, installed_scheduler
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
from normalisers.wasm_modules import answering, module, packed

KEY = parse_private_key(private_key_pem(b"k" * 32))
MAPS = "/api/v1/namespaces/default/configmaps"
NO_NORMALISER = "1 node(s) had disks of a model without a normalisation function"
FULL = "1 node(s) had insufficient disk bandwidth"


def table(factor: float) -> bytes:
    factors = {"32k": factor}
    found = {"kind": "DiskCoefficients", "name": "NV100", "read": factors, "write": factors}
    return json.dumps(found).encode()


class Vendor:
    """A server with one content, and the ConfigMap that announces it."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self.content = b""
        self.asked = 0
        vendor = self

        class Answer(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                vendor.asked += 1
                self.send_response(200)
                self.end_headers()
                self.wfile.write(vendor.content)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/nv100"

    def announce(self, content: bytes, version: int, **changes: Any) -> None:
        signed = Signed("Acme", "NV100", version, content_digest(content))
        entry = {
            "vendorName": "Acme",
            "model": "NV100",
            "url": self.url,
            "version": version,
            "digest": signed.digest,
            "keyId": "acme",
            "signature": sign(KEY, signed),
        }
        announced = {key: each for key, each in (entry | changes).items() if each is not None}
        body: Manifest = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "normalization-func", "namespace": "default"},
            "data": {"diskVendors": json.dumps([announced])},
        }
        try:
            self.plane.api.patch(f"{MAPS}/normalization-func", {"data": body["data"]})
        except ApiError as error:
            if error.status != 404:
                raise
            self.plane.api.create(MAPS, body)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        try:
            self.plane.api.delete(f"{MAPS}/normalization-func")
        except ApiError as error:
            if error.status != 404:
                raise


@pytest.fixture(scope="module")
def afflux(
    control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scheduler]:
    directory = tmp_path_factory.mktemp("normalisers")
    keys = directory / "keys"
    keys.mkdir()
    (keys / "acme.pub").write_bytes(public_key_pem(public_key(KEY)))
    sections: dict[str, Any] = {
        "policies": [{"name": "cpu-memory"}, {"name": "disk-io"}],
        "diskIO": {"namespace": NAMESPACE, "trustedKeys": str(keys)},
        "leaderElection": {"resourceName": "normalisers", **WITHOUT_ELECTION},
    }
    with installed_scheduler(control_plane, "normalisers", directory, **sections) as process:
        yield process


@pytest.fixture
def cluster(control_plane: ControlPlane, afflux: Scheduler) -> ControlPlane:
    return empty_cluster(control_plane, afflux)


@pytest.fixture
def vendor(cluster: ControlPlane) -> Iterator[Vendor]:
    made = Vendor(cluster)
    yield made
    made.close()


def test_normalisers_are_loaded_replaced_and_refused_while_pods_are_scheduled(
    cluster: ControlPlane, vendor: Vendor, afflux: Scheduler
) -> None:
    nodes = cluster.create_nodes(1)
    with Drivers(cluster, {nodes[0]: {"a": 100}}, model="Acme/NV100"):
        create(cluster, pod("io", annotations=stating(40)))
        wait_for_reason(cluster, "io", f"0/1 nodes are available: {NO_NORMALISER}.")
        # With this table the pod takes 120 of 100.
        vendor.content = table(3)
        vendor.announce(vendor.content, 1)
        wait_for_reason(cluster, "io", f"0/1 nodes are available: {FULL}.")
        # A higher version, by which it takes 80.
        vendor.content = table(2)
        vendor.announce(vendor.content, 2)
        wait_placed(cluster, "io")
        delete(cluster, "Pod", "io")
        # Tampered with, unsigned, downgraded: the last good table stays, and pods are placed.
        for number, (content, version, changes) in enumerate(
            [
                (table(1), 3, {"digest": content_digest(table(9))}),
                (table(1), 3, {"signature": None, "keyId": None}),
                (table(3), 1, {}),
                (table(1), 3, {"keyId": "stranger"}),
            ]
        ):
            vendor.content = content
            vendor.announce(content, version, **changes)
            create(cluster, pod(f"small{number}", annotations=stating(10)))
            wait_placed(cluster, f"small{number}")
        cluster.wait_until(
            lambda: afflux.metric("afflux_disk_normalisers", 'state="problem"') == 1, "a problem"
        )
        assert afflux.metric("afflux_disk_normalisers", 'state="in use"') == 1
        create(cluster, pod("large", annotations=stating(40)))
        wait_for_reason(cluster, "large", f"0/1 nodes are available: {FULL}.")
        told = [e for e in cluster.events("default") if e["reason"] == "NormalisersRefused"]
        assert told


def test_content_that_is_not_what_was_signed_is_never_used(
    cluster: ControlPlane, vendor: Vendor, afflux: Scheduler
) -> None:
    nodes = cluster.create_nodes(1)
    with Drivers(cluster, {nodes[0]: {"a": 100}}, model="Acme/NV100"):
        vendor.content = table(0.001)
        vendor.announce(table(3), 10)
        cluster.wait_until(
            lambda: afflux.metric("afflux_disk_normaliser_loads_total", 'result="refused"') > 0,
            "the content to be refused",
        )
        assert vendor.asked
        create(cluster, pod("plain"))
        wait_placed(cluster, "plain")


@pytest.mark.slow
def test_signed_modules_that_loop_or_fill_memory_fit_nowhere_and_hold_nothing_up(
    cluster: ControlPlane, vendor: Vendor, afflux: Scheduler
) -> None:
    hostile = {
        "loops": module(estimate="(loop (br 0)) (unreachable)"),
        "fills-memory": module(
            estimate=f"(loop (drop (memory.grow (i32.const 1))) (br 0)) {packed(0, 0)}"
        ),
        "answers-nan": answering('{"rbps": "NaN", "wbps": "0"}'),
        "answers-negative": answering('{"rbps": "-1", "wbps": "0"}'),
    }
    nodes = cluster.create_nodes(1)
    with Drivers(cluster, {nodes[0]: {"a": 100}}, model="Acme/NV100"):
        for number, (name, content) in enumerate(hostile.items()):
            loads = afflux.metric("afflux_disk_normaliser_loads_total", 'result="loaded"')
            vendor.content = content
            vendor.announce(content, 20 + number)
            cluster.wait_until(
                lambda before=loads: (
                    afflux.metric("afflux_disk_normaliser_loads_total", 'result="loaded"') > before
                ),
                f"the module that {name}",
            )
            create(cluster, pod(name, annotations=stating(10)))
            wait_for_reason(cluster, name, f"0/1 nodes are available: {NO_NORMALISER}.")
            create(cluster, pod(f"beside-{name}"))
            wait_placed(cluster, f"beside-{name}")
        # With the table of a higher version all of them are placed.
        vendor.content = table(1)
        vendor.announce(vendor.content, 30)
        for name in hostile:
            wait_placed(cluster, name)
