"""Encoding: entries as rows, many in one JSON text for one statement, and the way back."""

from collections.abc import Iterable, Sequence
from typing import Any, cast

import msgspec

from afflux.cycle.ledger_entries import (
    BindIntent,
    EndedGroup,
    EventEntry,
    GroupEntry,
    MemberEntry,
    RecoveredLedger,
)
from afflux.model.reservation import Reservation

Row = dict[str, Any]

# The columns of a group behind its name, in the order of recover_groups.
_COLUMNS = (
    *("state", "queue", "size", "priority", "created_seconds", "ready_seconds", "run_seconds"),
    *("started_seconds", "until_seconds", "reason"),
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


def split(name: str) -> tuple[str, str]:
    """namespace/name as a pair; the namespace may be empty."""
    namespace, slash, rest = name.partition("/")
    return (namespace, rest) if slash else ("", name)


def keys(names: Iterable[str]) -> list[Row]:
    """Only the names of groups."""
    return [_key(name) for name in names]


def groups(entries: Iterable[GroupEntry]) -> list[Row]:
    return [{**_group(entry), "members": entry.members} for entry in entries]


def ended_groups(ended: Iterable[EndedGroup]) -> list[Row]:
    """Rows of history, with the names and machines of the pods."""
    return [
        {
            **_group(each.entry),
            "ended_seconds": each.ended_seconds,
            "how": each.how,
            "pods": [split(member.name)[1] for member in each.entry.members],
            "machines": [member.machine for member in each.entry.members],
        }
        for each in ended
    ]


def reservations(current: Iterable[Reservation]) -> list[Row]:
    """Reservations, with their witnesses."""
    return [
        {
            **_key(reservation.group),
            "start_seconds": reservation.start_seconds,
            "uids": [uid for uid, _ in reservation.machines],
            "machines": [machine for _, machine in reservation.machines],
        }
        for reservation in current
    ]


def events(entries: Iterable[EventEntry]) -> list[Row]:
    return [{**_key(each.group), "kind": each.kind, "message": each.message} for each in entries]


def recovered(
    epoch: int, group_rows: Iterable[Any], reservation_rows: Iterable[Any]
) -> RecoveredLedger:
    """The contents of the ledger, from the rows of recover_groups and recover_reservations."""
    written = [(_entry(row), int(row[-1])) for row in group_rows]
    return RecoveredLedger(
        epoch=epoch,
        groups=tuple(entry for entry, _ in written),
        reservations=tuple(
            Reservation(_joined(namespace, name), start, tuple(zip(uids, machines, strict=True)))
            for namespace, name, start, uids, machines in reservation_rows
        ),
        intents=tuple(
            BindIntent(member.uid, member.name, entry.name, member.sent_to, written_in)
            for entry, written_in in written
            for member in entry.members
            if member.sent_to
        ),
    )


def _entry(row: Sequence[Any]) -> GroupEntry:
    namespace, name, *values, members, _ = row
    return GroupEntry(
        name=_joined(namespace, name),
        members=tuple(MemberEntry(**member) for member in members),
        **dict(zip(_COLUMNS, values, strict=True)),
    )


def _key(name: str) -> Row:
    namespace, rest = split(name)
    return {"namespace": namespace, "name": rest}


def _joined(namespace: str, name: str) -> str:
    return f"{namespace}/{name}" if namespace else name


def _group(entry: GroupEntry) -> Row:
    return _key(entry.name) | {name: getattr(entry, name) for name in _COLUMNS}


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
