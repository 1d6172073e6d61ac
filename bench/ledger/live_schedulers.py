"""Two schedulers on a real API server, one with a ledger: how soon are complete groups bound?

Both run all the time, under different names, and get work in turn. Of ten groups all pods but one
exist; then the last pod of each group is created. The time from then until a watch has reported all
pods as bound is a cycle with its binds.
"""

import json
import re
import socket
import ssl
import sys
import threading
import time
import urllib.request
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http.client import HTTPException, HTTPSConnection
from statistics import median
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

from testbed import ControlPlane, Manifest, components
from testbed.processes import ProcessReaper, Program, RunningProgram

KEPT, BARE = "kept", "bare"
MACHINES = 100
GROUPS = 10
SIZE = 10
ROUNDS = 40
READY_SECONDS = 60.0
TIMEOUT_SECONDS = 60.0
# Schedulers need only this controller.
CONTROLLERS = "serviceaccount-controller"
PODS = "/api/v1/namespaces/default/pods"


@dataclass(frozen=True)
class Live:
    """Median seconds from when the groups are complete until all are bound, with a ledger (`kept`)
    and without (`bare`). With a ledger also: the time of the cycles without binds, and how long
    they waited for the ledger."""

    groups: int
    size: int
    kept: float
    bare: float
    cycles: float
    waits: float

    @property
    def slower(self) -> float:
        """The share of the time that the ledger adds."""
        return (self.kept - self.bare) / self.kept


class BoundPods:
    """The pods that a watch has reported as bound."""

    def __init__(self) -> None:
        self._seen: set[str] = set()
        self._changed = threading.Condition()

    def seen(self, pod: Manifest) -> None:
        """Records a pod; objects without a node are ignored."""
        if pod.get("spec", {}).get("nodeName"):
            with self._changed:
                self._seen.add(pod["metadata"]["name"])
                self._changed.notify_all()

    def wait(self, names: set[str]) -> float:
        """Waits until all these pods are bound, and returns the time."""
        with self._changed:
            if not self._changed.wait_for(lambda: names <= self._seen, TIMEOUT_SECONDS):
                missing = sorted(names - self._seen)
                raise RuntimeError(f"{len(missing)} pods were not bound, such as {missing[0]}")
            return time.monotonic()


def live(rounds: int = ROUNDS) -> Live:
    """Measures both in turn. The first round is a warm-up and does not count."""
    options = components.Options(audit=False, controllers=CONTROLLERS)
    with ExitStack() as stack:
        plane = stack.enter_context(ControlPlane(options=options, machines=False))
        plane.create_nodes(MACHINES, cpu="64", memory="256Gi")
        directory = stack.enter_context(TemporaryDirectory(prefix="ledger-"))
        ports = {
            KEPT: stack.enter_context(_scheduler(plane, KEPT, {"directory": directory})),
            BARE: stack.enter_context(_scheduler(plane, BARE, {"enabled": False})),
        }
        bound_pods = stack.enter_context(_watching(plane))
        found: dict[str, list[_Round]] = {KEPT: [], BARE: []}
        for number in range(rounds + 1):
            for name in (KEPT, BARE) if number % 2 else (BARE, KEPT):
                found[name].append(_bound(plane, bound_pods, name, ports[name], number))
    kept, bare = found[KEPT][1:], found[BARE][1:]
    return Live(
        GROUPS,
        SIZE,
        median(each.seconds for each in kept),
        median(each.seconds for each in bare),
        median(each.cycles for each in kept),
        median(each.waits for each in kept),
    )


@dataclass(frozen=True)
class _Round:
    seconds: float
    cycles: float
    waits: float


def _bound(
    plane: ControlPlane, bound_pods: BoundPods, scheduler: str, port: int, number: int
) -> _Round:
    groups = [f"{scheduler}-{number}-{group}" for group in range(GROUPS)]
    plane.create_pods(
        [_pod(scheduler, group, member) for group in groups for member in range(1, SIZE)]
    )
    time.sleep(0.3)
    last = [_pod(scheduler, group, 0) for group in groups]
    waited, cycled = _phases(port)
    began = time.monotonic()
    plane.create_pods(last)
    names = {f"{group}-{member}" for group in groups for member in range(SIZE)}
    seconds = bound_pods.wait(names) - began
    waits, cycles = _phases(port)
    plane.api.delete(PODS, gracePeriodSeconds=0)
    time.sleep(0.3)
    return _Round(seconds, cycles - cycled, waits - waited)


def _pod(scheduler: str, group: str, member: int) -> Manifest:
    labels = {"afflux.dev/group-name": group, "afflux.dev/group-size": str(SIZE)}
    resources = {"requests": {"cpu": "500m", "memory": "1Gi"}}
    container = {"name": "main", "image": "testbed.invalid/nothing", "resources": resources}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"{group}-{member}", "labels": labels},
        "spec": {"schedulerName": scheduler, "containers": [container]},
    }


@contextmanager
def _scheduler(plane: ControlPlane, name: str, ledger: Manifest) -> Generator[int]:
    """Runs a scheduler with this name and yields the port of its HTTP server."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    settings = {
        "apiVersion": "afflux.dev/v1alpha1",
        "kind": "AffluxConfiguration",
        "profiles": [{"schedulerName": name}],
        "leaderElection": {"leaderElect": False},
        "serving": {"bindAddress": "127.0.0.1", "port": port},
        "ledger": ledger,
    }
    file = plane.directory / f"{name}.yaml"
    file.write_text(json.dumps(settings))
    command = [sys.executable, "-m", "afflux.cli", "run"]
    command += ["--kubeconfig", str(plane.kubeconfig), "--config", str(file)]
    own = plane.directory / f"{name}-reaper"
    own.mkdir()
    reaper = ProcessReaper(own)
    program = Program(name, command, f"http://127.0.0.1:{port}/readyz", plane.log(name))
    running = RunningProgram(program, reaper)
    try:
        running.wait_ready(ssl.create_default_context(), READY_SECONDS)
        yield port
    finally:
        # SIGTERM, so that the scheduler stops its database.
        running.terminate(TIMEOUT_SECONDS)
        reaper.close()


def _phases(port: int) -> tuple[float, float]:
    """Seconds so far that a scheduler has waited for its ledger, and that its cycles took."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        page: str = answer.read().decode()

    def phase(name: str) -> float:
        label = re.escape(f'afflux_cycle_phase_duration_seconds_sum{{phase="{name}"}}')
        found = re.search(rf"^{label} (\S+)$", page, re.MULTILINE)
        return float(found[1]) if found else 0.0

    waited = phase("commit")
    return waited, phase("observe") + phase("decide") + waited


@contextmanager
def _watching(plane: ControlPlane) -> Generator[BoundPods]:
    """Watches pods in a separate thread, so that nothing delays it."""
    bound_pods, over = BoundPods(), threading.Event()

    def read() -> None:
        # The API server closes slow watches; the next one begins with a list.
        while not over.is_set():
            known = plane.api.get(PODS)
            for pod in known["items"]:
                bound_pods.seen(pod)
            try:
                _watch(plane, known["metadata"]["resourceVersion"], bound_pods, over)
            except (OSError, HTTPException):
                continue

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        yield bound_pods
    finally:
        over.set()
        # Any event wakes the thread up.
        plane.create_pods([_pod("none", "last", 0)])
        reader.join(TIMEOUT_SECONDS)


def _watch(plane: ControlPlane, version: str, bound_pods: BoundPods, over: threading.Event) -> None:
    context = ssl.create_default_context(cafile=str(plane.authority))
    admin = plane.components.admin
    context.load_cert_chain(admin.certificate, admin.key)
    parts = urlsplit(plane.url)
    connection = HTTPSConnection(parts.hostname or "", parts.port, context=context)
    try:
        connection.request("GET", f"{PODS}?watch=true&resourceVersion={version}")
        answer = connection.getresponse()
        while (line := answer.readline()) and not over.is_set():
            bound_pods.seen(json.loads(line)["object"])
    finally:
        connection.close()
