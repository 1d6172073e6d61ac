"""Encoding: entries as rows, many in one JSON text for one statement, and the way back."""

from collections.abc import Iterable, Sequence
from typing import Any, cast

import msgspec

from afflux.cycle.ledger_entries import BindIntent, RecoveredLedger, ReservationEntry
from afflux.groups.entries import EndedGroup, EventEntry, GroupEntry, MemberEntry, RecordedGroup
from afflux.groups.group_id import GroupId, GroupKey
from afflux.ledger.stored_members import StoredMembers, stored_members
from afflux.model.reservation import Reservation

Row = dict[str, Any]

# The columns of a group behind its identity, in the order of recover_groups.
_COLUMNS = (
    *("state", "queue", "size", "priority", "created_seconds", "ready_seconds", "run_seconds"),
    *("started_seconds", "until_seconds", "peak_bound", "may_have_been_whole", "waiting"),
    *("late_since_seconds", "unlisted", "reason"),
)

_ZERO = b"\\u0000"
_REPLACEMENT = b"\\ufffd"


def encoded(rows: Sequence[Row]) -> str:
    """JSON that PostgreSQL can store: without zero bytes and lone surrogates."""
    try:
        text = msgspec.json.encode(rows)
    except UnicodeEncodeError:
        text = msgspec.json.encode(_cleaned(msgspec.to_builtins(rows)))
    if _ZERO in text:
        text = text.replace(_ZERO, _REPLACEMENT)
    return text.decode()


def keys(names: Iterable[GroupKey]) -> list[Row]:
    """Only the keys of groups."""
    return [{"key": key} for key in names]


def group(entry: GroupEntry, members: StoredMembers) -> Row:
    """The row of a group, with the first chunk of its members."""
    return {
        **_group(entry),
        "born": entry.id.born,
        "present": members.present,
        "members": list(members.chunks[0].values()),
    }


def member_chunk(key: GroupKey, members: StoredMembers, number: int) -> Row:
    """The row of a further chunk."""
    return {"key": key, "chunk": number, "members": list(members.chunks[number].values())}


def ended_groups(ended: Iterable[EndedGroup]) -> list[Row]:
    """Rows of history: of each pod its name, its machine and how it ended."""
    return [
        {
            **_group(each.entry),
            "ended_seconds": each.ended_seconds,
            "how": each.how,
            "pods": [_pod_name(member.name) for member in each.members],
            "machines": [member.machine for member in each.members],
            "hows": [member.how for member in each.members],
        }
        for each in ended
    ]


def reservations(current: Iterable[ReservationEntry]) -> list[Row]:
    """Reservations, with their witnesses."""
    return [
        {
            "start_key": each.reservation.group,
            "group_key": each.group,
            "start_seconds": each.reservation.start_seconds,
            "uids": [uid for uid, _ in each.reservation.machines],
            "machines": [machine for _, machine in each.reservation.machines],
        }
        for each in current
    ]


def events(entries: Iterable[EventEntry]) -> list[Row]:
    return [{"key": each.group, "kind": each.kind, "message": each.message} for each in entries]


def recovered(
    epoch: int,
    group_rows: Iterable[Any],
    chunk_rows: Iterable[Any],
    reservation_rows: Iterable[Any],
) -> tuple[RecoveredLedger, dict[GroupKey, StoredMembers]]:
    """The contents of the ledger, and where its members are stored; from the rows of
    recover_groups, recover_member_chunks and recover_reservations."""
    further: dict[GroupKey, list[list[MemberEntry]]] = {}
    for key, members in chunk_rows:
        further.setdefault(key, []).append(_members(members))
    groups: list[RecordedGroup] = []
    intents: list[BindIntent] = []
    stored: dict[GroupKey, StoredMembers] = {}
    for key, namespace, name, born, alone, *values, first, written_in in group_rows:
        chunks = [_members(first), *further.get(key, ())]
        members = tuple(member for chunk in chunks for member in chunk)
        fields = dict(zip(_COLUMNS, values, strict=True))
        groups.append(
            RecordedGroup(GroupEntry(GroupId(namespace, name, born, alone), **fields), members)
        )
        stored[key] = stored_members(chunks)
        intents += (
            BindIntent(member.uid, member.name, key, member.sent_to, written_in)
            for member in members
            if member.sent_to
        )
    reservations = tuple(
        ReservationEntry(
            group_key, Reservation(start_key, start, tuple(zip(uids, machines, strict=True)))
        )
        for group_key, start_key, start, uids, machines in reservation_rows
    )
    return RecoveredLedger(epoch, tuple(groups), reservations, tuple(intents)), stored


def _members(rows: Iterable[Row]) -> list[MemberEntry]:
    return [MemberEntry(**row) for row in rows]


def _group(entry: GroupEntry) -> Row:
    own = entry.id
    row = {"key": own.key, "namespace": own.namespace, "name": own.name, "alone": own.alone}
    return row | {name: getattr(entry, name) for name in _COLUMNS}


def _pod_name(name: str) -> str:
    """Of namespace/name, the name; the namespace may be missing."""
    namespace, slash, rest = name.partition("/")
    return rest if slash else namespace


def _cleaned(value: object) -> object:
    """The same with every lone surrogate replaced."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, dict):
        found = cast("dict[object, object]", value)
        return {_cleaned(key): _cleaned(inner) for key, inner in found.items()}
    if isinstance(value, list):
        return [_cleaned(inner) for inner in cast("list[object]", value)]
    return value
