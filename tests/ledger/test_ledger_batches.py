"""The next leader finds what a batch has written."""

import asyncio

import psycopg
import pytest
from ledger_values import (
    bound,
    contents,
    ended_group,
    group,
    ledger_at,
    recorded,
    reservation,
    reserved,
    rows,
    run,
    sent,
    single,
    with_fields,
)

from afflux.cycle.interfaces import LedgerError
from afflux.cycle.ledger_entries import LedgerBatch, RecoveredLedger, ReservationEntry
from afflux.groups.entries import EventEntry, GroupChange, GroupEntry, MemberEntry
from afflux.groups.group_id import GroupId
from afflux.model.reservation import Reservation

pytestmark = pytest.mark.slow


def after(url: str, *batches: LedgerBatch) -> RecoveredLedger:
    """The ledger as the next leader reads it after these batches."""
    found: list[RecoveredLedger] = []

    async def test() -> None:
        async with ledger_at(url) as ledger, ledger_at(url) as successor:
            await ledger.take_over(None)
            for batch in batches:
                await ledger.commit(batch)
            found.append(await successor.take_over(None))

    run(test)
    return found[0]


def where_is(url: str, name: str) -> list[str]:
    """The tables that have a row of the group."""
    query = (
        "SELECT tableoid::regclass::text FROM afflux.groups WHERE namespace || '/' || name = %s"
        " UNION ALL SELECT 'history' FROM afflux.finished_groups"
        " WHERE namespace || '/' || name = %s"
    )
    return [row[0].removeprefix("afflux.") for row in rows(url, query, name, name)]


# --- Groups


def test_all_fields_of_a_group_are_recovered(database: str) -> None:
    entry = group(
        "space/a",
        queue="night",
        size=3,
        priority=-7,
        ready_seconds=1_763_236_800.123457,
        run_seconds=3600.5,
        state="unsatisfiable",
        reason="no machine has 9 GPUs",
        created_seconds=1_763_236_000.0,
        started_seconds=None,
        until_seconds=None,
    )
    assert after(database, LedgerBatch(groups=(entry,))).groups == (recorded(entry),)


@pytest.mark.parametrize(
    ("state", "table"),
    [
        ("provisional", "provisional_groups"),
        ("refused", "provisional_groups"),
        ("waiting", "queue"),
        ("unsatisfiable", "queue"),
        ("starting", "running_groups"),
        ("running", "running_groups"),
    ],
)
def test_each_state_has_its_table(database: str, state: str, table: str) -> None:
    entry = group("default/a", state=state)
    assert after(database, LedgerBatch(groups=(entry,))).groups == (recorded(entry),)
    assert where_is(database, "default/a") == [table]


def test_a_group_is_always_in_exactly_one_table(database: str) -> None:
    entry = group("default/a", state="provisional", ready_seconds=None)

    async def test() -> None:
        async with ledger_at(database) as ledger:
            await ledger.take_over(None)
            for state, table in (
                ("provisional", "provisional_groups"),
                ("waiting", "queue"),
                ("starting", "running_groups"),
                ("running", "running_groups"),
                ("waiting", "queue"),
                ("provisional", "provisional_groups"),
            ):
                ready = None if state == "provisional" else 1.0
                now = with_fields(entry, state=state, ready_seconds=ready)
                await ledger.commit(LedgerBatch(groups=(now,)))
                assert where_is(database, "default/a") == [table]
            await ledger.commit(LedgerBatch(ended=(ended_group(entry),)))
            assert where_is(database, "default/a") == ["history"]

    run(test)


def test_groups_are_recovered_in_queue_order(database: str) -> None:
    entries = [
        group("default/late", ready_seconds=30.0),
        group("default/early", ready_seconds=10.0),
        group("default/important", ready_seconds=40.0, priority=5),
        # One bit apart: times are stored without rounding.
        group("default/next", ready_seconds=1_763_236_800.0000005),
        group("default/first", ready_seconds=1_763_236_800.0000002),
    ]
    found = after(database, LedgerBatch(groups=tuple(entries))).groups
    assert [each.entry.id.name for each in found] == [
        "important",
        "early",
        "late",
        "first",
        "next",
    ]


def test_members_that_a_change_does_not_name_stay(database: str) -> None:
    one, two, three = (MemberEntry(f"u{n}", f"default/p{n}") for n in range(3))
    entry = group("default/a", members=(one, two))
    found = after(
        database,
        LedgerBatch(groups=(entry,)),
        LedgerBatch(groups=(with_fields(entry, members=(three,)),)),
    )
    assert found.groups[0].members == (one, two, three)


def test_changed_members_replace_earlier_ones_and_dropped_ones_go(database: str) -> None:
    one, two, three = (MemberEntry(f"u{n}", f"default/p{n}") for n in range(3))
    entry = group("default/a", members=(one, two, three))
    now = MemberEntry("u1", "default/p1", machine="m", how="failed")
    found = after(
        database,
        LedgerBatch(groups=(entry,)),
        LedgerBatch(groups=(with_fields(entry, members=(now,), dropped=("u0", "unknown")),)),
    )
    assert found.groups[0].members == (now, three)
    assert rows(database, "SELECT present FROM afflux.groups") == [(1,)]


def test_a_pod_that_changes_its_group_is_in_the_new_one_only(database: str) -> None:
    pod = MemberEntry("u", "default/p")
    one, other = group("default/a", members=(pod,)), group("default/b", members=())
    left = with_fields(one, members=(), dropped=("u",))
    found = after(
        database,
        LedgerBatch(groups=(one, other)),
        LedgerBatch(groups=(left, with_fields(other, members=(pod,)))),
    )
    assert {each.entry.id.name: each.members for each in found.groups} == {"a": (), "b": (pod,)}


# --- Names


def test_a_name_is_free_again_when_its_group_is_finished(database: str) -> None:
    first = group("default/a", ready_seconds=1.0)
    second = group("default/a", ready_seconds=9.0, members=(MemberEntry("new", "default/new"),))
    found = after(
        database,
        LedgerBatch(groups=(first,)),
        LedgerBatch(ended=(ended_group(first, "deadline"),)),
        LedgerBatch(groups=(second,)),
    )
    assert found.groups == (recorded(second),)
    assert sorted(where_is(database, "default/a")) == ["history", "queue"]


def test_a_name_can_be_reused_in_the_batch_that_frees_it(database: str) -> None:
    first = group("default/a", ready_seconds=1.0)
    second = group("default/a", ready_seconds=9.0, members=(MemberEntry("new", "default/new"),))
    found = after(
        database,
        LedgerBatch(groups=(first,)),
        LedgerBatch(ended=(ended_group(first),), groups=(second,)),
    )
    assert found.groups == (recorded(second),)


def test_the_same_name_in_two_namespaces_is_two_groups(database: str) -> None:
    entries = (group("a/g", ready_seconds=1.0), group("b/g", ready_seconds=2.0))
    found = after(database, LedgerBatch(groups=entries)).groups
    assert found == tuple(recorded(each) for each in entries)


def test_a_pod_and_a_group_of_one_name_are_two_groups(database: str) -> None:
    entries = (group("default/simx", ready_seconds=1.0), single("simx", 2.0))
    found = after(database, LedgerBatch(groups=entries))
    assert found.groups == tuple(recorded(each) for each in entries)
    assert where_is(database, "default/simx") == ["queue"]
    assert where_is(database, "default/fluxnetes-group-default-simx") == ["queue"]


NASTY = [
    "it's",
    "'; DROP TABLE afflux.queue; --",
    'a "quoted" name',
    "back\\slash",
    "{1,2}",
    "%s %(x)s",
    "tab\tand\nnewline",
    "naïve 任务 🙂",
    "",
    "NULL",
]


@pytest.mark.parametrize("text", NASTY)
def test_any_text_is_stored_unchanged(database: str, text: str) -> None:
    members = (MemberEntry(f"uid {text}", f"s{text}/pod {text}", "", f"to {text}", text),)
    entry = group(f"s{text}/{text}", queue=text, reason=text, members=members, state="starting")
    batch = LedgerBatch(
        groups=(entry,),
        reservations=(reservation(entry),),
        events=(EventEntry(entry.entry.id.key, text, text),),
    )
    found = after(database, batch)
    assert found.groups == (recorded(entry),)
    assert found.reservations == batch.reservations
    assert [each.machine for each in found.intents] == [f"to {text}"]
    assert rows(database, "SELECT kind, message FROM afflux.events") == [(text, text)]
    again = after(database, LedgerBatch(ended=(ended_group(entry),)))
    assert again.groups == ()
    assert rows(database, "SELECT name, reason, pods FROM afflux.finished_groups") == [
        (text, text, [f"pod {text}"])
    ]


def test_what_postgresql_cannot_store_is_replaced(database: str) -> None:
    entry = group("default/a", reason="zero \0 and half \ud800")
    (found,) = after(database, LedgerBatch(groups=(entry,))).groups
    assert found.entry.reason == "zero \ufffd and half ?"


# --- Binding


def test_an_intent_is_stored_until_its_outcome_is_written(database: str) -> None:
    entry = group("default/a")
    found = after(database, LedgerBatch(groups=(sent(entry, "m1", "m2"),)))
    assert [(each.pod, each.machine) for each in found.intents] == [
        ("default/a-0", "m1"),
        ("default/a-1", "m2"),
    ]
    one, two = sent(entry, "m1", "m2").members
    half = with_fields(bound(entry, "m1"), members=(bound(entry, "m1").members[0], two))
    assert [each.uid for each in after(database, LedgerBatch(groups=(half,))).intents] == [two.uid]
    failed = with_fields(half, members=(half.members[0], entry.members[1]), state="waiting")
    found = after(database, LedgerBatch(groups=(failed,)))
    assert found.intents == ()
    assert [member.machine for member in found.groups[0].members] == ["m1", ""]
    assert one.uid != two.uid


def test_an_intent_with_an_unknown_outcome_is_kept(database: str) -> None:
    entry = sent(group("default/a"), "m1", doubt="no answer")
    found = after(database, LedgerBatch(groups=(entry,)))
    assert [each.machine for each in found.intents] == ["m1"]
    assert found.groups == (recorded(entry),)
    shown = rows(database, "SELECT pod, machine, state, reason FROM afflux.intents")
    assert shown == [("a-0", "m1", "unknown", "no answer")]
    read_back = bound(group("default/a"), "m1", "m1")
    assert after(database, LedgerBatch(groups=(read_back,))).intents == ()


def test_an_intent_has_the_epoch_that_wrote_it(database: str) -> None:
    async def test() -> None:
        async with ledger_at(database) as ledger, ledger_at(database) as successor:
            await ledger.take_over(41)
            await ledger.commit(LedgerBatch(groups=(sent(group("default/a"), "m1"),)))
            found = await successor.take_over(42)
            assert [each.epoch for each in found.intents] == [41]

    run(test)


# --- Reservations


def test_reservations_are_recovered_with_their_witnesses(database: str) -> None:
    first, second = group("default/a"), group("default/b")
    held = (reservation(first, 100.25), reservation(second, 200.0))
    found = after(database, LedgerBatch(groups=(first, second), reservations=held))
    assert found.reservations == held


def test_a_reservation_may_lack_a_start_or_machines(database: str) -> None:
    held = (reserved(group("default/a"), 3.0), reserved(group("default/b"), None))
    assert after(database, LedgerBatch(reservations=held)).reservations == held


def test_a_late_member_has_a_reservation_of_its_own(database: str) -> None:
    entry = bound(group("default/a"), "m1", "m2")
    key = entry.entry.id.key
    held = (
        ReservationEntry(key, Reservation("late 1", 1.0, (("u1", "m1"),))),
        ReservationEntry(key, Reservation("late 2", 2.0, (("u2", "m1"),))),
    )
    found = after(database, LedgerBatch(groups=(entry,), reservations=held))
    assert found.reservations == held
    found = after(database, LedgerBatch(ended=(ended_group(entry),)))
    assert found.reservations == ()


def test_reservations_missing_from_the_batch_are_deleted(database: str) -> None:
    first, second = reservation(group("default/a")), reservation(group("default/b"))
    batch = LedgerBatch(reservations=(first, second))
    assert after(database, batch, LedgerBatch(reservations=(second,))).reservations == (second,)
    assert after(database, LedgerBatch(reservations=())).reservations == ()


def test_a_batch_without_reservations_keeps_them(database: str) -> None:
    held = (reservation(group("default/a")),)
    assert (
        after(database, LedgerBatch(reservations=held), LedgerBatch(groups=(group(),))).reservations
        == held
    )


def test_an_unchanged_reservation_keeps_its_date(database: str) -> None:
    held = (reservation(group("default/a")),)
    date = "SELECT promised_at FROM afflux.reservations"
    after(database, LedgerBatch(reservations=held))
    before = rows(database, date)
    after(database, LedgerBatch(reservations=held))
    assert rows(database, date) == before
    after(database, LedgerBatch(reservations=(reservation(group("default/a"), 4.0),)))
    assert rows(database, date) > before


def test_an_ended_group_is_only_in_history(database: str) -> None:
    entry = sent(group("default/a"), "m1")
    batch = LedgerBatch(groups=(entry,), reservations=(reservation(entry),))
    after(database, batch, LedgerBatch(ended=(ended_group(entry),)))
    left = contents(database)
    assert [table for table in left if left[table]] == ["finished_groups"]


# --- History and events


def test_history_has_pods_machines_times_and_the_end(database: str) -> None:
    members = (
        MemberEntry("u0", "s/p0", "m0", how="succeeded"),
        MemberEntry("u1", "s/p1", "m1", how="deadline"),
    )
    entry = group("s/a", queue="q", priority=3, started_seconds=20.0, run_seconds=50.0)
    entry = with_fields(entry, members=members, created_seconds=1.0, ready_seconds=2.0)
    after(
        database,
        LedgerBatch(
            ended=(ended_group(entry, "deadline", 70.0), ended_group(group("s/b"), "deleted", 80.0))
        ),
    )
    query = (
        "SELECT name, queue, size, priority, created_seconds, ready_seconds, started_seconds,"
        " ended_seconds, how, pods, machines, hows FROM afflux.finished_groups ORDER BY id"
    )
    first, second = rows(database, query)
    assert first == (
        *("a", "q", 2, 3, 1.0, 2.0, 20.0, 70.0, "deadline"),
        *(["p0", "p1"], ["m0", "m1"], ["succeeded", "deadline"]),
    )
    assert (second[0], second[8], second[10]) == ("b", "deleted", ["", ""])


def test_listeners_are_notified_of_a_written_batch(database: str) -> None:
    async def test() -> None:
        async with (
            await psycopg.AsyncConnection.connect(database, autocommit=True) as watcher,
            ledger_at(database) as ledger,
        ):
            await watcher.execute("LISTEN afflux")
            await ledger.take_over(7)
            await ledger.commit(LedgerBatch(groups=(group(),)))
            heard: list[str] = []
            async with asyncio.timeout(60):
                async for notice in watcher.notifies():
                    heard.append(notice.payload)
                    if len(heard) == 2:
                        break
            assert heard == ["epoch 7 leads", "turn 1 of epoch 7"]

    run(test)


def test_an_empty_batch_notifies_no_listener(database: str) -> None:
    async def test() -> None:
        async with (
            await psycopg.AsyncConnection.connect(database, autocommit=True) as watcher,
            ledger_at(database) as ledger,
        ):
            await ledger.take_over(7)
            await watcher.execute("LISTEN afflux")
            await ledger.commit(LedgerBatch())
            await watcher.execute("NOTIFY afflux, 'marker'")
            # Notifications arrive in order, so a notification of the batch would be the first.
            first = await anext(watcher.notifies(timeout=60))
            assert first.payload == "marker"

    run(test)


def test_a_batch_before_take_over_is_an_error(database: str) -> None:
    async def test() -> None:
        async with ledger_at(database) as ledger:
            with pytest.raises(LedgerError, match="a batch was committed before take_over"):
                await ledger.commit(LedgerBatch())

    run(test)


def test_an_entry_needs_nothing_but_an_identity(database: str) -> None:
    change = GroupChange(GroupEntry(GroupId("default", "a", ""), ready_seconds=0.0))
    found = after(database, LedgerBatch(groups=(change,))).groups
    assert found == (recorded(change),)
