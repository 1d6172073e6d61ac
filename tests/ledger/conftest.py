"""A real PostgreSQL for all tests of a worker, and a database of its own for each of them."""

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
    """The address of a server that is there for all tests."""
    # Short, as paths of sockets have to be.
    with TemporaryDirectory(prefix="ledger-") as directory:
        embedded = EmbeddedPostgres(directory)
        try:
            url = embedded.start()
            # Processes are killed in these tests, machines are not.
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
    """Makes databases for one test, out of a template or empty, and says where they are."""
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
    """Where an empty ledger is."""
    return new_database(template)


@pytest.fixture
def directory() -> Iterator[Path]:
    """A directory for a server of one test, which is gone with it."""
    with TemporaryDirectory(prefix="ledger-") as name:
        yield Path(name)
        for pid in _servers(Path(name).resolve() / "data"):
            os.kill(pid, signal.SIGKILL)


def execute(url: str, statement: sql.Composed) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement)
