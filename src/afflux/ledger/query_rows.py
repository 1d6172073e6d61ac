"""Rows of sql/inspection.sql as values of the inspection API."""

import time
from collections.abc import Mapping, Sequence
from typing import Any, cast

from afflux.cycle.inspection_types import (
    GroupDetails,
    GroupEvent,
    GroupMeta,
    HistoryLine,
    Member,
    MemberState,
    QueueLine,
    ReservationLine,
    Witness,
    to_datetime,
    to_optional_datetime,
)

Row = Mapping[str, Any]


_LINE = ("namespace", "name", "queue", "size", "priority")


def _fields(row: Row, *names: str) -> dict[str, Any]:
    """The fields that have the name and the value of their column."""
    return {name: row[name] for name in names}


def queue_line(row: Row) -> QueueLine:
    """A row of queue_lines."""
    return QueueLine(
        **_fields(row, *_LINE, "position", "present", "state", "run_seconds", "promised", "reason"),
        waiting_since=to_datetime(row["since_seconds"]),
        expected_start=to_optional_datetime(row["start_seconds"]),
    )


def reservation(row: Row) -> ReservationLine:
    """A row of reservation_lines."""
    start, run = row["start_seconds"], row["run_seconds"]
    return ReservationLine(
        **_fields(row, *_LINE),
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
        created=to_datetime(row["created_seconds"]),
        ready=to_optional_datetime(row["ready_seconds"]),
        started=to_optional_datetime(row["started_seconds"]),
        ended=to_datetime(row["ended_seconds"]),
        machines=tuple(row["machines"]),
    )


def _details(
    key: tuple[str, str], row: Row, latest_events: tuple[Sequence[Row], int]
) -> dict[str, Any]:
    """The details that present and ended groups have in common. Events are read newest first."""
    namespace, name = key
    events, event_count = latest_events
    now = to_datetime(time.time())
    return _fields(row, "queue", "size", "priority", "reason", "run_seconds") | {
        "metadata": GroupMeta(time=now, members=row["member_count"], events=event_count),
        "namespace": namespace,
        "name": name,
        "created": to_datetime(row["created_seconds"]),
        "ready": to_optional_datetime(row["ready_seconds"]),
        "started": to_optional_datetime(row["started_seconds"]),
        "until": to_optional_datetime(row["until_seconds"]),
        "events": tuple(
            GroupEvent(time=each["at"], kind=each["kind"], message=each["message"])
            for each in reversed(events)
        ),
    }


def present_group(
    key: tuple[str, str],
    row: Row,
    members: Sequence[Row],
    witness: Sequence[Row],
    latest_events: tuple[Sequence[Row], int],
) -> GroupDetails:
    """A row of group_present with its members, witness, latest events and the number of events."""
    return GroupDetails(
        **_details(key, row, latest_events),
        **_fields(row, "position", "state", "promised"),
        ended=None,
        how=None,
        expected_start=to_optional_datetime(row["start_seconds"]),
        witness=tuple(Witness(member=each["member"], machine=each["machine"]) for each in witness),
        members=tuple(_member(each, row["reason"]) for each in members),
    )


def _member(row: Row, waiting_reason: str) -> Member:
    if row["machine"]:
        state, machine, reason = "bound", row["machine"], ""
    elif row["sent_to"]:
        reason = row["doubt"] or ""
        state, machine = "unknown" if reason else "binding", row["sent_to"]
    else:
        state, machine, reason = "waiting", None, waiting_reason
    state = cast("MemberState", state)
    return Member(**_fields(row, "name", "uid"), state=state, machine=machine, reason=reason)


def ended_group(
    key: tuple[str, str], row: Row, latest_events: tuple[Sequence[Row], int]
) -> GroupDetails:
    """A row of group_ended with its latest events and the number of events."""
    members = zip(row["pods"], row["machines"], strict=True)
    return GroupDetails(
        **_details(key, row, latest_events),
        position=None,
        state="finished",
        ended=to_datetime(row["ended_seconds"]),
        how=row["how"],
        promised=False,
        expected_start=None,
        witness=(),
        members=tuple(
            Member(name=pod, uid=None, state="ended", machine=machine or None, reason="")
            for pod, machine in members
        ),
    )
