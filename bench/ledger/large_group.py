"""What a further member of a large group costs, from the batch to the disk."""

from dataclasses import dataclass
from random import Random
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from uuid import UUID

import psycopg

from afflux.cycle.ledger_entries import LedgerBatch
from afflux.groups.entries import GroupChange, GroupEntry, MemberEntry
from afflux.groups.group_id import GroupId
from afflux.ledger.embedded_postgres import EmbeddedPostgres
from afflux.ledger.postgres import PostgresLedger

MEMBERS = 6_000
ROUNDS = 50


@dataclass(frozen=True)
class FurtherMember:
    """Median seconds of a batch with one further member, and the bytes of log (WAL) for each."""

    members: int
    seconds: float
    wal_bytes: int


async def further_member(members: int = MEMBERS) -> FurtherMember:
    """Measures members that join a group of `members` one by one."""
    entry = GroupEntry(GroupId("default", "large", _member(0).uid), size=10**6, state="provisional")
    with TemporaryDirectory(prefix="ledger-") as directory:
        server = EmbeddedPostgres(directory)
        address = server.start()
        ledger = PostgresLedger(server.address)
        try:
            await ledger.take_over(None)
            all_members = tuple(_member(number) for number in range(members))
            await ledger.commit(LedgerBatch(groups=(GroupChange(entry, all_members),)))
            seconds: list[float] = []
            before = _written_bytes(address)
            for number in range(members, members + ROUNDS):
                change = GroupChange(entry, (_member(number),))
                began = perf_counter()
                await ledger.commit(LedgerBatch(groups=(change,)))
                seconds.append(perf_counter() - began)
            written = _written_bytes(address) - before
            return FurtherMember(members, median(seconds), written // ROUNDS)
        finally:
            await ledger.close()
            server.stop()


def _member(number: int) -> MemberEntry:
    # Real uids are random, so that the database cannot compress them.
    uid = UUID(int=Random(number).getrandbits(128))
    return MemberEntry(str(uid), f"default/large-{number}")


def _written_bytes(address: str) -> int:
    """The bytes of log (WAL) that the server has written so far."""
    with psycopg.connect(address, autocommit=True) as connection:
        row = connection.execute("SELECT pg_current_wal_lsn() - '0/0'::pg_lsn").fetchone()
    assert row is not None
    return int(row[0])
