"""Runs HiGHS in a process of its own, which may crash, hang or be missing."""

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
from afflux.gates.integer_program import IntegerProgram

# -P and `_environment` keep Python from importing modules from the current folder.
COMMAND = (sys.executable, "-P", "-m", "afflux.gates.highs_worker")

_POLL_INTERVAL_SECONDS = 0.05


class HighsUnavailableError(Exception):
    """HiGHS gave no answer; the message says why."""


@dataclass(frozen=True, slots=True, eq=False)
class HighsAnswer:
    """The answer of HiGHS. It may be wrong, as HiGHS calculates in floating point."""

    status: str
    open: NDArray[np.bool_] | None
    """By gate, whether it should be open."""
    bound: float | None
    """No choice costs less."""


def run_highs(
    program: IntegerProgram, *, seconds: float, gap_ppm: int, cancel: Cancel | None
) -> HighsAnswer:
    """The answer of HiGHS within `seconds`; HighsUnavailableError if there is none."""
    if not _is_installed():
        raise HighsUnavailableError("HiGHS is not installed: expected the package highspy")
    if not COMMAND[0]:
        raise HighsUnavailableError(
            "HiGHS could not be started: this Python does not know its own program"
        )
    deadline = time.monotonic() + seconds
    command = [*COMMAND, str(deadline), str(gap_ppm)]
    try:
        status, output, errors = _run(command, program.to_bytes(), deadline, cancel)
    except OSError as error:
        raise HighsUnavailableError(f"HiGHS could not be started: {error}") from error
    if status:
        raise HighsUnavailableError(_failure(status, errors))
    return _read(output, int(program.gates[0]))


def _is_installed() -> bool:
    try:
        return importlib.util.find_spec("highspy") is not None
    except ValueError:  # a module without a spec has this name
        return False


def _environment() -> dict[str, str]:
    """Our environment, with our absolute module folders, which excludes the current folder."""
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(os.path.isabs, sys.path))}


def _run(
    command: list[str], data: bytes, deadline: float, cancel: Cancel | None
) -> tuple[int, bytes, bytes]:
    """The exit status of the process, its output and its error output."""
    # Files instead of pipes, as a full pipe would block the process.
    with TemporaryFile() as input_file, TemporaryFile() as output, TemporaryFile() as errors:
        input_file.write(data)
        input_file.seek(0)
        with subprocess.Popen(  # noqa: S603 - this Python with a module of this package
            command, stdin=input_file, stdout=output, stderr=errors, env=_environment()
        ) as process:
            try:
                status = _wait(process, deadline, cancel)
            finally:
                process.kill()
        output.seek(0)
        errors.seek(0)
        return status, output.read(), errors.read()


def _wait(process: subprocess.Popen[bytes], deadline: float, cancel: Cancel | None) -> int:
    while True:
        try:
            return process.wait(_POLL_INTERVAL_SECONDS)
        except subprocess.TimeoutExpired:
            pass
        if cancel is not None and cancel.is_cancelled:
            raise HighsUnavailableError("cancelled while HiGHS was at work")
        if time.monotonic() >= deadline:
            raise HighsUnavailableError("HiGHS gave no answer in time and was stopped")


def _failure(status: int, errors: bytes) -> str:
    lines = errors.decode(errors="replace").strip().splitlines()
    last = f": {lines[-1]:.200}" if lines else ""
    how = f"was ended by signal {-status}" if status < 0 else f"failed with exit status {status}"
    return f"HiGHS {how}{last}"


def _read(output: bytes, gates: int) -> HighsAnswer:
    """The answer in the output; an error if it has another form."""
    try:
        answer: object = json.loads(output)
    except (ValueError, RecursionError) as error:
        raise HighsUnavailableError(f"the answer of HiGHS cannot be read: {error}") from error
    if not isinstance(answer, dict):
        raise HighsUnavailableError("the answer of HiGHS is no object")
    answer = cast("dict[str, object]", answer)
    status, is_open, bound = (answer.get(name) for name in ("status", "open", "bound"))
    if bound is not None and (not isinstance(bound, float) or not math.isfinite(bound)):
        raise HighsUnavailableError(
            f"HiGHS answers a bound of {bound!r:.40}, expected a finite number"
        )
    if is_open is not None:
        is_open = _choice(is_open, gates)
    return HighsAnswer(f"{status:.80}" if isinstance(status, str) else "no status", is_open, bound)


def _choice(value: object, gates: int) -> NDArray[np.bool_]:
    values = cast("list[object]", value) if isinstance(value, list) else []
    if len(values) != gates or not all(isinstance(each, bool) for each in values):
        raise HighsUnavailableError(
            f"HiGHS answers a choice that is not {gates} times true or false"
        )
    return np.array(values, np.bool_)
