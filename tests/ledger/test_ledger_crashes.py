"""A crash at any instruction loses no group, keeps the order and writes nothing twice."""

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from cutting import Direction, Way, way_to
from ledger_values import bound, contents, gone, group, ledger_at, promise, rows, run, sent
from msgspec.structs import replace

from afflux.cycle.entries import EventEntry, Turn
from afflux.cycle.ports import LedgerAwayError
from afflux.ledger.postgres import PostgresLedger, steps_of

pytestmark = pytest.mark.slow

# A cycle in which everything happens: groups come, move, start and go.
OLD = [group(f"default/old-{number}", ready_seconds=100.0 + number) for number in range(5)]
BEFORE = Turn(
    groups=(OLD[0], OLD[1], sent(OLD[2], "m", "m"), sent(OLD[3], "m", "m"), OLD[4]),
    promises=(promise(OLD[0]), promise(OLD[1])),
)
TURN = Turn(
    gone=(gone(OLD[4], "deleted"),),
    groups=(
        sent(OLD[1], "m1", "m2"),
        replace(bound(OLD[2], "m", "m"), started_seconds=9.0),
        replace(OLD[3], state="provisional", reason="1 of 2", members=OLD[3].members[:1]),
        group("default/new", ready_seconds=50.0),
    ),
    promises=(promise(OLD[0], 7.0),),
    events=(EventEntry("default/new", "Ready", "it's here"),),
)
ORDER = ["new", "old-0", "old-1", "old-2", "old-3"]


def order(url: str) -> list[str]:
    query = "SELECT name FROM afflux.groups ORDER BY priority DESC, ready_seconds"
    return [row[0] for row in rows(url, query)]


def expected(make: Callable[[str | None], str], template: str) -> tuple[object, object]:
    """The whole ledger before the turn and after it."""
    other = make(template)
    found: list[object] = []

    async def test() -> None:
        async with ledger_at(other) as ledger:
            await ledger.take_over(1)
            await ledger.commit(BEFORE)
            found.append(contents(other))
            await ledger.commit(TURN)
            found.append(contents(other))

    run(test)
    return found[0], found[1]


def test_the_turn_of_these_tests_uses_every_statement() -> None:
    written = {name for name, _ in steps_of(TURN, 1)}
    assert {
        "record_finished",
        "forget",
        "put_provisional",
        "put_queue",
        "put_running",
        "drop_promises",
        "put_promises",
        "record_events",
    } == written


@pytest.mark.parametrize("direction", ["asked", "answered"])
def test_a_connection_that_breaks_at_any_message(
    new_database: Callable[[str | None], str],
    template: str,
    direction: Direction,
) -> None:
    before, after = expected(new_database, template)
    url = new_database(template)

    async def begun(ledger: PostgresLedger, epoch: int) -> None:
        await ledger.take_over(epoch)
        everybody = (*OLD, group("default/new"))
        await ledger.commit(Turn(gone=tuple(gone(entry) for entry in everybody), promises=()))
        with_history_cleared(url)
        await ledger.commit(BEFORE)

    async def attempt(way: Way, epoch: int, cut_after: int | None) -> list[bytes]:
        """The messages that would have passed, by type."""
        way.let_in()
        async with ledger_at(way.url) as ledger:
            await begun(ledger, epoch)
            assert contents(url) == before
            way.count_from_here()
            if cut_after is not None:
                way.cut = (direction, cut_after)
                with pytest.raises(LedgerAwayError):
                    await ledger.commit(TURN)
                assert settled_contents(url) in (before, after)
                assert set(order(url)) >= {"old-0", "old-1", "old-2", "old-3"}
                way.let_in()
            await ledger.commit(TURN)
            assert contents(url) == after
            assert order(url) == ORDER
            return way.passed[direction]

    async def test() -> None:
        async with way_to(url) as way:
            messages = await attempt(way, 1, None)
            # Before each statement is executed or has been, before the end of all, and after it.
            ends = (b"E", b"S") if direction == "asked" else (b"C", b"Z")
            cuts = [place for place, kind in enumerate(messages) if kind in ends]
            assert len(cuts) > len(steps_of(TURN, 1)) + 1
            # What would be committed in between would be a turn in two parts.
            assert messages.count(ends[1]) == 1
            for number, place in enumerate(cuts):
                await attempt(way, number + 2, place)

    run(test)


def settled_contents(url: str) -> object:
    """What is there when the server has noticed that its client is gone."""
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
from test_ledger_crashes import BEFORE, TURN
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
        await ledger.commit(TURN)

for fatal, url in enumerate(sys.argv[1:], start=1):
    child = os.fork()
    if not child:
        asyncio.run(killed_at(fatal, url))
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_process_that_is_killed_at_any_statement(
    new_database: Callable[[str | None], str], template: str
) -> None:
    before, after = expected(new_database, template)
    # The fence, and all statements of the turn; then it survives.
    statements = len(steps_of(TURN, 1)) + 1
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
            names = [entry.name.removeprefix("default/") for entry in found.groups]
            assert names == ["old-0", "old-1", "old-2", "old-3", "old-4"]
            assert len(found.intents) == 4
            await successor.commit(TURN)

    run(test)


def test_a_turn_whose_answer_was_lost_is_written_once(database: str) -> None:
    async def test() -> None:
        async with way_to(database) as way, ledger_at(way.url) as ledger:
            await ledger.take_over(1)
            turn = Turn(events=(EventEntry("default/a", "Once"),), gone=(gone(group()),))
            way.count_from_here()
            await ledger.commit(turn)
            with_history_cleared(database)
            answers = len(way.passed["answered"])
            way.count_from_here()
            way.cut = ("answered", answers - 1)
            with pytest.raises(LedgerAwayError):
                await ledger.commit(turn)
            way.let_in()
            assert rows(database, "SELECT count(*) FROM afflux.events") == [(1,)]
            await ledger.commit(turn)
            assert rows(database, "SELECT count(*) FROM afflux.events") == [(1,)]
            assert rows(database, "SELECT count(*) FROM afflux.finished_groups") == [(1,)]
            await ledger.commit(Turn(events=(EventEntry("default/a", "Next"),)))
            assert rows(database, "SELECT count(*) FROM afflux.events") == [(2,)]

    run(test)


def test_another_turn_cannot_pass_one_without_an_answer(database: str) -> None:
    async def test() -> None:
        async with way_to(database) as way, ledger_at(way.url) as ledger:
            await ledger.take_over(1)
            way.close()
            turn = Turn(groups=(group(),))
            with pytest.raises(LedgerAwayError):
                await ledger.commit(turn)
            with pytest.raises(ValueError, match="another turn was offered"):
                await ledger.commit(Turn(groups=(group("default/other"),)))
            way.let_in()
            await ledger.commit(turn)

    run(test)


def test_a_server_that_does_not_answer_counts_as_away(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("afflux.ledger.postgres.LONGEST_TURN_SECONDS", 0.3)

    async def test() -> None:
        async with way_to(database) as way, ledger_at(way.url) as ledger:
            await ledger.take_over(1)
            way.silent = True
            with pytest.raises(LedgerAwayError, match=r"no answer within 0\.3 s"):
                await ledger.commit(Turn(groups=(group(),)))

    run(test)


def test_a_server_that_is_ended_in_between_is_connected_to_again(database: str) -> None:
    async def test() -> None:
        async with ledger_at(database) as ledger:
            await ledger.take_over(1)
            rows(
                database,
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE application_name = 'afflux' AND datname = current_database()",
            )
            turn = Turn(groups=(group(),))
            with pytest.raises(LedgerAwayError):
                await ledger.commit(turn)
            await ledger.commit(turn)
            assert order(database) == ["g"]

    run(test)
