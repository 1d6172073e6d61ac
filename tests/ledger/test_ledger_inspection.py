"""What people see of the ledger, read back from a real PostgreSQL after real turns."""

import asyncio
import itertools
from base64 import urlsafe_b64encode
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, TypeVar, get_args

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs
from psycopg import conninfo

from afflux.cycle.entries import (
    EventEntry,
    GoneGroup,
    GroupEntry,
    MemberEntry,
    State,
    Turn,
)
from afflux.cycle.inspection import (
    MOST_EVENTS,
    MOST_MACHINES,
    Asked,
    InspectionError,
    QueueLine,
    Witness,
    at,
)
from afflux.cycle.phases import NOT_RUNNING, PHASES
from afflux.ledger.inspecting import CONNECTIONS, LedgerInspection
from afflux.ledger.postgres import PostgresLedger
from afflux.model.errors import InputError
from afflux.model.promise import Promise

pytestmark = pytest.mark.slow

T = TypeVar("T")

START = 1_800_000_000.0
EVERYBODY = Asked(namespace=None)
_numbers = itertools.count()


@pytest.fixture
def address(database: str) -> str:
    """A ledger of its own."""
    return database


def members(group: str, count: int) -> tuple[MemberEntry, ...]:
    return tuple(MemberEntry(f"{group}-{n}-uid", f"{group}-{n}") for n in range(count))


def entry(name: str, ready: float | None = 0.0, **more: object) -> GroupEntry:
    made = GroupEntry(
        name=f"a/{name}" if "/" not in name else name,
        ready_seconds=None if ready is None else START + ready,
        created_seconds=START - 100.0,
    )
    return structs.replace(made, **more)


def ask(address: str, question: Callable[[LedgerInspection], Awaitable[T]], *turns: Turn) -> T:
    """The answer after these turns."""

    async def asked() -> T:
        async def where() -> str:
            return address

        ledger = PostgresLedger(where)
        try:
            await ledger.take_over(None)
            for turn in turns:
                await ledger.commit(turn)
            async with LedgerInspection(address) as inspection:
                return await question(inspection)
        finally:
            await ledger.close()

    return asyncio.run(asked())


def places(lines: tuple[QueueLine, ...]) -> list[tuple[str, str, int | None]]:
    return [(line.queue, line.name, line.position) for line in lines]


# --- The queue


def test_people_see_the_states_that_the_ledger_knows() -> None:
    assert set(get_args(State)) == set(PHASES)


def test_an_empty_ledger_has_an_empty_queue(address: str) -> None:
    listed = ask(address, lambda inspection: inspection.queue(EVERYBODY))
    assert listed.items == ()
    assert listed.metadata.resume == ""
    assert listed.metadata.remaining_item_count == 0


def test_the_queue_is_ordered_by_priority_then_by_when_a_group_was_ready(address: str) -> None:
    turn = Turn(
        groups=(
            entry("late", 3.0),
            entry("early", 1.0),
            entry("urgent", 9.0, priority=100),
            entry("hopeless", 2.0, state="unsatisfiable", reason="needs 9 cpu"),
            entry("b/same-time", 1.0),
            entry("night", 5.0, queue="night"),
            entry("half", None, size=3, state="provisional", members=members("a/half", 2)),
            entry("wrong", None, state="refused", reason="group-size: '0'"),
            entry("leaving", 0.5, state="starting"),
            entry("there", 0.1, state="running", started_seconds=START),
        )
    )
    listed = ask(address, lambda inspection: inspection.queue(EVERYBODY), turn)
    assert places(listed.items) == [
        ("default", "leaving", None),
        ("default", "urgent", 1),
        ("default", "early", 2),
        ("default", "same-time", 3),
        ("default", "hopeless", 4),
        ("default", "late", 5),
        ("default", "half", None),
        ("default", "wrong", None),
        ("night", "night", 1),
    ]
    half = listed.items[6]
    assert (half.present, half.size, half.state) == (2, 3, "provisional")
    assert half.waiting_since == at(START - 100.0)
    assert listed.items[4].reason == "needs 9 cpu"
    assert listed.items[2].waiting_since == at(START + 1.0)


def test_of_one_namespace_the_positions_are_those_in_the_whole_queue(address: str) -> None:
    turn = Turn(groups=(entry("b/first", 1.0), entry("second", 2.0), entry("b/third", 3.0)))
    listed = ask(address, lambda inspection: inspection.queue(Asked(namespace="a")), turn)
    assert places(listed.items) == [("default", "second", 2)]


def test_queues_and_states_can_be_chosen(address: str) -> None:
    turn = Turn(
        groups=(
            entry("waits"),
            entry("night", queue="night"),
            entry("runs", state="running", started_seconds=START),
        )
    )

    async def question(inspection: LedgerInspection) -> list[list[str]]:
        return [
            [line.name for line in (await inspection.queue(asked)).items]
            for asked in (
                Asked(namespace="a", queue="night"),
                Asked(namespace="a", states=("running",)),
                Asked(namespace="a", states=PHASES),
                Asked(namespace="nowhere"),
            )
        ]

    assert ask(address, question, turn) == [
        ["night"],
        ["runs"],
        ["waits", "runs", "night"],
        [],
    ]


def test_expected_starts(address: str) -> None:
    turn = Turn(
        groups=(entry("known", 1.0), entry("endless", 2.0), entry("none", 3.0)),
        promises=(Promise("a/known", START + 500.25), Promise("a/endless", None)),
    )
    listed = ask(address, lambda inspection: inspection.queue(EVERYBODY), turn)
    assert [(line.promised, line.expected_start) for line in listed.items] == [
        (True, at(START + 500.25)),
        (True, None),
        (False, None),
    ]


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    groups=st.lists(
        st.tuples(
            st.sampled_from(["default", "night"]),
            st.integers(-2, 2),
            st.sampled_from([0.0, 0.1, 1.0, 1e9 + 0.123456789]),
            st.sampled_from(NOT_RUNNING),
        ),
        max_size=12,
    ),
    limit=st.integers(1, 5),
)
def test_pages_together_are_the_whole_list(
    new_database: Callable[[str | None], str],
    template: str,
    groups: list[tuple[str, int, float, str]],
    limit: int,
) -> None:
    turn = Turn(
        groups=tuple(
            entry(f"g{number}", ready, queue=queue, priority=priority, state=state)
            for number, (queue, priority, ready, state) in enumerate(groups)
        ),
        promises=tuple(
            Promise(f"a/g{number}", START + ready if ready else None)
            for number, (_, _, ready, _) in enumerate(groups)
        ),
    )

    async def question(inspection: LedgerInspection) -> None:
        for listing in (inspection.queue, inspection.reservations):
            whole = await listing(EVERYBODY)
            assert len(whole.items) == len(groups)
            pages = [await listing(Asked(namespace=None, limit=limit))]
            while resume := pages[-1].metadata.resume:
                left = len(groups) - sum(len(page.items) for page in pages)
                assert pages[-1].metadata.remaining_item_count == left
                pages.append(await listing(Asked(namespace=None, limit=limit, resume=resume)))
            assert all(len(page.items) <= limit for page in pages)
            assert tuple(item for page in pages for item in page.items) == whole.items

    ask(new_database(template), question, turn)


@pytest.mark.parametrize("resume", ["x", "bnVsbA==", "WzEsMl0=", "WyJcdTAwMDAiXQ==", "é"])
def test_a_wrong_place_to_go_on_is_refused(address: str, resume: str) -> None:
    for listing in ("queue", "reservations", "history"):
        with pytest.raises(InputError, match=r"continue: .*expected what the page before has"):
            ask(
                address,
                lambda inspection, listing=listing: getattr(inspection, listing)(
                    Asked(namespace=None, resume=resume)
                ),
            )


@pytest.mark.parametrize("text", ["\\ud800", "\\u0000"])
@pytest.mark.parametrize("number", [0, 2**40, 2**63, -(10**40)])
def test_a_forged_place_to_go_on_is_refused_or_leads_to_no_error(
    address: str, text: str, number: int
) -> None:
    def token(place: str) -> Asked:
        return Asked(namespace=None, resume=urlsafe_b64encode(place.encode()).decode())

    async def question(inspection: LedgerInspection) -> None:
        fits = -(2**63) <= number < 2**63
        with nullcontext() if fits else pytest.raises(InputError):
            await inspection.queue(token(f'["q", {number}, {number}, 1e999, "a", "b"]'))
        with nullcontext() if fits else pytest.raises(InputError):
            await inspection.history(token(f"[NaN, {number}]"))
        with pytest.raises(InputError):
            await inspection.reservations(token(f'[0.0, "{text}", "b"]'))

    ask(address, question)


# --- Times


@pytest.mark.parametrize("seconds", [1e12, 1e19])
def test_what_lasts_for_thousands_of_years_hides_nothing_from_others(
    address: str, seconds: float
) -> None:
    # Whoever waits for one who expects to run that long is promised such a start.
    turn = Turn(
        groups=(
            entry("runs", state="running", run_seconds=seconds, until_seconds=START + seconds),
            entry("waits", run_seconds=60.0),
        ),
        promises=(Promise("a/waits", START + seconds),),
    )
    last = at(1e20)
    assert last.year == 9999
    listed = ask(address, lambda inspection: inspection.queue(EVERYBODY), turn)
    assert [line.expected_start for line in listed.items] == [last]
    reserved = ask(address, lambda inspection: inspection.reservations(EVERYBODY))
    assert [(line.start, line.end) for line in reserved.items] == [(last, last)]
    details = ask(address, lambda inspection: inspection.group("a", "runs"))
    assert details is not None
    assert details.until == last


# --- Reservations


def test_reservations_have_a_machine_for_every_member(address: str) -> None:
    turn = Turn(
        groups=(
            entry("later", 1.0, size=2, run_seconds=60.0, members=members("a/later", 2)),
            entry("sooner", 2.0, members=members("a/sooner", 1)),
            entry("never", 0.0, members=members("a/never", 1)),
        ),
        promises=(
            Promise("a/later", START + 100, (("a/later-0-uid", "m1"), ("a/later-1-uid", "m2"))),
            Promise("a/sooner", START + 50, (("a/sooner-0-uid", "m1"),)),
            Promise("a/never", None),
        ),
    )
    listed = ask(address, lambda inspection: inspection.reservations(EVERYBODY), turn)
    assert [line.name for line in listed.items] == ["sooner", "later", "never"]
    sooner, later, never = listed.items
    assert later.witness == (
        Witness(member="later-0", machine="m1"),
        Witness(member="later-1", machine="m2"),
    )
    assert (later.start, later.end) == (at(START + 100), at(START + 160))
    # Without end, and without a start that anybody could know.
    assert (sooner.start, sooner.end) == (at(START + 50), None)
    assert (never.start, never.end, never.witness) == (None, None, ())


def test_a_line_names_so_many_machines_and_no_more(address: str) -> None:
    many = members("a/big", 300)
    big = entry("big", size=300, members=many)
    turn = Turn(
        groups=(big,),
        promises=(Promise("a/big", START, tuple((each.uid, f"m-{each.uid}") for each in many)),),
    )
    listed = ask(address, lambda inspection: inspection.reservations(EVERYBODY), turn)
    assert len(listed.items[0].witness) == MOST_MACHINES
    details = ask(address, lambda inspection: inspection.group("a", "big"))
    assert details is not None
    assert len(details.witness) == 300


# --- History


def ended(name: str, seconds: float, **more: object) -> GoneGroup:
    return GoneGroup(entry(name, **more), "finished", START + seconds)


def test_history_is_what_ended_the_latest_first(address: str) -> None:
    ran = tuple(
        structs.replace(each, machine=f"m{n % 2}") for n, each in enumerate(members("a/ran", 3))
    )
    turn = Turn(
        gone=(
            ended("ran", 10.0, size=3, started_seconds=START + 5.0, members=ran),
            replace(ended("gone", 20.0, members=members("a/gone", 1)), how="deleted"),
            replace(ended("b/long", 15.0), how="deadline"),
        )
    )
    listed = ask(address, lambda inspection: inspection.history(EVERYBODY), turn)
    assert [(line.name, line.how) for line in listed.items] == [
        ("gone", "deleted"),
        ("long", "deadline"),
        ("ran", "finished"),
    ]
    first, last = listed.items[0], listed.items[2]
    assert (first.started, first.machines, first.machine_count) == (None, (), 0)
    assert (last.started, last.ended) == (at(START + 5.0), at(START + 10.0))
    assert (last.machines, last.machine_count) == (("m0", "m1"), 2)
    ours = ask(address, lambda inspection: inspection.history(Asked(namespace="b")))
    assert [line.name for line in ours.items] == ["long"]


def test_history_comes_in_pages(address: str) -> None:
    # Many at the same moment, as when a namespace is deleted.
    turn = Turn(gone=tuple(ended(f"g{n}", float(n // 3)) for n in range(10)))

    async def question(inspection: LedgerInspection) -> list[str]:
        names: list[str] = []
        resume = ""
        while True:
            page = await inspection.history(Asked(namespace=None, limit=4, resume=resume))
            names += [line.name for line in page.items]
            resume = page.metadata.resume
            if not resume:
                assert page.metadata.remaining_item_count == 0
                return names
            assert page.metadata.remaining_item_count is None

    assert ask(address, question, turn) == [
        "g9",
        "g8",
        "g7",
        "g6",
        "g5",
        "g4",
        "g3",
        "g2",
        "g1",
        "g0",
    ]


# --- One group


def test_a_group_that_nobody_knows(address: str) -> None:
    assert ask(address, lambda inspection: inspection.group("a", "no")) is None


def test_everything_about_a_group_that_is_starting(address: str) -> None:
    """It waits, is promised a start, and begins it."""
    name = "a/big"
    pods = members(name, 4)
    sent = (
        structs.replace(pods[0], machine="m0"),
        structs.replace(pods[1], sent_to="m1", doubt="timed out"),
        structs.replace(pods[2], sent_to="m2"),
        pods[3],
    )
    waiting = entry("big", size=4, members=pods, reason="r")
    witness = ((f"{name}-1-uid", "m1"), (f"{name}-0-uid", "m0"))
    turns = [
        Turn(
            groups=(entry("first", -5.0), waiting),
            promises=(Promise(name, START + 9.0, witness),),
            events=(EventEntry(name, "Ready", "it's all there; 'quoted'"),),
        )
    ]
    group = ask(address, lambda inspection: inspection.group("a", "big"), *turns)
    assert group is not None
    assert {(each.state, each.machine, each.reason) for each in group.members} == {
        ("waiting", None, "r")
    }
    assert (group.state, group.position, group.size, group.metadata.members) == ("waiting", 2, 4, 4)
    turns = [
        Turn(
            groups=(structs.replace(waiting, state="starting", members=sent),),
            events=(EventEntry(name, "Starting", "on 3 machines"),),
        )
    ]
    group = ask(address, lambda inspection: inspection.group("a", "big"), *turns)
    assert group is not None
    assert [(each.name, each.state, each.machine, each.reason) for each in group.members] == [
        ("big-0", "bound", "m0", ""),
        ("big-1", "unknown", "m1", "timed out"),
        ("big-2", "binding", "m2", ""),
        ("big-3", "waiting", None, "r"),
    ]
    assert (group.state, group.position) == ("starting", None)
    assert group.witness == (
        Witness(member="big-0", machine="m0"),
        Witness(member="big-1", machine="m1"),
    )
    assert (group.promised, group.expected_start) == (True, at(START + 9.0))
    assert [(each.kind, each.message) for each in group.events] == [
        ("Ready", "it's all there; 'quoted'"),
        ("Starting", "on 3 machines"),
    ]
    assert group.metadata.events == 2
    assert (group.how, group.ended) == (None, None)


def test_a_group_that_has_ended_is_shown_until_its_name_is_used_again(address: str) -> None:
    was = tuple(structs.replace(each, machine="m0") for each in members("a/g", 2))
    over = Turn(
        gone=(ended("g", 30.0, size=2, started_seconds=START + 10.0, members=was),),
        events=(EventEntry("a/g", "Finished"),),
    )
    group = ask(address, lambda inspection: inspection.group("a", "g"), over)
    assert group is not None
    assert (group.state, group.how, group.ended) == ("finished", "finished", at(START + 30.0))
    assert [(each.name, each.uid, each.state, each.machine) for each in group.members] == [
        ("g-0", None, "ended", "m0"),
        ("g-1", None, "ended", "m0"),
    ]
    again = Turn(groups=(entry("g", 60.0),))
    group = ask(address, lambda inspection: inspection.group("a", "g"), again)
    assert group is not None
    assert (group.state, group.ready, group.position) == ("waiting", at(START + 60.0), 1)
    # What happened under this name before is still told.
    assert [each.kind for each in group.events] == ["Finished"]


def test_of_many_events_the_latest_are_shown(address: str) -> None:
    count = MOST_EVENTS + 50
    turn = Turn(
        groups=(entry("g"),), events=tuple(EventEntry("a/g", f"E{n}") for n in range(count))
    )
    group = ask(address, lambda inspection: inspection.group("a", "g"), turn)
    assert group is not None
    assert group.metadata.events == count
    assert [each.kind for each in group.events] == [f"E{n}" for n in range(50, count)]


# --- Whoever looks holds up nobody, and changes nothing


def test_nothing_can_be_written_while_looking(address: str) -> None:
    async def question(inspection: LedgerInspection) -> None:
        async with inspection._moment() as moment:  # pyright: ignore[reportPrivateUsage]
            await moment.execute(b"DELETE FROM afflux.groups")

    with pytest.raises(InspectionError, match="read-only transaction"):
        ask(address, question)


def test_a_question_that_takes_too_long_is_given_up(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("afflux.ledger.inspecting.STATEMENT_SECONDS", 0.1)

    async def question(inspection: LedgerInspection) -> None:
        async with inspection._moment() as moment:  # pyright: ignore[reportPrivateUsage]
            await moment.execute(b"SELECT pg_sleep(30)")

    with pytest.raises(InspectionError, match="did not answer within"):
        ask(address, question)


def test_whoever_gives_up_leaves_nothing_behind(address: str) -> None:
    async def question(inspection: LedgerInspection) -> None:
        async with await psycopg.AsyncConnection[Any].connect(address) as other:
            await other.execute("LOCK TABLE afflux.queue")
            for _ in range(2 * CONNECTIONS):
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.1):
                        await inspection.queue(EVERYBODY)
        assert [line.name for line in (await inspection.queue(EVERYBODY)).items] == ["g"]

    ask(address, question, Turn(groups=(entry("g"),)))


def test_a_server_that_went_away_is_found_again(address: str) -> None:
    async def question(inspection: LedgerInspection) -> int:
        await inspection.queue(EVERYBODY)
        with psycopg.connect(address, autocommit=True) as other:
            other.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE application_name = 'afflux-inspection'"
            )
        return len((await inspection.queue(EVERYBODY)).items)

    assert ask(address, question, Turn(groups=(entry("g"),))) == 1


def test_trouble_with_the_database_is_told_without_its_password(
    new_database: Callable[[str | None], str],
) -> None:
    def complaint(address: str) -> str:
        async def question() -> None:
            async with LedgerInspection(address) as inspection:
                await inspection.queue(EVERYBODY)

        with pytest.raises((InspectionError, InputError)) as caught:
            asyncio.run(question())
        return str(caught.value)

    nobody = complaint("postgresql://me:hunter2@127.0.0.1:1/x")
    assert "the ledger cannot be reached: " in nobody
    assert "hunter2" not in nobody
    wrong = complaint("postgresql://me:hunter2@[127.0.0.1/x")
    assert "expected postgresql://" in wrong
    assert "hunter2" not in wrong
    empty = complaint(new_database(None))
    assert empty == "this database holds no ledger; expected one that afflux has written to"


def test_a_user_who_may_only_read_can_look(address: str) -> None:
    ask(address, lambda inspection: inspection.queue(EVERYBODY), Turn(groups=(entry("g"),)))
    role = f"reader_{next(_numbers)}"
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {role} LOGIN".encode())
    reading = conninfo.make_conninfo(address, user=role)

    async def looked() -> int:
        async with LedgerInspection(reading) as inspection:
            return len((await inspection.queue(EVERYBODY)).items)

    with pytest.raises(InspectionError, match="expected USAGE on the schema afflux"):
        asyncio.run(looked())
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(f"GRANT USAGE ON SCHEMA afflux TO {role}".encode())
        connection.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA afflux TO {role}".encode())
    assert asyncio.run(looked()) == 1
