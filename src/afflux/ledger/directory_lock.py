"""Who uses the directory of a ledger: two lock files in it, which nobody else can open.

All who use the directory share `lock`, which says where they are; whoever has it alone may stop the
server. `starting` is held while the server is started. The kernel takes both back from a process
that is gone, and nobody is waited for without end. Not here: the server.
"""

import fcntl
import os
import socket
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep

from afflux.ledger.places import INSTEAD, check_owner
from afflux.model.errors import InputError

# Those who use the directory elsewhere may be about to leave; those who are here and keep others
# out start the server, or stop it.
LONGEST_ELSEWHERE_SECONDS = 10.0
LONGEST_HERE_SECONDS = 130.0
PAUSE_SECONDS = 0.05


class Claim:
    """One process's share in a directory, from `take` to `leaving`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._others: tuple[int, ...] = ()
        self._shared: int | None = None

    def take(self, *others: int) -> None:
        """Say that we use the directory, which is made if need be. It may be said again. What is of
        these others is ours as well."""
        if self._shared is not None:
            return
        self._others = others
        shared = self._open("lock")
        try:
            self._share(shared)
        except BaseException as error:
            os.close(shared)
            if isinstance(error, OSError):
                raise InputError(
                    f"ledger.directory: {self._directory}: cannot be locked: {error.strerror};"
                    f" expected a directory on a disk of this machine; {INSTEAD}"
                ) from None
            raise
        self._shared = shared

    @contextmanager
    def starting(self) -> Generator[None]:
        """Nobody else starts the server meanwhile, or looks at what an earlier start has left."""
        alone = self._open("starting")
        try:
            deadline = monotonic() + LONGEST_HERE_SECONDS
            while not _locked(alone, fcntl.LOCK_EX):
                if monotonic() > deadline:
                    raise InputError(
                        f"ledger.directory: {self._directory}: process {_read(alone)} has been"
                        f" starting PostgreSQL there for {LONGEST_HERE_SECONDS:g} s; expected it to"
                        f" be ready or gone; {INSTEAD}"
                    )
                sleep(PAUSE_SECONDS)
            _write(alone, str(os.getpid()))
            yield
        finally:
            os.close(alone)

    @contextmanager
    def leaving(self) -> Generator[bool]:
        """Use the directory no longer; whether we were the last, who keep others out meanwhile."""
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
            # Its owner could lead root anywhere. To others a volume may be open by its group alone;
            # they follow only what is theirs.
            if os.geteuid() == 0:
                check_owner(self._directory, *self._others)
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
            try:
                check_owner(path, *self._others)
                # Who can open it can hold it. Others than we may have opened it, or the volume.
                os.fchmod(file, 0o600)
            except BaseException:
                os.close(file)
                raise
        except OSError as error:
            raise InputError(
                f"ledger.directory: {self._directory}: {error.strerror}; expected a directory that"
                f" can be written; {INSTEAD}"
            ) from None
        return file

    def _share(self, file: int) -> None:
        """Hold the lock with those who are where we are, and with nobody else."""
        here, began = _here(), monotonic()
        while True:
            if _locked(file, fcntl.LOCK_EX):
                _write(file, here)
            there = _read(file)
            # Those elsewhere must not see us among their users when they leave.
            if there == here and _locked(file, fcntl.LOCK_SH):
                there = _read(file)
                if there == here:
                    return
                fcntl.flock(file, fcntl.LOCK_UN)
            patience = LONGEST_HERE_SECONDS if there == here else LONGEST_ELSEWHERE_SECONDS
            if monotonic() - began > patience:
                raise InputError(
                    f"ledger.directory: {self._directory}: in use by {there or 'somebody else'};"
                    " expected a directory that nobody uses on another machine or in another"
                    f" container, and in which no server is being stopped; {INSTEAD}"
                )
            sleep(PAUSE_SECONDS)


def _locked(file: int, how: int) -> bool:
    """Whether it is held so from now on. If not, it is not held as it was before either."""
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


def _here() -> str:
    """Where process numbers mean what they mean to us."""
    try:
        numbers = Path("/proc/self/ns/pid").readlink()
    except OSError:
        return socket.gethostname()
    return f"{socket.gethostname()}, {numbers}"
