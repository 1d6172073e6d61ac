"""History is kept for so many days, and forgotten without holding anybody up."""

import logging
from pathlib import Path
from time import time
from typing import Any

import psycopg
import pytest
from ledger_values import contents, gone, group, ledger_at, promise, rows, run, sent

from afflux.app import run_in_kubernetes
from afflux.config import read_configuration
from afflux.cycle.entries import EventEntry, Turn
from afflux.cycle.ports import DeposedError, LedgerError
from afflux.ledger import forgetting
from afflux.ledger.forgetting import (
    DAYS_OF_EVENTS,
    FIRST_PAUSE_SECONDS,
    LONG_PAUSE_SECONDS,
    MOST_AT_ONCE,
    SHORT_PAUSE_SECONDS,
    USUAL_DAYS,
    Forgetting,
)
from afflux.ledger.postgres import PostgresLedger
from afflux.ledger.statements import statement
from afflux.model.promise import Promise

DAY_SECONDS = 86_400.0


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every turn forgets something, if there is something."""
    for pause in ("FIRST_PAUSE_SECONDS", "SHORT_PAUSE_SECONDS", "LONG_PAUSE_SECONDS"):
        monkeypatch.setattr(forgetting, pause, 0.0)


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


# --- What goes and what stays


@pytest.mark.usefixtures("at_once")
def test_what_is_older_goes_and_what_is_younger_stays(database: str) -> None:
    ages = {"old": 11.0, "just-old": 10.01, "just-young": 9.99, "young": 0.0}

    async def test() -> None:
        async with ledger_at(database, history_days=10) as ledger:
            await ledger.take_over(None)
            ended = (gone(group(f"s/{name}"), "finished", days_ago(ages[name])) for name in ages)
            await ledger.commit(Turn(gone=tuple(ended)))
            await ledger.commit(Turn())

    run(test)
    found = rows(database, "SELECT name FROM afflux.finished_groups ORDER BY ended_seconds")
    assert found == [("just-young",), ("young",)]


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize(
    ("history_days", "kept"),
    [
        (USUAL_DAYS, ["month", "week", "day"]),
        (DAYS_OF_EVENTS, ["month", "week", "day"]),
        (8, ["week", "day"]),
        (2, ["day"]),
    ],
)
def test_events_go_after_a_month_or_with_history_if_that_is_shorter(
    database: str, history_days: int, kept: list[str]
) -> None:
    ages = {"year": 365.0, "longer": DAYS_OF_EVENTS + 0.01, "month": DAYS_OF_EVENTS - 0.01}
    ages |= {"week": 7.0, "day": 1.0}

    async def test() -> None:
        async with ledger_at(database, history_days=history_days) as ledger:
            await ledger.take_over(None)
            with psycopg.connect(database) as connection:
                for kind, days in ages.items():
                    connection.execute(
                        "INSERT INTO afflux.events (at, epoch, namespace, name, kind, message)"
                        " VALUES (to_timestamp(%s), 1, 's', 'g', %s, '')",
                        (days_ago(days), kind),
                    )
            await ledger.commit(Turn())

    run(test)
    assert rows(database, "SELECT kind FROM afflux.events ORDER BY at") == [(k,) for k in kept]


@pytest.mark.usefixtures("at_once")
def test_what_has_not_ended_is_never_forgotten(database: str) -> None:
    """However long ago it came, began or should have been over."""
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
    held = (promise(waiting, 5.0), Promise("s/never", None, ()))

    async def test() -> None:
        async with ledger_at(database, history_days=1) as ledger:
            await ledger.take_over(None)
            await ledger.commit(Turn(groups=there, promises=held))
            before = contents(database)
            fill(database, 3, 2.0 + DAYS_OF_EVENTS)
            # One of them had the name of one that is there.
            await ledger.commit(Turn(gone=(gone(group("s/other"), "deleted", days_ago(2)),)))
            with psycopg.connect(database) as connection:
                connection.execute("UPDATE afflux.finished_groups SET name = 'waits'")
            await ledger.commit(Turn())
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


@pytest.mark.usefixtures("at_once")
def test_the_configuration_says_for_how_long(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = dict(part.split("=", 1) for part in database.split())
    url = f"postgresql://{parts['user']}@/{parts['dbname']}?host={parts['host']}"
    (tmp_path / "kubeconfig").write_text(KUBECONFIG)
    (tmp_path / "afflux.yaml").write_text(
        "apiVersion: afflux.dev/v1alpha1\nkind: AffluxConfiguration\n"
        f"ledger: {{url: '{url}', historyDays: 7}}\n"
    )

    async def one_turn(*parts: Any) -> None:
        ledger: PostgresLedger = parts[3]
        await ledger.take_over(None)
        fill(database, 2, 8.0)
        fill(database, 3, 6.0)
        await ledger.commit(Turn())
        await ledger.close()

    monkeypatch.setattr("afflux.kube.live.running.run", one_turn)
    configuration = read_configuration(str(tmp_path / "afflux.yaml"))
    assert run_in_kubernetes(configuration, str(tmp_path / "kubeconfig"), None) is None
    assert left(database) == (3, 3)


# --- How much at once


@pytest.mark.usefixtures("at_once")
def test_many_rows_go_in_batches_one_with_each_turn(database: str) -> None:
    young, old = 3, 2 * MOST_AT_ONCE + 7

    async def test() -> None:
        async with ledger_at(database, history_days=10) as ledger:
            await ledger.take_over(None)
            fill(database, old, 400.0)
            fill(database, young, 1.0)
            for gone_by_now in (MOST_AT_ONCE, 2 * MOST_AT_ONCE, old, old):
                # Of a turn that says something, too.
                await ledger.commit(Turn(events=(EventEntry("s/g", "Now"),)))
                with psycopg.connect(database) as connection:
                    connection.execute("DELETE FROM afflux.events WHERE kind = 'Now'")
                expected = old + young - gone_by_now
                assert left(database) == (expected, expected)

    run(test)


@pytest.mark.usefixtures("at_once")
def test_the_oldest_go_first(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forgetting, "MOST_AT_ONCE", 2)

    async def test() -> None:
        async with ledger_at(database, history_days=10) as ledger:
            await ledger.take_over(None)
            for days in (30, 50, 20, 40):
                fill(database, 1, days)
            await ledger.commit(Turn())

    run(test)
    ended = rows(database, "SELECT ended_seconds FROM afflux.finished_groups ORDER BY 1")
    assert [round((time() - each) / DAY_SECONDS) for (each,) in ended] == [30, 20]


@pytest.mark.parametrize(
    ("name", "index"),
    [("forget_history", "finished_groups_by_end"), ("forget_events", "events_by_time")],
)
def test_they_are_found_by_their_age(database: str, name: str, index: str) -> None:
    fill(database, 10_000, 100.0)

    async def test() -> None:
        async with ledger_at(database) as ledger:
            await ledger.take_over(None)
            connection = await ledger._connecting.connection()
            asked = await connection.execute(
                b"EXPLAIN " + statement(name), {"days": 10, "most": MOST_AT_ONCE}
            )
            plan = "\n".join(line for (line,) in await asked.fetchall())
            assert f"Index Scan using {index}" in plan
            assert "Seq Scan" not in plan
            assert "Sort" not in plan

    run(test)


@pytest.mark.usefixtures("at_once")
def test_a_turn_does_not_wait_for_whoever_holds_old_rows(database: str) -> None:
    async def test() -> None:
        async with ledger_at(database, history_days=10) as ledger:
            await ledger.take_over(None)
            fill(database, 3, 400.0)
            with psycopg.connect(database) as accountant:
                accountant.execute("SELECT FROM afflux.finished_groups LIMIT 1 FOR UPDATE")
                await ledger.commit(Turn())
                assert left(database) == (1, 0)
            await ledger.commit(Turn())
            assert left(database) == (0, 0)

    run(test)


# --- Who may


@pytest.mark.usefixtures("at_once")
def test_a_deposed_leader_forgets_nothing(database: str) -> None:
    async def test() -> None:
        async with (
            ledger_at(database, history_days=1) as old,
            ledger_at(database, history_days=1_000) as new,
        ):
            await old.take_over(3)
            await new.take_over(4)
            fill(database, 5, 20.0)
            with pytest.raises(DeposedError):
                await old.commit(Turn())
            assert left(database) == (5, 5)
            await new.commit(Turn())
            assert left(database) == (5, 5)

    run(test)


def test_who_takes_over_forgets_nothing_yet(database: str) -> None:
    async def test() -> None:
        async with ledger_at(database, history_days=1) as ledger:
            await ledger.take_over(None)
            fill(database, 5, 400.0)
            await ledger.take_over(None)
            await ledger.commit(Turn(groups=(group(),)))
            assert left(database) == (5, 5)

    run(test)


def test_a_turn_that_cannot_forget_is_written_without(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A database may be somebody's who lets nobody delete history."""
    monkeypatch.setattr(forgetting, "FIRST_PAUSE_SECONDS", 0.0)
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
            async with ledger_at(f"{database} user=keeper", history_days=1) as ledger:
                await ledger.take_over(None)
                turn = Turn(groups=(group("s/a"),))
                with pytest.raises(
                    LedgerError, match="permission denied for table finished_groups"
                ):
                    await ledger.commit(turn)
                await ledger.commit(turn)

        run(test)
    finally:
        with psycopg.connect(database, autocommit=True) as connection:
            connection.execute("DROP OWNED BY keeper")
            connection.execute("DROP ROLE keeper")
    assert rows(database, "SELECT name FROM afflux.queue") == [("a",)]
    assert left(database) == (5, 5)


# --- When


def test_it_is_looked_once_in_a_while_and_soon_again_while_there_is_more(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    now = 1_000.0
    leader = Forgetting(10)
    leader.begin(now)
    assert leader.steps(now + FIRST_PAUSE_SECONDS - 0.1) == []
    now += FIRST_PAUSE_SECONDS
    assert [name for name, _ in leader.steps(now)] == ["forget_history", "forget_events"]
    # A full batch of either.
    for full in ([MOST_AT_ONCE, 0], [3, MOST_AT_ONCE]):
        leader.forgot(full, now)
        assert leader.steps(now + SHORT_PAUSE_SECONDS / 2) == []
        now += SHORT_PAUSE_SECONDS
        assert leader.steps(now)
    assert not caplog.messages
    leader.forgot([4, 0], now)
    assert caplog.messages == [f"{2 * MOST_AT_ONCE + 7} rows of history (10 days) and events went"]
    assert leader.steps(now + LONG_PAUSE_SECONDS - 0.1) == []
    now += LONG_PAUSE_SECONDS
    assert leader.steps(now)
    leader.forgot([0, 0], now)
    assert len(caplog.messages) == 1


def test_without_an_answer_it_is_not_tried_again_at_once() -> None:
    leader = Forgetting(10)
    leader.begin(0.0)
    assert leader.steps(FIRST_PAUSE_SECONDS)
    assert leader.steps(FIRST_PAUSE_SECONDS + SHORT_PAUSE_SECONDS) == []
    assert leader.steps(FIRST_PAUSE_SECONDS + LONG_PAUSE_SECONDS)
