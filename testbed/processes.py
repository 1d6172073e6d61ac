"""One program of the control plane: started, found ready, killed, started again."""

import contextlib
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

# A first start on a loaded machine of two cores takes ten seconds; this is for much worse.
READY_SECONDS = 120.0
POLL_SECONDS = 0.05
TAIL_LINES = 30


class StartError(Exception):
    """A part of the control plane did not start; the message ends with what it had to say."""


@dataclass(frozen=True, slots=True)
class Program:
    """What to run, and where it says that it is ready."""

    name: str
    command: Sequence[str]
    ready_url: str
    log: Path


class Keeper:
    """The process that outlives this one just long enough to end the others."""

    def __init__(self, directory: Path) -> None:
        script = Path(__file__).with_name("keeper.py")
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(script), str(directory)],
            stdin=subprocess.PIPE,
            start_new_session=True,
            text=True,
        )
        pipe = self._process.stdin
        assert pipe is not None  # noqa: S101 - asked for above
        self._pipe: IO[str] = pipe

    def watch(self, pid: int) -> None:
        """End this process if we cannot."""
        print(f"+{pid}", file=self._pipe, flush=True)

    def forget(self, pid: int) -> None:
        """This process has ended: its number may belong to somebody else soon."""
        print(f"-{pid}", file=self._pipe, flush=True)

    def close(self) -> None:
        """Let it do its last work, and wait for that."""
        self._pipe.close()
        self._process.wait()


class Running:
    """A program that runs."""

    def __init__(self, program: Program, keeper: Keeper) -> None:
        self.program = program
        self._keeper = keeper
        with program.log.open("ab") as log:
            # A session of its own: Ctrl-C in a terminal must not end etcd before the API server.
            self._process = subprocess.Popen(
                program.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        keeper.watch(self._process.pid)

    @property
    def pid(self) -> int:
        """The number of its process."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it has not ended by itself."""
        return self._process.poll() is None

    def kill(self) -> None:
        """SIGKILL, and gone when this returns."""
        self._process.kill()
        self._process.wait()
        self._keeper.forget(self._process.pid)

    def terminate(self, patience_seconds: float) -> None:
        """SIGTERM, and SIGKILL if that is not heard in time."""
        self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(patience_seconds)
        self.kill()

    def wait_ready(self, context: ssl.SSLContext, seconds: float = READY_SECONDS) -> None:
        """Poll until it answers that it is ready."""
        deadline = time.monotonic() + seconds
        answer = "no answer"
        while time.monotonic() < deadline:
            if not self.alive:
                raise self._error(f"ended with code {self._process.returncode}")
            ready, answer = _ask(self.program.ready_url, context)
            if ready:
                return
            time.sleep(POLL_SECONDS)
        raise self._error(f"is not ready after {seconds:g} s ({answer})")

    def _error(self, what: str) -> StartError:
        # Not where the log is: with the control plane, it is gone when anybody reads this.
        name, log = self.program.name, self.program.log
        return StartError(f"{name} {what}; the end of its log:\n{tail(log)}")


def tail(log: Path, lines: int = TAIL_LINES) -> str:
    """The last lines of a log."""
    if not log.exists():
        return "(no log)"
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])


def resident_bytes(pid: int) -> int:
    """Memory of a process that is in RAM now (Linux)."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0


def cpu_seconds(pid: int) -> float:
    """User and system time that a process has used so far (Linux)."""
    # The name of the program, in brackets, may hold spaces; what follows does not.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100  # USER_HZ is 100 on every Linux


def _ask(url: str, context: ssl.SSLContext) -> tuple[bool, str]:
    secure = context if url.startswith("https:") else None
    try:
        with urllib.request.urlopen(url, timeout=5, context=secure) as answer:  # noqa: S310
            return True, str(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return False, f"{error.code} {error.read(500).decode(errors='replace')}"
    except OSError as error:
        return False, str(error)
