"""Entries of the ledger: groups, pods, bind intents, events, and the batch that a cycle writes.

Plain values between the adapter that watches a cluster and the one that stores the ledger. Not
here: how they are stored, and when.
"""

from dataclasses import dataclass
from typing import Literal

import msgspec

from afflux.cycle.group_states import GroupState
from afflux.model.group import DEFAULT_QUEUE
from afflux.model.reservation import Reservation

EndReason = Literal["finished", "deleted", "deadline"]
BindOutcome = Literal["bound", "failed", "unknown"]


class MemberEntry(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A pod of a group: its uid, its namespace/name, and the `machine` to which it is bound.

    `sent_to` is a bind intent: the machine to which the pod is about to be bound. It is cleared
    when the outcome of the bind is known. If the outcome stays unknown, `doubt` says why, and the
    pod still counts on that machine.

    There is one for every pod: a struct is made and compared ten times as fast as a dataclass, and
    the garbage collector does not track it.
    """

    uid: str
    name: str
    machine: str = ""
    sent_to: str = ""
    doubt: str = ""


class GroupEntry(msgspec.Struct, frozen=True):
    """The current state of a group; `name` is namespace/name. Times are Unix seconds.

    Within its queue a group is ordered by priority, then by `ready_seconds`: the time at which it
    first had all its members, None before. `until_seconds` is the deadline of a running group,
    None without one. `members` are all its pods, also those that ran and have ended.
    """

    name: str
    queue: str = DEFAULT_QUEUE
    size: int = 1
    priority: int = 0
    ready_seconds: float | None = None
    run_seconds: float | None = None
    state: GroupState = "waiting"
    reason: str = ""
    created_seconds: float = 0.0
    members: tuple[MemberEntry, ...] = ()
    started_seconds: float | None = None
    until_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class EndedGroup:
    """A group that has left the cluster: its last entry, how and when it ended."""

    entry: GroupEntry
    how: EndReason
    ended_seconds: float


@dataclass(frozen=True, slots=True)
class BindIntent:
    """A pod, by uid and namespace/name, that the leader of this epoch was about to bind."""

    uid: str
    pod: str
    group: str
    machine: str
    epoch: int


@dataclass(frozen=True, slots=True)
class EventEntry:
    """An event in the history of a group."""

    group: str
    kind: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class LedgerBatch:
    """Everything that one transaction writes, in the order in which it is applied.

    Groups that ended; groups that changed, with bind intents and the outcomes of binds; all current
    reservations, None if they have not changed; events.
    """

    ended: tuple[EndedGroup, ...] = ()
    groups: tuple[GroupEntry, ...] = ()
    reservations: tuple[Reservation, ...] | None = None
    events: tuple[EventEntry, ...] = ()

    def is_empty(self) -> bool:
        return self == _NOTHING


_NOTHING = LedgerBatch()


def merged(earlier: LedgerBatch, later: LedgerBatch) -> LedgerBatch:
    """One batch with the same effect on the ledger as the two in this order."""
    ended = {each.entry.name for each in later.ended}
    groups = {entry.name: entry for entry in earlier.groups if entry.name not in ended}
    groups.update({entry.name: entry for entry in later.groups})
    reservations = later.reservations
    if reservations is None and earlier.reservations is not None:
        reservations = tuple(each for each in earlier.reservations if each.group not in ended)
    return LedgerBatch(
        ended=earlier.ended + later.ended,
        groups=tuple(groups.values()),
        reservations=reservations,
        events=earlier.events + later.events,
    )


@dataclass(frozen=True, slots=True)
class RecoveredLedger:
    """What a new leader reads: all groups in queue order, reservations, bind intents.

    The new leader writes under `epoch`.
    """

    epoch: int
    groups: tuple[GroupEntry, ...] = ()
    reservations: tuple[Reservation, ...] = ()
    intents: tuple[BindIntent, ...] = ()
