"""Migrations are applied in order and once, and old data survives them."""

import asyncio
import re
from collections.abc import Callable, Mapping

import psycopg
import pytest
from ledger_values import group, ledger_at, rows, run

from afflux.cycle.interfaces import DeposedError, LaterSchemaError
from afflux.cycle.ledger_entries import LedgerBatch
from afflux.groups.entries import GroupChange, GroupEntry, MemberEntry, RecordedGroup
from afflux.groups.group_id import GroupId, group_of_one
from afflux.ledger.migrations import migrate
from afflux.ledger.queries import LedgerInspection
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


def of_the_first_version(make: Make, *data: str) -> str:
    """The address of a ledger that the first version has left with these data."""
    url = make(None)
    with psycopg.connect(url) as connection:
        connection.execute("CREATE SCHEMA afflux")
        connection.execute(
            "CREATE TABLE afflux.migrations"
            " (name text PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now())"
        )
        connection.execute(migrations()["2026-11-15-begin"])
        connection.execute("INSERT INTO afflux.migrations VALUES ('2026-11-15-begin')")
        for each in data:
            connection.execute(each.encode())
    return url


def test_data_of_the_first_version_are_read_after_all_migrations(new_database: Make) -> None:
    url = of_the_first_version(new_database, WRITTEN_BY_THE_FIRST)

    async def test() -> None:
        async with ledger_at(url) as ledger:
            found = await ledger.take_over(None)
            assert found.epoch == 42
            by_name = {each.entry.id.name: each for each in found.groups}
            order = [
                each.entry.id.name for each in found.groups if each.entry.ready_seconds is not None
            ]
            assert order == ["it's", "second", "runs", "starts"]
            assert by_name["young"] == RecordedGroup(
                GroupEntry(
                    GroupId("s", "young", "u1"),
                    size=3,
                    state="provisional",
                    reason="1 of 3",
                    created_seconds=5.0,
                    waiting=1,
                ),
                (MemberEntry("u1", "s/p1"),),
            )
            assert by_name["second"].entry.run_seconds == 60
            assert by_name["runs"].members == (MemberEntry("u3", "s/p3", "m"),)
            assert by_name["runs"].entry.until_seconds == 5
            assert by_name["runs"].entry.peak_bound == 1
            assert [by_name[name].entry.waiting for name in ("runs", "starts")] == [0, 0]
            (reserved,) = found.reservations
            assert reserved.group == by_name["second"].entry.id.key
            assert reserved.reservation == Reservation(reserved.group, 99.5, (("u2", "m"),))
            assert [(each.uid, each.machine, each.epoch) for each in found.intents] == [
                ("u4", "m", 41)
            ]
            await ledger.commit(LedgerBatch(groups=(group("s/next"),)))

    run(test)
    assert rows(url, "SELECT name, how FROM afflux.finished_groups") == [("over", "deadline")]
    assert rows(url, "SELECT message FROM afflux.events") == [("it's over",)]


# A pod and a group of one name, and a group with many members.
NAMESAKES_OF_THE_FIRST = """
    INSERT INTO afflux.queue VALUES
        ('s', 'simx', 'waiting', 'default', 1, 0, 1, 10, NULL, NULL, NULL, '',
         '[{"uid": "pod", "name": "s/simx"}]', 41),
        ('s', 'simx (group)', 'waiting', 'default', 2, 0, 1, 20, NULL, NULL, NULL, '',
         '[{"uid": "a", "name": "s/a"}, {"uid": "b", "name": "s/b"}]', 41);
    INSERT INTO afflux.running_groups
        SELECT 's', 'many', 'running', 'default', 200, 0, 1, 30, NULL, 40, NULL, '',
            json_agg(json_build_object('uid', 'u' || n, 'name', 's/p' || n, 'machine', 'm')
                ORDER BY n), 41
        FROM generate_series(1, 200) AS n;
    INSERT INTO afflux.reservations (namespace, name, start_seconds, uids, machines) VALUES
        ('s', 'simx', 50, '{pod}', '{m}'), ('s', 'simx (group)', 60, '{a,b}', '{m,m}'),
        ('s', 'gone', 70, '{}', '{}');
    INSERT INTO afflux.finished_groups (
        namespace, name, queue, size, priority, created_seconds, ended_seconds, how, reason, pods,
        machines
    ) VALUES ('s', 'ran', 'default', 1, 0, 1, 6, 'finished', '', '{ran}', '{m}');
    INSERT INTO afflux.events (epoch, namespace, name, kind, message) VALUES
        (41, 's', 'simx', 'NotBound', 'full'), (41, 's', 'ran', 'NotBound', 'once');
"""


def test_namesakes_and_large_groups_of_the_first_version_get_their_keys(new_database: Make) -> None:
    url = of_the_first_version(new_database, NAMESAKES_OF_THE_FIRST)

    async def test() -> None:
        async with ledger_at(url) as ledger:
            found = await ledger.take_over(None)
            pod, gang, many = found.groups
            assert pod.entry.id == group_of_one("s", "simx", "pod")
            assert gang.entry.id == GroupId("s", "simx", "a")
            assert [
                (each.group, each.reservation.start_seconds) for each in found.reservations
            ] == [
                (pod.entry.id.key, 50.0),
                (gang.entry.id.key, 60.0),
            ]
            assert many.members == tuple(
                MemberEntry(f"u{n}", f"s/p{n}", "m") for n in range(1, 201)
            )
            assert many.entry.peak_bound == 200
            chunks = "SELECT chunk, json_array_length(members) FROM afflux.member_chunks ORDER BY 1"
            assert rows(url, chunks) == [(1, 64), (2, 64), (3, 8)]
            # Changes find the members that were migrated.
            ended = MemberEntry("u150", "s/p150", "m", how="failed")
            await ledger.commit(LedgerBatch(groups=(GroupChange(many.entry, (ended,)),)))
        async with ledger_at(url) as ledger:
            (again,) = [
                each for each in (await ledger.take_over(None)).groups if len(each.members) > 2
            ]
            assert [each.uid for each in again.members if each.how] == ["u150"]
        async with LedgerInspection(url) as inspection:
            shown = await inspection.group("s", "fluxnetes-group-s-simx")
            assert shown is not None
            assert [each.message for each in shown.events if each.kind == "NotBound"] == ["full"]
            ran = await inspection.group("s", "ran")
            assert ran is not None
            # Whether it succeeded was not known.
            assert (ran.how, [each.how for each in ran.members]) == ("finished", [None])
            assert [each.kind for each in ran.events] == ["Created", "Ended", "NotBound"]

    run(test)


def test_the_first_version_can_neither_write_nor_lead_after_the_migration(
    new_database: Make,
) -> None:
    """These are the statements of that version, in its order."""
    url = of_the_first_version(new_database)
    with psycopg.connect(url, autocommit=True) as old:
        old.execute("SELECT afflux.move_fence(41, 'old')")
        old.execute("SELECT afflux.pass_fence(41, 'old', 1)")

        async def test() -> None:
            await migrated(url)

        run(test)
        with pytest.raises(psycopg.Error, match="epoch 41 is over") as deposed:
            old.execute("SELECT afflux.pass_fence(41, 'old', 2)")
        assert deposed.value.sqlstate == "AF001"
        with pytest.raises(psycopg.Error, match="is of a later version of afflux"):
            old.execute("SELECT afflux.move_fence(42, 'old')")


def test_a_migration_ends_the_session_of_a_leader_that_was_suspended_during_a_batch(
    new_database: Make, caplog: pytest.LogCaptureFixture
) -> None:
    url = of_the_first_version(new_database)
    with psycopg.connect(url) as old:
        old.execute("SELECT afflux.move_fence(41, 'old')")
        old.execute("LOCK TABLE afflux.queue IN ROW EXCLUSIVE MODE")

        async def test() -> None:
            await migrated(url)

        run(test)
        with pytest.raises(psycopg.OperationalError):
            old.execute("SELECT 1")
    assert "its session is terminated" in caplog.text


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


def test_this_version_refuses_to_lead_on_the_schema_of_a_later_one(database: str) -> None:
    why = "of a later version of afflux (2099-01-01-add, 2099-01-02-index); expected that version"

    async def test() -> None:
        async with ledger_at(database) as before, ledger_at(database) as after:
            await before.take_over(7)
            await migrated(database, {**migrations(), **LATER})
            with pytest.raises(LaterSchemaError, match=re.escape(why)):
                await after.take_over(8)
            # A leader notices it when it has to connect again.
            await before.close()
            with pytest.raises(DeposedError, match=re.escape(why)):
                await before.commit(LedgerBatch(groups=(group("default/a"),)))

    run(test)
    assert rows(database, "SELECT epoch FROM afflux.fence") == [(7,)]
    assert rows(database, "SELECT 1 FROM afflux.groups") == []


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
