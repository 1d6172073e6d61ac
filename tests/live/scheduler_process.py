"""Starts, observes, stops and kills `afflux run`, which has exactly the rights of the chart."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from chart_installation import install
from testbed import ControlPlane, Manifest
from testbed.processes import ProcessReaper, tail

import afflux

# `empty_cluster` keeps this namespace, so that one installation serves all tests.
NAMESPACE = "kube-system"
LEASE = "faults"
WAIT_TIMEOUT_SECONDS = 60.0

CONFIGURATION: Mapping[str, Any] = {
    "apiVersion": "afflux.dev/v1alpha1",
    "kind": "AffluxConfiguration",
    # Long, so that neither a killed API server nor a busy machine ends the term.
    "leaderElection": {
        "resourceName": LEASE,
        "resourceNamespace": NAMESPACE,
        "leaseDuration": "90s",
        "renewDeadline": "80s",
        "retryPeriod": "500ms",
    },
    "serving": {"bindAddress": "127.0.0.1", "port": 0},
    # After this time the response counts as lost.
    "binding": {"timeout": "2s"},
    # Tests with a ledger configure it.
    "ledger": {"enabled": False},
}
# For a single replica.
WITHOUT_ELECTION = {"leaderElect": False}
# For tests of leader election, so that another replica takes over soon.
SHORT_LEASE = {"leaseDuration": "7s", "renewDeadline": "5s", "retryPeriod": "500ms"}


def install_rights(plane: ControlPlane) -> Path:
    """Install the rights of the chart; returns the kubeconfig of its service account."""
    config = {"leaderElection": {"resourceName": LEASE}}
    return install(plane, NAMESPACE, release=LEASE, config=config)


class AffluxProcess:
    """A command of afflux that runs until stopped; it can be started again after it ended."""

    def __init__(self, arguments: Sequence[str], directory: Path, reaper: ProcessReaper) -> None:
        self._arguments = arguments
        self._directory = directory
        self._reaper = reaper
        self._process: subprocess.Popen[bytes] | None = None
        self._starts = 0

    # --- Start and end

    def start(self, *, ready: bool = True, log_level: str = "info") -> Self:
        """Start the process and wait until it is ready."""
        self._starts += 1
        source = str(Path(afflux.__file__).parents[1])
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [
                    sys.executable, "-m", "afflux.cli", *self._arguments, "--log-level", log_level,
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=os.environ | {"PYTHONPATH": source},
            )  # fmt: skip
        self._reaper.watch(self._process.pid)
        if ready:
            self.wait_until(lambda: self.ask("readyz")[0], "being ready")
        return self

    def kill(self) -> None:
        """Send SIGKILL and wait until the process is gone."""
        process = self._running
        process.kill()
        process.wait()
        self._reaper.forget(process.pid)

    def stop(self) -> int:
        """Send SIGTERM; returns the exit code."""
        self._running.terminate()
        return self.wait_ended()

    def wait_ended(self) -> int:
        """Wait until the process ends by itself; returns the exit code."""
        code = self._running.wait(WAIT_TIMEOUT_SECONDS)
        self._reaper.forget(self._running.pid)
        return code

    def signal(self, number: signal.Signals) -> None:
        """Send another signal."""
        self._running.send_signal(number)

    def close(self) -> None:
        """Kill the process if it still runs."""
        if self._process is not None and self._process.poll() is None:
            self.kill()

    # --- Observation

    @property
    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "not started"
        return self._process

    @property
    def pid(self) -> int:
        """The process id."""
        return self._running.pid

    @property
    def alive(self) -> bool:
        """Whether the process has not ended."""
        return self._running.poll() is None

    @property
    def log(self) -> Path:
        """The log since the last start."""
        return self._directory / f"{self._starts}.log"

    def logged(self, pattern: str) -> str | None:
        """The first group of this pattern in the log."""
        found = re.search(pattern, self.log.read_text(errors="replace"))
        return found[1] if found else None

    def ask(self, page: str) -> tuple[bool, str]:
        """GET one of its pages: whether the status is 200, and the body."""
        port = self.logged(r"serving health and metrics on .*, port (\d+)")
        if port is None:
            return False, "does not listen yet"
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/{page}", timeout=10) as answer:
                return True, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return False, error.read().decode()
        except OSError as error:
            return False, str(error)

    def metric(self, name: str, label: str = "") -> float:
        """The sum of a metric over the label sets that contain this text."""
        _, page = self.ask("metrics")
        lines = re.findall(rf"^{name}(?:{{(.*)}})? (\S+)$", page, re.MULTILINE)
        return sum(float(value) for labels, value in lines if label in labels)

    def wait_until(self, happened: Callable[[], bool], what: str) -> None:
        """Poll until it has happened; fails when the process ends."""
        deadline = time.monotonic() + WAIT_TIMEOUT_SECONDS
        while not happened():
            if not self.alive:
                raise AssertionError(f"the process ended before {what}:\n{tail(self.log)}")
            if time.monotonic() > deadline:
                raise AssertionError(f"timed out waiting for {what}:\n{tail(self.log)}")
            time.sleep(0.05)

    def assert_healthy(self) -> None:
        """The process runs, /livez is healthy, and the log has no traceback."""
        assert self.alive, tail(self.log)
        healthy, answer = self.ask("livez")
        assert healthy, answer
        assert "Traceback" not in self.log.read_text(errors="replace"), tail(self.log, 80)


class Scheduler(AffluxProcess):
    """One replica of `afflux run`."""

    def __init__(
        self,
        kubeconfig: Path,
        directory: Path,
        configuration: Mapping[str, Any],
        reaper: ProcessReaper,
    ) -> None:
        config = directory / "config.yaml"
        config.write_text(json.dumps(configuration))
        arguments = ["run", "--kubeconfig", str(kubeconfig), "--config", str(config)]
        super().__init__(arguments, directory, reaper)

    @property
    def identity(self) -> str:
        """The identity of the replica in the lease."""
        return self.logged("waiting for lease .* as (.*)") or ""


class ProcessGroup:
    """The processes of one test; ends them after it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._directory.mkdir(exist_ok=True)
        self._reaper = ProcessReaper(directory)
        self._processes: list[AffluxProcess] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for each in self._processes:
            if each.log.exists():
                # pytest shows it if the test has failed.
                print(f"--- {each.log}\n{tail(each.log, 60)}")
            each.close()
        self._reaper.close()

    def _next_directory(self) -> Path:
        directory = self._directory / str(len(self._processes))
        directory.mkdir()
        return directory


class Schedulers(ProcessGroup):
    """The replicas of one test."""

    def __init__(self, plane: ControlPlane, kubeconfig: Path, directory: Path) -> None:
        super().__init__(directory / "schedulers")
        self.plane = plane
        self.kubeconfig = kubeconfig
        self._all: list[Scheduler] = []

    def make(self, kubeconfig: Path | None = None, **sections: Any) -> Scheduler:
        """A replica that is not started; the sections are merged into the default configuration."""
        directory = self._next_directory()
        merged: dict[str, Any] = dict(CONFIGURATION)
        if "ledger" in sections:
            del merged["ledger"]
        for name, section in sections.items():
            added = isinstance(section, Mapping)
            merged[name] = {**merged.get(name, {}), **section} if added else section
        scheduler = Scheduler(kubeconfig or self.kubeconfig, directory, merged, self._reaper)
        self._all.append(scheduler)
        self._processes.append(scheduler)
        return scheduler

    def start(self, kubeconfig: Path | None = None, **sections: Any) -> Scheduler:
        """A replica that is started and ready."""
        return self.make(kubeconfig, **sections).start()

    def lease(self) -> Manifest:
        """The spec of the lease; empty if there is none."""
        path = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
        for lease in self.plane.api.list(path):
            if lease["metadata"]["name"] == LEASE:
                return lease["spec"]
        return {}

    def leader(self) -> Scheduler | None:
        """The replica that holds the lease."""
        holder = self.lease().get("holderIdentity")
        return next((each for each in self._all if holder and each.identity == holder), None)


__all__ = [
    "SHORT_LEASE",
    "WITHOUT_ELECTION",
    "AffluxProcess",
    "ProcessGroup",
    "Scheduler",
    "Schedulers",
    "install_rights",
]
