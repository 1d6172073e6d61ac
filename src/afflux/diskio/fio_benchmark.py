"""Measures the profile of a disk with fio: random reads and writes by block size, then a mix.

By default on a file of its own in a given directory, which is removed afterwards; on a raw device
only if that is named, as writing destroys what is on it. Every step has a time, the file has a
size, and fio is killed if it takes longer. O_DIRECT is tried first: without it the page cache is
measured too, which is logged and noted in the profile.
"""

import asyncio
import logging
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from afflux.diskio.device_profile import DeviceProfile
from afflux.model.errors import InputError

# With the largest of these, requests that state no block size count as they are stated.
BLOCK_SIZES = (512, 1 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10)
MAX_FILE_BYTES = 64 << 30
MAX_STEP_SECONDS = 600

FILE_NAME = ".afflux-disk-profile"
# The file system keeps at least as much room as the file takes.
_FREE_FACTOR = 2
_QUEUE_DEPTH = 32
# A disk of 10 MB/s can lay out the file in this time for each byte; fio needs a moment to start.
_LAYOUT_BYTES_PER_SECOND = 10_000_000
_GRACE_SECONDS = 60.0

Direction = Literal["randread", "randwrite", "randrw", "write"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BenchmarkOptions:
    """What to measure. `logical_block_bytes`: smaller blocks cannot be read past the page cache."""

    model: str
    device_id: str
    directory: str = ""
    raw_device: str = ""
    file_bytes: int = 1 << 30
    step_seconds: int = 5
    block_sizes: Sequence[int] = BLOCK_SIZES
    logical_block_bytes: int = 512


@dataclass(frozen=True, slots=True)
class _Target:
    path: str
    size: int
    is_direct: bool


class _Direction(msgspec.Struct, frozen=True):
    bw_bytes: int = 0


class _Job(msgspec.Struct, frozen=True):
    read: _Direction
    write: _Direction
    error: int = 0


class _Output(msgspec.Struct, frozen=True):
    jobs: tuple[_Job, ...]


_output = msgspec.json.Decoder(_Output)


async def measure_profile(
    options: BenchmarkOptions, on_step: Callable[[str], None] = lambda _: None
) -> DeviceProfile:
    """Runs all steps; an InputError if they cannot be run here. `on_step` is told each result."""
    if shutil.which("fio") is None:
        raise InputError("fio: not found; expected it to be installed, or a profile with --profile")
    sizes = [size for size in options.block_sizes if size >= options.logical_block_bytes]
    if not sizes:
        raise InputError(
            f"block sizes: {list(options.block_sizes)}, expected one of at least"
            f" {options.logical_block_bytes} bytes"
        )
    if options.raw_device:
        return await _measured(options, sizes, _Target(options.raw_device, 0, True), on_step)
    path = Path(options.directory, FILE_NAME)
    _make_file(path, options.file_bytes)
    is_direct = opens_directly(path)
    if not is_direct:
        _log.warning(
            "%s: the file system refuses O_DIRECT; the profile includes the page cache, which makes"
            " the disk look faster than it is",
            options.directory,
        )
    try:
        target = _Target(str(path), options.file_bytes, is_direct)
        return await _measured(options, sizes, target, on_step)
    finally:
        path.unlink(missing_ok=True)


async def _measured(
    options: BenchmarkOptions,
    sizes: Sequence[int],
    target: _Target,
    on_step: Callable[[str], None],
) -> DeviceProfile:
    if target.size:
        # Blocks that were never written are not read from the disk.
        seconds = target.size / _LAYOUT_BYTES_PER_SECOND
        await _run_fio(_layout(target), seconds + _GRACE_SECONDS)
    by_direction: dict[str, dict[int, int]] = {"randread": {}, "randwrite": {}}
    for direction in ("randread", "randwrite"):
        for size in sizes:
            job = await _run_step(target, direction, size, options.step_seconds)
            reached = job.read.bw_bytes if direction == "randread" else job.write.bw_bytes
            by_direction[direction][size] = max(1, reached)
            on_step(f"{direction} in blocks of {size} bytes: {reached} bytes per second")
    job = await _run_step(target, "randrw", max(sizes), options.step_seconds)
    total = job.read.bw_bytes + job.write.bw_bytes
    on_step(f"half reads, half writes in blocks of {max(sizes)} bytes: {total} bytes per second")
    return DeviceProfile(
        options.model,
        by_direction["randread"],
        by_direction["randwrite"],
        max(1, total),
        (options.device_id,) if options.device_id else (),
        target.is_direct,
        "fio",
    )


def opens_directly(path: Path) -> bool:
    """Whether the file system takes O_DIRECT."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_DIRECT | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def _make_file(path: Path, size: int) -> None:
    """Makes the empty file."""
    if not 1 << 20 <= size <= MAX_FILE_BYTES:
        raise InputError(f"file size: {size}, expected from 1 MiB to {MAX_FILE_BYTES} bytes")
    try:
        # From a run that was killed.
        path.unlink(missing_ok=True)
        free = shutil.disk_usage(path.parent).free
        if free < size * _FREE_FACTOR:
            raise InputError(
                f"{path.parent}: {free} bytes free, expected {size * _FREE_FACTOR} for a file of"
                f" {size} bytes"
            )
        flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC
        os.close(os.open(path, flags, 0o600))
    except OSError as error:
        raise InputError(
            f"{path}: {error.strerror}; expected a directory that can be written"
        ) from None


# --- fio


def _layout(target: _Target) -> list[str]:
    return [*_common(target), "--rw=write", "--bs=1M", "--end_fsync=1"]


async def _run_step(target: _Target, direction: Direction, size: int, seconds: int) -> _Job:
    if not 1 <= seconds <= MAX_STEP_SECONDS:
        raise InputError(f"seconds: {seconds}, expected from 1 to {MAX_STEP_SECONDS}")
    arguments = [
        *_common(target),
        f"--rw={direction}",
        f"--bs={size}",
        f"--runtime={seconds}",
        "--time_based",
        "--norandommap",
        "--randrepeat=0",
    ]
    return await _run_fio(arguments, seconds + _GRACE_SECONDS)


def _common(target: _Target) -> list[str]:
    engine = ["--ioengine=libaio", f"--iodepth={_QUEUE_DEPTH}", "--direct=1"]
    # Without O_DIRECT asynchronous IO is synchronous.
    buffered = ["--ioengine=psync", "--direct=0"]
    return [
        "--name=afflux",
        f"--filename={target.path}",
        *([f"--size={target.size}"] if target.size else []),
        *(engine if target.is_direct else buffered),
        # Data that a disk with compression cannot make smaller.
        "--refill_buffers",
        "--output-format=json",
    ]


async def _run_fio(arguments: Sequence[str], timeout_seconds: float) -> _Job:
    process = await asyncio.create_subprocess_exec(
        "fio",
        *arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(timeout_seconds):
            out, errors = await process.communicate()
    except TimeoutError:
        raise InputError(f"fio: took more than {timeout_seconds:.0f} s; expected less") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    said = " ".join(errors.decode(errors="replace").split())[:400]
    if process.returncode:
        raise InputError(f"fio: exit code {process.returncode}: {said}")
    return _job(out, said)


def _job(out: bytes, said: str) -> _Job:
    # Notes may precede the JSON.
    try:
        output = _output.decode(out[max(0, out.find(b"{")) :])
    except (msgspec.MsgspecError, ValueError) as error:
        raise InputError(f"fio: its output cannot be read: {error}; {said}") from None
    if not output.jobs or output.jobs[0].error:
        raise InputError(f"fio: failed: {said}")
    return output.jobs[0]
