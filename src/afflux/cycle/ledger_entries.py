"""What a cycle writes to the ledger, and what a new leader reads from it.

Plain values between the adapter that watches a cluster and the one that stores the ledger. The
entries of groups are in `groups.entries`. Not here: how they are stored, and when.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from afflux.groups.entries import EndedGroup, EventEntry, GroupChange, RecordedGroup
from afflux.groups.group_id import GroupKey
from afflux.model.reservation import Reservation


@dataclass(frozen=True, slots=True)
class ReservationEntry:
    """A reservation, and the group of what it is for: that of a late member is the group which it
    joins."""

    group: GroupKey
    reservation: Reservation


@dataclass(frozen=True, slots=True)
class BindIntent:
    """A pod, by uid and namespace/name, that the leader of this epoch was about to bind."""

    uid: str
    pod: str
    group: GroupKey
    machine: str
    epoch: int


@dataclass(frozen=True, slots=True)
class LedgerBatch:
    """Everything that one transaction writes, in the order in which it is applied.

    Groups that ended; groups that changed, with bind intents and the outcomes of binds; all current
    reservations, None if they have not changed; events.
    """

    ended: tuple[EndedGroup, ...] = ()
    groups: tuple[GroupChange, ...] = ()
    reservations: tuple[ReservationEntry, ...] | None = None
    events: tuple[EventEntry, ...] = ()

    def is_empty(self) -> bool:
        return self == _NOTHING


_NOTHING = LedgerBatch()


def merged(earlier: LedgerBatch, later: LedgerBatch) -> LedgerBatch:
    """One batch with the same effect on the ledger as the two in this order."""
    ended = {each.entry.id.key for each in later.ended}
    reservations = later.reservations
    if reservations is None and earlier.reservations is not None:
        reservations = tuple(each for each in earlier.reservations if each.group not in ended)
    still_there = [each for each in earlier.groups if each.entry.id.key not in ended]
    return LedgerBatch(
        ended=earlier.ended + later.ended,
        groups=merged_changes([*still_there, *later.groups]),
        reservations=reservations,
        events=earlier.events + later.events,
    )


def merged_changes(changes: Iterable[GroupChange]) -> tuple[GroupChange, ...]:
    """The same changes, in this order, with one for each group."""
    found: dict[GroupKey, GroupChange] = {}
    for later in changes:
        key = later.entry.id.key
        earlier = found.get(key)
        found[key] = later if earlier is None else _merged_change(earlier, later)
    return tuple(found.values())


def _merged_change(earlier: GroupChange, later: GroupChange) -> GroupChange:
    members = {member.uid: member for member in earlier.members}
    for uid in later.dropped:
        members.pop(uid, None)
    members.update((member.uid, member) for member in later.members)
    dropped = dict.fromkeys(earlier.dropped + later.dropped)
    return GroupChange(later.entry, tuple(members.values()), tuple(dropped))


@dataclass(frozen=True, slots=True)
class RecoveredLedger:
    """What a new leader reads: all groups in queue order, reservations, bind intents.

    The new leader writes under `epoch`.
    """

    epoch: int
    groups: tuple[RecordedGroup, ...] = ()
    reservations: tuple[ReservationEntry, ...] = ()
    intents: tuple[BindIntent, ...] = ()
