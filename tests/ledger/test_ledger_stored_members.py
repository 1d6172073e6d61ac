"""Members of large groups are stored in chunks, and a change writes only the chunks it concerns."""

from hypothesis import given
from hypothesis import strategies as st
from ledger_values import group, with_fields

from afflux.groups.entries import MemberEntry
from afflux.ledger.stored_members import CHUNK_MEMBERS, NO_MEMBERS, StoredMembers, with_change

GROUP = group("default/g", members=())


def member(number: int, **fields: str) -> MemberEntry:
    return MemberEntry(f"u{number}", f"default/p{number}", **fields)


def of_members(count: int) -> StoredMembers:
    many = tuple(member(number) for number in range(count))
    return with_change(NO_MEMBERS, with_fields(GROUP, members=many))[0]


def test_a_further_member_of_a_large_group_changes_one_chunk() -> None:
    before = of_members(6_000)
    after, changed = with_change(before, with_fields(GROUP, members=(member(6_000),)))
    assert changed == (6_000 // CHUNK_MEMBERS,)
    assert after.present == 6_001
    # What is stored stays as it was until the batch is written.
    assert sum(map(len, before.chunks)) == 6_000


def test_a_changed_member_stays_in_its_chunk_and_a_dropped_one_makes_room() -> None:
    before = of_members(3 * CHUNK_MEMBERS)
    in_second = member(CHUNK_MEMBERS + 1, machine="m")
    after, changed = with_change(
        before, with_fields(GROUP, members=(in_second, member(999)), dropped=("u0",))
    )
    assert changed == (0, 1)
    assert "u999" in after.chunks[0]
    assert after.chunks[1]["u65"] == in_second


@given(
    st.lists(
        st.tuples(
            st.sets(st.integers(0, 300), max_size=200),
            st.sets(st.integers(0, 300), max_size=200),
            st.sampled_from(["", "failed"]),
        ),
        max_size=6,
    )
)
def test_chunks_hold_what_all_changes_together_say(
    changes: list[tuple[set[int], set[int], str]],
) -> None:
    stored, written = NO_MEMBERS, dict(enumerate(NO_MEMBERS.chunks))
    expected: dict[str, MemberEntry] = {}
    for put, dropped, how in changes:
        members = tuple(member(number, how=how) for number in sorted(put))
        gone = tuple(f"u{number}" for number in dropped)
        stored, changed = with_change(stored, with_fields(GROUP, members=members, dropped=gone))
        written.update((number, stored.chunks[number]) for number in changed)
        for uid in gone:
            expected.pop(uid, None)
        expected.update((each.uid, each) for each in members)
        found = [item for chunk in stored.chunks for item in chunk.items()]
        assert dict(found) == expected
        assert len(found) == len(expected)
        assert all(len(chunk) <= CHUNK_MEMBERS for chunk in stored.chunks)
        assert stored.present == sum(not each.how for each in expected.values())
        assert tuple(written[number] for number in range(len(written))) == stored.chunks
