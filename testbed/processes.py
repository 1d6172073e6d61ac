"""Starts, awaits and ends one program of the control plane."""

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

# A first start takes ten seconds on a loaded machine with two cores.
READY_SECONDS = 120.0
POLL_SECONDS = 0.05
TAIL_LINES = 30


class StartError(Exception):
    """A program of the control plane did not start; the message has the end of its log."""


@dataclass(frozen=True, slots=True)
class Program:
    """The command of a program, and the URL of its readiness check."""

    name: str
    command: Sequence[str]
    ready_url: str
    log: Path


class ProcessReaper:
    """Runs `process_reaper.py`, which ends the other processes after this one has ended."""

    def __init__(self, directory: Path) -> None:
        script = Path(__file__).with_name("process_reaper.py")
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
        """Adds a process that is to be ended."""
        print(f"+{pid}", file=self._pipe, flush=True)

    def forget(self, pid: int) -> None:
        """Removes a process that has ended: the kernel may reuse its pid."""
        print(f"-{pid}", file=self._pipe, flush=True)

    def close(self) -> None:
        """Ends the remaining processes, and waits until that is done."""
        self._pipe.close()
        self._process.wait()


class RunningProgram:
    """A running program."""

    def __init__(self, program: Program, reaper: ProcessReaper) -> None:
        self.program = program
        self._reaper = reaper
        with program.log.open("ab") as log:
            # A new session: Ctrl-C in a terminal must not end etcd before the API server.
            self._process = subprocess.Popen(
                program.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        reaper.watch(self._process.pid)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self._process.poll() is None

    def kill(self) -> None:
        """Sends SIGKILL and waits until the process has ended."""
        self._process.kill()
        self._process.wait()
        self._reaper.forget(self._process.pid)

    def terminate(self, patience_seconds: float) -> None:
        """Sends SIGTERM, and SIGKILL if the process has not ended in time."""
        self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(patience_seconds)
        self.kill()

    def wait_ready(self, context: ssl.SSLContext, seconds: float = READY_SECONDS) -> None:
        """Polls until the program is ready; raises StartError."""
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
        # The log itself, not its path: the file is removed with the control plane.
        name, log = self.program.name, self.program.log
        return StartError(f"{name} {what}; the end of its log:\n{tail(log)}")


def tail(log: Path, lines: int = TAIL_LINES) -> str:
    """The last lines of a log."""
    if not log.exists():
        return "(no log)"
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])


def resident_bytes(pid: int) -> int:
    """The resident memory of a process (Linux)."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0


def cpu_seconds(pid: int) -> float:
    """The user and system time of a process so far (Linux)."""
    # The program name, in brackets, may contain spaces; the later fields do not.
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
