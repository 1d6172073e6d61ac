"""Rows of sql/inspection.sql as the values that people are shown."""

import time
from collections.abc import Mapping, Sequence
from typing import Any, cast

from afflux.cycle.inspection import (
    Finished,
    GroupDetails,
    GroupEvent,
    GroupMeta,
    Member,
    MemberState,
    QueueLine,
    Reservation,
    Witness,
    at,
    maybe_at,
)

Row = Mapping[str, Any]


def queue_line(row: Row) -> QueueLine:
    """A row of queue_lines."""
    return QueueLine(
        namespace=row["namespace"],
        name=row["name"],
        queue=row["queue"],
        position=row["position"],
        size=row["size"],
        present=row["present"],
        priority=row["priority"],
        state=row["state"],
        waiting_since=at(row["since_seconds"]),
        run_seconds=row["run_seconds"],
        promised=row["promised"],
        expected_start=maybe_at(row["start_seconds"]),
        reason=row["reason"],
    )


def reservation(row: Row) -> Reservation:
    """A row of reservation_lines."""
    start, run = row["start_seconds"], row["run_seconds"]
    return Reservation(
        namespace=row["namespace"],
        name=row["name"],
        queue=row["queue"],
        size=row["size"],
        priority=row["priority"],
        start=maybe_at(start),
        end=None if start is None or run is None else at(start + run),
        witness=tuple(
            Witness(member=member, machine=machine)
            for member, machine in zip(row["members"], row["machines"], strict=True)
        ),
    )


def finished(row: Row) -> Finished:
    """A row of history_lines."""
    return Finished(
        namespace=row["namespace"],
        name=row["name"],
        queue=row["queue"],
        size=row["size"],
        priority=row["priority"],
        created=at(row["created_seconds"]),
        ready=maybe_at(row["ready_seconds"]),
        started=maybe_at(row["started_seconds"]),
        ended=at(row["ended_seconds"]),
        how=row["how"],
        machine_count=row["machine_count"],
        machines=tuple(row["machines"]),
    )


def _events(rows: Sequence[Row]) -> tuple[GroupEvent, ...]:
    """The latest were asked for; the oldest of them comes first."""
    return tuple(
        GroupEvent(time=row["at"], kind=row["kind"], message=row["message"])
        for row in reversed(rows)
    )


def present(
    whose: tuple[str, str],
    row: Row,
    members: Sequence[Row],
    witness: Sequence[Row],
    happened: tuple[Sequence[Row], int],
) -> GroupDetails:
    """A row of group_present with what belongs to it; of what happened the latest, and how much."""
    namespace, name = whose
    events, event_count = happened
    return GroupDetails(
        metadata=GroupMeta(time=at(time.time()), members=row["member_count"], events=event_count),
        namespace=namespace,
        name=name,
        queue=row["queue"],
        position=row["position"],
        size=row["size"],
        priority=row["priority"],
        state=row["state"],
        reason=row["reason"],
        created=at(row["created_seconds"]),
        ready=maybe_at(row["ready_seconds"]),
        started=maybe_at(row["started_seconds"]),
        until=maybe_at(row["until_seconds"]),
        ended=None,
        how=None,
        run_seconds=row["run_seconds"],
        promised=row["promised"],
        expected_start=maybe_at(row["start_seconds"]),
        witness=tuple(Witness(member=each["member"], machine=each["machine"]) for each in witness),
        members=tuple(_member(each, row["reason"]) for each in members),
        events=_events(events),
    )


def _member(row: Row, why_waiting: str) -> Member:
    """A pod that is bound is there, whatever is still open about it."""
    if row["machine"]:
        state, machine, reason = "bound", row["machine"], ""
    elif row["sent_to"]:
        reason = row["doubt"] or ""
        state, machine = "unknown" if reason else "binding", row["sent_to"]
    else:
        state, machine, reason = "waiting", None, why_waiting
    return Member(
        name=row["name"],
        uid=row["uid"],
        state=cast("MemberState", state),
        machine=machine,
        reason=reason,
    )


def past(whose: tuple[str, str], row: Row, happened: tuple[Sequence[Row], int]) -> GroupDetails:
    """A row of group_past with what happened to it."""
    namespace, name = whose
    events, event_count = happened
    members = zip(row["pods"], row["machines"], strict=True)
    return GroupDetails(
        metadata=GroupMeta(time=at(time.time()), members=row["member_count"], events=event_count),
        namespace=namespace,
        name=name,
        queue=row["queue"],
        position=None,
        size=row["size"],
        priority=row["priority"],
        state="finished",
        reason=row["reason"],
        created=at(row["created_seconds"]),
        ready=maybe_at(row["ready_seconds"]),
        started=maybe_at(row["started_seconds"]),
        until=maybe_at(row["until_seconds"]),
        ended=at(row["ended_seconds"]),
        how=row["how"],
        run_seconds=row["run_seconds"],
        promised=False,
        expected_start=None,
        witness=(),
        members=tuple(
            Member(name=pod, uid=None, state="ended", machine=machine or None, reason="")
            for pod, machine in members
        ),
        events=_events(events),
    )
