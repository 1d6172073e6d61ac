"""What is written in a turn, and found again by whoever takes over."""

import asyncio

import psycopg
import pytest
from ledger_values import bound, contents, gone, group, ledger_at, promise, rows, run, sent
from msgspec.structs import replace

from afflux.cycle.entries import EventEntry, GroupEntry, MemberEntry, Recovered, Turn
from afflux.cycle.ports import LedgerError
from afflux.model.promise import Promise

pytestmark = pytest.mark.slow


def after(url: str, *turns: Turn) -> Recovered:
    """What the next leader finds after these turns."""
    found: list[Recovered] = []

    async def test() -> None:
        async with ledger_at(url) as ledger, ledger_at(url) as successor:
            await ledger.take_over(None)
            for turn in turns:
                await ledger.commit(turn)
            found.append(await successor.take_over(None))

    run(test)
    return found[0]


def where_is(url: str, name: str) -> list[str]:
    """The tables in which a group stands."""
    query = (
        "SELECT tableoid::regclass::text FROM afflux.groups WHERE namespace || '/' || name = %s"
        " UNION ALL SELECT 'history' FROM afflux.finished_groups"
        " WHERE namespace || '/' || name = %s"
    )
    return [row[0].removeprefix("afflux.") for row in rows(url, query, name, name)]


# --- Groups


def test_everything_about_a_group_is_found_again(database: str) -> None:
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
    assert after(database, Turn(groups=(entry,))).groups == (entry,)


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
    assert after(database, Turn(groups=(entry,))).groups == (entry,)
    assert where_is(database, "default/a") == [table]


def test_a_group_moves_from_table_to_table_and_is_always_in_one_of_them(database: str) -> None:
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
                now = replace(entry, state=state, ready_seconds=ready)
                await ledger.commit(Turn(groups=(now,)))
                assert where_is(database, "default/a") == [table]
            await ledger.commit(Turn(gone=(gone(entry),)))
            assert where_is(database, "default/a") == ["history"]

    run(test)


def test_groups_are_found_in_queue_order(database: str) -> None:
    entries = [
        group("default/late", ready_seconds=30.0),
        group("default/early", ready_seconds=10.0),
        group("default/important", ready_seconds=40.0, priority=5),
        # One bit apart: nothing is rounded on the way.
        group("default/next", ready_seconds=1_763_236_800.0000005),
        group("default/first", ready_seconds=1_763_236_800.0000002),
    ]
    found = after(database, Turn(groups=tuple(entries))).groups
    assert [entry.name.removeprefix("default/") for entry in found] == [
        "important",
        "early",
        "late",
        "first",
        "next",
    ]


def test_members_come_and_go(database: str) -> None:
    one, two, three = (MemberEntry(f"u{n}", f"default/p{n}") for n in range(3))
    entry = group("default/a")
    found = after(
        database,
        Turn(groups=(replace(entry, members=(one, two)),)),
        Turn(groups=(replace(entry, members=(two, three)),)),
    )
    assert found.groups[0].members == (two, three)


def test_a_pod_that_changes_its_group_is_in_the_new_one_only(database: str) -> None:
    pod = MemberEntry("u", "default/p")
    one, other = group("default/a", members=(pod,)), group("default/b", members=())
    found = after(
        database,
        Turn(groups=(one, other)),
        Turn(groups=(replace(one, members=()), replace(other, members=(pod,)))),
    )
    assert {entry.name: entry.members for entry in found.groups} == {
        "default/a": (),
        "default/b": (pod,),
    }


# --- Names


def test_a_name_is_free_again_when_its_group_is_finished(database: str) -> None:
    first = group("default/a", ready_seconds=1.0)
    second = group("default/a", ready_seconds=9.0, members=(MemberEntry("new", "default/new"),))
    found = after(
        database,
        Turn(groups=(first,)),
        Turn(gone=(gone(first, "deadline"),)),
        Turn(groups=(second,)),
    )
    assert found.groups == (second,)
    assert sorted(where_is(database, "default/a")) == ["history", "queue"]


def test_a_name_can_be_used_again_in_the_turn_in_which_it_became_free(database: str) -> None:
    first = group("default/a", ready_seconds=1.0)
    second = group("default/a", ready_seconds=9.0, members=(MemberEntry("new", "default/new"),))
    found = after(database, Turn(groups=(first,)), Turn(gone=(gone(first),), groups=(second,)))
    assert found.groups == (second,)


def test_the_same_name_in_two_namespaces_is_two_groups(database: str) -> None:
    entries = (group("a/g", ready_seconds=1.0), group("b/g", ready_seconds=2.0))
    assert after(database, Turn(groups=entries)).groups == entries


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
def test_no_text_is_a_problem(database: str, text: str) -> None:
    members = (MemberEntry(f"uid {text}", f"s{text}/pod {text}", "", f"to {text}", text),)
    entry = group(f"s{text}/{text}", queue=text, reason=text, members=members, state="starting")
    turn = Turn(
        groups=(entry,),
        promises=(promise(entry),),
        events=(EventEntry(entry.name, text, text),),
    )
    found = after(database, turn)
    assert found.groups == (entry,)
    assert found.promises == turn.promises
    assert [each.machine for each in found.intents] == [f"to {text}"]
    assert rows(database, "SELECT kind, message FROM afflux.events") == [(text, text)]
    again = after(database, Turn(gone=(gone(entry),)))
    assert again.groups == ()
    assert rows(database, "SELECT name, reason, pods FROM afflux.finished_groups") == [
        (text, text, [f"pod {text}"])
    ]


def test_what_postgresql_cannot_store_is_replaced(database: str) -> None:
    entry = group("default/a", reason="zero \0 and half \ud800")
    assert after(database, Turn(groups=(entry,))).groups[0].reason == "zero \ufffd and half ?"


# --- Binding


def test_an_intent_is_there_until_its_outcome_is(database: str) -> None:
    entry = group("default/a")
    found = after(database, Turn(groups=(sent(entry, "m1", "m2"),)))
    assert [(each.pod, each.machine) for each in found.intents] == [
        ("default/a-0", "m1"),
        ("default/a-1", "m2"),
    ]
    one, two = sent(entry, "m1", "m2").members
    half = replace(bound(entry, "m1"), members=(bound(entry, "m1").members[0], two))
    assert [each.uid for each in after(database, Turn(groups=(half,))).intents] == [two.uid]
    failed = replace(half, members=(half.members[0], entry.members[1]), state="waiting")
    found = after(database, Turn(groups=(failed,)))
    assert found.intents == ()
    assert [member.machine for member in found.groups[0].members] == ["m1", ""]
    assert one.uid != two.uid


def test_an_unknown_outcome_keeps_its_place(database: str) -> None:
    entry = sent(group("default/a"), "m1", doubt="no answer")
    found = after(database, Turn(groups=(entry,)))
    assert [each.machine for each in found.intents] == ["m1"]
    assert found.groups == (entry,)
    shown = rows(database, "SELECT pod, machine, state, reason FROM afflux.intents")
    assert shown == [("a-0", "m1", "unknown", "no answer")]
    read_back = bound(group("default/a"), "m1", "m1")
    assert after(database, Turn(groups=(read_back,))).intents == ()


def test_an_intent_says_in_which_epoch_it_was_written(database: str) -> None:
    async def test() -> None:
        async with ledger_at(database) as ledger, ledger_at(database) as successor:
            await ledger.take_over(41)
            await ledger.commit(Turn(groups=(sent(group("default/a"), "m1"),)))
            found = await successor.take_over(42)
            assert [each.epoch for each in found.intents] == [41]

    run(test)


# --- Promises


def test_promises_are_found_with_their_witnesses(database: str) -> None:
    first, second = group("default/a"), group("default/b")
    held = (promise(first, 100.25), promise(second, 200.0))
    found = after(database, Turn(groups=(first, second), promises=held))
    assert found.promises == held


def test_a_promise_may_be_without_a_time_or_without_machines(database: str) -> None:
    held = (Promise("default/a", 3.0, ()), Promise("default/b", None, ()))
    assert after(database, Turn(promises=held)).promises == held


def test_promises_that_are_not_mentioned_hold_no_longer(database: str) -> None:
    first, second = promise(group("default/a")), promise(group("default/b"))
    turn = Turn(promises=(first, second))
    assert after(database, turn, Turn(promises=(second,))).promises == (second,)
    assert after(database, Turn(promises=())).promises == ()


def test_without_a_word_about_promises_they_stay(database: str) -> None:
    held = (promise(group("default/a")),)
    assert after(database, Turn(promises=held), Turn(groups=(group(),))).promises == held


def test_a_promise_that_is_as_it_was_keeps_its_date(database: str) -> None:
    held = (promise(group("default/a")),)
    date = "SELECT promised_at FROM afflux.reservations"
    after(database, Turn(promises=held))
    before = rows(database, date)
    after(database, Turn(promises=held))
    assert rows(database, date) == before
    after(database, Turn(promises=(promise(group("default/a"), 4.0),)))
    assert rows(database, date) > before


def test_nothing_is_left_of_a_group_that_is_gone(database: str) -> None:
    entry = sent(group("default/a"), "m1")
    turn = Turn(groups=(entry,), promises=(promise(entry),))
    after(database, turn, Turn(gone=(gone(entry),)))
    left = contents(database)
    assert [table for table in left if left[table]] == ["finished_groups"]


# --- History and events


def test_history_says_who_ran_where_when_and_how_it_ended(database: str) -> None:
    members = (MemberEntry("u0", "s/p0", "m0"), MemberEntry("u1", "s/p1", "m1"))
    entry = group("s/a", queue="q", priority=3, started_seconds=20.0, run_seconds=50.0)
    entry = replace(entry, members=members, created_seconds=1.0, ready_seconds=2.0)
    after(database, Turn(gone=(gone(entry, "deadline", 70.0), gone(group("s/b"), "deleted", 80.0))))
    query = (
        "SELECT name, queue, size, priority, created_seconds, ready_seconds, started_seconds,"
        " ended_seconds, how, pods, machines FROM afflux.finished_groups ORDER BY id"
    )
    first, second = rows(database, query)
    assert first == (
        *("a", "q", 2, 3, 1.0, 2.0, 20.0, 70.0, "deadline"),
        *(["p0", "p1"], ["m0", "m1"]),
    )
    assert (second[0], second[8], second[10]) == ("b", "deleted", ["", ""])


def test_those_who_watch_are_told_when_a_turn_is_written(database: str) -> None:
    async def test() -> None:
        async with (
            await psycopg.AsyncConnection.connect(database, autocommit=True) as watcher,
            ledger_at(database) as ledger,
        ):
            await watcher.execute("LISTEN afflux")
            await ledger.take_over(7)
            await ledger.commit(Turn(groups=(group(),)))
            heard: list[str] = []
            async with asyncio.timeout(10):
                async for notice in watcher.notifies():
                    heard.append(notice.payload)
                    if len(heard) == 2:
                        break
            assert heard == ["epoch 7 leads", "turn 1 of epoch 7"]

    run(test)


def test_nobody_is_woken_by_a_turn_without_news(database: str) -> None:
    async def test() -> None:
        async with (
            await psycopg.AsyncConnection.connect(database, autocommit=True) as watcher,
            ledger_at(database) as ledger,
        ):
            await ledger.take_over(7)
            await watcher.execute("LISTEN afflux")
            await ledger.commit(Turn())
            assert [each async for each in watcher.notifies(timeout=0.2)] == []

    run(test)


def test_a_turn_before_anybody_took_over_is_a_mistake(database: str) -> None:
    async def test() -> None:
        async with ledger_at(database) as ledger:
            with pytest.raises(LedgerError, match="before anybody took over"):
                await ledger.commit(Turn())

    run(test)


def test_an_entry_needs_nothing_but_a_name(database: str) -> None:
    entry = GroupEntry("default/a", ready_seconds=0.0)
    found = after(database, Turn(groups=(entry,))).groups
    assert found == (entry,)
