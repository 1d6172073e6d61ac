"""One real PostgreSQL server per worker, and one database per test."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
import pytest
from psycopg import conninfo, sql

sys.path.insert(0, str(Path(__file__).parents[1] / "kube_live_parts"))

from ledger_values import run

from afflux.ledger.embedded_postgres import EmbeddedPostgres, _servers
from afflux.ledger.migrations import migrate


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The address of the server that all tests of a worker share."""
    # The path of a socket must be short.
    with TemporaryDirectory(prefix="ledger-") as directory:
        embedded = EmbeddedPostgres(directory)
        try:
            url = embedded.start()
            # These tests kill processes, never the machine, so nothing needs to reach the disk.
            execute(url, sql.SQL("ALTER SYSTEM SET fsync = off").format())
            execute(url, sql.SQL("SELECT pg_reload_conf()").format())
            yield url
        finally:
            embedded.stop()


@pytest.fixture(scope="session")
def template(server: str) -> str:
    """The name of a database in which the schema is up to date."""
    execute(server, sql.SQL("CREATE DATABASE {}").format(sql.Identifier("template_of_tests")))

    async def prepare() -> None:
        url = conninfo.make_conninfo(server, dbname="template_of_tests")
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
            await migrate(connection)

    run(prepare)
    return "template_of_tests"


@pytest.fixture
def new_database(server: str) -> Iterator[Callable[[str | None], str]]:
    """Creates databases for one test, from a template or empty, and returns their addresses."""
    made: list[str] = []

    def make(template: str | None) -> str:
        name = f"test_{os.getpid()}_{os.urandom(4).hex()}"
        source = template or "template1"
        execute(
            server,
            sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(
                sql.Identifier(name), sql.Identifier(source)
            ),
        )
        made.append(name)
        return conninfo.make_conninfo(server, dbname=name)

    yield make
    for name in made:
        drop = sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name))
        execute(server, drop)


@pytest.fixture
def database(new_database: Callable[[str | None], str], template: str) -> str:
    """The address of an empty ledger."""
    return new_database(template)


@pytest.fixture
def directory() -> Iterator[Path]:
    """A directory for the server of one test; both are removed after the test."""
    with TemporaryDirectory(prefix="ledger-") as name:
        yield Path(name)
        for pid in _servers(Path(name).resolve() / "data"):
            os.kill(pid, signal.SIGKILL)


def execute(url: str, statement: sql.Composed) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement)
