"""`afflux serve` as a process: started, stopped and killed."""

import json
import re
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Self

WAIT_SECONDS = 60.0

CONFIGURATION = {
    "apiVersion": "afflux.dev/v1alpha1",
    "kind": "AffluxConfiguration",
    "serving": {"bindAddress": "127.0.0.1", "port": 0},
    "ledger": {"enabled": False},
}


class ServeProcess:
    """A service on a port of its choice, or on this one; with its log beside its configuration."""

    def __init__(self, directory: Path, *options: str, port: int = 0) -> None:
        directory.mkdir(exist_ok=True)
        self._log = directory / "serve.log"
        config = directory / "config.yaml"
        config.write_text(json.dumps(CONFIGURATION))
        command = (sys.executable, "-m", "afflux.cli", "serve", "--listen", f"127.0.0.1:{port}")
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [*command, "--config", str(config), *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self.port = self._logged_port("serving firmament.FirmamentScheduler on")
        self._pages_port = self._logged_port("serving health and metrics on")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process.poll() is None:
            self.kill()
        print(self.log)

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def page(self, name: str) -> str:
        url = f"http://127.0.0.1:{self._pages_port}/{name}"
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.read().decode()

    def stop(self) -> int:
        """Send SIGTERM; returns the exit code."""
        self._process.terminate()
        return self._process.wait(WAIT_SECONDS)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(WAIT_SECONDS)

    def _logged_port(self, what: str) -> int:
        deadline = time.monotonic() + WAIT_SECONDS
        while (found := re.search(rf"{what} .*, port (\d+)", self.log)) is None:
            assert self._process.poll() is None, self.log
            assert time.monotonic() < deadline, self.log
            time.sleep(0.02)
        return int(found[1])
