"""Details of one group, read from a real PostgreSQL after real batches."""

import pytest
from msgspec import structs
from queried_ledger import START, ask, ended, entry, members

from afflux.cycle.inspection_types import MAX_EVENTS, Witness, to_datetime
from afflux.cycle.ledger_entries import EventEntry, LedgerBatch
from afflux.model.reservation import Reservation

pytestmark = pytest.mark.slow


def test_an_unknown_group_has_no_details(database: str) -> None:
    assert ask(database, lambda inspection: inspection.group("a", "no")) is None


def test_details_follow_a_group_from_waiting_to_starting(database: str) -> None:
    """It waits, gets a reservation, and begins to start."""
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
    batches = [
        LedgerBatch(
            groups=(entry("first", -5.0), waiting),
            reservations=(Reservation(name, START + 9.0, witness),),
            events=(EventEntry(name, "Ready", "it's all there; 'quoted'"),),
        )
    ]
    group = ask(database, lambda inspection: inspection.group("a", "big"), *batches)
    assert group is not None
    assert {(each.state, each.machine, each.reason) for each in group.members} == {
        ("waiting", None, "r")
    }
    assert (group.state, group.position, group.size, group.metadata.members) == ("waiting", 2, 4, 4)
    batches = [
        LedgerBatch(
            groups=(structs.replace(waiting, state="starting", members=sent),),
            events=(EventEntry(name, "Starting", "on 3 machines"),),
        )
    ]
    group = ask(database, lambda inspection: inspection.group("a", "big"), *batches)
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
    assert (group.promised, group.expected_start) == (True, to_datetime(START + 9.0))
    assert [(each.kind, each.message) for each in group.events] == [
        ("Ready", "it's all there; 'quoted'"),
        ("Starting", "on 3 machines"),
    ]
    assert group.metadata.events == 2
    assert (group.how, group.ended) == (None, None)


def test_a_group_that_has_ended_is_shown_until_its_name_is_used_again(database: str) -> None:
    was = tuple(structs.replace(each, machine="m0") for each in members("a/g", 2))
    over = LedgerBatch(
        ended=(ended("g", 30.0, size=2, started_seconds=START + 10.0, members=was),),
        events=(EventEntry("a/g", "Finished"),),
    )
    group = ask(database, lambda inspection: inspection.group("a", "g"), over)
    assert group is not None
    assert (group.state, group.how, group.ended) == (
        "finished",
        "finished",
        to_datetime(START + 30.0),
    )
    assert [(each.name, each.uid, each.state, each.machine) for each in group.members] == [
        ("g-0", None, "ended", "m0"),
        ("g-1", None, "ended", "m0"),
    ]
    again = LedgerBatch(groups=(entry("g", 60.0),))
    group = ask(database, lambda inspection: inspection.group("a", "g"), again)
    assert group is not None
    assert (group.state, group.ready, group.position) == ("waiting", to_datetime(START + 60.0), 1)
    # Events of an earlier group of this name are still shown.
    assert [each.kind for each in group.events] == ["Finished"]


def test_the_latest_of_many_events_are_shown(database: str) -> None:
    count = MAX_EVENTS + 50
    batch = LedgerBatch(
        groups=(entry("g"),), events=tuple(EventEntry("a/g", f"E{n}") for n in range(count))
    )
    group = ask(database, lambda inspection: inspection.group("a", "g"), batch)
    assert group is not None
    assert group.metadata.events == count
    assert [each.kind for each in group.events] == [f"E{n}" for n in range(50, count)]
