"""Migrations are applied in order and once, and old data survives them."""

import asyncio
from collections.abc import Callable, Mapping

import psycopg
import pytest
from ledger_values import group, ledger_at, rows, run

from afflux.cycle.ledger_entries import GroupEntry, LedgerBatch, MemberEntry
from afflux.ledger.migrations import migrate
from afflux.ledger.statements import migrations, parse, statements
from afflux.model.reservation import Reservation

Make = Callable[[str | None], str]


async def migrated(url: str, wanted: Mapping[str, bytes] | None = None) -> None:
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        await migrate(connection, wanted)


# Data of the first version. It is never changed: after every later migration it must still be read.
WRITTEN_BY_THE_FIRST = """
    INSERT INTO afflux.fence (epoch, holder, turn) VALUES (41, 'somebody', 1000);
    INSERT INTO afflux.provisional_groups VALUES
        ('s', 'young', 'provisional', 'default', 3, 0, 5, NULL, NULL, NULL, NULL, '1 of 3',
         '[{"uid": "u1", "name": "s/p1"}]', 41);
    INSERT INTO afflux.queue VALUES
        ('s', 'second', 'waiting', 'night', 1, 7, 1, 20.25, 60, NULL, NULL, 'full', '[]', 41),
        ('s', 'it''s', 'unsatisfiable', 'night', 1, 7, 1, 10.5, NULL, NULL, NULL, 'never',
         '[{"uid": "u2", "name": "s/p2"}]', 41);
    INSERT INTO afflux.running_groups VALUES
        ('s', 'runs', 'running', 'default', 1, 0, 1, 2, 3, 4, 5, '',
         '[{"uid": "u3", "name": "s/p3", "machine": "m"}]', 40),
        ('s', 'starts', 'starting', 'default', 1, 0, 1, 3, NULL, NULL, NULL, '',
         '[{"uid": "u4", "name": "s/p4", "sent_to": "m", "doubt": "no answer"}]', 41);
    INSERT INTO afflux.reservations (namespace, name, start_seconds, uids, machines) VALUES
        ('s', 'second', 99.5, '{u2}', '{m}');
    INSERT INTO afflux.finished_groups (
        namespace, name, queue, size, priority, created_seconds, ready_seconds, run_seconds,
        started_seconds, until_seconds, ended_seconds, how, reason, pods, machines
    ) VALUES ('s', 'over', 'default', 1, 0, 1, 2, 3, 4, 5, 6, 'deadline', '', '{p}', '{m}');
    INSERT INTO afflux.events (epoch, namespace, name, kind, message) VALUES
        (41, 's', 'over', 'Ended', 'it''s over');
"""


def test_data_of_the_first_version_are_read_after_all_migrations(new_database: Make) -> None:
    url = new_database(None)
    with psycopg.connect(url) as connection:
        connection.execute("CREATE SCHEMA afflux")
        connection.execute(
            "CREATE TABLE afflux.migrations"
            " (name text PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now())"
        )
        connection.execute(migrations()["2026-11-15-begin"])
        connection.execute("INSERT INTO afflux.migrations VALUES ('2026-11-15-begin')")
        connection.execute(WRITTEN_BY_THE_FIRST)

    async def test() -> None:
        async with ledger_at(url) as ledger:
            found = await ledger.take_over(None)
            assert found.epoch == 42
            by_name = {entry.name: entry for entry in found.groups}
            order = [entry.name for entry in found.groups if entry.ready_seconds is not None]
            assert order == ["s/it's", "s/second", "s/runs", "s/starts"]
            assert by_name["s/young"] == GroupEntry(
                "s/young",
                size=3,
                state="provisional",
                reason="1 of 3",
                created_seconds=5.0,
                members=(MemberEntry("u1", "s/p1"),),
            )
            assert by_name["s/second"].run_seconds == 60
            assert by_name["s/runs"].members == (MemberEntry("u3", "s/p3", "m"),)
            assert by_name["s/runs"].until_seconds == 5
            assert found.reservations == (Reservation("s/second", 99.5, (("u2", "m"),)),)
            assert [(each.uid, each.machine, each.epoch) for each in found.intents] == [
                ("u4", "m", 41)
            ]
            await ledger.commit(LedgerBatch(groups=(group("s/next"),)))

    run(test)
    assert rows(url, "SELECT name, how FROM afflux.finished_groups") == [("over", "deadline")]
    assert rows(url, "SELECT message FROM afflux.events") == [("it's over",)]


LATER = {
    "2099-01-01-add": b"ALTER TABLE afflux.groups ADD COLUMN colour text NOT NULL DEFAULT 'blue';",
    "2099-01-02-index": b"CREATE INDEX by_colour ON afflux.queue (colour);",
}


def test_migrations_run_in_order_and_once(database: str) -> None:
    async def test() -> None:
        async with ledger_at(database) as ledger:
            await ledger.take_over(None)
            await ledger.commit(LedgerBatch(groups=(group("default/old"),)))
        await migrated(database, {**migrations(), **LATER})
        await migrated(database, {**migrations(), **LATER})
        names = [row[0] for row in rows(database, "SELECT name FROM afflux.migrations ORDER BY 1")]
        assert names == [*migrations(), *LATER]
        assert rows(database, "SELECT name, colour FROM afflux.queue") == [("old", "blue")]

    run(test)


def test_this_version_can_lead_on_the_schema_of_a_later_one(
    database: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        await migrated(database, {**migrations(), **LATER})
        async with ledger_at(database) as ledger:
            await ledger.take_over(None)
            await ledger.commit(LedgerBatch(groups=(group("default/a"),)))

    run(test)
    assert rows(database, "SELECT colour FROM afflux.queue") == [("blue",)]
    assert "of a later version: 2099-01-01-add, 2099-01-02-index" in caplog.text


def test_a_failed_migration_changes_nothing(database: str) -> None:
    broken = {**LATER, "2099-01-03-broken": b"ALTER TABLE afflux.nothing ADD COLUMN x text;"}

    async def test() -> None:
        with pytest.raises(psycopg.errors.UndefinedTable):
            await migrated(database, {**migrations(), **broken})

    run(test)
    assert len(rows(database, "SELECT name FROM afflux.migrations")) == len(migrations())
    shown = "SELECT 1 FROM information_schema.columns WHERE column_name = 'colour'"
    assert rows(database, shown) == []


def test_concurrent_migrations_run_one_after_the_other(new_database: Make) -> None:
    url = new_database(None)

    async def test() -> None:
        await asyncio.gather(*(migrated(url) for _ in range(4)))

    run(test)
    assert len(rows(url, "SELECT name FROM afflux.migrations")) == len(migrations())


def test_a_user_without_create_can_use_an_existing_schema(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("CREATE ROLE writer LOGIN")
        connection.execute("GRANT USAGE ON SCHEMA afflux TO writer")
        connection.execute(
            "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA afflux TO writer"
        )
    try:

        async def test() -> None:
            async with ledger_at(f"{database} user=writer") as ledger:
                await ledger.take_over(None)
                await ledger.commit(LedgerBatch(groups=(group("default/a"),)))

        run(test)
    finally:
        with psycopg.connect(database, autocommit=True) as connection:
            connection.execute("DROP OWNED BY writer")
            connection.execute("DROP ROLE writer")


# --- The files


def test_every_statement_has_a_description() -> None:
    assert len(statements()) > 10
    assert all(text.strip() for text in statements().values())


def test_names_of_migrations_begin_with_a_date() -> None:
    for name in migrations():
        year, month, day = name.split("-")[:3]
        assert len(year) == 4
        assert 1 <= int(month) <= 12
        assert 1 <= int(day) <= 31


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("-- x\n\nSELECT 1;\n", "line 3: expected"),
        ("-- x\n\n-- one --\nSELECT 1;\n", "line 3: expected"),
        ("-- x\n\n-- a --\n-- b\nSELECT 1;\n\n-- a --\n-- b\nSELECT 2;\n", "a is defined twice"),
    ],
)
def test_an_invalid_file_is_refused_with_the_line(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        parse(text)
