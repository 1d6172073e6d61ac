"""Stored members: which members of each group are in which chunk of the ledger.

The first chunk is in the row of the group, each further one is a row of its own. A batch writes
only the chunks that change, so that a further pod of a group of thousands costs as little as one of
a group of a hundred. The leader is the only writer: it knows what is stored without reading it.

Not here: rows and statements.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from afflux.groups.entries import GroupChange, MemberEntry

# In one chunk. Most groups have one chunk, and cost one row.
CHUNK_MEMBERS = 64

# Members by uid, in the order in which they are stored. Never changed: the next chunk is a new one.
Chunk = Mapping[str, MemberEntry]


@dataclass(frozen=True, slots=True)
class StoredMembers:
    """The members of one group; `present` of them have not ended."""

    chunks: tuple[Chunk, ...] = ({},)
    present: int = 0


NO_MEMBERS = StoredMembers()


def with_change(
    stored: StoredMembers, change: GroupChange
) -> tuple[StoredMembers, tuple[int, ...]]:
    """The members after this change, and the numbers of the chunks that it changes.

    A known member stays in its chunk. A new one is put into the first chunk with room.
    """
    if len(stored.chunks) == 1:
        # Nearly all groups: a fifth of the time.
        only = _with_members(stored.chunks[0], change)
        if len(only) <= CHUNK_MEMBERS:
            return StoredMembers((only,), _present(only)), (0,)
    touched = {member.uid for member in change.members}.union(change.dropped)
    chunks: list[Chunk] = list(stored.chunks)
    place = {uid: n for n, chunk in enumerate(chunks) for uid in chunk.keys() & touched}
    changed: dict[int, dict[str, MemberEntry]] = {}

    def writable(number: int) -> dict[str, MemberEntry]:
        if number not in changed:
            chunks[number] = changed[number] = dict(chunks[number])
        return changed[number]

    for uid in change.dropped:
        number = place.pop(uid, None)
        if number is not None:
            del writable(number)[uid]
    room = 0
    for member in change.members:
        number = place.get(member.uid)
        if number is None:
            while room < len(chunks) and len(chunks[room]) >= CHUNK_MEMBERS:
                room += 1
            if room == len(chunks):
                chunks.append({})
            number = place[member.uid] = room
        writable(number)[member.uid] = member
    before = sum(_present(stored.chunks[n]) for n in changed if n < len(stored.chunks))
    after = sum(_present(chunk) for chunk in changed.values())
    now = StoredMembers(tuple(chunks), stored.present - before + after)
    return now, tuple(sorted(changed))


def _with_members(chunk: Chunk, change: GroupChange) -> Chunk:
    members = dict(chunk)
    for uid in change.dropped:
        members.pop(uid, None)
    for member in change.members:
        members[member.uid] = member
    return members


def stored_members(chunks: Iterable[Iterable[MemberEntry]]) -> StoredMembers:
    """The members in these chunks, as they were read."""
    found = tuple({member.uid: member for member in chunk} for chunk in chunks)
    return StoredMembers(found, sum(_present(chunk) for chunk in found))


def _present(chunk: Chunk) -> int:
    return len(chunk) - len([member for member in chunk.values() if member.how])
