"""History is kept for so many days, and deleted in bounded steps beside the batches."""

import logging
from pathlib import Path
from time import monotonic, time
from typing import Any

import psycopg
import pytest
from ledger_values import (
    contents,
    ended_group,
    group,
    ledger_at,
    reservation,
    reserved,
    rows,
    run,
    sent,
)

from afflux.app import run_in_kubernetes
from afflux.config import read_configuration
from afflux.cycle.interfaces import DeposedError, LedgerError
from afflux.cycle.ledger_entries import LedgerBatch
from afflux.groups.entries import EventEntry
from afflux.ledger.postgres import PostgresLedger
from afflux.ledger.retention import (
    DEFAULT_HISTORY_DAYS,
    DEFAULT_INTERVALS,
    EVENT_DAYS,
    MAX_ROWS,
    Retention,
    RetentionIntervals,
)
from afflux.ledger.statements import statement

DAY_SECONDS = 86_400.0
INITIAL = DEFAULT_INTERVALS.initial_seconds
BUSY = DEFAULT_INTERVALS.busy_seconds
IDLE = DEFAULT_INTERVALS.idle_seconds


def always(history_days: int, max_rows: int = MAX_ROWS) -> Retention:
    """A retention that deletes old history with every batch."""
    return Retention(history_days, max_rows=max_rows, intervals=RetentionIntervals(0.0, 0.0, 0.0))


def days_ago(days: float) -> float:
    return time() - days * DAY_SECONDS


def fill(url: str, count: int, days: float) -> None:
    """So many groups that ended so many days ago, and as many events from then."""
    with psycopg.connect(url) as connection:
        connection.execute(
            "INSERT INTO afflux.finished_groups (namespace, name, queue, size, priority,"
            " created_seconds, ended_seconds, how, reason, pods, machines)"
            " SELECT 's', 'g' || n, 'default', 1, 0, 1, %s, 'finished', '', '{p}', '{m}'"
            " FROM generate_series(1, %s) AS n",
            (days_ago(days), count),
        )
        connection.execute(
            "INSERT INTO afflux.events (at, epoch, namespace, name, kind, message)"
            " SELECT to_timestamp(%s), 1, 's', 'g' || n, 'NotBound', '' "
            " FROM generate_series(1, %s) AS n",
            (days_ago(days), count),
        )


def left(url: str) -> tuple[int, int]:
    """Groups in history, and events."""
    counted = (
        "SELECT (SELECT count(*) FROM afflux.finished_groups), (SELECT count(*) FROM afflux.events)"
    )
    ((groups, events),) = rows(url, counted)
    return groups, events


# --- Age


def test_history_is_deleted_after_its_days(database: str) -> None:
    ages = {"old": 11.0, "just-old": 10.01, "just-young": 9.99, "young": 0.0}

    async def test() -> None:
        async with ledger_at(database, always(10)) as ledger:
            await ledger.take_over(None)
            ended = (
                ended_group(group(f"s/{name}"), "failed", days_ago(ages[name])) for name in ages
            )
            await ledger.commit(LedgerBatch(ended=tuple(ended)))
            await ledger.commit(LedgerBatch())

    run(test)
    found = rows(database, "SELECT name FROM afflux.finished_groups ORDER BY ended_seconds")
    assert found == [("just-young",), ("young",)]


@pytest.mark.parametrize(
    ("history_days", "kept"),
    [
        (DEFAULT_HISTORY_DAYS, ["month", "week", "day"]),
        (EVENT_DAYS, ["month", "week", "day"]),
        (8, ["week", "day"]),
        (2, ["day"]),
    ],
)
def test_events_are_deleted_after_a_month_or_with_shorter_history(
    database: str, history_days: int, kept: list[str]
) -> None:
    ages = {"year": 365.0, "longer": EVENT_DAYS + 0.01, "month": EVENT_DAYS - 0.01}
    ages |= {"week": 7.0, "day": 1.0}

    async def test() -> None:
        async with ledger_at(database, always(history_days)) as ledger:
            await ledger.take_over(None)
            with psycopg.connect(database) as connection:
                for kind, days in ages.items():
                    connection.execute(
                        "INSERT INTO afflux.events (at, epoch, namespace, name, kind, message)"
                        " VALUES (to_timestamp(%s), 1, 's', 'g', %s, '')",
                        (days_ago(days), kind),
                    )
            await ledger.commit(LedgerBatch())

    run(test)
    assert rows(database, "SELECT kind FROM afflux.events ORDER BY at") == [(k,) for k in kept]


def test_groups_that_have_not_ended_are_never_deleted(database: str) -> None:
    """This holds however old they are, and however long their deadline has passed."""
    ancient = {"created_seconds": 1.0, "ready_seconds": 2.0}
    waiting = group("s/waits", **ancient)
    there = (
        group("s/comes", state="provisional", created_seconds=1.0, ready_seconds=None),
        group("s/refused", state="refused", **ancient),
        waiting,
        group("s/never", state="unsatisfiable", **ancient),
        sent(group("s/starts", **ancient), "m1"),
        group("s/runs", state="running", started_seconds=3.0, until_seconds=4.0, **ancient),
    )
    held = (reservation(waiting, 5.0), reserved(group("s/never"), None))

    async def test() -> None:
        async with ledger_at(database, always(1)) as ledger:
            await ledger.take_over(None)
            await ledger.commit(LedgerBatch(groups=there, reservations=held))
            before = contents(database)
            fill(database, 3, 2.0 + EVENT_DAYS)
            # An ended group had the name of a waiting one.
            await ledger.commit(
                LedgerBatch(ended=(ended_group(group("s/other"), "deleted", days_ago(2)),))
            )
            with psycopg.connect(database) as connection:
                connection.execute("UPDATE afflux.finished_groups SET name = 'waits'")
            await ledger.commit(LedgerBatch())
            assert left(database) == (0, 0)
            assert contents(database) == before

    run(test)


KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: here
contexts: [{name: here, context: {cluster: here, user: me}}]
clusters: [{name: here, cluster: {server: "http://127.0.0.1:9"}}]
users: [{name: me, user: {}}]
"""


def test_the_configuration_sets_the_days(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = dict(part.split("=", 1) for part in database.split())
    url = f"postgresql://{parts['user']}@/{parts['dbname']}?host={parts['host']}"
    (tmp_path / "kubeconfig").write_text(KUBECONFIG)
    (tmp_path / "afflux.yaml").write_text(
        "apiVersion: afflux.dev/v1alpha1\nkind: AffluxConfiguration\n"
        f"ledger: {{url: '{url}', historyDays: 7}}\n"
    )

    async def one_batch(*parts: Any) -> None:
        ledger: PostgresLedger = parts[3]
        await ledger.take_over(None)
        # As if the leader had taken over long enough ago.
        ledger._retention.begin(monotonic() - INITIAL)
        fill(database, 2, 8.0)
        fill(database, 3, 6.0)
        await ledger.commit(LedgerBatch())
        await ledger.close()

    monkeypatch.setattr("afflux.kube.live.process.run", one_batch)
    configuration = read_configuration(str(tmp_path / "afflux.yaml"))
    assert run_in_kubernetes(configuration, str(tmp_path / "kubeconfig"), None) is None
    assert left(database) == (3, 3)


# --- Bounds


def test_each_batch_deletes_a_bounded_number_of_rows(database: str) -> None:
    young, old = 3, 2 * MAX_ROWS + 7

    async def test() -> None:
        async with ledger_at(database, always(10)) as ledger:
            await ledger.take_over(None)
            fill(database, old, 400.0)
            fill(database, young, 1.0)
            for gone_by_now in (MAX_ROWS, 2 * MAX_ROWS, old, old):
                # Also with a batch that is not empty.
                await ledger.commit(LedgerBatch(events=(EventEntry("s/g", "Now"),)))
                with psycopg.connect(database) as connection:
                    connection.execute("DELETE FROM afflux.events WHERE kind = 'Now'")
                expected = old + young - gone_by_now
                assert left(database) == (expected, expected)

    run(test)


def test_the_oldest_rows_are_deleted_first(database: str) -> None:
    async def test() -> None:
        async with ledger_at(database, always(10, max_rows=2)) as ledger:
            await ledger.take_over(None)
            for days in (30, 50, 20, 40):
                fill(database, 1, days)
            await ledger.commit(LedgerBatch())

    run(test)
    ended = rows(database, "SELECT ended_seconds FROM afflux.finished_groups ORDER BY 1")
    assert [round((time() - each) / DAY_SECONDS) for (each,) in ended] == [30, 20]


@pytest.mark.parametrize(
    ("name", "index"),
    [("delete_old_history", "finished_groups_by_end"), ("delete_old_events", "events_by_time")],
)
def test_old_rows_are_found_by_an_index(database: str, name: str, index: str) -> None:
    fill(database, 10_000, 100.0)

    async def test() -> None:
        async with ledger_at(database) as ledger:
            await ledger.take_over(None)
            connection = await ledger._connection.connection()
            asked = await connection.execute(
                b"EXPLAIN " + statement(name), {"days": 10, "limit": MAX_ROWS}
            )
            plan = "\n".join(line for (line,) in await asked.fetchall())
            assert f"Index Scan using {index}" in plan
            assert "Seq Scan" not in plan
            assert "Sort" not in plan

    run(test)


def test_a_batch_skips_old_rows_that_are_locked(database: str) -> None:
    async def test() -> None:
        async with ledger_at(database, always(10)) as ledger:
            await ledger.take_over(None)
            fill(database, 3, 400.0)
            with psycopg.connect(database) as accountant:
                accountant.execute("SELECT FROM afflux.finished_groups LIMIT 1 FOR UPDATE")
                await ledger.commit(LedgerBatch())
                assert left(database) == (1, 0)
            await ledger.commit(LedgerBatch())
            assert left(database) == (0, 0)

    run(test)


# --- Leadership and rights


def test_a_deposed_leader_deletes_nothing(database: str) -> None:
    async def test() -> None:
        async with ledger_at(database, always(1)) as old, ledger_at(database, always(1_000)) as new:
            await old.take_over(3)
            await new.take_over(4)
            fill(database, 5, 20.0)
            with pytest.raises(DeposedError):
                await old.commit(LedgerBatch())
            assert left(database) == (5, 5)
            await new.commit(LedgerBatch())
            assert left(database) == (5, 5)

    run(test)


def test_a_new_leader_deletes_nothing_at_first(database: str) -> None:
    async def test() -> None:
        async with ledger_at(database, Retention(1)) as ledger:
            await ledger.take_over(None)
            fill(database, 5, 400.0)
            await ledger.take_over(None)
            await ledger.commit(LedgerBatch(groups=(group(),)))
            assert left(database) == (5, 5)

    run(test)


def test_a_batch_is_written_even_if_deletion_is_forbidden(database: str) -> None:
    """The owner of the database may forbid to delete history."""
    soon = RetentionIntervals(initial_seconds=0.0)
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("CREATE ROLE keeper LOGIN")
        connection.execute("GRANT USAGE ON SCHEMA afflux TO keeper")
        connection.execute(
            "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA afflux TO keeper"
        )
        connection.execute("REVOKE DELETE ON afflux.finished_groups FROM keeper")
    fill(database, 5, 400.0)
    try:

        async def test() -> None:
            async with ledger_at(f"{database} user=keeper", Retention(1, intervals=soon)) as ledger:
                await ledger.take_over(None)
                batch = LedgerBatch(groups=(group("s/a"),))
                with pytest.raises(
                    LedgerError, match="permission denied for table finished_groups"
                ):
                    await ledger.commit(batch)
                await ledger.commit(batch)

        run(test)
    finally:
        with psycopg.connect(database, autocommit=True) as connection:
            connection.execute("DROP OWNED BY keeper")
            connection.execute("DROP ROLE keeper")
    assert rows(database, "SELECT name FROM afflux.queue") == [("a",)]
    assert left(database) == (5, 5)


# --- Times


def test_deletion_runs_at_intervals_and_sooner_while_rows_remain(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    now = 1_000.0
    leader = Retention(10)
    leader.begin(now)
    assert leader.steps(now + INITIAL - 0.1) == []
    now += INITIAL
    assert [name for name, _ in leader.steps(now)] == ["delete_old_history", "delete_old_events"]
    # A full batch of groups, then one of events.
    for full in ([MAX_ROWS, 0], [3, MAX_ROWS]):
        leader.deleted(full, now)
        assert leader.steps(now + BUSY / 2) == []
        now += BUSY
        assert leader.steps(now)
    assert not caplog.messages
    leader.deleted([4, 0], now)
    assert caplog.messages == [
        f"deleted {2 * MAX_ROWS + 7} old rows of history (older than 10 days) and of events"
    ]
    assert leader.steps(now + IDLE - 0.1) == []
    now += IDLE
    assert leader.steps(now)
    leader.deleted([0, 0], now)
    assert len(caplog.messages) == 1


def test_deletion_without_an_answer_waits_for_the_next_interval() -> None:
    leader = Retention(10)
    leader.begin(0.0)
    assert leader.steps(INITIAL)
    assert leader.steps(INITIAL + BUSY) == []
    assert leader.steps(INITIAL + IDLE)
