"""Entries to rows: many go into one statement as one JSON text, and come back as they were."""

from collections.abc import Iterable, Sequence
from typing import Any, cast

import msgspec

from afflux.cycle.entries import (
    EventEntry,
    GoneGroup,
    GroupEntry,
    Intent,
    MemberEntry,
    Recovered,
)
from afflux.model.promise import Promise

Row = dict[str, Any]

_ZERO = b"\\u0000"
_REPLACEMENT = b"\\ufffd"


def encoded(rows: Sequence[Row]) -> str:
    """As PostgreSQL can store it: it knows neither zero bytes nor halves of characters."""
    try:
        text = msgspec.json.encode(rows)
    except UnicodeEncodeError:
        text = msgspec.json.encode(_whole(msgspec.to_builtins(rows)))
    if _ZERO in text:
        text = text.replace(_ZERO, _REPLACEMENT)
    return text.decode()


def split(name: str) -> tuple[str, str]:
    """namespace/name in two; what has no namespace has an empty one."""
    space, slash, rest = name.partition("/")
    return (space, rest) if slash else ("", name)


def named(names: Iterable[str]) -> list[Row]:
    """Groups by their names alone."""
    return [_named(name) for name in names]


def groups(entries: Iterable[GroupEntry]) -> list[Row]:
    """Groups as they stand."""
    return [{**_group(entry), "members": entry.members} for entry in entries]


def gone(ended: Iterable[GoneGroup]) -> list[Row]:
    """Groups that are over, with what is to be remembered of their pods."""
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


def promises(held: Iterable[Promise]) -> list[Row]:
    """Promises, with their witnesses."""
    return [
        {
            **_named(promise.group),
            "start_seconds": promise.start_seconds,
            "uids": [uid for uid, _ in promise.machines],
            "machines": [machine for _, machine in promise.machines],
        }
        for promise in held
    ]


def events(told: Iterable[EventEntry]) -> list[Row]:
    """What happened, in words."""
    return [{**_named(each.group), "kind": each.kind, "message": each.message} for each in told]


def recovered(epoch: int, found: Iterable[Any], promised: Iterable[Any]) -> Recovered:
    """The way back, from rows as the statements of recovery return them."""
    written = [(_entry(row), int(row[-1])) for row in found]
    return Recovered(
        epoch=epoch,
        groups=tuple(entry for entry, _ in written),
        promises=tuple(
            Promise(_joined(space, name), start, tuple(zip(uids, machines, strict=True)))
            for space, name, start, uids, machines in promised
        ),
        intents=tuple(
            Intent(member.uid, member.name, entry.name, member.sent_to, written_in)
            for entry, written_in in written
            for member in entry.members
            if member.sent_to
        ),
    )


def _entry(row: Sequence[Any]) -> GroupEntry:
    space, name, state, queue, size, priority, created, ready, run, started, until, reason = row[
        :12
    ]
    return GroupEntry(
        name=_joined(space, name),
        queue=queue,
        size=size,
        priority=priority,
        ready_seconds=ready,
        run_seconds=run,
        state=state,
        reason=reason,
        created_seconds=created,
        members=tuple(MemberEntry(**member) for member in row[12]),
        started_seconds=started,
        until_seconds=until,
    )


def _named(name: str) -> Row:
    space, rest = split(name)
    return {"namespace": space, "name": rest}


def _joined(namespace: str, name: str) -> str:
    return f"{namespace}/{name}" if namespace else name


def _group(entry: GroupEntry) -> Row:
    space, name = split(entry.name)
    return {
        "namespace": space,
        "name": name,
        "state": entry.state,
        "queue": entry.queue,
        "size": entry.size,
        "priority": entry.priority,
        "created_seconds": entry.created_seconds,
        "ready_seconds": entry.ready_seconds,
        "run_seconds": entry.run_seconds,
        "started_seconds": entry.started_seconds,
        "until_seconds": entry.until_seconds,
        "reason": entry.reason,
    }


def _whole(value: object) -> object:
    """The same with every half of a character replaced."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, dict):
        found = cast("dict[object, object]", value)
        return {_whole(key): _whole(inner) for key, inner in found.items()}
    if isinstance(value, list):
        return [_whole(inner) for inner in cast("list[object]", value)]
    return value
