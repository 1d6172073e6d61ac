"""The fence: of all who think that they lead, one can write."""

import asyncio

import psycopg
import pytest
from cutting import way_to
from ledger_values import contents, group, ledger_at, rows, run

from afflux.cycle.entries import EventEntry, Turn
from afflux.cycle.ports import DeposedError, LedgerAwayError


def test_a_deposed_leader_cannot_write(database: str) -> None:
    async def test() -> None:
        async with ledger_at(database) as old, ledger_at(database) as new:
            await old.take_over(3)
            await old.commit(Turn(groups=(group("default/a"),)))
            await new.take_over(4)
            before = contents(database)
            with pytest.raises(DeposedError, match="epoch 3 is over: epoch 4 leads"):
                await old.commit(Turn(groups=(group("default/b"),)))
            with pytest.raises(DeposedError):
                await old.commit(Turn())
            assert contents(database) == before
            await new.commit(Turn(groups=(group("default/c"),)))

    run(test)


def test_a_leader_that_was_stopped_in_the_middle_of_a_turn_lets_go(
    database: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """To the server it is not idle: it has just not said all of it."""
    monkeypatch.setattr("afflux.ledger.postgres.LONGEST_HOLD_SECONDS", 0.2)

    async def test() -> None:
        async with way_to(database) as way, ledger_at(way.url) as old, ledger_at(database) as new:
            await old.take_over(3)
            way.count_from_here()
            await old.commit(Turn(groups=(group("default/a"),)))
            end = way.passed["asked"].index(b"S")
            way.count_from_here()
            # All but the end of the turn.
            way.stall = ("asked", end)
            turn = asyncio.create_task(old.commit(Turn(groups=(group("default/b"),))))
            while not way.silent:
                await asyncio.sleep(0.01)
            held = "SELECT count(*) FROM pg_locks WHERE relation = 'afflux.fence'::regclass"
            while rows(database, held) == [(0,)]:
                await asyncio.sleep(0.01)
            found = await new.take_over(4)
            assert [entry.name for entry in found.groups] == ["default/a"]
            await new.commit(Turn(groups=(group("default/c"),)))
            way.let_in()
            with pytest.raises(LedgerAwayError):
                await turn
            # It wakes up, and finds that it does not lead.
            with pytest.raises(DeposedError):
                await old.commit(Turn(groups=(group("default/b"),)))
            assert rows(database, "SELECT name FROM afflux.groups ORDER BY 1") == [("a",), ("c",)]

    run(test)
    assert "holds the ledger and does not move" in caplog.text


def test_an_earlier_epoch_cannot_take_over(database: str) -> None:
    async def test() -> None:
        async with ledger_at(database) as one, ledger_at(database) as other:
            await one.take_over(5)
            for epoch in (4, 5, 0):
                with pytest.raises(DeposedError, match="epoch 5 leads"):
                    await other.take_over(epoch)
            await one.commit(Turn())

    run(test)


def test_the_first_epoch_of_all_is_taken(database: str) -> None:
    async def test() -> None:
        async with ledger_at(database) as ledger:
            assert (await ledger.take_over(0)).epoch == 0

    run(test)


def test_who_was_not_elected_takes_the_next_epoch(database: str) -> None:
    async def test() -> None:
        async with ledger_at(database) as one, ledger_at(database) as other:
            assert (await one.take_over(8)).epoch == 8
            assert (await other.take_over(None)).epoch == 9
            with pytest.raises(DeposedError):
                await one.commit(Turn())

    run(test)


def test_the_same_process_may_take_its_epoch_again(database: str) -> None:
    """The answer to the first attempt may have been lost."""

    async def test() -> None:
        async with ledger_at(database) as ledger:
            await ledger.take_over(5)
            await ledger.commit(Turn(groups=(group(),)))
            await ledger.take_over(5)
            await ledger.commit(Turn(events=(EventEntry("default/g", "Again"),)))

    run(test)
    assert rows(database, "SELECT turn FROM afflux.fence") == [(1,)]


def test_who_takes_over_waits_for_the_turn_that_is_being_written(database: str) -> None:
    """Otherwise it would not see what the old leader has promised to bind."""

    async def test() -> None:
        async with ledger_at(database) as old, ledger_at(database) as new:
            await old.take_over(1)
            ((holder,),) = rows(database, "SELECT holder FROM afflux.fence")
            async with await psycopg.AsyncConnection.connect(database) as writing:
                await writing.execute("SELECT afflux.pass_fence(1, %s, 1)", (holder,))
                taking = asyncio.create_task(new.take_over(2))
                await asyncio.sleep(0.3)
                assert not taking.done()
                await writing.commit()
            assert (await taking).epoch == 2

    run(test)


def test_of_many_who_take_over_at_once_one_leads(database: str) -> None:
    async def test() -> None:
        async with (
            ledger_at(database) as a,
            ledger_at(database) as b,
            ledger_at(database) as c,
        ):
            ledgers = [a, b, c]
            taken = await asyncio.gather(*(ledger.take_over(None) for ledger in ledgers))
            assert sorted(each.epoch for each in taken) == [0, 1, 2]
            written = await asyncio.gather(
                *(ledger.commit(Turn()) for ledger in ledgers), return_exceptions=True
            )
            leads = [
                found.epoch for found, ended in zip(taken, written, strict=True) if ended is None
            ]
            assert leads == [2]

    run(test)


def test_a_ledger_that_was_emptied_has_no_leader(database: str) -> None:
    async def test() -> None:
        async with ledger_at(database) as ledger:
            await ledger.take_over(1)
            with psycopg.connect(database) as connection:
                connection.execute("DELETE FROM afflux.fence")
            with pytest.raises(DeposedError):
                await ledger.commit(Turn())

    run(test)


def test_to_pass_is_not_worth_a_compiler(database: str) -> None:
    """Servers before 18 count a scan that is off as so dear that they would compile its plan."""

    async def test() -> None:
        async with ledger_at(database) as ledger:
            await ledger.take_over(None)
            connection = await ledger._connecting.connection()
            shown = await (await connection.execute("SHOW jit")).fetchone()
            assert shown == ("off",)

    run(test)
