"""Lists of the inspection, read from a real PostgreSQL after real batches."""

from base64 import urlsafe_b64encode
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ledger_values import reserved
from msgspec import structs
from queried_ledger import ALL_NAMESPACES, START, ask, ended, entry, members

from afflux.cycle.inspection_types import MAX_MACHINES, ListQuery, QueueLine, Witness, to_datetime
from afflux.cycle.ledger_entries import LedgerBatch, ReservationEntry
from afflux.groups.entries import GroupChange
from afflux.groups.states import GROUP_STATES, PRESENT_STATES
from afflux.ledger.queries import LedgerInspection
from afflux.model.errors import InputError
from afflux.model.reservation import Reservation

pytestmark = pytest.mark.slow


def places(lines: tuple[QueueLine, ...]) -> list[tuple[str, str, int | None]]:
    return [(line.queue, line.name, line.position) for line in lines]


def late_start(
    change: GroupChange, key: str, start_seconds: float | None, *machines: tuple[str, str]
) -> ReservationEntry:
    """A reservation of a late member of this group."""
    return ReservationEntry(change.entry.id.key, Reservation(key, start_seconds, machines))


# --- The queue


def test_an_empty_ledger_has_an_empty_queue(database: str) -> None:
    listed = ask(database, lambda inspection: inspection.queue(ALL_NAMESPACES))
    assert listed.items == ()
    assert listed.metadata.continue_token == ""
    assert listed.metadata.remaining_item_count == 0


def test_the_queue_is_ordered_by_priority_then_by_when_a_group_was_ready(database: str) -> None:
    batch = LedgerBatch(
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
    listed = ask(database, lambda inspection: inspection.queue(ALL_NAMESPACES), batch)
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
    assert half.waiting_since == to_datetime(START - 100.0)
    assert listed.items[4].reason == "needs 9 cpu"
    assert listed.items[2].waiting_since == to_datetime(START + 1.0)


def test_positions_in_one_namespace_are_those_in_the_whole_queue(database: str) -> None:
    batch = LedgerBatch(groups=(entry("b/first", 1.0), entry("second", 2.0), entry("b/third", 3.0)))
    listed = ask(database, lambda inspection: inspection.queue(ListQuery(namespace="a")), batch)
    assert places(listed.items) == [("default", "second", 2)]


def test_the_queue_can_be_filtered_by_queue_and_state(database: str) -> None:
    batch = LedgerBatch(
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
                ListQuery(namespace="a", queue="night"),
                ListQuery(namespace="a", states=("running",)),
                ListQuery(namespace="a", states=GROUP_STATES),
                ListQuery(namespace="nowhere"),
            )
        ]

    assert ask(database, question, batch) == [["night"], ["runs"], ["waits", "runs", "night"], []]


def test_running_groups_of_which_members_wait_are_shown_with_them(database: str) -> None:
    """Unless states are named. They have waited since they were created, not since the group was
    ready, and have no position of the group."""
    late = {"waiting": 2, "late_since_seconds": START + 70.0, "reason": "no room"}
    there = entry("there", 1.0, size=2, state="running", started_seconds=START, **late)
    batch = LedgerBatch(
        groups=(
            there,
            entry("whole", 2.0, state="running", started_seconds=START),
            entry("waits", 3.0, waiting=1),
        ),
        reservations=(late_start(there, "c", None), late_start(there, "d", START + 90.0)),
    )

    async def question(inspection: LedgerInspection) -> list[tuple[QueueLine, ...]]:
        return [
            (await inspection.queue(asked)).items
            for asked in (ALL_NAMESPACES, ListQuery(namespace=None, states=("waiting",)))
        ]

    shown, named = ask(database, question, batch)
    assert places(shown) == [("default", "waits", 1), ("default", "there", None)]
    assert [line.waiting for line in shown] == [1, 2]
    assert (shown[1].state, shown[1].reason) == ("running", "no room")
    assert shown[1].waiting_since == to_datetime(START + 70.0)
    assert (shown[1].promised, shown[1].expected_start) == (True, to_datetime(START + 90.0))
    assert [line.name for line in named] == ["waits"]


def test_expected_starts_are_those_of_reservations(database: str) -> None:
    batch = LedgerBatch(
        groups=(entry("known", 1.0), entry("endless", 2.0), entry("none", 3.0)),
        reservations=(reserved(entry("known"), START + 500.25), reserved(entry("endless"), None)),
    )
    listed = ask(database, lambda inspection: inspection.queue(ALL_NAMESPACES), batch)
    assert [(line.promised, line.expected_start) for line in listed.items] == [
        (True, to_datetime(START + 500.25)),
        (True, None),
        (False, None),
    ]


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    groups=st.lists(
        st.tuples(
            st.sampled_from(["default", "night"]),
            st.integers(-2, 2),
            st.sampled_from([0.0, 0.1, 1.0, 1e9 + 0.123456789]),
            st.sampled_from([each for each in PRESENT_STATES if each != "running"]),
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
    batch = LedgerBatch(
        groups=tuple(
            entry(f"g{number}", ready, queue=queue, priority=priority, state=state)
            for number, (queue, priority, ready, state) in enumerate(groups)
        ),
        reservations=tuple(
            reserved(entry(f"g{number}"), START + ready if ready else None)
            for number, (_, _, ready, _) in enumerate(groups)
        ),
    )

    async def question(inspection: LedgerInspection) -> None:
        for listing in (inspection.queue, inspection.reservations):
            whole = await listing(ALL_NAMESPACES)
            assert len(whole.items) == len(groups)
            pages = [await listing(ListQuery(namespace=None, limit=limit))]
            while continue_token := pages[-1].metadata.continue_token:
                left = len(groups) - sum(len(page.items) for page in pages)
                assert pages[-1].metadata.remaining_item_count == left
                pages.append(
                    await listing(
                        ListQuery(namespace=None, limit=limit, continue_token=continue_token)
                    )
                )
            assert all(len(page.items) <= limit for page in pages)
            assert tuple(item for page in pages for item in page.items) == whole.items

    ask(new_database(template), question, batch)


@pytest.mark.parametrize("continue_token", ["x", "bnVsbA==", "WzEsMl0=", "WyJcdTAwMDAiXQ==", "é"])
def test_an_invalid_continue_token_is_refused(database: str, continue_token: str) -> None:
    for listing in ("queue", "reservations", "history"):
        with pytest.raises(InputError, match=r"continue: .*expected what the page before has"):
            ask(
                database,
                lambda inspection, listing=listing: getattr(inspection, listing)(
                    ListQuery(namespace=None, continue_token=continue_token)
                ),
            )


@pytest.mark.parametrize("text", ["\\ud800", "\\u0000"])
@pytest.mark.parametrize("number", [0, 2**40, 2**63, -(10**40)])
def test_a_forged_continue_token_is_refused_or_causes_no_error(
    database: str, text: str, number: int
) -> None:
    def token(place: str) -> ListQuery:
        return ListQuery(namespace=None, continue_token=urlsafe_b64encode(place.encode()).decode())

    async def question(inspection: LedgerInspection) -> None:
        fits = -(2**63) <= number < 2**63
        with nullcontext() if fits else pytest.raises(InputError):
            await inspection.queue(token(f'["q", {number}, {number}, 1e999, "a"]'))
        with nullcontext() if fits else pytest.raises(InputError):
            await inspection.history(token(f"[NaN, {number}]"))
        with pytest.raises(InputError):
            await inspection.reservations(token(f'[0.0, "{text}"]'))

    ask(database, question)


# --- Times


@pytest.mark.parametrize("seconds", [1e12, 1e19])
def test_times_after_the_year_9999_are_shown_as_its_end(database: str, seconds: float) -> None:
    # A group that waits for such a long run has a reservation at its end.
    batch = LedgerBatch(
        groups=(
            entry("runs", state="running", run_seconds=seconds, until_seconds=START + seconds),
            entry("waits", run_seconds=60.0),
        ),
        reservations=(reserved(entry("waits"), START + seconds),),
    )
    last = to_datetime(1e20)
    assert last.year == 9999
    listed = ask(database, lambda inspection: inspection.queue(ALL_NAMESPACES), batch)
    assert [line.expected_start for line in listed.items] == [last]
    promised = ask(database, lambda inspection: inspection.reservations(ALL_NAMESPACES))
    assert [(line.start, line.end) for line in promised.items] == [(last, last)]
    details = ask(database, lambda inspection: inspection.group("a", "runs"))
    assert details is not None
    assert details.until == last


# --- Reservations


def test_reservations_have_a_machine_for_every_member(database: str) -> None:
    later = entry("later", 1.0, size=2, run_seconds=60.0, members=members("a/later", 2))
    sooner = entry("sooner", 2.0, members=members("a/sooner", 1))
    never = entry("never", 0.0, members=members("a/never", 1))
    batch = LedgerBatch(
        groups=(later, sooner, never),
        reservations=(
            reserved(later, START + 100, (("a/later-0-uid", "m1"), ("a/later-1-uid", "m2"))),
            reserved(sooner, START + 50, (("a/sooner-0-uid", "m1"),)),
            reserved(never, None),
        ),
    )
    listed = ask(database, lambda inspection: inspection.reservations(ALL_NAMESPACES), batch)
    assert [line.name for line in listed.items] == ["sooner", "later", "never"]
    first, second, third = listed.items
    assert second.witness == (
        Witness(member="later-0", machine="m1"),
        Witness(member="later-1", machine="m2"),
    )
    assert (second.start, second.end) == (to_datetime(START + 100), to_datetime(START + 160))
    # One without an end, and one with an unknown start.
    assert (first.start, first.end) == (to_datetime(START + 50), None)
    assert (third.start, third.end, third.witness) == (None, None, ())


def test_reservations_of_late_members_are_under_their_group(database: str) -> None:
    pods = members("a/big", 4)
    big = entry("big", 1.0, size=3, state="running", members=pods, waiting=1)
    late = late_start(big, pods[3].uid, START + 9.0, (pods[3].uid, "m1"))
    batch = LedgerBatch(groups=(big,), reservations=(late,))
    listed = ask(database, lambda inspection: inspection.reservations(ALL_NAMESPACES), batch)
    (line,) = listed.items
    assert (line.name, line.size, line.starting) == ("big", 3, 1)
    assert line.witness == (Witness(member="big-3", machine="m1"),)
    details = ask(database, lambda inspection: inspection.group("a", "big"))
    assert details is not None
    assert (details.promised, details.expected_start) == (True, to_datetime(START + 9.0))


def test_a_line_names_a_bounded_number_of_machines(database: str) -> None:
    many = members("a/big", 300)
    big = entry("big", size=300, members=many)
    batch = LedgerBatch(
        groups=(big,),
        reservations=(reserved(big, START, tuple((each.uid, f"m-{each.uid}") for each in many)),),
    )
    listed = ask(database, lambda inspection: inspection.reservations(ALL_NAMESPACES), batch)
    assert len(listed.items[0].witness) == MAX_MACHINES
    details = ask(database, lambda inspection: inspection.group("a", "big"))
    assert details is not None
    assert len(details.witness) == 300


# --- History


def test_history_lists_ended_groups_the_latest_first(database: str) -> None:
    ran = tuple(
        structs.replace(each, machine=f"m{n % 2}") for n, each in enumerate(members("a/ran", 3))
    )
    batch = LedgerBatch(
        ended=(
            ended("ran", 10.0, size=3, started_seconds=START + 5.0, members=ran),
            replace(ended("gone", 20.0, members=members("a/gone", 1)), how="deleted"),
            replace(ended("b/long", 15.0), how="deadline"),
        )
    )
    listed = ask(database, lambda inspection: inspection.history(ALL_NAMESPACES), batch)
    assert [(line.name, line.how) for line in listed.items] == [
        ("gone", "deleted"),
        ("long", "deadline"),
        ("ran", "succeeded"),
    ]
    first, last = listed.items[0], listed.items[2]
    assert (first.started, first.machines, first.machine_count) == (None, (), 0)
    assert (last.started, last.ended) == (to_datetime(START + 5.0), to_datetime(START + 10.0))
    assert (last.machines, last.machine_count) == (("m0", "m1"), 2)
    ours = ask(database, lambda inspection: inspection.history(ListQuery(namespace="b")))
    assert [line.name for line in ours.items] == ["long"]


def test_history_comes_in_pages(database: str) -> None:
    # Several groups end at the same time, as when a namespace is deleted.
    batch = LedgerBatch(ended=tuple(ended(f"g{n}", float(n // 3)) for n in range(10)))

    async def question(inspection: LedgerInspection) -> list[str]:
        names: list[str] = []
        continue_token = ""
        while True:
            page = await inspection.history(
                ListQuery(namespace=None, limit=4, continue_token=continue_token)
            )
            names += [line.name for line in page.items]
            continue_token = page.metadata.continue_token
            if not continue_token:
                assert page.metadata.remaining_item_count == 0
                return names
            assert page.metadata.remaining_item_count is None

    assert ask(database, question, batch) == [
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
