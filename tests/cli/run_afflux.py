"""Runs the command line and returns its output."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

AFFLUX = [sys.executable, "-m", "afflux.cli"]


@dataclass(frozen=True)
class Answer:
    """The exit code and the output."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        assert self.code == 0, self.err
        return json.loads(self.out)

    @property
    def complaint(self) -> str:
        """The one line about the invalid input; there must be no other output."""
        assert self.code == 2, (self.out, self.err)
        assert self.out == ""
        assert self.err.endswith("\n")
        line = self.err[:-1]
        assert line.isprintable(), "one line, and nothing that a terminal would act on"
        assert len(line) < 1000
        assert "Errno" not in line
        return line


Afflux = Callable[..., Answer]


def process(
    *arguments: str | Path, stdin: bytes = b"", env: dict[str, str] | None = None, **more: Any
) -> Answer:
    """Runs the command as a separate process."""
    done = subprocess.run(
        [*AFFLUX, *map(str, arguments)],
        input=stdin,
        capture_output=True,
        env={**os.environ, **(env or {})},
        timeout=60,
        check=False,
        **more,
    )
    return Answer(done.returncode, done.stdout.decode(), done.stderr.decode())


def shell(command: str, *arguments: str | Path, cwd: Path | None = None) -> Answer:
    """A line of bash in which "$@" is `afflux` with these arguments."""
    done = subprocess.run(
        [
            "/usr/bin/env",
            "bash",
            "-o",
            "pipefail",
            "-c",
            command,
            "bash",
            *AFFLUX,
            *map(str, arguments),
        ],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        cwd=cwd,
        timeout=60,
        check=False,
    )
    return Answer(done.returncode, done.stdout.decode(), done.stderr.decode())


def swf(jobs: Sequence[tuple[int, float, float, int]], processors: int = 4) -> str:
    """A log of jobs (number, submit, run, processors)."""
    lines = [f"; MaxProcs: {processors}"]
    for number, submit, run, count in jobs:
        lines.append(f"{number} {submit} -1 {run} {count} -1 -1 {count} {run}" + " -1" * 9)
    return "\n".join(lines) + "\n"
