"""How long a pod waits for its place on a large cluster that is at rest: measured and printed.

Run with `-s` to see the figures. From the answer to the pod's creation until a watch shows it
bound; and the same for a pod that is bound by hand as soon as it is created, which is what the API
server itself takes.
"""

import http.client
import json
import ssl
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from live_manifests import OURS, pod
from looking import create, placed
from scheduler import Scheduler
from sharing import emptied, shared
from testbed import ControlPlane

NODES = 1000
PODS = 20
PATIENCE_SECONDS = 60.0


@pytest.fixture(scope="module")
def afflux(
    control_plane: ControlPlane, rights: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scheduler]:
    with shared(control_plane, rights, tmp_path_factory.mktemp("latency")) as process:
        yield process


class Sightings:
    """When a watch has shown each pod bound, by name."""

    def __init__(self) -> None:
        self._times: dict[str, float] = {}
        self._changed = threading.Condition()

    def bound(self, name: str) -> None:
        with self._changed:
            self._times.setdefault(name, time.monotonic())
            self._changed.notify_all()

    def of(self, name: str) -> float:
        """When it was seen, as soon as it is."""
        with self._changed:
            seen = self._changed.wait_for(lambda: name in self._times, PATIENCE_SECONDS)
            assert seen, f"{name} was not bound within {PATIENCE_SECONDS:g} s"
            return self._times[name]


@contextmanager
def watching(plane: ControlPlane) -> Iterator[Sightings]:
    """A watch of its own, so that nothing else delays what it sees."""
    context = ssl.create_default_context(cafile=str(plane.authority))
    context.load_cert_chain(plane.components.admin.certificate, plane.components.admin.key)
    parts = urlsplit(plane.url)
    connection = http.client.HTTPSConnection(
        parts.hostname or "", parts.port, timeout=2 * PATIENCE_SECONDS, context=context
    )
    path = "/api/v1/namespaces/default/pods"
    version = plane.api.get(path, limit=1)["metadata"]["resourceVersion"]
    connection.request("GET", f"{path}?watch=true&resourceVersion={version}")
    answer = connection.getresponse()
    assert answer.status == 200
    sightings = Sightings()

    def read() -> None:
        while line := answer.readline():
            seen = json.loads(line)["object"]
            if seen["spec"].get("nodeName"):
                sightings.bound(seen["metadata"]["name"])
            if seen["metadata"]["name"] == "last":
                return

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        yield sightings
    finally:
        # A pod of this name ends the reader.
        create(plane, pod("last", scheduler="nobody"))
        reader.join(PATIENCE_SECONDS)
        connection.close()


def latency(plane: ControlPlane, sightings: Sightings, name: str, node: str | None = None) -> float:
    """Seconds from the answer to a pod's creation to the sight of it bound; by hand, to a node."""
    create(plane, pod(name, scheduler="nobody" if node else OURS))
    created = time.monotonic()
    if node:
        plane.bind(name, node)
    return sightings.of(name) - created


def test_a_pod_is_placed_at_once_among_a_thousand_machines(
    control_plane: ControlPlane, afflux: Scheduler
) -> None:
    plane = emptied(control_plane, afflux)
    plane.create_nodes(NODES)
    create(plane, pod("first"))
    placed(plane, "first", seconds=PATIENCE_SECONDS)
    time.sleep(1)
    with watching(plane) as sightings:
        null: list[float] = []
        ours: list[float] = []
        # In turn, so that whatever else the machine does happens to both.
        for number in range(PODS):
            for title, times, node in (("null", null, "node-0500"), ("ours", ours, None)):
                times.append(latency(plane, sightings, f"{title}-{number}", node))
                time.sleep(0.05)
    figures = {
        title: (statistics.median(times) * 1000, max(times) * 1000)
        for title, times in (("by hand", null), ("afflux", ours))
    }
    beyond = [figures["afflux"][index] - figures["by hand"][index] for index in range(2)]
    print(
        f"\nfrom created to bound at {NODES} machines, {PODS} pods, in ms: "
        + "; ".join(
            f"{title} p50 {p50:.1f}, p99 {p99:.1f}" for title, (p50, p99) in figures.items()
        )
        + f"; beyond the API server p50 {beyond[0]:.1f}, p99 {beyond[1]:.1f}"
    )
    # Much more than it should be: a busy machine must not fail this.
    assert max(ours) < 5
