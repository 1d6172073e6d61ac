"""The ledger is unavailable, slow, or led by another process: what waits, what is written later."""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
from database_proxy import proxied_database
from ledger_values import ledger_at, rows, run
from small_cluster import Leader, leader_with, let_tasks_run, node, pod, wait_until

from afflux.control.ledger_writer import LedgerTiming, WhenAway
from afflux.cycle.interfaces import DeposedError, LedgerError, LedgerUnavailableError
from afflux.cycle.ledger_entries import LedgerBatch, RecoveredLedger
from afflux.kube import objects

pytestmark = pytest.mark.slow


class ScriptedLedger:
    """A ledger whose answers the test decides."""

    def __init__(self) -> None:
        self.batches: list[LedgerBatch] = []
        self.offered: list[LedgerBatch] = []
        self.error: Exception | None = None
        self.lets_pass = asyncio.Event()
        self.lets_pass.set()

    async def take_over(self, epoch: int | None) -> RecoveredLedger:
        return RecoveredLedger(epoch or 0)

    async def commit(self, batch: LedgerBatch) -> None:
        self.offered.append(batch)
        await self.lets_pass.wait()
        if self.error is not None:
            raise self.error
        self.batches.append(batch)

    async def close(self) -> None:
        pass

    def names(self) -> list[str]:
        return [each.entry.id.shown for batch in self.batches for each in batch.groups]


@asynccontextmanager
async def begun(
    nodes: Sequence[objects.Node],
    pods: Sequence[objects.Pod] = (),
    when_away: WhenAway = "wait",
    **timing: float,
) -> AsyncIterator[tuple[ScriptedLedger, Leader]]:
    """A scripted ledger, and a leader that has taken over with these nodes and pods."""
    ledger = ScriptedLedger()
    async with leader_with(ledger, when_away=when_away, timing=LedgerTiming(**timing)) as one:
        await one.begin(nodes, pods)
        yield ledger, one


def test_bind_outcomes_join_the_next_batch_and_queue_positions_are_written_at_once() -> None:
    async def test() -> None:
        async with begun([node("n")], linger_seconds=60.0) as (ledger, one):
            one.reader.pods.changed(pod("p"))
            one.bound(await one.once())
            await one.once()
            await let_tasks_run()
            assert ledger.names() == ["default/p"]
            one.reader.pods.changed(pod("q"))
            await one.once()
            assert ledger.names() == ["default/p", "default/p", "default/q"]
            assert [len(batch.groups) for batch in ledger.batches] == [1, 2]
            # No bind waits for this batch, since the pod does not fit; its position is written.
            one.reader.pods.changed(pod("late", cpu="100"))
            await one.once()
            await wait_until(lambda: "default/late" in ledger.names())

    run(test)


def test_a_batch_no_cycle_waits_for_is_written_after_the_linger_time() -> None:
    async def test() -> None:
        async with begun([node("n")], linger_seconds=0.05) as (ledger, one):
            one.reader.pods.changed(pod("p"))
            one.bound(await one.once())
            await one.once()
            await wait_until(lambda: ledger.names() == ["default/p", "default/p"])

    run(test)


def test_nothing_is_bound_before_it_is_written() -> None:
    async def test() -> None:
        async with begun([node("n")], [pod("p")]) as (ledger, one):
            ledger.lets_pass.clear()
            deciding = asyncio.create_task(one.once())
            await wait_until(lambda: bool(ledger.offered))
            await let_tasks_run()
            assert not deciding.done()
            ledger.lets_pass.set()
            assert len((await deciding).placements) == 1
            (change,) = ledger.batches[0].groups
            assert [member.sent_to for member in change.members] == ["n"]

    run(test)


def test_a_cycle_without_placements_does_not_wait() -> None:
    async def test() -> None:
        async with begun([], [pod("p")]) as (ledger, one):
            ledger.lets_pass.clear()
            await one.once()
            assert ledger.batches == []
            ledger.lets_pass.set()
            await one.ledger_writer.wait_written()
            assert ledger.names() == ["default/p"]

    run(test)


def test_binding_waits_while_the_ledger_is_unavailable(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with begun([node("n")], when_away="wait") as (ledger, one):
            ledger.error = LedgerUnavailableError("connection refused")
            one.reader.pods.changed(pod("p"))
            deciding = asyncio.create_task(one.once())
            await wait_until(lambda: len(ledger.offered) > 3)
            assert not deciding.done()
            ledger.error = None
            await deciding
            assert ledger.names() == ["default/p"]

    with caplog.at_level(logging.INFO):
        run(test)
    assert caplog.text.count("the ledger is away, scheduling waits: connection refused") == 1
    assert "the ledger is back after" in caplog.text


def test_binding_goes_on_while_the_ledger_is_unavailable_if_configured() -> None:
    async def test() -> None:
        async with begun([node("n")], when_away="continue") as (ledger, one):
            ledger.error = LedgerUnavailableError("connection refused")
            one.reader.pods.changed(pod("first"))
            one.bound(await one.once())
            one.reader.pods.changed(pod("second"))
            one.bound(await one.once())
            # One pod comes and ends while the ledger is unavailable.
            one.reader.pods.deleted(pod("first", node="n", version=3, status={"phase": "Failed"}))
            await one.once()
            assert ledger.batches == []
            ledger.error = None
            await one.ledger_writer.wait_written()
            changes = [each.entry for batch in ledger.batches for each in batch.groups]
            states = {entry.id.shown: entry.state for entry in changes}
            assert states == {"default/first": "starting", "default/second": "running"}
            ended_group = [each for batch in ledger.batches for each in batch.ended]
            assert [(each.entry.id.shown, each.how) for each in ended_group] == [
                ("default/first", "failed")
            ]
            assert [member.machine for member in ended_group[0].members] == ["n"]
            # The first batch is sent again unchanged; all later ones are merged into one.
            assert len(ledger.batches) == 2

    run(test)


def test_with_continue_a_silent_ledger_counts_as_away_after_the_timeout() -> None:
    async def test() -> None:
        async with begun(
            [node("n")], [pod("p")], when_away="continue", answer_timeout_seconds=0.1
        ) as (ledger, one):
            ledger.lets_pass.clear()
            assert len((await one.once()).placements) == 1
            assert ledger.batches == []
            ledger.lets_pass.set()
            await one.ledger_writer.wait_written()
            assert ledger.names() == ["default/p"]

    run(test)


def test_an_unexpected_ledger_error_is_retried() -> None:
    async def test() -> None:
        async with begun([node("n")]) as (ledger, one):
            ledger.error = LedgerError("relation does not exist")
            one.reader.pods.changed(pod("p"))
            deciding = asyncio.create_task(one.once())
            await wait_until(lambda: len(ledger.offered) > 2)
            ledger.error = None
            await deciding

    run(test)


@pytest.mark.parametrize("when_away", ["wait", "continue"])
def test_a_deposed_leader_does_not_bind(when_away: WhenAway) -> None:
    async def test() -> None:
        async with begun([node("n")], when_away=when_away) as (ledger, one):
            ledger.error = DeposedError("epoch 1 is over: epoch 2 leads")
            one.reader.pods.changed(pod("p"))
            deciding = asyncio.create_task(one.once())
            assert one.writing is not None
            await asyncio.wait({one.writing}, timeout=60)
            assert isinstance(one.writing.exception(), DeposedError)
            assert not deciding.done()
            deciding.cancel()
            await asyncio.wait({deciding})

    run(test)


def test_the_last_outcomes_are_written_on_shutdown() -> None:
    async def test() -> None:
        async with begun([node("n")], [pod("p")]) as (ledger, one):
            (placement,) = (await one.once()).placements
            one.reader.register.bound(placement.task.id, placement.machine)
            await one.ledger_writer.finish()
            assert [batch.groups[0].entry.state for batch in ledger.batches] == [
                "starting",
                "running",
            ]

    run(test)


def test_shutdown_does_not_wait_for_an_unavailable_ledger() -> None:
    async def test() -> None:
        async with begun([], [pod("p")], last_batch_timeout_seconds=0.05) as (ledger, one):
            ledger.lets_pass.clear()
            one.decide()
            await one.ledger_writer.finish()

    run(test)


@pytest.mark.parametrize("when_away", ["wait", "continue"])
def test_groups_of_an_outage_are_in_the_ledger_afterwards(
    database: str, when_away: WhenAway
) -> None:
    """Groups come, start and end meanwhile; afterwards the ledger has all of them, in order."""

    async def test() -> None:
        async with (
            proxied_database(database) as proxy,
            ledger_at(proxy.url) as ledger,
            leader_with(ledger, when_away=when_away) as one,
        ):
            await one.begin([node("n", cpu=2)])
            for number in range(3):
                one.reader.pods.changed(pod(f"p{number}", created=number))
            one.bound(await one.settled())
            proxy.close()
            for number in range(3, 6):
                one.reader.pods.changed(pod(f"p{number}", created=number))
            one.reader.pods.changed(pod("p0", node="n", version=3, status={"phase": "Succeeded"}))
            going_on = asyncio.create_task(one.once())
            if when_away == "continue":
                await asyncio.wait({going_on})
            else:
                await wait_until(lambda: len(one.pauses) > 3)
                assert not going_on.done()
            proxy.reopen()
            outcome = await going_on
            assert [each.task.name for each in outcome.placements] == ["default/p2"]
            one.bound(outcome)
            await one.settled()
            query = "SELECT alone, state FROM afflux.groups ORDER BY ready_seconds"
            assert rows(database, query) == [
                ("p1", "running"),
                ("p2", "running"),
                ("p3", "waiting"),
                ("p4", "waiting"),
                ("p5", "waiting"),
            ]
            assert rows(database, "SELECT alone FROM afflux.finished_groups") == [("p0",)]

    run(test)
