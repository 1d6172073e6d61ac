"""The contestants, each as it is shipped: own credentials, own rights, no limits on its requests.

All elect a leader, as in a cluster. The lease is also how a benchmark keeps them from acting until
a backlog is there: a replica that stands by knows the cluster and begins the moment it leads.
"""

import json
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from testbed import ControlPlane, Manifest, build_helm
from testbed.components import SCHEDULER
from testbed.processes import Keeper, Program, Running, tail

AFFLUX, PEER, NULL, NULL_EVENTS = "afflux", "kube-scheduler", "null", "null-events"
NULL_LEASE = "kube-system/null"
CHART = Path(__file__).parents[2] / "charts" / "afflux"
NAMESPACE = "afflux-system"
READY_SECONDS = 120.0
# Longer than the defaults of 15 s and 10 s: all parts share two cores here, and
# nobody shall end because a renewal was late. The null binder has the same times.
LEASE = {"leaseDuration": "60s", "renewDeadline": "45s", "retryPeriod": "2s"}
# Bindings that the null binder has on their way at the same time: as many as afflux.
NULL_WORKERS = 64


@dataclass(frozen=True, slots=True)
class Site:
    """Where a contestant runs: the control plane, the plan, and the load generator's program."""

    plane: ControlPlane
    plan: Path
    load: Path


@dataclass(frozen=True, slots=True)
class Contestant:
    """A scheduler: its lease, as namespace/name, and how it is started; that yields its process."""

    name: str
    lease: str
    running: Callable[[Site], "Generator[int]"]


def afflux(site: Site) -> Generator[int]:
    """With the rights and the configuration of the chart, serving the default scheduler's name."""
    port = _free_port()
    values = {
        "config": {
            "profiles": [{"schedulerName": "default-scheduler"}],
            "leaderElection": LEASE,
            # The others keep none either; bench/ledger says what it costs.
            "ledger": {"enabled": False},
        },
        # The chart refuses to let afflux wait for itself; its Deployment is left out anyway.
        "schedulerName": "another",
    }
    manifests = _chart(json.dumps(values))
    shown = json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests})
    plane = site.plane
    plane.kubectl("create", "namespace", NAMESPACE)
    plane.kubectl("apply", "--server-side", "-f", "-", input=shown)
    (account,) = (each for each in manifests if each["kind"] == "ServiceAccount")
    kubeconfig = plane.service_account_kubeconfig(NAMESPACE, account["metadata"]["name"])
    (shipped,) = (each for each in manifests if each["kind"] == "ConfigMap")
    settings = yaml.safe_load(shipped["data"]["config.yaml"])
    settings["serving"] = {"bindAddress": "127.0.0.1", "port": port}
    file = plane.directory / "afflux.yaml"
    file.write_text(json.dumps(settings))  # JSON is YAML
    command = [sys.executable, "-m", "afflux.cli", "run"]
    command += ["--kubeconfig", str(kubeconfig), "--config", str(file)]
    ready = f"http://127.0.0.1:{port}/readyz"
    with _process(plane, Program(AFFLUX, command, ready, plane.log(AFFLUX))) as process:
        process.wait_ready(ssl.create_default_context(), READY_SECONDS)
        yield process.pid


def kube_scheduler(site: Site) -> Generator[int]:
    """With its defaults, but without a limit on its requests."""
    plane = site.plane
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": True, **LEASE},
        "clientConnection": {
            "kubeconfig": str(plane.directory / f"{SCHEDULER}.kubeconfig"),
            "qps": -1,
            "burst": 1,
        },
    }
    plane.start_scheduler(json.dumps(config))
    try:
        yield plane.pid(SCHEDULER)
    finally:
        plane.stop_part(SCHEDULER, patience_seconds=1)


def _null(name: str, *flags: str) -> Callable[[Site], Generator[int]]:
    def running(site: Site) -> Generator[int]:
        plane = site.plane
        command = [str(site.load), f"--kubeconfig={plane.kubeconfig}", f"--plan={site.plan}"]
        command += [f"--lease={NULL_LEASE}", f"--workers={NULL_WORKERS}", *flags, "bind"]
        log = plane.log(name)
        with _process(plane, Program(name, command, "", log)) as process:
            deadline = time.monotonic() + READY_SECONDS
            while "watching" not in log.read_text():
                if not process.alive or time.monotonic() > deadline:
                    raise RuntimeError(f"{name} did not start: {tail(log)}")
                time.sleep(0.05)
            yield process.pid

    return running


CONTESTANTS = {
    each.name: each
    for each in (
        Contestant(AFFLUX, "kube-system/afflux", afflux),
        Contestant(PEER, "kube-system/kube-scheduler", kube_scheduler),
        Contestant(NULL, NULL_LEASE, _null(NULL)),
        Contestant(NULL_EVENTS, NULL_LEASE, _null(NULL_EVENTS, "--events")),
    )
}


@contextmanager
def _process(plane: ControlPlane, program: Program) -> Generator[Running]:
    """A process that ends with us, however we end."""
    own = plane.directory / f"{program.name}-keeper"
    own.mkdir()
    keeper = Keeper(own)
    running = Running(program, keeper)
    try:
        yield running
    finally:
        running.kill()
        keeper.close()


@cache
def _chart(values: str) -> list[Manifest]:
    """What the chart installs, but for the Deployment: nobody here could run its pods."""
    printed = subprocess.run(
        [
            *(str(build_helm()), "template", "afflux", str(CHART)),
            *("--namespace", NAMESPACE, "--values", "-"),
        ],
        input=values,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    ).stdout
    found: list[Any] = list(yaml.safe_load_all(printed))
    return [each for each in found if each is not None and each["kind"] != "Deployment"]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
