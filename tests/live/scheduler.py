"""afflux as a process: started as a user starts it, watched, stopped or killed.

It runs from the working tree, with the kubeconfig of the chart's service account: the rights that
are shipped and no more.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml
from installation import NAMESPACE, install
from testbed import ControlPlane, Manifest
from testbed.processes import Keeper, Program, Running, cpu_seconds, tail

ROOT = Path(__file__).parents[2]
COMMAND = (sys.executable, "-m", "afflux.cli")
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT / "src"), "PYTHONUNBUFFERED": "1"}
PATIENCE_SECONDS = 60.0

_PORT = re.compile(r"serving health and metrics on .*, port (?P<port>[0-9]+)")


def configuration(**fields: Any) -> Manifest:
    """A configuration file with these fields, which listens on a free port of loopback.

    The lease is where it is not deleted between tests.
    """
    election = {"resourceNamespace": NAMESPACE, **fields.pop("leaderElection", {})}
    serving = {"bindAddress": "127.0.0.1", "port": 0, **fields.pop("serving", {})}
    return {
        "apiVersion": "afflux.dev/v1alpha1",
        "kind": "AffluxConfiguration",
        "leaderElection": election,
        "serving": serving,
        **fields,
    }


def run(*arguments: str, seconds: float = PATIENCE_SECONDS) -> subprocess.CompletedProcess[str]:
    """`afflux ...` until it ends by itself."""
    return subprocess.run(
        [*COMMAND, *arguments],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds,
    )


class Scheduler:
    """`afflux run` with this kubeconfig and configuration; a context that ends it."""

    def __init__(
        self, kubeconfig: Path, config: Mapping[str, Any], *, arguments: tuple[str, ...] = ()
    ) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="afflux-process-"))
        self._keeper = Keeper(self.directory)
        self.config = self.directory / "config.yaml"
        self.config.write_text(yaml.safe_dump(dict(config)))
        self._command = [
            *COMMAND, "run", "--kubeconfig", str(kubeconfig), "--config", str(self.config),
            *arguments,
        ]  # fmt: skip
        self._running: Running | None = None
        self._starts = 0

    # --- Life

    def start(self) -> Self:
        """Start it, without waiting."""
        self._starts += 1
        log = self.directory / f"afflux-{self._starts}.log"
        self._running = Running(
            Program("afflux", ["env", *_changed(), *self._command], "", log), self._keeper
        )
        return self

    def stop(self, patience_seconds: float = 30) -> None:
        """SIGTERM; killed if it does not end in time."""
        if self._running is not None:
            self._running.terminate(patience_seconds)
            self._running = None

    def kill(self) -> None:
        """SIGKILL."""
        if self._running is not None:
            self._running.kill()
            self._running = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            print(f"the end of afflux's log:\n{tail(self.log, 50)}")
        self.stop()
        self._keeper.close()

    @property
    def pid(self) -> int:
        """The number of its process."""
        assert self._running is not None
        return self._running.pid

    @property
    def alive(self) -> bool:
        """Whether it has not ended."""
        return self._running is not None and self._running.alive

    @property
    def log(self) -> Path:
        """What it has written since it was last started."""
        return self.directory / f"afflux-{self._starts}.log"

    def cpu_seconds(self) -> float:
        """The processor time that it has used."""
        return cpu_seconds(self.pid)

    # --- Pages

    @property
    def url(self) -> str | None:
        """Where its pages are, once they are."""
        found = _PORT.search(self.log.read_text(errors="replace"))
        return f"http://127.0.0.1:{found['port']}" if found else None

    def page(self, path: str) -> tuple[int, str]:
        """Status and text of one of its pages; 0 if there is no answer."""
        if self.url is None:
            return 0, "not serving yet"
        try:
            with urllib.request.urlopen(f"{self.url}{path}", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except OSError as error:
            return 0, str(error)

    def metric(self, line: str) -> float:
        """The value of a sample, named as the page has it: `name{label="value"}`; 0 without."""
        for each in self.page("/metrics")[1].splitlines():
            name, _, value = each.rpartition(" ")
            if name == line:
                return float(value)
        return 0.0

    def is_ready(self) -> bool:
        """Whether it says so; an error with the end of its log if it has ended."""
        if not self.alive:
            raise RuntimeError(f"afflux has ended:\n{tail(self.log)}")
        return self.page("/readyz")[0] == 200


@contextmanager
def scheduling(plane: ControlPlane, **fields: Any) -> Iterator[Scheduler]:
    """afflux on this control plane, with the rights of the chart, ready; the cluster is emptied."""
    plane.revive()
    plane.delete_everything()
    config = configuration(**fields)
    kubeconfig = install(plane, config={"leaderElection": config["leaderElection"]})
    with Scheduler(kubeconfig, config) as process:
        plane.wait_until(process.is_ready, "afflux to be ready")
        yield process


def emptied(plane: ControlPlane, process: Scheduler) -> ControlPlane:
    """The cluster with nothing in it but afflux's own rights, and afflux still there."""
    plane.delete_everything(keep=(NAMESPACE,))
    assert process.alive, tail(process.log)
    return plane


def configz(process: Scheduler) -> Manifest:
    """The configuration that it says is in effect."""
    return json.loads(process.page("/configz")[1])["afflux.dev"]


def _changed() -> list[str]:
    """The environment of the process, where it differs from ours."""
    return [f"{key}={value}" for key, value in ENVIRONMENT.items() if os.environ.get(key) != value]
