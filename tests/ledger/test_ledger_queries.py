"""The lists that people see of the ledger, read from a real PostgreSQL after real turns."""

from base64 import urlsafe_b64encode
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from inspected_ledger import EVERYBODY, START, ask, ended, entry, members
from msgspec import structs

from afflux.cycle.entries import State, Turn
from afflux.cycle.inspection import MOST_MACHINES, Asked, QueueLine, Witness, at
from afflux.cycle.phases import NOT_RUNNING, PHASES
from afflux.ledger.inspecting import LedgerInspection
from afflux.model.errors import InputError
from afflux.model.promise import Promise

pytestmark = pytest.mark.slow


def places(lines: tuple[QueueLine, ...]) -> list[tuple[str, str, int | None]]:
    return [(line.queue, line.name, line.position) for line in lines]


# --- The queue


def test_people_see_the_states_that_the_ledger_knows() -> None:
    assert set(get_args(State)) == set(PHASES)


def test_an_empty_ledger_has_an_empty_queue(database: str) -> None:
    listed = ask(database, lambda inspection: inspection.queue(EVERYBODY))
    assert listed.items == ()
    assert listed.metadata.resume == ""
    assert listed.metadata.remaining_item_count == 0


def test_the_queue_is_ordered_by_priority_then_by_when_a_group_was_ready(database: str) -> None:
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
    listed = ask(database, lambda inspection: inspection.queue(EVERYBODY), turn)
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


def test_of_one_namespace_the_positions_are_those_in_the_whole_queue(database: str) -> None:
    turn = Turn(groups=(entry("b/first", 1.0), entry("second", 2.0), entry("b/third", 3.0)))
    listed = ask(database, lambda inspection: inspection.queue(Asked(namespace="a")), turn)
    assert places(listed.items) == [("default", "second", 2)]


def test_queues_and_states_can_be_chosen(database: str) -> None:
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

    assert ask(database, question, turn) == [
        ["night"],
        ["runs"],
        ["waits", "runs", "night"],
        [],
    ]


def test_expected_starts(database: str) -> None:
    turn = Turn(
        groups=(entry("known", 1.0), entry("endless", 2.0), entry("none", 3.0)),
        promises=(Promise("a/known", START + 500.25), Promise("a/endless", None)),
    )
    listed = ask(database, lambda inspection: inspection.queue(EVERYBODY), turn)
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
def test_a_wrong_place_to_go_on_is_refused(database: str, resume: str) -> None:
    for listing in ("queue", "reservations", "history"):
        with pytest.raises(InputError, match=r"continue: .*expected what the page before has"):
            ask(
                database,
                lambda inspection, listing=listing: getattr(inspection, listing)(
                    Asked(namespace=None, resume=resume)
                ),
            )


@pytest.mark.parametrize("text", ["\\ud800", "\\u0000"])
@pytest.mark.parametrize("number", [0, 2**40, 2**63, -(10**40)])
def test_a_forged_place_to_go_on_is_refused_or_leads_to_no_error(
    database: str, text: str, number: int
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

    ask(database, question)


# --- Times


@pytest.mark.parametrize("seconds", [1e12, 1e19])
def test_what_lasts_for_thousands_of_years_hides_nothing_from_others(
    database: str, seconds: float
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
    listed = ask(database, lambda inspection: inspection.queue(EVERYBODY), turn)
    assert [line.expected_start for line in listed.items] == [last]
    reserved = ask(database, lambda inspection: inspection.reservations(EVERYBODY))
    assert [(line.start, line.end) for line in reserved.items] == [(last, last)]
    details = ask(database, lambda inspection: inspection.group("a", "runs"))
    assert details is not None
    assert details.until == last


# --- Reservations


def test_reservations_have_a_machine_for_every_member(database: str) -> None:
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
    listed = ask(database, lambda inspection: inspection.reservations(EVERYBODY), turn)
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


def test_a_line_names_so_many_machines_and_no_more(database: str) -> None:
    many = members("a/big", 300)
    big = entry("big", size=300, members=many)
    turn = Turn(
        groups=(big,),
        promises=(Promise("a/big", START, tuple((each.uid, f"m-{each.uid}") for each in many)),),
    )
    listed = ask(database, lambda inspection: inspection.reservations(EVERYBODY), turn)
    assert len(listed.items[0].witness) == MOST_MACHINES
    details = ask(database, lambda inspection: inspection.group("a", "big"))
    assert details is not None
    assert len(details.witness) == 300


# --- History


def test_history_is_what_ended_the_latest_first(database: str) -> None:
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
    listed = ask(database, lambda inspection: inspection.history(EVERYBODY), turn)
    assert [(line.name, line.how) for line in listed.items] == [
        ("gone", "deleted"),
        ("long", "deadline"),
        ("ran", "finished"),
    ]
    first, last = listed.items[0], listed.items[2]
    assert (first.started, first.machines, first.machine_count) == (None, (), 0)
    assert (last.started, last.ended) == (at(START + 5.0), at(START + 10.0))
    assert (last.machines, last.machine_count) == (("m0", "m1"), 2)
    ours = ask(database, lambda inspection: inspection.history(Asked(namespace="b")))
    assert [line.name for line in ours.items] == ["long"]


def test_history_comes_in_pages(database: str) -> None:
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

    assert ask(database, question, turn) == [
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
