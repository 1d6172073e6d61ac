"""Inspection queries change nothing and do not delay the scheduler."""

import asyncio
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from ledger_values import reserved
from psycopg import conninfo
from queried_ledger import ALL_NAMESPACES, START, ask, ended, entry, members

from afflux.cycle.inspection_types import InspectionError
from afflux.cycle.ledger_entries import LedgerBatch
from afflux.ledger.queries import MAX_CONNECTIONS, LedgerInspection
from afflux.model.errors import InputError

pytestmark = pytest.mark.slow


def test_inspection_cannot_write(database: str) -> None:
    async def question(inspection: LedgerInspection) -> None:
        async with inspection._snapshot() as snapshot:
            await snapshot.execute(b"DELETE FROM afflux.groups")

    with pytest.raises(InspectionError, match="read-only transaction"):
        ask(database, question)


def test_a_query_that_takes_too_long_is_ended(database: str) -> None:
    async def question() -> None:
        async with (
            LedgerInspection(database, statement_timeout_seconds=0.1) as inspection,
            inspection._snapshot() as snapshot,
        ):
            await snapshot.execute(b"SELECT pg_sleep(30)")

    with pytest.raises(InspectionError, match=r"did not answer within 0\.1 s"):
        asyncio.run(question())


def test_a_cancelled_query_leaves_no_busy_connection(database: str) -> None:
    async def question(inspection: LedgerInspection) -> None:
        async with await psycopg.AsyncConnection[Any].connect(database) as other:
            await other.execute("LOCK TABLE afflux.queue")
            for _ in range(2 * MAX_CONNECTIONS):
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.1):
                        await inspection.queue(ALL_NAMESPACES)
        assert [line.name for line in (await inspection.queue(ALL_NAMESPACES)).items] == ["g"]

    ask(database, question, LedgerBatch(groups=(entry("g"),)))


def test_inspection_reconnects_after_a_lost_connection(database: str) -> None:
    async def question(inspection: LedgerInspection) -> int:
        await inspection.queue(ALL_NAMESPACES)
        with psycopg.connect(database, autocommit=True) as other:
            other.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE application_name = 'afflux-inspection'"
            )
        return len((await inspection.queue(ALL_NAMESPACES)).items)

    assert ask(database, question, LedgerBatch(groups=(entry("g"),))) == 1


def test_database_errors_do_not_show_the_password(
    new_database: Callable[[str | None], str],
) -> None:
    def complaint(database: str) -> str:
        async def question() -> None:
            async with LedgerInspection(database) as inspection:
                await inspection.queue(ALL_NAMESPACES)

        with pytest.raises((InspectionError, InputError)) as caught:
            asyncio.run(question())
        return str(caught.value)

    refused = complaint("postgresql://me:hunter2@127.0.0.1:1/x")
    assert "the ledger cannot be reached: " in refused
    assert "hunter2" not in refused
    wrong = complaint("postgresql://me:hunter2@[127.0.0.1/x")
    assert "expected postgresql://" in wrong
    assert "hunter2" not in wrong
    empty = complaint(new_database(None))
    assert empty == "this database holds no ledger; expected one that afflux has written to"


def test_a_read_only_user_can_query(database: str) -> None:
    ask(
        database,
        lambda inspection: inspection.queue(ALL_NAMESPACES),
        LedgerBatch(groups=(entry("g"),)),
    )
    role = "reader"
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {role} LOGIN".encode())
    reading = conninfo.make_conninfo(database, user=role)

    async def looked() -> int:
        async with LedgerInspection(reading) as inspection:
            return len((await inspection.queue(ALL_NAMESPACES)).items)

    with pytest.raises(InspectionError, match="expected USAGE on the schema afflux"):
        asyncio.run(looked())
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(f"GRANT USAGE ON SCHEMA afflux TO {role}".encode())
        connection.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA afflux TO {role}".encode())
    assert asyncio.run(looked()) == 1


def test_functions_of_other_users_are_not_called(database: str) -> None:
    """In a shared database, functions of other users in `public` would run with our rights."""
    traps = (
        "array_position(text[], text) RETURNS integer",
        "cardinality(text[]) RETURNS integer",
        "unnest(text[]) RETURNS SETOF text",
        "differ(text[], text[]) RETURNS boolean",
    )
    with psycopg.connect(database, autocommit=True) as connection:
        for trap in traps:
            connection.execute(
                f"CREATE FUNCTION public.{trap} LANGUAGE plpgsql"
                " AS $$ BEGIN RAISE EXCEPTION 'called'; END $$".encode()
            )
        connection.execute(
            "CREATE OPERATOR public.<> (LEFTARG = text[], RIGHTARG = text[], FUNCTION = differ)"
        )
    pods = members("a/g", 2)
    waits = entry("g", size=2, members=pods)

    async def question(inspection: LedgerInspection) -> None:
        assert len((await inspection.queue(ALL_NAMESPACES)).items) == 1
        assert len((await inspection.reservations(ALL_NAMESPACES)).items) == 1
        assert len((await inspection.history(ALL_NAMESPACES)).items) == 1
        assert await inspection.group("a", "over") is not None

    batch = LedgerBatch(
        groups=(waits,),
        ended=(ended("over", 1.0, members=pods),),
        reservations=(
            reserved(entry("g", members=pods), START, tuple((pod.uid, "m") for pod in pods)),
        ),
    )
    ask(database, question, batch, LedgerBatch(reservations=batch.reservations))
