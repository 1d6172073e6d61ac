"""Queries of a ledger to which batches were written."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from ledger_values import ended_group, group

from afflux.cycle.inspection_types import ListQuery
from afflux.cycle.ledger_entries import LedgerBatch
from afflux.groups.entries import EndedGroup, GroupChange, MemberEntry
from afflux.groups.group_id import GroupKey
from afflux.ledger.postgres import PostgresLedger
from afflux.ledger.queries import LedgerInspection

T = TypeVar("T")

START = 1_800_000_000.0
ALL_NAMESPACES = ListQuery(namespace=None)


def members(group: str, count: int) -> tuple[MemberEntry, ...]:
    return tuple(MemberEntry(f"{group}-{n}-uid", f"{group}-{n}") for n in range(count))


def entry(name: str, ready: float | None = 0.0, **more: object) -> GroupChange:
    """A group of the namespace `a`, or of the one in its name, without members."""
    full_name = f"a/{name}" if "/" not in name else name
    ready_seconds = None if ready is None else START + ready
    given = {"size": 1, "created_seconds": START - 100.0, "members": (), **more}
    return group(full_name, ready_seconds=ready_seconds, **given)


def key(name: str, born: str = "") -> GroupKey:
    """The key of a group of the namespace `a`."""
    return f"a/{name}/{born}"


def ask(
    address: str, question: Callable[[LedgerInspection], Awaitable[T]], *batches: LedgerBatch
) -> T:
    """The answer after these batches."""

    async def asked() -> T:
        async def where() -> str:
            return address

        ledger = PostgresLedger(where)
        try:
            await ledger.take_over(None)
            for batch in batches:
                await ledger.commit(batch)
            async with LedgerInspection(address) as inspection:
                return await question(inspection)
        finally:
            await ledger.close()

    return asyncio.run(asked())


def ended(name: str, seconds: float, **more: object) -> EndedGroup:
    return ended_group(entry(name, **more), "succeeded", START + seconds)
