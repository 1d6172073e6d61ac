"""The ledger is away, slow or somebody else's: what is bound, what waits, what is written later."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import pytest
from cutting import way_to
from ledger_values import ledger_at, rows, run
from small_cluster import Door, door, node, pod

from afflux.cycle.entries import Recovered, Turn
from afflux.cycle.ports import DeposedError, LedgerAwayError, LedgerError
from afflux.kube import objects
from afflux.kube.live import keeping

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "FIRST_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(keeping, "LONGEST_PAUSE_SECONDS", 0.05)


class Moody:
    """A ledger of which the test decides how it feels."""

    def __init__(self) -> None:
        self.turns: list[Turn] = []
        self.offered: list[Turn] = []
        self.error: Exception | None = None
        self.lets_pass = asyncio.Event()
        self.lets_pass.set()

    async def take_over(self, epoch: int | None) -> Recovered:
        return Recovered(epoch or 0)

    async def commit(self, turn: Turn) -> None:
        self.offered.append(turn)
        await self.lets_pass.wait()
        if self.error is not None:
            raise self.error
        self.turns.append(turn)

    async def close(self) -> None:
        pass

    def names(self) -> list[str]:
        return [entry.name for turn in self.turns for entry in turn.groups]


@asynccontextmanager
async def begun(
    nodes: Sequence[objects.Node],
    pods: Sequence[objects.Pod] = (),
    when_away: keeping.WhenAway = "wait",
) -> AsyncIterator[tuple[Moody, Door]]:
    """Such a ledger, and a leader who keeps it and has begun with these."""
    ledger = Moody()
    async with door(ledger, when_away) as one:
        await one.begin(nodes, pods)
        yield ledger, one


async def for_a_while(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.005)


def test_what_became_of_binds_goes_with_the_next_turn_and_a_place_in_the_queue_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(keeping, "LONGEST_LINGER_SECONDS", 60.0)

    async def test() -> None:
        async with begun([node("n")]) as (ledger, one):
            one.mirror.pods.changed(pod("p"))
            one.bound(await one.once())
            await one.once()
            await asyncio.sleep(0.05)
            assert ledger.names() == ["default/p"]
            one.mirror.pods.changed(pod("q"))
            await one.once()
            assert ledger.names() == ["default/p", "default/p", "default/q"]
            assert [len(turn.groups) for turn in ledger.turns] == [1, 2]
            # It does not fit: nobody waits for this turn, but its place must not be lost.
            one.mirror.pods.changed(pod("late", cpu="100"))
            await one.once()
            await for_a_while(lambda: "default/late" in ledger.names())

    run(test)


def test_what_nobody_waits_for_is_written_soon_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(keeping, "LONGEST_LINGER_SECONDS", 0.05)

    async def test() -> None:
        async with begun([node("n")]) as (ledger, one):
            one.mirror.pods.changed(pod("p"))
            one.bound(await one.once())
            await one.once()
            await for_a_while(lambda: ledger.names() == ["default/p", "default/p"])

    run(test)


def test_nothing_is_bound_before_it_is_written() -> None:
    async def test() -> None:
        async with begun([node("n")], [pod("p")]) as (ledger, one):
            ledger.lets_pass.clear()
            deciding = asyncio.create_task(one.once())
            await for_a_while(lambda: bool(ledger.offered))
            await asyncio.sleep(0.05)
            assert not deciding.done()
            ledger.lets_pass.set()
            assert len((await deciding).placements) == 1
            (entry,) = ledger.turns[0].groups
            assert [member.sent_to for member in entry.members] == ["n"]

    run(test)


def test_a_cycle_that_places_nobody_does_not_wait() -> None:
    async def test() -> None:
        async with begun([], [pod("p")]) as (ledger, one):
            ledger.lets_pass.clear()
            await one.once()
            assert ledger.turns == []
            ledger.lets_pass.set()
            await one.keeping.written()
            assert ledger.names() == ["default/p"]

    run(test)


def test_while_it_is_away_binding_waits(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with begun([node("n")], when_away="wait") as (ledger, one):
            ledger.error = LedgerAwayError("connection refused")
            one.mirror.pods.changed(pod("p"))
            deciding = asyncio.create_task(one.once())
            await for_a_while(lambda: len(ledger.offered) > 3)
            assert not deciding.done()
            ledger.error = None
            await deciding
            assert ledger.names() == ["default/p"]

    with caplog.at_level(logging.INFO):
        run(test)
    assert caplog.text.count("the ledger is away, scheduling waits: connection refused") == 1
    assert "the ledger is back after" in caplog.text


def test_while_it_is_away_binding_goes_on_if_that_is_configured() -> None:
    async def test() -> None:
        async with begun([node("n")], when_away="continue") as (ledger, one):
            ledger.error = LedgerAwayError("connection refused")
            one.mirror.pods.changed(pod("first"))
            one.bound(await one.once())
            one.mirror.pods.changed(pod("second"))
            one.bound(await one.once())
            # One of them comes and goes while nobody can write it down.
            one.mirror.pods.deleted(pod("first", node="n", version=3, status={"phase": "Failed"}))
            await one.once()
            assert ledger.turns == []
            ledger.error = None
            await one.keeping.written()
            states = {each.name: each.state for turn in ledger.turns for each in turn.groups}
            assert states == {"default/first": "starting", "default/second": "running"}
            gone = [each for turn in ledger.turns for each in turn.gone]
            assert [(each.entry.name, each.how) for each in gone] == [("default/first", "finished")]
            assert [member.machine for member in gone[0].entry.members] == ["n"]
            # What was offered first is offered first again; the rest is one turn.
            assert len(ledger.turns) == 2

    run(test)


def test_who_may_go_on_does_not_wait_for_ever_for_a_silent_ledger(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(keeping, "LONGEST_PATIENCE_SECONDS", 0.1)

    async def test() -> None:
        async with begun([node("n")], [pod("p")], when_away="continue") as (ledger, one):
            ledger.lets_pass.clear()
            assert len((await one.once()).placements) == 1
            assert ledger.turns == []
            ledger.lets_pass.set()
            await one.keeping.written()
            assert ledger.names() == ["default/p"]

    run(test)


def test_an_error_that_nobody_expects_is_not_the_end() -> None:
    async def test() -> None:
        async with begun([node("n")]) as (ledger, one):
            ledger.error = LedgerError("relation does not exist")
            one.mirror.pods.changed(pod("p"))
            deciding = asyncio.create_task(one.once())
            await for_a_while(lambda: len(ledger.offered) > 2)
            ledger.error = None
            await deciding

    run(test)


@pytest.mark.parametrize("when_away", ["wait", "continue"])
def test_a_deposed_leader_does_not_bind(when_away: keeping.WhenAway) -> None:
    async def test() -> None:
        async with begun([node("n")], when_away=when_away) as (ledger, one):
            ledger.error = DeposedError("epoch 1 is over: epoch 2 leads")
            one.mirror.pods.changed(pod("p"))
            deciding = asyncio.create_task(one.once())
            assert one.writing is not None
            await asyncio.wait({one.writing}, timeout=10)
            assert isinstance(one.writing.exception(), DeposedError)
            assert not deciding.done()
            deciding.cancel()
            await asyncio.wait({deciding})

    run(test)


def test_at_the_end_the_last_outcomes_are_written() -> None:
    async def test() -> None:
        async with begun([node("n")], [pod("p")]) as (ledger, one):
            (placement,) = (await one.once()).placements
            one.keeping.settled(placement, "bound")
            await one.keeping.end()
            assert [turn.groups[0].state for turn in ledger.turns] == ["starting", "running"]

    run(test)


def test_the_end_does_not_wait_for_a_ledger_that_is_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(keeping, "LONGEST_GOODBYE_SECONDS", 0.05)

    async def test() -> None:
        async with begun([], [pod("p")]) as (ledger, one):
            ledger.lets_pass.clear()
            one.decide()
            await one.keeping.end()

    run(test)


@pytest.mark.parametrize("when_away", ["wait", "continue"])
def test_a_real_database_that_is_away_for_a_while(
    database: str, when_away: keeping.WhenAway
) -> None:
    """Groups come, start and end meanwhile; afterwards everything is there, in order."""

    async def test() -> None:
        async with (
            way_to(database) as way,
            ledger_at(way.url) as ledger,
            door(ledger, when_away) as one,
        ):
            await one.begin([node("n", cpu=2)])
            for number in range(3):
                one.mirror.pods.changed(pod(f"p{number}", created=number))
            one.bound(await one.settled())
            way.close()
            for number in range(3, 6):
                one.mirror.pods.changed(pod(f"p{number}", created=number))
            one.mirror.pods.deleted(pod("p0", node="n", version=3, status={"phase": "Succeeded"}))
            going_on = asyncio.create_task(one.once())
            done, _ = await asyncio.wait({going_on}, timeout=1)
            assert bool(done) == (when_away == "continue")
            way.let_in()
            outcome = await going_on
            assert [each.task.name for each in outcome.placements] == ["default/p2"]
            one.bound(outcome)
            await one.settled()
            query = "SELECT name, state FROM afflux.groups ORDER BY ready_seconds"
            assert rows(database, query) == [
                ("p1", "running"),
                ("p2", "running"),
                ("p3", "waiting"),
                ("p4", "waiting"),
                ("p5", "waiting"),
            ]
            assert rows(database, "SELECT name FROM afflux.finished_groups") == [("p0",)]

    run(test)
