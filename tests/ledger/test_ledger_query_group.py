"""Details of one group, read from a real PostgreSQL after real batches."""

from dataclasses import replace

import pytest
from ledger_values import ended_group, group, reserved, single, with_fields
from msgspec import structs
from queried_ledger import ALL_NAMESPACES, START, ask, ended, entry, key, members

from afflux.cycle.inspection_types import MAX_EVENTS, GroupDetails, GroupEvent, Witness, to_datetime
from afflux.cycle.ledger_entries import LedgerBatch
from afflux.groups.entries import EventEntry
from afflux.ledger.queries import LedgerInspection

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
            reservations=(reserved(waiting, START + 9.0, witness),),
            events=(EventEntry(waiting.entry.id.key, "Seen", "it's all there; 'quoted'"),),
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
            groups=(with_fields(waiting, state="starting", members=sent),),
            events=(EventEntry(waiting.entry.id.key, "Starting", "on 3 machines"),),
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
    assert [(each.kind, each.message) for each in stored(group)] == [
        ("Seen", "it's all there; 'quoted'"),
        ("Starting", "on 3 machines"),
    ]
    assert group.metadata.events == 4
    assert (group.how, group.ended) == (None, None)


def test_a_group_that_has_ended_is_shown_until_its_name_is_used_again(database: str) -> None:
    was = tuple(
        structs.replace(each, machine="m0", how=how)
        for each, how in zip(members("a/g", 2), ("succeeded", "failed"), strict=True)
    )
    gone = ended("g", 30.0, size=2, started_seconds=START + 10.0, members=was)
    over = LedgerBatch(
        ended=(replace(gone, how="failed"),), events=(EventEntry(gone.entry.id.key, "Seen"),)
    )
    group = ask(database, lambda inspection: inspection.group("a", "g"), over)
    assert group is not None
    assert (group.state, group.how, group.ended) == ("finished", "failed", to_datetime(START + 30))
    assert [
        (each.name, each.uid, each.state, each.machine, each.how) for each in group.members
    ] == [
        ("g-0", None, "ended", "m0", "succeeded"),
        ("g-1", None, "ended", "m0", "failed"),
    ]
    again = LedgerBatch(groups=(entry("g", 60.0, members=members("a/again", 1)),))
    group = ask(database, lambda inspection: inspection.group("a", "g"), again)
    assert group is not None
    assert (group.state, group.ready, group.position) == ("waiting", to_datetime(START + 60.0), 1)
    # Events of an earlier group of this name are not those of this one.
    assert stored(group) == []


def test_a_member_that_has_ended_says_how_while_its_group_runs(database: str) -> None:
    first, second = members("a/g", 2)
    first = structs.replace(first, machine="m0", how="succeeded")
    second = structs.replace(second, machine="m1")
    runs = entry("g", size=2, state="running", members=(first, second))
    group = ask(
        database, lambda inspection: inspection.group("a", "g"), LedgerBatch(groups=(runs,))
    )
    assert group is not None
    assert [(each.state, each.machine, each.how) for each in group.members] == [
        ("ended", "m0", "succeeded"),
        ("bound", "m1", None),
    ]
    assert (group.present, group.metadata.members) == (1, 2)


def test_members_beyond_the_first_chunk_are_shown(database: str) -> None:
    many = members("a/g", 150)
    waits = entry("g", size=150, members=many)
    last = structs.replace(many[149], machine="m")
    batches = (
        LedgerBatch(groups=(waits,)),
        LedgerBatch(groups=(with_fields(waits, state="starting", members=(last,)),)),
    )
    group = ask(database, lambda inspection: inspection.group("a", "g"), *batches)
    assert group is not None
    assert (group.present, group.metadata.members, len(group.members)) == (150, 150, 150)
    assert [each.name for each in group.members if each.state == "bound"] == ["g-149"]


# --- Names


def test_a_pod_without_a_group_answers_to_its_name_and_to_its_full_name(database: str) -> None:
    batch = LedgerBatch(groups=(single("simx", START),))

    async def question(inspection: LedgerInspection) -> list[GroupDetails | None]:
        asked = ("simx", "fluxnetes-group-default-simx", "other")
        found = [await inspection.group("default", name) for name in asked]
        (line,) = (await inspection.queue(ALL_NAMESPACES)).items
        assert (line.name, line.full_name) == ("simx", "fluxnetes-group-default-simx")
        return found

    by_name, by_full_name, other = ask(database, question, batch)
    assert by_name is not None
    assert by_full_name is not None
    assert (by_name.name, by_name.full_name) == ("simx", "fluxnetes-group-default-simx")
    assert by_full_name.members == by_name.members
    assert by_name.namesake is None
    assert other is None


def test_a_group_goes_before_a_pod_of_its_name_and_names_the_way_to_the_pod(database: str) -> None:
    pod, gang = single("simx", START), group("default/simx", ready_seconds=START + 1)
    full_name = "fluxnetes-group-default-simx"

    async def question(inspection: LedgerInspection) -> None:
        shown = await inspection.group("default", "simx")
        assert shown is not None
        assert (shown.name, shown.size, shown.namesake) == ("simx", 2, full_name)
        other = await inspection.group("default", full_name)
        assert other is not None
        assert (other.name, other.size, other.namesake) == (full_name, 1, None)
        listed = (await inspection.queue(ALL_NAMESPACES)).items
        assert [line.name for line in listed] == [full_name, "simx"]

    ask(database, question, LedgerBatch(groups=(pod, gang)))

    async def after_the_group(inspection: LedgerInspection) -> None:
        shown = await inspection.group("default", "simx")
        assert shown is not None
        assert (shown.name, shown.state, shown.namesake) == ("simx", "waiting", None)
        assert shown.full_name == full_name
        (line,) = (await inspection.history(ALL_NAMESPACES)).items
        assert (line.name, line.how) == ("simx", "succeeded")

    ask(database, after_the_group, LedgerBatch(ended=(ended_group(gang),)))

    async def after_both(inspection: LedgerInspection) -> None:
        shown = await inspection.group("default", "simx")
        assert shown is not None
        assert (shown.size, shown.how, shown.namesake) == (2, "succeeded", full_name)
        other = await inspection.group("default", full_name)
        assert other is not None
        assert (other.name, other.size, other.how) == ("simx", 1, "deleted")

    ask(database, after_both, LedgerBatch(ended=(ended_group(pod, "deleted"),)))


# --- Events


def test_the_life_of_a_group_is_a_timeline_of_its_times_and_its_events(database: str) -> None:
    past = {"created_seconds": 100.0, "ready_seconds": 110.0, "started_seconds": 120.0}
    gone = ended_group(group("a/g", **past), "rejected", 4e9)
    batch = LedgerBatch(ended=(gone,), events=(EventEntry(gone.entry.id.key, "NotBound", "no"),))
    found = ask(database, lambda inspection: inspection.group("a", "g"), batch)
    assert found is not None
    assert [(each.kind, each.message) for each in found.events] == [
        ("Created", "its first member was created"),
        ("Ready", "it has its members and waits in the queue"),
        ("Started", "its members are bound"),
        ("NotBound", "no"),
        ("Ended", "rejected: a machine did not take a member"),
    ]
    assert found.metadata.events == 5


def test_the_latest_of_many_events_are_shown(database: str) -> None:
    count = MAX_EVENTS + 50
    batch = LedgerBatch(
        groups=(entry("g"),), events=tuple(EventEntry(key("g"), f"E{n}") for n in range(count))
    )
    group = ask(database, lambda inspection: inspection.group("a", "g"), batch)
    assert group is not None
    assert group.metadata.events == count + 2
    assert [each.kind for each in stored(group)] == [f"E{n}" for n in range(50, count)]


def stored(group: GroupDetails) -> list[GroupEvent]:
    """The events of a group that waits, without those of its times."""
    return [each for each in group.events if each.kind not in ("Created", "Ready")]
