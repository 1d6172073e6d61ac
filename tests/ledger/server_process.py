"""The process of an embedded PostgreSQL, seen from outside."""

from pathlib import Path

import psycopg

from afflux.ledger import embedded_postgres


def pid_of(directory: Path) -> int:
    return int((directory / "data" / "postmaster.pid").read_text().splitlines()[0])


def is_running(directory: Path) -> bool:
    return any(embedded_postgres._servers(directory.resolve() / "data"))


def ask(url: str) -> object:
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT 1").fetchone()
        return row and row[0]
