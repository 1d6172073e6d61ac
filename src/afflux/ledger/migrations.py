"""Migrations: bring the schema of a database up to date, all in one transaction."""

import logging
from collections.abc import Mapping
from typing import Any

import psycopg

from afflux.ledger.statements import migrations, statement

# The key of an advisory lock: any number, the same in all versions.
_LOCK_KEY = 0x6166666C7578

_log = logging.getLogger(__name__)


async def migrate(
    connection: psycopg.AsyncConnection[Any], wanted: Mapping[str, bytes] | None = None
) -> None:
    """Apply the migrations that this database lacks; concurrent calls wait for each other.

    Migrations of a later version are left alone: migrations only add to the schema, so that a
    replica of an older version can lead until it is replaced.
    """
    wanted = migrations() if wanted is None else wanted
    async with connection.transaction():
        await connection.execute(statement("lock_schema"), {"key": _LOCK_KEY})
        if not await _is_initialised(connection):
            await connection.execute(statement("create_schema"))
            await connection.execute(statement("create_migrations_table"))
        rows = await (await connection.execute(statement("applied_migrations"))).fetchall()
        applied = {str(row[0]) for row in rows}
        for name, script in wanted.items():
            if name not in applied:
                await connection.execute(script)
                await connection.execute(statement("record_migration"), {"name": name})
                _log.info("applied migration %s to the schema of the ledger", name)
    if later := sorted(applied - wanted.keys()):
        _log.warning("the ledger's schema is of a later version: %s", ", ".join(later))


async def _is_initialised(connection: psycopg.AsyncConnection[Any]) -> bool:
    row = await (await connection.execute(statement("has_migrations"))).fetchone()
    return bool(row and row[0])
