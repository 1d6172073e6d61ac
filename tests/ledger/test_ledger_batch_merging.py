"""Batches that were merged while the ledger was unavailable have the same effect as in turn."""

from collections.abc import Callable

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ledger_values import (
    LAYOUT,
    bound,
    contents,
    ended_group,
    group,
    ledger_at,
    reservation,
    run,
    sent,
    with_fields,
)
from psycopg import sql

from afflux.cycle.ledger_entries import LedgerBatch, merged
from afflux.groups.entries import EventEntry, GroupChange, MemberEntry

pytestmark = pytest.mark.slow

STORED = (
    *("provisional_groups", "queue", "running_groups", "member_chunks"),
    *("reservations", "finished_groups", "events", "fence"),
)
NAMES = ["default/a", "default/b", "default/c"]


# More than one chunk of members.
MANY = tuple(MemberEntry(f"u{number}", f"default/p{number}") for number in range(100))


def versions(name: str) -> st.SearchStrategy[GroupChange]:
    """A group in one of its states, with some of its members changed or dropped."""
    entry = group(name)
    first, second = entry.members
    return st.sampled_from(
        [
            group(name, state="provisional", ready_seconds=None),
            entry,
            sent(entry, "m1", "m2"),
            sent(entry, "m3", doubt="no answer"),
            bound(entry, "m1", "m2"),
            with_fields(entry, reason="full", members=(first,), dropped=(second.uid,)),
            with_fields(entry, members=(), dropped=(first.uid, "u0", "u70", "u99")),
            with_fields(entry, members=MANY),
            with_fields(entry, members=MANY[60:70]),
        ]
    )


@st.composite
def batches(draw: st.DrawFn) -> LedgerBatch:
    """Some groups end, and some are written in any state: names are reused at once."""
    ended = draw(st.lists(st.sampled_from(NAMES), unique=True))
    there = draw(st.lists(st.sampled_from(NAMES), unique=True))
    promised = draw(st.none() | st.lists(st.sampled_from(NAMES), unique=True))
    return LedgerBatch(
        ended=tuple(ended_group(draw(versions(name)), "deleted") for name in ended),
        groups=tuple(draw(versions(name)) for name in there),
        reservations=None
        if promised is None
        else tuple(
            reservation(group(name), draw(st.sampled_from([1.0, 2.0]))) for name in promised
        ),
        events=tuple(EventEntry(name, "Seen") for name in draw(st.lists(st.sampled_from(NAMES)))),
    )


def test_a_merged_batch_has_the_effect_of_its_parts(
    new_database: Callable[[str | None], str], template: str
) -> None:
    one_by_one, at_once = new_database(template), new_database(template)

    @settings(max_examples=40)
    @given(st.lists(batches(), min_size=2, max_size=5))
    def holds(found: list[LedgerBatch]) -> None:
        kept = found[0]
        for batch in found[1:]:
            kept = merged(kept, batch)
        run(lambda: written(one_by_one, found))
        run(lambda: written(at_once, [kept]))
        # The parts may leave other chunks of members than the whole, but the same members.
        assert members_and_rest(at_once) == members_and_rest(one_by_one)

    holds()


def members_and_rest(url: str) -> object:
    found = contents(url, without=LAYOUT)
    del found["member_chunks"]
    return found


async def written(url: str, found: list[LedgerBatch]) -> None:
    """Empty the ledger, then write these batches."""
    with psycopg.connect(url) as connection:
        names = sql.SQL(", ").join(sql.Identifier("afflux", name) for name in STORED)
        connection.execute(sql.SQL("TRUNCATE {}").format(names))
    async with ledger_at(url) as ledger:
        await ledger.take_over(None)
        for batch in found:
            await ledger.commit(batch)


def test_merging_with_an_empty_batch_changes_nothing() -> None:
    batch = LedgerBatch(
        groups=(group(),), reservations=(), events=(EventEntry("default/g", "Seen"),)
    )
    assert merged(LedgerBatch(), batch) == batch == merged(batch, LedgerBatch())
    assert merged(LedgerBatch(), LedgerBatch()).is_empty()
