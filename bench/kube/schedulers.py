"""The schedulers under comparison, as shipped: own credentials and rights, no request limits.

All use leader election, as in a cluster. The benchmark holds the lease until the backlog exists: a
standby replica already knows the cluster and starts when it becomes leader.
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
from testbed.processes import ProcessReaper, Program, RunningProgram, tail

AFFLUX, PEER, NULL, NULL_EVENTS = "afflux", "kube-scheduler", "null", "null-events"
NULL_LEASE = "kube-system/null"
CHART = Path(__file__).parents[2] / "charts" / "afflux"
NAMESPACE = "afflux-system"
READY_SECONDS = 120.0
# Longer than the defaults of 15 s and 10 s: all processes share two cores, and a late renewal must
# not end a scheduler. The null binder has the same times.
LEASE = {"leaseDuration": "60s", "renewDeadline": "45s", "retryPeriod": "2s"}
# The parallel binds of the null binder: as many as afflux.
NULL_WORKERS = 64


@dataclass(frozen=True, slots=True)
class Site:
    """The control plane, the plan file, and the program of the load generator."""

    plane: ControlPlane
    plan: Path
    load: Path


@dataclass(frozen=True, slots=True)
class BenchScheduler:
    """A scheduler: its lease as namespace/name, and a generator that runs it and yields its pid."""

    name: str
    lease: str
    running: Callable[[Site], "Generator[int]"]


def afflux(plane: ControlPlane) -> Generator[int]:
    """afflux with the rights and configuration of the chart, for `default-scheduler`."""
    port = _free_port()
    values = {
        "config": {
            "profiles": [{"schedulerName": "default-scheduler"}],
            "leaderElection": LEASE,
            # The others have no ledger either; bench/ledger measures its cost.
            "ledger": {"enabled": False},
        },
        # The chart refuses afflux's own schedulerName; its Deployment is left out anyway.
        "schedulerName": "another",
    }
    manifests = _chart(json.dumps(values))
    shown = json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests})
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


def kube_scheduler(plane: ControlPlane) -> Generator[int]:
    """kube-scheduler with its defaults, but without a limit on its requests."""
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


SCHEDULERS = {
    each.name: each
    for each in (
        BenchScheduler(AFFLUX, "kube-system/afflux", lambda site: afflux(site.plane)),
        BenchScheduler(PEER, "kube-system/kube-scheduler", lambda site: kube_scheduler(site.plane)),
        BenchScheduler(NULL, NULL_LEASE, _null(NULL)),
        BenchScheduler(NULL_EVENTS, NULL_LEASE, _null(NULL_EVENTS, "--events")),
    )
}


@contextmanager
def _process(plane: ControlPlane, program: Program) -> Generator[RunningProgram]:
    """Runs a program that ends with this process, even if this process is killed."""
    own = plane.directory / f"{program.name}-reaper"
    own.mkdir()
    reaper = ProcessReaper(own)
    running = RunningProgram(program, reaper)
    try:
        yield running
    finally:
        running.kill()
        reaper.close()


@cache
def _chart(values: str) -> list[Manifest]:
    """The manifests of the chart without the Deployment: its pods cannot run here."""
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
