"""A crash at any instruction loses no group, keeps the order and writes nothing twice."""

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from database_proxy import DatabaseProxy, Direction, proxied_database
from ledger_values import (
    bound,
    contents,
    ended_group,
    group,
    ledger_at,
    reservation,
    rows,
    run,
    sent,
    with_fields,
)

from afflux.cycle.interfaces import LedgerUnavailableError
from afflux.cycle.ledger_entries import LedgerBatch
from afflux.groups.entries import EventEntry, MemberEntry
from afflux.ledger.postgres import LedgerTimeouts, PostgresLedger, statements_of
from afflux.ledger.retention import Step

pytestmark = pytest.mark.slow

# A batch with every kind of change: groups that are new, change their table, start and end.
OLD = [group(f"default/old-{number}", ready_seconds=100.0 + number) for number in range(5)]
MANY = tuple(MemberEntry(f"u{number}", f"default/p{number}") for number in range(130))
LARGE = group("default/large", ready_seconds=90.0, members=MANY)
NEW = group("default/new", ready_seconds=50.0, members=MANY)
BEFORE = LedgerBatch(
    groups=(OLD[0], OLD[1], sent(OLD[2], "m", "m"), sent(OLD[3], "m", "m"), OLD[4], LARGE),
    reservations=(reservation(OLD[0]), reservation(OLD[1])),
)
BATCH = LedgerBatch(
    ended=(ended_group(OLD[4], "deleted"), ended_group(LARGE)),
    groups=(
        sent(OLD[1], "m1", "m2"),
        with_fields(bound(OLD[2], "m", "m"), started_seconds=9.0),
        with_fields(
            OLD[3],
            state="provisional",
            reason="1 of 2",
            members=OLD[3].members[:1],
            dropped=(OLD[3].members[1].uid,),
        ),
        NEW,
    ),
    reservations=(reservation(OLD[0], 7.0),),
    events=(EventEntry(NEW.entry.id.key, "Ready", "it's here"),),
)
ORDER = ["new", "old-0", "old-1", "old-2", "old-3"]


def order(url: str) -> list[str]:
    query = "SELECT name FROM afflux.groups ORDER BY priority DESC, ready_seconds"
    return [row[0] for row in rows(url, query)]


def expected(make: Callable[[str | None], str], template: str) -> tuple[object, object]:
    """The whole ledger before the batch and after it."""
    other = make(template)
    found: list[object] = []

    async def test() -> None:
        async with ledger_at(other) as ledger:
            await ledger.take_over(1)
            await ledger.commit(BEFORE)
            found.append(contents(other))
            await ledger.commit(BATCH)
            found.append(contents(other))

    run(test)
    return found[0], found[1]


def steps_of_the_batch() -> list[Step]:
    _, stored = statements_of(BEFORE, 1, {})
    steps, _ = statements_of(BATCH, 1, {key: members for key, members in stored.items() if members})
    return steps


def test_the_batch_of_these_tests_uses_every_statement() -> None:
    written = {name for name, _ in steps_of_the_batch()}
    assert {
        "insert_finished_groups",
        "delete_groups",
        "delete_member_chunks",
        "put_member_chunks",
        "put_provisional",
        "put_queue",
        "put_running",
        "delete_other_reservations",
        "put_reservations",
        "insert_events",
    } == written


@pytest.mark.parametrize("direction", ["asked", "answered"])
def test_a_broken_connection_leaves_the_ledger_as_before_or_after_the_batch(
    new_database: Callable[[str | None], str], template: str, direction: Direction
) -> None:
    before, after = expected(new_database, template)
    url = new_database(template)

    async def prepared(ledger: PostgresLedger, epoch: int) -> None:
        await ledger.take_over(epoch)
        all_groups = (*OLD, NEW)
        await ledger.commit(
            LedgerBatch(ended=tuple(ended_group(entry) for entry in all_groups), reservations=())
        )
        with_history_cleared(url)
        await ledger.commit(BEFORE)

    async def attempt(proxy: DatabaseProxy, epoch: int, cut_after: int | None) -> list[bytes]:
        """The types of the messages that passed in this direction."""
        proxy.reopen()
        async with ledger_at(proxy.url) as ledger:
            await prepared(ledger, epoch)
            assert contents(url) == before
            proxy.count_from_here()
            if cut_after is not None:
                proxy.cut = (direction, cut_after)
                with pytest.raises(LedgerUnavailableError):
                    await ledger.commit(BATCH)
                assert settled_contents(url) in (before, after)
                assert set(order(url)) >= {"old-0", "old-1", "old-2", "old-3"}
                proxy.reopen()
            await ledger.commit(BATCH)
            assert contents(url) == after
            assert order(url) == ORDER
            return proxy.passed[direction]

    async def test() -> None:
        async with proxied_database(url) as proxy:
            messages = await attempt(proxy, 1, None)
            # Cut before and after each statement, and before and after the commit.
            ends = (b"E", b"S") if direction == "asked" else (b"C", b"Z")
            cuts = [place for place, kind in enumerate(messages) if kind in ends]
            assert len(cuts) > len(steps_of_the_batch()) + 1
            # A second commit would split the batch in two.
            assert messages.count(ends[1]) == 1
            for number, place in enumerate(cuts):
                await attempt(proxy, number + 2, place)

    run(test)


def settled_contents(url: str) -> object:
    """The contents after the server has noticed that its client is gone."""
    busy = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
        " AND pid <> pg_backend_pid() AND application_name = 'afflux'"
    )
    while rows(url, busy) != [(0,)]:
        pass
    return contents(url)


def with_history_cleared(url: str) -> None:
    rows(url, "DELETE FROM afflux.finished_groups RETURNING 1")
    rows(url, "DELETE FROM afflux.events RETURNING 1")


PROCESS = """
import asyncio, os, signal, sys
from test_ledger_crashes import BEFORE, BATCH
from ledger_values import ledger_at
from afflux.ledger import postgres

async def killed_at(fatal, url):
    asked, real = 0, postgres.statement

    def statement(name):
        nonlocal asked
        asked += 1
        if asked == fatal:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(name)

    async with ledger_at(url) as ledger:
        await ledger.take_over(1)
        await ledger.commit(BEFORE)
        postgres.statement = statement
        await ledger.commit(BATCH)

for fatal, url in enumerate(sys.argv[1:], start=1):
    child = os.fork()
    if not child:
        asyncio.run(killed_at(fatal, url))
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_process_killed_at_any_statement_leaves_the_ledger_as_before_the_batch(
    new_database: Callable[[str | None], str], template: str
) -> None:
    before, after = expected(new_database, template)
    # The fence and every statement of the batch; one more process is not killed.
    statements = len(steps_of_the_batch()) + 1
    urls = [new_database(template) for _ in range(statements + 1)]
    folder = Path(__file__).parent
    ended = subprocess.run(
        [sys.executable, "-c", PROCESS, *urls],
        cwd=folder,
        env={"PYTHONPATH": ":".join([str(folder), *sys.path])},
        capture_output=True,
        check=False,
        timeout=60,
    )
    codes = [int(line) for line in ended.stdout.split()]
    assert codes == [-signal.SIGKILL] * statements + [0], ended.stderr.decode()
    for url in urls[:-1]:
        assert settled_contents(url) == before
        finish_as_the_next_leader(url)
        assert contents(url) == after
        assert order(url) == ORDER


def finish_as_the_next_leader(url: str) -> None:
    async def test() -> None:
        async with ledger_at(url) as successor:
            found = await successor.take_over(2)
            names = [each.entry.id.name for each in found.groups]
            assert names == ["large", "old-0", "old-1", "old-2", "old-3", "old-4"]
            assert len(found.intents) == 4
            await successor.commit(BATCH)

    run(test)


def test_a_batch_whose_answer_was_lost_is_written_once(database: str) -> None:
    async def test() -> None:
        async with proxied_database(database) as proxy, ledger_at(proxy.url) as ledger:
            await ledger.take_over(1)
            batch = LedgerBatch(events=(EventEntry("any", "Once"),), ended=(ended_group(group()),))
            proxy.count_from_here()
            await ledger.commit(batch)
            with_history_cleared(database)
            answers = len(proxy.passed["answered"])
            proxy.count_from_here()
            proxy.cut = ("answered", answers - 1)
            with pytest.raises(LedgerUnavailableError):
                await ledger.commit(batch)
            proxy.reopen()
            assert rows(database, "SELECT count(*) FROM afflux.events") == [(1,)]
            await ledger.commit(batch)
            assert rows(database, "SELECT count(*) FROM afflux.events") == [(1,)]
            assert rows(database, "SELECT count(*) FROM afflux.finished_groups") == [(1,)]
            await ledger.commit(LedgerBatch(events=(EventEntry("default/a", "Next"),)))
            assert rows(database, "SELECT count(*) FROM afflux.events") == [(2,)]

    run(test)


def test_a_batch_without_an_answer_must_be_repeated_before_another_one(database: str) -> None:
    async def test() -> None:
        async with proxied_database(database) as proxy, ledger_at(proxy.url) as ledger:
            await ledger.take_over(1)
            proxy.close()
            batch = LedgerBatch(groups=(group(),))
            with pytest.raises(LedgerUnavailableError):
                await ledger.commit(batch)
            with pytest.raises(ValueError, match="another batch was committed"):
                await ledger.commit(LedgerBatch(groups=(group("default/other"),)))
            proxy.reopen()
            await ledger.commit(batch)

    run(test)


def test_a_server_that_does_not_answer_counts_as_unavailable(database: str) -> None:
    async def test() -> None:
        soon = LedgerTimeouts(batch_seconds=0.3)
        async with (
            proxied_database(database) as proxy,
            ledger_at(proxy.url, timeouts=soon) as ledger,
        ):
            await ledger.take_over(1)
            proxy.silent = True
            with pytest.raises(LedgerUnavailableError, match=r"no answer within 0\.3 s"):
                await ledger.commit(LedgerBatch(groups=(group(),)))

    run(test)


def test_a_session_ended_by_the_server_is_replaced(database: str) -> None:
    async def test() -> None:
        async with ledger_at(database) as ledger:
            await ledger.take_over(1)
            rows(
                database,
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE application_name = 'afflux' AND datname = current_database()",
            )
            batch = LedgerBatch(groups=(group(),))
            with pytest.raises(LedgerUnavailableError):
                await ledger.commit(batch)
            await ledger.commit(batch)
            assert order(database) == ["g"]

    run(test)
