"""`afflux run` as tests start, look at, stop and kill it: with the chart's rights and no more."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from installation import install
from testbed import ControlPlane, Manifest
from testbed.processes import Keeper, tail

import afflux

# Emptying the cluster between tests leaves this namespace alone: one installation is enough.
NAMESPACE = "kube-system"
LEASE = "faults"
PATIENCE_SECONDS = 60.0

CONFIGURATION: Mapping[str, Any] = {
    "apiVersion": "afflux.dev/v1alpha1",
    "kind": "AffluxConfiguration",
    # Long, so that an API server that was killed, or a busy machine, does not cost the lease.
    "leaderElection": {
        "resourceName": LEASE,
        "resourceNamespace": NAMESPACE,
        "leaseDuration": "90s",
        "renewDeadline": "80s",
        "retryPeriod": "500ms",
    },
    "serving": {"bindAddress": "127.0.0.1", "port": 0},
    # After so long an answer is taken to be lost.
    "binding": {"timeout": "2s"},
    # Tests that want one say where.
    "ledger": {"enabled": False},
}
# Of one replica, which needs no lease.
ALONE = {"leaderElect": False}
# For tests of who leads, so that nobody waits long for the next one.
SHORT = {"leaseDuration": "7s", "renewDeadline": "5s", "retryPeriod": "500ms"}


def install_rights(plane: ControlPlane) -> Path:
    """The chart's service account; its kubeconfig."""
    config = {"leaderElection": {"resourceName": LEASE}}
    return install(plane, NAMESPACE, release=LEASE, config=config)


class Scheduler:
    """One replica; `start` it again after it was killed or has ended."""

    def __init__(
        self, kubeconfig: Path, directory: Path, configuration: Mapping[str, Any], keeper: Keeper
    ) -> None:
        self._config = directory / "config.yaml"
        self._config.write_text(json.dumps(configuration))
        self._kubeconfig = kubeconfig
        self._directory = directory
        self._keeper = keeper
        self._process: subprocess.Popen[bytes] | None = None
        self._starts = 0

    # --- From start to end

    def start(self, *, ready: bool = True) -> Self:
        """Start it, and wait until it knows the cluster."""
        self._starts += 1
        source = str(Path(afflux.__file__).parents[1])
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [
                    sys.executable, "-m", "afflux.cli", "run",
                    "--kubeconfig", str(self._kubeconfig), "--config", str(self._config),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=os.environ | {"PYTHONPATH": source},
            )  # fmt: skip
        self._keeper.watch(self._process.pid)
        if ready:
            self.wait_until(lambda: self.ask("readyz")[0], "being ready")
        return self

    def kill(self) -> None:
        """SIGKILL, and gone when this returns."""
        process = self._running
        process.kill()
        process.wait()
        self._keeper.forget(process.pid)

    def stop(self) -> int:
        """SIGTERM; its exit code once it has ended."""
        self._running.terminate()
        return self.wait_ended()

    def wait_ended(self) -> int:
        """Its exit code, when it ends by itself."""
        code = self._running.wait(PATIENCE_SECONDS)
        self._keeper.forget(self._running.pid)
        return code

    def signal(self, number: signal.Signals) -> None:
        """Any other signal."""
        self._running.send_signal(number)

    def close(self) -> None:
        """At the end of a test, whatever state it is in."""
        if self._process is not None and self._process.poll() is None:
            self.kill()

    # --- Looking at it

    @property
    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "not started"
        return self._process

    @property
    def pid(self) -> int:
        """The number of its process."""
        return self._running.pid

    @property
    def alive(self) -> bool:
        """Whether it has not ended."""
        return self._running.poll() is None

    @property
    def log(self) -> Path:
        """What it says, since the last start."""
        return self._directory / f"{self._starts}.log"

    def said(self, pattern: str) -> str | None:
        """The first group of this pattern in its log."""
        found = re.search(pattern, self.log.read_text(errors="replace"))
        return found[1] if found else None

    @property
    def identity(self) -> str:
        """Its name in the lease."""
        return self.said("waiting for lease .* as (.*)") or ""

    def ask(self, page: str) -> tuple[bool, str]:
        """One of its pages: whether it answered 200, and what."""
        port = self.said(r"serving health and metrics on .*, port (\d+)")
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
        """The sum of a metric, over those of its labels in which this text occurs."""
        _, page = self.ask("metrics")
        lines = re.findall(rf"^{name}(?:{{(.*)}})? (\S+)$", page, re.MULTILINE)
        return sum(float(value) for labels, value in lines if label in labels)

    def wait_until(self, happened: Callable[[], bool], what: str) -> None:
        """Poll until it has happened; soon over if the process ends."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not happened():
            if not self.alive:
                raise AssertionError(f"it ended while {what} was waited for:\n{tail(self.log)}")
            if time.monotonic() > deadline:
                raise AssertionError(f"waited in vain for {what}:\n{tail(self.log)}")
            time.sleep(0.05)

    def assert_well(self) -> None:
        """Alive, and content with itself; nothing in it has failed."""
        assert self.alive, tail(self.log)
        well, answer = self.ask("livez")
        assert well, answer
        assert "Traceback" not in self.log.read_text(errors="replace"), tail(self.log, 80)


class Schedulers:
    """The replicas of one test."""

    def __init__(self, plane: ControlPlane, kubeconfig: Path, directory: Path) -> None:
        self.plane = plane
        self.kubeconfig = kubeconfig
        self._directory = directory / "schedulers"
        self._directory.mkdir()
        self._keeper = Keeper(self._directory)
        self._all: list[Scheduler] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for each in self._all:
            if each.log.exists():
                # Shown if the test has failed.
                print(f"--- {each.log}\n{tail(each.log, 60)}")
            each.close()
        self._keeper.close()

    def make(self, kubeconfig: Path | None = None, **sections: Any) -> Scheduler:
        """One that is not started; sections of the configuration are added to the usual ones."""
        directory = self._directory / str(len(self._all))
        directory.mkdir()
        usual: dict[str, Any] = dict(CONFIGURATION)
        if "ledger" in sections:
            del usual["ledger"]
        for name, section in sections.items():
            added = isinstance(section, Mapping)
            usual[name] = {**usual.get(name, {}), **section} if added else section
        made = Scheduler(kubeconfig or self.kubeconfig, directory, usual, self._keeper)
        self._all.append(made)
        return made

    def start(self, kubeconfig: Path | None = None, **sections: Any) -> Scheduler:
        """One that knows the cluster."""
        return self.make(kubeconfig, **sections).start()

    def lease(self) -> Manifest:
        """The spec of the lease; empty if there is none."""
        path = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
        for lease in self.plane.api.list(path):
            if lease["metadata"]["name"] == LEASE:
                return lease["spec"]
        return {}

    def leader(self) -> Scheduler | None:
        """The one that holds the lease."""
        holder = self.lease().get("holderIdentity")
        return next((each for each in self._all if holder and each.identity == holder), None)


__all__ = ["ALONE", "SHORT", "Scheduler", "Schedulers", "install_rights"]
