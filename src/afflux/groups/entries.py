"""Entries of the ledger: groups, their members, events. Plain values; times are Unix seconds."""

from dataclasses import dataclass
from typing import Literal

import msgspec

from afflux.groups.group_id import GroupId, GroupKey
from afflux.groups.states import EndReason, GroupState
from afflux.model.waiting_group import DEFAULT_QUEUE


class MemberEntry(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A task of a group: its uid, its namespace/name, and the `machine` to which it is bound.

    `sent_to` is a bind intent: the machine to which the task is about to be bound. It is cleared
    when the outcome of the bind is known. If the outcome stays unknown, `doubt` says why, and the
    task still counts on that machine. `how` is how it ended, empty while it has not. A member
    that starts alone has a place in the queue of its own, `ready_seconds`.

    There is one for every task: a struct is made and compared ten times as fast as a dataclass, and
    the garbage collector does not track it.
    """

    uid: str
    name: str
    machine: str = ""
    sent_to: str = ""
    doubt: str = ""
    how: EndReason | Literal[""] = ""
    ready_seconds: float | None = None


class GroupEntry(msgspec.Struct, frozen=True):
    """The current state of a group, without its members.

    Within its queue a group is ordered by priority, then by `ready_seconds`: the time at which it
    had all the members it needs, None before. `peak_bound` is the largest number of members that
    were bound at a time; with `may_have_been_whole` there may have been more, when nothing was
    written. `until_seconds` is the deadline of a running group, None without one.
    `waiting` of its members have no machine. Those of a running group are late: the oldest was
    created at `late_since_seconds`, None without one. So many members that ran and ended long ago
    are `unlisted`: they are counted only.
    """

    id: GroupId
    queue: str = DEFAULT_QUEUE
    size: int = 1
    priority: int = 0
    ready_seconds: float | None = None
    run_seconds: float | None = None
    state: GroupState = "waiting"
    reason: str = ""
    created_seconds: float = 0.0
    started_seconds: float | None = None
    until_seconds: float | None = None
    peak_bound: int = 0
    may_have_been_whole: bool = False
    waiting: int = 0
    late_since_seconds: float | None = None
    unlisted: int = 0


@dataclass(frozen=True, slots=True)
class GroupChange:
    """A group as it is now, its members that have changed, and the uids of those without a part in
    it any more: tasks that ended before they ran."""

    entry: GroupEntry
    members: tuple[MemberEntry, ...] = ()
    dropped: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RecordedGroup:
    """A group as the ledger has it, with all its members."""

    entry: GroupEntry
    members: tuple[MemberEntry, ...] = ()


@dataclass(frozen=True, slots=True)
class EndedGroup:
    """A group that has left the cluster: its last entry, its members that ran, how and when it
    ended."""

    entry: GroupEntry
    members: tuple[MemberEntry, ...]
    how: EndReason
    ended_seconds: float


@dataclass(frozen=True, slots=True)
class EventEntry:
    """An event in the history of a group."""

    group: GroupKey
    kind: str
    message: str = ""
