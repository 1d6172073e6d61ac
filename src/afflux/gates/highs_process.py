"""Asking HiGHS, in a process that may crash, hang or be missing."""

import importlib.util
import json
import math
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from tempfile import TemporaryFile
from typing import cast

import numpy as np
from numpy.typing import NDArray

from afflux._core import Cancel
from afflux.gates.program import Program

# -P, and what `_environment` leaves out: no file in the current folder may stand in for a module.
COMMAND = (sys.executable, "-P", "-m", "afflux.gates.highs")

_LOOK_SECONDS = 0.05


class NoHelpError(Exception):
    """Why there is no answer from HiGHS."""


@dataclass(frozen=True, slots=True, eq=False)
class Advice:
    """What HiGHS says. It may be wrong, and it calculates in floating point."""

    status: str
    open: NDArray[np.bool_] | None
    """By gate, whether it should be open."""
    bound: float | None
    """No choice costs less."""


def ask(program: Program, *, seconds: float, gap_ppm: int, cancel: Cancel | None) -> Advice:
    """What HiGHS says of a program, within some time; NoHelpError if there is no answer to read."""
    if not _is_installed():
        raise NoHelpError("HiGHS is not installed: expected the package highspy")
    if not COMMAND[0]:
        raise NoHelpError("HiGHS could not be started: this Python does not know its own program")
    deadline = time.monotonic() + seconds
    command = [*COMMAND, str(deadline), str(gap_ppm)]
    try:
        status, said, complaint = _run(command, program.to_bytes(), deadline, cancel)
    except OSError as error:
        raise NoHelpError(f"HiGHS could not be started: {error}") from error
    if status:
        raise NoHelpError(_failure(status, complaint))
    return _read(said, int(program.gates[0]))


def _is_installed() -> bool:
    try:
        return importlib.util.find_spec("highspy") is not None
    except ValueError:  # something else goes by its name
        return False


def _environment() -> dict[str, str]:
    """As here, but with the folders that modules come from here, and not the current one."""
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(os.path.isabs, sys.path))}


def _run(
    command: list[str], data: bytes, deadline: float, cancel: Cancel | None
) -> tuple[int, bytes, bytes]:
    """How a process ends, and what it writes to both of its outputs."""
    # Files instead of pipes: nobody has to write and read at the same time.
    with TemporaryFile() as given, TemporaryFile() as said, TemporaryFile() as complaint:
        given.write(data)
        given.seek(0)
        with subprocess.Popen(  # noqa: S603 - this Python with a module of this package
            command, stdin=given, stdout=said, stderr=complaint, env=_environment()
        ) as process:
            try:
                status = _wait(process, deadline, cancel)
            finally:
                process.kill()
        said.seek(0)
        complaint.seek(0)
        return status, said.read(), complaint.read()


def _wait(process: subprocess.Popen[bytes], deadline: float, cancel: Cancel | None) -> int:
    """How the process ends."""
    while True:
        try:
            return process.wait(_LOOK_SECONDS)
        except subprocess.TimeoutExpired:
            pass
        if cancel is not None and cancel.is_cancelled:
            raise NoHelpError("cancelled while HiGHS was at work")
        if time.monotonic() >= deadline:
            raise NoHelpError("HiGHS gave no answer in time and was stopped")


def _failure(status: int, complaint: bytes) -> str:
    lines = complaint.decode(errors="replace").strip().splitlines()
    last = f": {lines[-1]:.200}" if lines else ""
    how = f"was ended by signal {-status}" if status < 0 else f"failed with exit status {status}"
    return f"HiGHS {how}{last}"


def _read(said: bytes, gates: int) -> Advice:
    """An answer, if it has the form of one."""
    try:
        answer: object = json.loads(said)
    except (ValueError, RecursionError) as error:
        raise NoHelpError(f"the answer of HiGHS cannot be read: {error}") from error
    if not isinstance(answer, dict):
        raise NoHelpError("the answer of HiGHS is no object")
    answer = cast("dict[str, object]", answer)
    status, is_open, bound = (answer.get(name) for name in ("status", "open", "bound"))
    if bound is not None and (not isinstance(bound, float) or not math.isfinite(bound)):
        raise NoHelpError(f"HiGHS answers a bound of {bound!r:.40}, expected a finite number")
    if is_open is not None:
        is_open = _choice(is_open, gates)
    return Advice(f"{status:.80}" if isinstance(status, str) else "no status", is_open, bound)


def _choice(value: object, gates: int) -> NDArray[np.bool_]:
    values = cast("list[object]", value) if isinstance(value, list) else []
    if len(values) != gates or not all(isinstance(each, bool) for each in values):
        raise NoHelpError(f"HiGHS answers a choice that is not {gates} times true or false")
    return np.array(values, np.bool_)
