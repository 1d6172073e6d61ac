"""Measures and prints how long a large idle cluster takes from creating a pod to binding it.

Run with `-s` to see the figures. The clock starts with the response to the pod's creation and stops
when a watch shows it bound. Pods that the test itself binds at once show the API server's share.
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
from cluster_objects import create, wait_placed
from live_manifests import OURS, pod
from scheduler_process import Scheduler
from shared_scheduler import empty_cluster, running_scheduler
from testbed import ControlPlane

NODES = 1000
PODS = 20
PATIENCE_SECONDS = 60.0
ATTEMPTS = "scheduler_pod_scheduling_attempts"


@pytest.fixture(scope="module")
def afflux(
    control_plane: ControlPlane, rights: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scheduler]:
    with running_scheduler(control_plane, rights, tmp_path_factory.mktemp("latency")) as process:
        yield process


class Sightings:
    """When the watch reported each pod as bound, by name."""

    def __init__(self) -> None:
        self._times: dict[str, float] = {}
        self._changed = threading.Condition()

    def bound(self, name: str) -> None:
        with self._changed:
            self._times.setdefault(name, time.monotonic())
            self._changed.notify_all()

    def of(self, name: str) -> float:
        """Wait until the pod is bound; returns when the watch reported it."""
        with self._changed:
            seen = self._changed.wait_for(lambda: name in self._times, PATIENCE_SECONDS)
            assert seen, f"{name} was not bound within {PATIENCE_SECONDS:g} s"
            return self._times[name]


@contextmanager
def watching(plane: ControlPlane) -> Iterator[Sightings]:
    """A separate watch, which no other work delays."""
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
        # The pod `last` ends the reader.
        create(plane, pod("last", scheduler="none"))
        reader.join(PATIENCE_SECONDS)
        connection.close()


def latency(plane: ControlPlane, sightings: Sightings, name: str, node: str | None = None) -> float:
    """Seconds from the creation of a pod to its binding; the test binds it if `node` is given."""
    create(plane, pod(name, scheduler="none" if node else OURS))
    created = time.monotonic()
    if node:
        plane.bind(name, node)
    return sightings.of(name) - created


def test_every_pod_among_a_thousand_machines_is_placed_at_the_first_attempt(
    control_plane: ControlPlane, afflux: Scheduler
) -> None:
    plane = empty_cluster(control_plane, afflux)
    plane.create_nodes(NODES)
    create(plane, pod("first"))
    wait_placed(plane, "first", seconds=PATIENCE_SECONDS)
    afflux.wait_until(lambda: afflux.metric(f"{ATTEMPTS}_count") == 1, "the first answer")
    before = afflux.metric(f"{ATTEMPTS}_sum")
    time.sleep(1)
    with watching(plane) as sightings:
        null: list[float] = []
        ours: list[float] = []
        # Alternating, so that other load affects both alike.
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
    afflux.wait_until(lambda: afflux.metric(f"{ATTEMPTS}_count") == PODS + 1, "the last answer")
    assert afflux.metric(f"{ATTEMPTS}_sum") == before + PODS
