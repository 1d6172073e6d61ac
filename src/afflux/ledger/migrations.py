"""Migrations: bring the schema of a database up to date, all in one transaction."""

import logging
from collections.abc import Mapping
from typing import Any

import psycopg
from psycopg.errors import LockNotAvailable

from afflux.cycle.interfaces import LaterSchemaError
from afflux.ledger.statements import migrations, statement

# The key of an advisory lock: any number, the same in all versions.
_LOCK_KEY = 0x6166666C7578
# A batch holds its locks for milliseconds.
_LOCK_TIMEOUT_MILLISECONDS = "5000"

_log = logging.getLogger(__name__)


async def migrate(
    connection: psycopg.AsyncConnection[Any], wanted: Mapping[str, bytes] | None = None
) -> None:
    """Apply the migrations that this database lacks; concurrent calls wait for each other.

    Raises a LaterSchemaError if a later version has applied migrations that this one does not know:
    it may not understand what it reads, and would write what the later version does not expect.
    """
    wanted = migrations() if wanted is None else wanted
    try:
        await _migrate(connection, wanted)
    except LockNotAvailable:
        # An old leader that was suspended during a batch keeps its locks.
        _log.warning(
            "the former leader keeps tables of the ledger locked: its session is terminated"
        )
        await connection.execute(statement("terminate_fence_holders"))
        await _migrate(connection, wanted)


async def _migrate(connection: psycopg.AsyncConnection[Any], wanted: Mapping[str, bytes]) -> None:
    async with connection.transaction():
        await connection.execute(statement("lock_schema"), {"key": _LOCK_KEY})
        if not await _is_initialised(connection):
            await connection.execute(statement("create_schema"))
            await connection.execute(statement("create_migrations_table"))
        rows = await (await connection.execute(statement("applied_migrations"))).fetchall()
        applied = {str(row[0]) for row in rows}
        if later := sorted(applied - wanted.keys()):
            raise LaterSchemaError(
                f"the schema of the ledger is of a later version of afflux ({', '.join(later)});"
                " expected that version or a later one in every replica"
            )
        await connection.execute(
            statement("set_lock_timeout"), {"milliseconds": _LOCK_TIMEOUT_MILLISECONDS}
        )
        for name, script in wanted.items():
            if name not in applied:
                await connection.execute(script)
                await connection.execute(statement("record_migration"), {"name": name})
                _log.info("applied migration %s to the schema of the ledger", name)


async def _is_initialised(connection: psycopg.AsyncConnection[Any]) -> bool:
    row = await (await connection.execute(statement("has_migrations"))).fetchone()
    return bool(row and row[0])
