"""A database is brought up to date: every step of the schema once, in order, or none of them."""

import logging
from typing import Any

import psycopg

from afflux.ledger.statements import migrations, statement

# Any number will do, as long as everybody who changes this schema takes the same.
_LOCK = 0x6166666C7578

_log = logging.getLogger(__name__)


async def migrate(connection: psycopg.AsyncConnection[Any]) -> None:
    """Take the steps that this database has not taken; two who come at once take turns.

    A database that a later version has used is left as it is: steps only ever add, so that a
    replica of an older version can lead until it is replaced.
    """
    async with connection.transaction():
        await connection.execute(statement("lock_schema"), {"key": _LOCK})
        if not await _used_before(connection):
            await connection.execute(statement("create_schema"))
            await connection.execute(statement("begin_migrations"))
        rows = await (await connection.execute(statement("applied_migrations"))).fetchall()
        taken = {str(row[0]) for row in rows}
        steps = migrations()
        for name, step in steps.items():
            if name not in taken:
                await connection.execute(step)
                await connection.execute(statement("record_migration"), {"name": name})
                _log.info("the ledger's schema has taken the step %s", name)
    if later := sorted(taken - steps.keys()):
        _log.warning("the ledger's schema is of a later version: %s", ", ".join(later))


async def _used_before(connection: psycopg.AsyncConnection[Any]) -> bool:
    row = await (await connection.execute(statement("has_migrations"))).fetchone()
    return bool(row and row[0])
