"""The state file: what clients have described and what was decided, so that the service can be
restarted without them.

Unmodified clients of Firmament never tell again about tasks that run. Without this file, a service
that was restarted would use their room a second time.

The file is a log: every change is a record at its end, with its length and a checksum. It is
written anew, as one record for each thing that exists, when it is opened and when most of it is
outdated. A record that a crash cut off is dropped. Records survive the end of the process, and not
necessarily that of the machine: nothing waits for the disk.
"""

import fcntl
import logging
import os
import struct
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from time import monotonic
from typing import Literal
from zlib import crc32

import msgspec
from msgspec.structs import replace

from afflux.model.errors import InputError
from afflux.model.resources import Resources
from afflux.rpc.machine_messages import DescribedMachine
from afflux.web.rate_limited_log import RateLimitedLog

_MAGIC = b"afflux service state 1\n"
_HEADER = struct.Struct("<II")
# A file is written anew when it is larger than this, and than so many times its last new version.
_MIN_REWRITE_BYTES = 16 << 20
_REWRITE_FACTOR = 3
# After an error, the file is written anew at most this often.
_RETRY_SECONDS = 5.0

_log = RateLimitedLog(logging.getLogger(__name__))


class Record(msgspec.Struct, frozen=True, tag_field="k", array_like=True, gc=False):
    """A change. Later records about the same thing replace earlier ones."""


class MachineRecord(Record, frozen=True, tag="machine", array_like=True, gc=False):
    described: DescribedMachine


class TaskRecord(Record, frozen=True, tag="task", array_like=True, gc=False):
    """A task with its message, and its place if it has one."""

    id: str
    created_seconds: float
    message: bytes
    machine: str = ""
    unit: str = ""


class PlaceRecord(Record, frozen=True, tag="place", array_like=True, gc=False):
    id: str
    machine: str
    unit: str


class ForeignRecord(Record, frozen=True, tag="foreign", array_like=True, gc=False):
    name: str
    machine: str
    unit: str
    requests: Resources


class EndedRecord(Record, frozen=True, tag="ended", array_like=True, gc=False):
    """So many ended tasks of this uid have not been removed; 0 if none."""

    uid: int
    tasks: int


class GoneRecord(Record, frozen=True, tag="gone", array_like=True, gc=False):
    """There is no such thing any more."""

    kind: Literal["machine", "task", "foreign"]
    key: str


AnyRecord = MachineRecord | TaskRecord | PlaceRecord | ForeignRecord | EndedRecord | GoneRecord

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(AnyRecord)


def latest_records(records: Iterable[AnyRecord]) -> list[AnyRecord]:
    """One record for each thing that exists after all these changes, the oldest first."""
    latest: dict[tuple[str, str], AnyRecord] = {}
    for each in records:
        match each:
            case MachineRecord(described):
                latest["machine", described.uuid] = each
            case TaskRecord(id=task_id):
                latest["task", task_id] = each
            case PlaceRecord(task_id, machine, unit):
                known = latest.get(("task", task_id))
                if isinstance(known, TaskRecord):
                    latest["task", task_id] = replace(known, machine=machine, unit=unit)
            case ForeignRecord(name=name):
                latest["foreign", name] = each
            case EndedRecord(uid, tasks):
                latest.pop(("ended", str(uid)), None)
                if tasks:
                    latest["ended", str(uid)] = each
            case GoneRecord(kind, key):
                latest.pop((kind, key), None)
    return list(latest.values())


class StateFile:
    """The open file of one process. `snapshot` has a record for each thing that exists."""

    def __init__(self, path: str) -> None:
        """An InputError if the file cannot be used, or another process uses it."""
        self._path = Path(path)
        self.snapshot: Callable[[], Iterable[AnyRecord]] = tuple
        # Why the file is behind, None if it is not.
        self.complaint: str | None = None
        self._retry_at = 0.0
        try:
            self._file = _locked(self._path)
        except OSError as error:
            raise InputError(
                f"--state: {path!r:.200}: {error.strerror or error}; expected a file that no other"
                " service uses, in a folder that can be written"
            ) from None
        self._size = self._rewritten_size = 0

    def read(self) -> Iterator[AnyRecord]:
        """The records of the earlier process; an InputError if the file is none of a service."""
        content = self._path.read_bytes()
        if content and not content.startswith(_MAGIC[: len(content)]):
            raise InputError(f"--state: {str(self._path)!r:.200}: expected a state file of afflux")
        position = len(_MAGIC)
        while (end := _record_end(content, position)) is not None:
            try:
                yield _decoder.decode(content[position + _HEADER.size : end])
            except msgspec.MsgspecError as error:
                raise InputError(
                    f"--state: {str(self._path)!r:.200}: byte {position}: {error}; expected a file"
                    " that this version, or an earlier one, has written"
                ) from None
            position = end
        if position < len(content):
            dropped = len(content) - position
            _log.warning(
                "the last %d bytes of the state file were cut off and are dropped", dropped
            )

    def append(self, record: AnyRecord) -> None:
        """Write a change. An error is reported, and the whole file is written again later."""
        if self.complaint is not None:
            if monotonic() >= self._retry_at:
                self.rewrite()
            return
        framed = _framed(record)
        try:
            _write(self._file, framed)
        except OSError as error:
            self._failed(error)
            return
        self._size += len(framed)
        if self._size > max(_MIN_REWRITE_BYTES, _REWRITE_FACTOR * self._rewritten_size):
            self.rewrite()

    def rewrite(self) -> None:
        """Write the file anew; the old one stays until the new one is complete."""
        new = self._path.with_name(f"{self._path.name}.new")
        try:
            file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                pieces = [_MAGIC, *map(_framed, self.snapshot())]
                _write(file, b"".join(pieces))
                os.fsync(file)
                os.rename(new, self._path)
            except BaseException:
                os.close(file)
                raise
        except OSError as error:
            self._failed(error)
            return
        os.close(self._file)
        self._file = file
        self._size = self._rewritten_size = sum(map(len, pieces))
        self.complaint = None

    def close(self) -> None:
        os.close(self._file)

    def _failed(self, error: OSError) -> None:
        self.complaint = f"the state file is behind: {error.strerror or error}"
        self._retry_at = monotonic() + _RETRY_SECONDS
        _log.error("the state file cannot be written: %s", error)


def _locked(path: Path) -> int:
    """The file, which only this process may use until it ends."""
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(file), os.stat(path)):
                return file
        except BaseException:
            os.close(file)
            raise
        # The process that had it has written it anew meanwhile.
        os.close(file)


def _framed(record: AnyRecord) -> bytes:
    body = _encoder.encode(record)
    return _HEADER.pack(len(body), crc32(body)) + body


def _record_end(content: bytes, position: int) -> int | None:
    """The end of the record that begins here, None if there is no complete one."""
    if position + _HEADER.size > len(content):
        return None
    length, checksum = _HEADER.unpack_from(content, position)
    begin = position + _HEADER.size
    if crc32(content[begin : begin + length]) != checksum or begin + length > len(content):
        return None
    return begin + length


def _write(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]
