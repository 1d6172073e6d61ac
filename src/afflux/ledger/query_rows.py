"""Rows of sql/inspection.sql as values of the inspection API."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from afflux.cycle.inspection_types import (
    GroupDetails,
    GroupEvent,
    GroupMeta,
    HistoryLine,
    Member,
    QueueLine,
    ReservationLine,
    Witness,
    to_datetime,
    to_optional_datetime,
)

Row = Mapping[str, Any]


_LINE = ("namespace", "full_name", "queue", "size", "priority")

# What the end of a group means, by how it ended.
_ENDS = {
    "succeeded": "all members succeeded",
    "failed": "a member failed",
    "deadline": "it was stopped at its deadline",
    "deleted": "its members were deleted",
    "rejected": "a machine did not take a member",
}


@dataclass(frozen=True, slots=True)
class Namesakes:
    """The namespace of a group, and the full name of the group of one of the pod that has the same
    name, if there is one."""

    namespace: str
    pod: str | None


@dataclass(frozen=True, slots=True)
class StoredEvents:
    """The latest events of a group, the newest first, and how many there are."""

    latest: Sequence[Row]
    count: int


def _shown_name(row: Row) -> str:
    """A pod without a group is called like itself, unless a group that is there has that name."""
    return row["full_name"] if row["is_ambiguous"] else row["alone"] or row["full_name"]


def _fields(row: Row, *names: str) -> dict[str, Any]:
    """The fields that have the name and the value of their column."""
    return {name: row[name] for name in names}


def queue_line(row: Row) -> QueueLine:
    """A row of queue_lines."""
    return QueueLine(
        **_fields(row, *_LINE, "position", "present", "waiting", "state", "run_seconds"),
        **_fields(row, "promised", "reason"),
        name=_shown_name(row),
        waiting_since=to_datetime(row["since_seconds"]),
        expected_start=to_optional_datetime(row["start_seconds"]),
    )


def reservation(row: Row) -> ReservationLine:
    """A row of reservation_lines."""
    start, run = row["start_seconds"], row["run_seconds"]
    return ReservationLine(
        **_fields(row, *_LINE, "starting"),
        name=_shown_name(row),
        start=to_optional_datetime(start),
        end=None if start is None or run is None else to_datetime(start + run),
        witness=tuple(
            Witness(member=member, machine=machine)
            for member, machine in zip(row["members"], row["machines"], strict=True)
        ),
    )


def history_line(row: Row) -> HistoryLine:
    """A row of history_lines."""
    return HistoryLine(
        **_fields(row, *_LINE, "how", "machine_count"),
        name=_shown_name(row),
        created=to_datetime(row["created_seconds"]),
        ready=to_optional_datetime(row["ready_seconds"]),
        started=to_optional_datetime(row["started_seconds"]),
        ended=to_datetime(row["ended_seconds"]),
        machines=tuple(row["machines"]),
    )


def _details(namesakes: Namesakes, row: Row, stored: StoredEvents) -> dict[str, Any]:
    """The details that present and ended groups have in common."""
    events, more = _timeline(row, stored)
    count = len(events) + more
    meta = GroupMeta(time=to_datetime(time.time()), members=row["member_count"], events=count)
    return _fields(row, "full_name", "queue", "size", "priority", "reason", "run_seconds") | {
        "metadata": meta,
        "namespace": namesakes.namespace,
        "name": _shown_name(row),
        "namesake": namesakes.pod,
        "created": to_datetime(row["created_seconds"]),
        "ready": to_optional_datetime(row["ready_seconds"]),
        "started": to_optional_datetime(row["started_seconds"]),
        "until": to_optional_datetime(row["until_seconds"]),
        "events": events,
    }


def _timeline(row: Row, stored: StoredEvents) -> tuple[tuple[GroupEvent, ...], int]:
    """The life of a group: the times in its row and its latest events; and how many are left out.

    The times are those of the scheduler's clock, the events those of the database's.
    """
    how = row.get("how", "")
    times = (
        ("Created", row["created_seconds"] or None, "its first member was created"),
        ("Ready", row["ready_seconds"], "it has its members and waits in the queue"),
        ("Started", row["started_seconds"], "its members are bound"),
        ("Ended", row.get("ended_seconds"), f"{how}: {_ENDS.get(how, 'it ended by itself')}"),
    )
    events = [
        GroupEvent(time=to_datetime(seconds), kind=kind, message=message)
        for kind, seconds, message in times
        if seconds is not None
    ]
    events += (
        GroupEvent(time=each["at"], kind=each["kind"], message=each["message"])
        for each in reversed(stored.latest)
    )
    events.sort(key=lambda event: event.time)
    return tuple(events), stored.count - len(stored.latest)


def present_group(
    namesakes: Namesakes,
    row: Row,
    members: Sequence[Row],
    witness: Sequence[Row],
    events: StoredEvents,
) -> GroupDetails:
    """A row of group_present with its members, its witness and its events."""
    return GroupDetails(
        **_details(namesakes, row, events),
        **_fields(row, "position", "state", "present", "promised"),
        ended=None,
        how=None,
        expected_start=to_optional_datetime(row["start_seconds"]),
        witness=tuple(Witness(member=each["member"], machine=each["machine"]) for each in witness),
        members=tuple(_member(each, row["reason"]) for each in members),
    )


def _member(row: Row, waiting_reason: str) -> Member:
    machine, reason = row["machine"] or None, ""
    if row["how"]:
        state = "ended"
    elif machine:
        state = "bound"
    elif row["sent_to"]:
        machine, reason = row["sent_to"], row["doubt"]
        state = "unknown" if reason else "binding"
    else:
        state, reason = "waiting", waiting_reason
    return Member(
        **_fields(row, "name", "uid"),
        state=state,
        machine=machine,
        reason=reason,
        how=row["how"] or None,
    )


def ended_group(namesakes: Namesakes, row: Row, events: StoredEvents) -> GroupDetails:
    """A row of group_ended with its events."""
    # Groups that ended before 2026-11-19 do not say it of each member.
    hows = row["hows"] or [""] * len(row["pods"])
    members = zip(row["pods"], row["machines"], hows, strict=True)
    return GroupDetails(
        **_details(namesakes, row, events),
        position=None,
        state="finished",
        ended=to_datetime(row["ended_seconds"]),
        how=row["how"],
        present=0,
        promised=False,
        expected_start=None,
        witness=(),
        members=tuple(
            Member(
                name=pod,
                uid=None,
                state="ended",
                machine=machine or None,
                reason="",
                how=how or None,
            )
            for pod, machine, how in members
        ),
    )
