"""The fence: of several processes that believe they lead, one can write."""

import asyncio

import psycopg
import pytest
from database_proxy import proxied_database
from ledger_values import contents, group, ledger_at, rows, run

from afflux.cycle.interfaces import DeposedError, LedgerUnavailableError
from afflux.cycle.ledger_entries import LedgerBatch
from afflux.groups.entries import EventEntry
from afflux.ledger.postgres import LedgerTimeouts


def test_a_deposed_leader_cannot_write(database: str) -> None:
    async def test() -> None:
        async with ledger_at(database) as old, ledger_at(database) as new:
            await old.take_over(3)
            await old.commit(LedgerBatch(groups=(group("default/a"),)))
            await new.take_over(4)
            before = contents(database)
            with pytest.raises(DeposedError, match="epoch 3 is over: epoch 4 leads"):
                await old.commit(LedgerBatch(groups=(group("default/b"),)))
            with pytest.raises(DeposedError):
                await old.commit(LedgerBatch())
            assert contents(database) == before
            await new.commit(LedgerBatch(groups=(group("default/c"),)))

    run(test)


def test_a_leader_suspended_during_a_batch_loses_the_fence(
    database: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Its session is in a transaction: the batch has begun and its end has not arrived."""
    soon = LedgerTimeouts(fence_seconds=0.2)

    async def test() -> None:
        async with (
            proxied_database(database) as proxy,
            ledger_at(proxy.url) as old,
            ledger_at(database, timeouts=soon) as new,
        ):
            await old.take_over(3)
            proxy.count_from_here()
            await old.commit(LedgerBatch(groups=(group("default/a"),)))
            end = proxy.passed["asked"].index(b"S")
            proxy.count_from_here()
            # Everything but the end of the batch has arrived.
            proxy.stall = ("asked", end)
            batch = asyncio.create_task(old.commit(LedgerBatch(groups=(group("default/b"),))))
            while not proxy.silent:
                await asyncio.sleep(0.01)
            held = "SELECT count(*) FROM pg_locks WHERE relation = 'afflux.fence'::regclass"
            while rows(database, held) == [(0,)]:
                await asyncio.sleep(0.01)
            found = await new.take_over(4)
            assert [each.entry.id.shown for each in found.groups] == ["default/a"]
            await new.commit(LedgerBatch(groups=(group("default/c"),)))
            proxy.reopen()
            with pytest.raises(LedgerUnavailableError):
                await batch
            # The old leader continues, and finds that it no longer leads.
            with pytest.raises(DeposedError):
                await old.commit(LedgerBatch(groups=(group("default/b"),)))
            assert rows(database, "SELECT name FROM afflux.groups ORDER BY 1") == [("a",), ("c",)]

    run(test)
    assert "the former leader has kept the fence of the ledger locked for 0.2 s" in caplog.text


def test_an_earlier_epoch_cannot_take_over(database: str) -> None:
    async def test() -> None:
        async with ledger_at(database) as one, ledger_at(database) as other:
            await one.take_over(5)
            for epoch in (4, 5, 0):
                with pytest.raises(DeposedError, match="epoch 5 leads"):
                    await other.take_over(epoch)
            await one.commit(LedgerBatch())

    run(test)


def test_an_empty_ledger_accepts_any_first_epoch(database: str) -> None:
    async def test() -> None:
        async with ledger_at(database) as ledger:
            assert (await ledger.take_over(0)).epoch == 0

    run(test)


def test_without_election_the_next_epoch_is_taken(database: str) -> None:
    async def test() -> None:
        async with ledger_at(database) as one, ledger_at(database) as other:
            assert (await one.take_over(8)).epoch == 8
            assert (await other.take_over(None)).epoch == 9
            with pytest.raises(DeposedError):
                await one.commit(LedgerBatch())

    run(test)


def test_the_same_process_may_take_its_epoch_again(database: str) -> None:
    """The answer to the first attempt may have been lost."""

    async def test() -> None:
        async with ledger_at(database) as ledger:
            await ledger.take_over(5)
            await ledger.commit(LedgerBatch(groups=(group(),)))
            await ledger.take_over(5)
            await ledger.commit(LedgerBatch(events=(EventEntry("default/g", "Again"),)))

    run(test)
    assert rows(database, "SELECT turn FROM afflux.fence") == [(1,)]


def test_taking_over_waits_for_the_batch_being_written(database: str) -> None:
    """Otherwise the new leader would miss bind intents of that batch."""

    async def test() -> None:
        async with ledger_at(database) as old, ledger_at(database) as new:
            await old.take_over(1)
            ((holder,),) = rows(database, "SELECT holder FROM afflux.fence")
            async with await psycopg.AsyncConnection.connect(database) as writing:
                await writing.execute("SELECT afflux.pass_fence(1, %s, 1)", (holder,))
                taking = asyncio.create_task(new.take_over(2))
                waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted"
                while rows(database, waiting) == [(0,)]:
                    await asyncio.sleep(0.01)
                assert not taking.done()
                await writing.commit()
            assert (await taking).epoch == 2

    run(test)


def test_of_concurrent_takeovers_one_leads(database: str) -> None:
    async def test() -> None:
        async with ledger_at(database) as a, ledger_at(database) as b, ledger_at(database) as c:
            ledgers = [a, b, c]
            taken = await asyncio.gather(*(ledger.take_over(None) for ledger in ledgers))
            assert sorted(each.epoch for each in taken) == [0, 1, 2]
            written = await asyncio.gather(
                *(ledger.commit(LedgerBatch()) for ledger in ledgers), return_exceptions=True
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
                await ledger.commit(LedgerBatch())

    run(test)


def test_the_statement_of_the_fence_is_not_compiled(database: str) -> None:
    """Servers before 18 give a disabled scan such a high cost that they would compile the plan."""

    async def test() -> None:
        async with ledger_at(database) as ledger:
            await ledger.take_over(None)
            connection = await ledger._connection.connection()
            shown = await (await connection.execute("SHOW jit")).fetchone()
            assert shown == ("off",)

    run(test)
