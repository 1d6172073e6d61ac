"""Entries for tests, and functions that read the ledger's contents."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from typing import Any

import psycopg
from msgspec.structs import replace
from psycopg import sql

from afflux.cycle.ledger_entries import ReservationEntry
from afflux.groups.entries import (
    EndedGroup,
    GroupChange,
    GroupEntry,
    MemberEntry,
    RecordedGroup,
)
from afflux.groups.group_id import GroupId, group_of_one
from afflux.ledger.postgres import DEFAULT_TIMEOUTS, LedgerTimeouts, PostgresLedger
from afflux.ledger.retention import Retention
from afflux.model.reservation import Reservation

TABLES = (
    "provisional_groups",
    "queue",
    "running_groups",
    "member_chunks",
    "pods",
    "reservations",
    "intents",
    "finished_groups",
    "events",
)


def group(name: str = "default/g", **fields: Any) -> GroupChange:
    """A waiting group of two, namespace/name; `fields` override its fields and its members."""
    own = f"{name}-"
    members = tuple(MemberEntry(f"uid {own}{number}", f"{own}{number}") for number in range(2))
    members = fields.pop("members", members)
    given = {"size": 2, "ready_seconds": 1_700_000_000.000001, **fields}
    namespace, _, rest = name.partition("/")
    born = members[0].uid if members else ""
    return GroupChange(GroupEntry(GroupId(namespace, rest, born), **given), members)


def single(name: str, ready_seconds: float | None = 0.0, **fields: Any) -> GroupChange:
    """The group of a pod of the namespace default that names none."""
    members = fields.pop("members", (MemberEntry(f"uid-{name}", f"default/{name}"),))
    own = group_of_one("default", name, members[0].uid)
    return GroupChange(GroupEntry(own, ready_seconds=ready_seconds, **fields), members)


def with_fields(change: GroupChange, **fields: Any) -> GroupChange:
    """The same group with these fields, and perhaps other changed or dropped members."""
    members = fields.pop("members", change.members)
    dropped = fields.pop("dropped", ())
    return GroupChange(replace(change.entry, **fields), members, dropped)


def recorded(change: GroupChange) -> RecordedGroup:
    """The group as the next leader reads it."""
    return RecordedGroup(change.entry, change.members)


def ended_group(
    change: GroupChange, how: Any = "succeeded", ended_seconds: float = 2e9
) -> EndedGroup:
    return EndedGroup(change.entry, change.members, how, ended_seconds)


def sent(change: GroupChange, *machines: str, doubt: str = "") -> GroupChange:
    """The same group with its first pods about to be bound to these machines."""
    members = tuple(
        MemberEntry(each.uid, each.name, "", machine, doubt)
        for each, machine in zip(change.members, machines, strict=False)
    )
    members += change.members[len(machines) :]
    return with_fields(change, state="starting", members=members)


def bound(change: GroupChange, *machines: str) -> GroupChange:
    """The same group with its first pods bound to these machines; it runs if all are bound."""
    members = tuple(
        MemberEntry(each.uid, each.name, machine)
        for each, machine in zip(change.members, machines, strict=False)
    )
    state = "running" if len(members) == len(change.members) else "starting"
    return with_fields(change, state=state, members=members + change.members[len(machines) :])


def reservation(change: GroupChange, start_seconds: float | None = 5.0) -> ReservationEntry:
    machines = tuple((member.uid, f"m{n}") for n, member in enumerate(change.members))
    return reserved(change, start_seconds, machines)


def reserved(
    change: GroupChange, start_seconds: float | None, machines: tuple[tuple[str, str], ...] = ()
) -> ReservationEntry:
    """A reservation of the whole group."""
    key = change.entry.id.key
    return ReservationEntry(key, Reservation(key, start_seconds, machines))


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


def states(url: str) -> dict[str, str]:
    """The states of the groups that are there, by the names that people see."""
    query = "SELECT coalesce(nullif(alone, ''), name), state FROM afflux.groups"
    return dict(rows(url, query))


def history(url: str) -> dict[str, str]:
    """How the groups of the history ended, by the names that people see."""
    query = "SELECT coalesce(nullif(alone, ''), name), how FROM afflux.finished_groups"
    return dict(rows(url, query))


# Columns that differ in every run: serial numbers, and times of the server.
_UNSTEADY = {"id", "at", "promised_at", "epoch"}


# How members are put into chunks.
LAYOUT = {"members", "chunk"}


def contents(url: str, without: Collection[str] = ()) -> dict[str, list[tuple[Any, ...]]]:
    """The contents of the ledger without the fence, epochs, times of the server and the columns
    `without`."""
    found: dict[str, list[tuple[Any, ...]]] = {}
    with psycopg.connect(url, autocommit=True) as connection:
        for table in TABLES:
            everything = sql.SQL("SELECT * FROM {}").format(sql.Identifier("afflux", table))
            cursor = connection.execute(everything)
            steady = [
                place
                for place, column in enumerate(cursor.description or ())
                if column.name not in _UNSTEADY and column.name not in without
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
