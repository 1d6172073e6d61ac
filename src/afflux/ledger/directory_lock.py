"""The lock of a ledger's directory: two lock files in it, which other users cannot open.

All processes that use the directory hold `lock` shared; the file names their host and PID
namespace, which must be the same for all. A process that holds it exclusively may stop the server.
`starting` is held exclusively while a process starts the server. The kernel releases both when a
process ends, and every wait has a timeout. Not here: the server.
"""

import fcntl
import os
import socket
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep

from afflux.ledger.directories import ALTERNATIVES, check_owner
from afflux.model.errors import InputError

_POLL_INTERVAL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class LockTimeouts:
    """How long a process waits for a lock that others hold."""

    # Users on another host or in another container may be about to release it.
    other_host_seconds: float = 10.0
    # A process on this host that holds it exclusively is starting or stopping the server.
    same_host_seconds: float = 130.0


DEFAULT_LOCK_TIMEOUTS = LockTimeouts()


class DirectoryLock:
    """One process's use of a directory, from `acquire` to `released`."""

    def __init__(
        self,
        directory: Path,
        timeouts: LockTimeouts = DEFAULT_LOCK_TIMEOUTS,
        host: Callable[[], str] | None = None,
    ) -> None:
        """`host` names the host and the PID namespace of this process."""
        self._directory = directory
        self._timeouts = timeouts
        self._host = host or _pid_namespace
        self._others: tuple[int, ...] = ()
        self._shared: int | None = None

    def acquire(self, *others: int) -> None:
        """Lock the directory for shared use, creating it if needed. May be called again.

        Files of the users `others` are accepted like our own.
        """
        if self._shared is not None:
            return
        self._others = others
        shared = self._open("lock")
        try:
            self._lock_shared(shared)
        except BaseException as error:
            os.close(shared)
            if isinstance(error, OSError):
                raise InputError(
                    f"ledger.directory: {self._directory}: cannot be locked: {error.strerror};"
                    f" expected a directory on a disk of this machine; {ALTERNATIVES}"
                ) from None
            raise
        self._shared = shared

    @contextmanager
    def starting(self) -> Generator[None]:
        """Only this process starts the server, or cleans up after an earlier start."""
        file = self._open("starting")
        timeout_seconds = self._timeouts.same_host_seconds
        try:
            deadline = monotonic() + timeout_seconds
            while not _locked(file, fcntl.LOCK_EX):
                if monotonic() > deadline:
                    raise InputError(
                        f"ledger.directory: {self._directory}: process {_read(file)} has been"
                        f" starting PostgreSQL there for {timeout_seconds:g} s; expected it to"
                        f" be ready or gone; {ALTERNATIVES}"
                    )
                sleep(_POLL_INTERVAL_SECONDS)
            _write(file, str(os.getpid()))
            yield
        finally:
            os.close(file)

    @contextmanager
    def released(self) -> Generator[bool]:
        """Release the directory at the end of the block. Yields whether this process is its
        last user; then it holds the directory exclusively until the end."""
        if self._shared is None:
            yield False
            return
        try:
            yield _locked(self._shared, fcntl.LOCK_EX)
        finally:
            os.close(self._shared)
            self._shared = None

    def _open(self, name: str) -> int:
        path = self._directory / name
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            # The owner of the directory could make root follow a link. Other users may have access
            # to a volume by its group alone; they only open files of their own.
            if os.geteuid() == 0:
                check_owner(self._directory, *self._others)
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
            try:
                check_owner(path, *self._others)
                # A user who can open the file can lock it, and its mode, or that of the volume, may
                # have been opened to others.
                os.fchmod(file, 0o600)
            except BaseException:
                os.close(file)
                raise
        except OSError as error:
            raise InputError(
                f"ledger.directory: {self._directory}: {error.strerror}; expected a writable"
                f" directory; {ALTERNATIVES}"
            ) from None
        return file

    def _lock_shared(self, file: int) -> None:
        """Share the lock with processes of the same PID namespace, and with no others."""
        here, began = self._host(), monotonic()
        while True:
            if _locked(file, fcntl.LOCK_EX):
                _write(file, here)
            there = _read(file)
            # If users on another host were first, release it at once: they must not count this
            # process as a user.
            if there == here and _locked(file, fcntl.LOCK_SH):
                there = _read(file)
                if there == here:
                    return
                fcntl.flock(file, fcntl.LOCK_UN)
            timeouts = self._timeouts
            same_host = there == here
            limit = timeouts.same_host_seconds if same_host else timeouts.other_host_seconds
            if monotonic() - began > limit:
                raise InputError(
                    f"ledger.directory: {self._directory}: in use by {there or 'others'};"
                    " expected a directory that is not in use on another machine or in another"
                    f" container, and in which no server is being stopped; {ALTERNATIVES}"
                )
            sleep(_POLL_INTERVAL_SECONDS)


def _locked(file: int, how: int) -> bool:
    """Try to get the lock. On failure a lock that was held before in another mode is lost, too."""
    try:
        fcntl.flock(file, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read(file: int) -> str:
    return os.pread(file, 1000, 0).decode(errors="replace")


def _write(file: int, text: str) -> None:
    os.pwrite(file, text.encode(), 0)
    os.ftruncate(file, len(text.encode()))


def _pid_namespace() -> str:
    """The host and the PID namespace: only in it do process numbers mean the same."""
    try:
        numbers = Path("/proc/self/ns/pid").readlink()
    except OSError:
        return socket.gethostname()
    return f"{socket.gethostname()}, {numbers}"
