"""Two schedulers on a real API server, one of which keeps a ledger: how soon groups are bound.

Both run all the time, under names of their own; the work goes to each in turn. All members of ten
groups but one are there, then the last ones come, all at once: from then until a watch has seen
everybody bound is a cycle with its binds.
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
from testbed.processes import Keeper, Program, Running

KEPT, BARE = "kept", "bare"
MACHINES = 100
GROUPS = 10
SIZE = 10
ROUNDS = 40
READY_SECONDS = 60.0
PATIENCE_SECONDS = 60.0
# What a scheduler needs of the controllers.
CONTROLLERS = "serviceaccount-controller"
PODS = "/api/v1/namespaces/default/pods"


@dataclass(frozen=True)
class Live:
    """Seconds, in the median, from when so many groups are complete until all are bound, with a
    ledger and without; and, with one, of that time what the loop's cycles took without their binds,
    and how long they waited for the ledger."""

    groups: int
    size: int
    kept: float
    bare: float
    cycles: float
    waits: float

    @property
    def slower(self) -> float:
        """By how much of its time it is longer with a ledger."""
        return (self.kept - self.bare) / self.kept


class Sightings:
    """The pods that a watch has shown bound."""

    def __init__(self) -> None:
        self._seen: set[str] = set()
        self._changed = threading.Condition()

    def seen(self, pod: Manifest) -> None:
        """So it is now; what a watch says of itself is no pod."""
        if pod.get("spec", {}).get("nodeName"):
            with self._changed:
                self._seen.add(pod["metadata"]["name"])
                self._changed.notify_all()

    def wait(self, names: set[str]) -> float:
        """When all of these were seen."""
        with self._changed:
            if not self._changed.wait_for(lambda: names <= self._seen, PATIENCE_SECONDS):
                missing = sorted(names - self._seen)
                raise RuntimeError(f"{len(missing)} pods were not bound, {missing[0]} one of them")
            return time.monotonic()


def live(rounds: int = ROUNDS) -> Live:
    """Measure both, in turn; the first round, when everything is new, does not count."""
    options = components.Options(audit=False, controllers=CONTROLLERS)
    with ExitStack() as stack:
        plane = stack.enter_context(ControlPlane(options=options, machines=False))
        plane.create_nodes(MACHINES, cpu="64", memory="256Gi")
        directory = stack.enter_context(TemporaryDirectory(prefix="ledger-"))
        ports = {
            KEPT: stack.enter_context(_scheduler(plane, KEPT, {"directory": directory})),
            BARE: stack.enter_context(_scheduler(plane, BARE, {"enabled": False})),
        }
        sightings = stack.enter_context(_watching(plane))
        found: dict[str, list[_Round]] = {KEPT: [], BARE: []}
        for number in range(rounds + 1):
            for name in (KEPT, BARE) if number % 2 else (BARE, KEPT):
                found[name].append(_bound(plane, sightings, name, ports[name], number))
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
    plane: ControlPlane, sightings: Sightings, scheduler: str, port: int, number: int
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
    seconds = sightings.wait(names) - began
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
    """A scheduler of this name; the port of its pages."""
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
    own = plane.directory / f"{name}-keeper"
    own.mkdir()
    keeper = Keeper(own)
    program = Program(name, command, f"http://127.0.0.1:{port}/readyz", plane.log(name))
    running = Running(program, keeper)
    try:
        running.wait_ready(ssl.create_default_context(), READY_SECONDS)
        yield port
    finally:
        # Gently: whoever has started a database stops it.
        running.terminate(PATIENCE_SECONDS)
        keeper.close()


def _phases(port: int) -> tuple[float, float]:
    """How long a scheduler has waited for its ledger so far, and how long its cycles took."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        page: str = answer.read().decode()

    def phase(name: str) -> float:
        label = re.escape(f'afflux_cycle_phase_duration_seconds_sum{{phase="{name}"}}')
        found = re.search(rf"^{label} (\S+)$", page, re.MULTILINE)
        return float(found[1]) if found else 0.0

    waited = phase("commit")
    return waited, phase("observe") + phase("decide") + waited


@contextmanager
def _watching(plane: ControlPlane) -> Generator[Sightings]:
    """A watch of its own, so that nothing else delays what it sees."""
    sightings, over = Sightings(), threading.Event()

    def read() -> None:
        # API servers end watches that they take to be slow: the next one begins with a list.
        while not over.is_set():
            known = plane.api.get(PODS)
            for pod in known["items"]:
                sightings.seen(pod)
            try:
                _watch(plane, known["metadata"]["resourceVersion"], sightings, over)
            except (OSError, HTTPException):
                continue

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        yield sightings
    finally:
        over.set()
        # Whatever happens next wakes it up.
        plane.create_pods([_pod("nobody", "last", 0)])
        reader.join(PATIENCE_SECONDS)


def _watch(plane: ControlPlane, version: str, sightings: Sightings, over: threading.Event) -> None:
    context = ssl.create_default_context(cafile=str(plane.authority))
    admin = plane.components.admin
    context.load_cert_chain(admin.certificate, admin.key)
    parts = urlsplit(plane.url)
    connection = HTTPSConnection(parts.hostname or "", parts.port, context=context)
    try:
        connection.request("GET", f"{PODS}?watch=true&resourceVersion={version}")
        answer = connection.getresponse()
        while (line := answer.readline()) and not over.is_set():
            sightings.seen(json.loads(line)["object"])
    finally:
        connection.close()
