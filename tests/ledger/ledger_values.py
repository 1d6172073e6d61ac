"""Entries for tests, and functions that read the ledger's contents."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import psycopg
from msgspec.structs import replace
from psycopg import sql

from afflux.cycle.ledger_entries import EndedGroup, GroupEntry, MemberEntry
from afflux.ledger.postgres import DEFAULT_TIMEOUTS, LedgerTimeouts, PostgresLedger
from afflux.ledger.retention import Retention
from afflux.model.reservation import Reservation

TABLES = (
    "provisional_groups",
    "queue",
    "running_groups",
    "pods",
    "reservations",
    "intents",
    "finished_groups",
    "events",
)


def group(name: str = "default/g", **fields: Any) -> GroupEntry:
    """A waiting group of two; `fields` override its fields."""
    own = f"{name}-"
    members = tuple(MemberEntry(f"uid {own}{number}", f"{own}{number}") for number in range(2))
    given = {"size": 2, "ready_seconds": 1_700_000_000.000001, "members": members, **fields}
    return GroupEntry(name, **given)


def ended_group(entry: GroupEntry, how: Any = "finished", ended_seconds: float = 2e9) -> EndedGroup:
    return EndedGroup(entry, how, ended_seconds)


def sent(entry: GroupEntry, *machines: str, doubt: str = "") -> GroupEntry:
    """The same group with its first pods about to be bound to these machines."""
    members = tuple(
        MemberEntry(each.uid, each.name, "", machine, doubt)
        for each, machine in zip(entry.members, machines, strict=False)
    )
    return replace(entry, state="starting", members=members + entry.members[len(machines) :])


def bound(entry: GroupEntry, *machines: str) -> GroupEntry:
    """The same group with its first pods bound to these machines; it runs if all are bound."""
    members = tuple(
        MemberEntry(each.uid, each.name, machine)
        for each, machine in zip(entry.members, machines, strict=False)
    )
    state = "running" if len(members) == len(entry.members) else "starting"
    return replace(entry, state=state, members=members + entry.members[len(machines) :])


def reservation(entry: GroupEntry, start_seconds: float | None = 5.0) -> Reservation:
    machines = tuple((member.uid, f"m{n}") for n, member in enumerate(entry.members))
    return Reservation(entry.name, start_seconds, machines)


@asynccontextmanager
async def ledger_at(
    url: str, retention: Retention | None = None, timeouts: LedgerTimeouts = DEFAULT_TIMEOUTS
) -> AsyncIterator[PostgresLedger]:
    async def address() -> str:
        return url

    ledger = PostgresLedger(address, retention, timeouts)
    try:
        yield ledger
    finally:
        await ledger.close()


def rows(url: str, query: str, *values: Any) -> list[tuple[Any, ...]]:
    """The rows of a query on a connection of its own."""
    with psycopg.connect(url, autocommit=True) as connection:
        return connection.execute(query.encode(), values or None).fetchall()


# Columns that differ in every run: serial numbers, and times of the server.
_UNSTEADY = {"id", "at", "promised_at", "epoch"}


def contents(url: str) -> dict[str, list[tuple[Any, ...]]]:
    """The contents of the ledger without the fence, epochs and times of the server."""
    found: dict[str, list[tuple[Any, ...]]] = {}
    with psycopg.connect(url, autocommit=True) as connection:
        for table in TABLES:
            everything = sql.SQL("SELECT * FROM {}").format(sql.Identifier("afflux", table))
            cursor = connection.execute(everything)
            steady = [
                place
                for place, column in enumerate(cursor.description or ())
                if column.name not in _UNSTEADY
            ]
            found[table] = sorted(
                (tuple(row[place] for place in steady) for row in cursor), key=repr
            )
    return found


def run(test: Callable[[], Awaitable[None]], seconds: float = 60.0) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(seconds):
            await test()

    asyncio.run(bounded())
