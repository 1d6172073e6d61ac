"""What a ledger keeps of groups, and one turn: everything that one cycle has to say to it.

Plain values between the doors: whoever watches a cluster writes turns, whoever keeps a ledger
stores them, and neither knows the other. Not here: how they are stored, nor when.
"""

from dataclasses import dataclass
from typing import Literal

import msgspec

from afflux.model.group import DEFAULT_QUEUE
from afflux.model.promise import Promise

# provisional: some of its pods are missing. refused: what its pods say of it cannot be true.
# waiting: in the queue. unsatisfiable: too, but it would not fit on the empty cluster.
# starting: decided, and being bound. running: bound. finished: gone, and its name is free.
State = Literal[
    "provisional", "refused", "waiting", "unsatisfiable", "starting", "running", "finished"
]
Ending = Literal["finished", "deleted", "deadline"]
Verdict = Literal["bound", "failed", "unknown"]


class MemberEntry(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A pod of a group: its uid and its namespace/name; `machine` is where it is bound, if it is.

    `sent_to` is an intent: where it is about to be bound, empty as soon as it is known what became
    of that. As long as nobody knows, `doubt` says why, and the pod keeps its place.

    There are as many of these as pods: a struct is made and compared ten times as fast as a
    dataclass, and the garbage collector need not look at it.
    """

    uid: str
    name: str
    machine: str = ""
    sent_to: str = ""
    doubt: str = ""


class GroupEntry(msgspec.Struct, frozen=True):
    """A group as it stands; `name` is namespace/name. Times are Unix seconds.

    Within its queue a group's position is its priority, then `ready_seconds`: when it first had
    all its members, None if it never had. `until_seconds` is when a running group has to be over,
    None without end. `members` are all its pods, those included that have ended after they ran.
    """

    name: str
    queue: str = DEFAULT_QUEUE
    size: int = 1
    priority: int = 0
    ready_seconds: float | None = None
    run_seconds: float | None = None
    state: State = "waiting"
    reason: str = ""
    created_seconds: float = 0.0
    members: tuple[MemberEntry, ...] = ()
    started_seconds: float | None = None
    until_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class GoneGroup:
    """A group that has left: all that is known of it, how it ended, and when."""

    entry: GroupEntry
    how: Ending
    ended_seconds: float


@dataclass(frozen=True, slots=True)
class Intent:
    """A pod, by uid and namespace/name, that was about to be bound by the leader of this epoch."""

    uid: str
    pod: str
    group: str
    machine: str
    epoch: int


@dataclass(frozen=True, slots=True)
class EventEntry:
    """Something worth telling about a group."""

    group: str
    kind: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class Turn:
    """Everything of one transaction, in the order in which it is applied.

    Who has left; who is there as it stands now, with what is about to be bound and what became of
    the last binds; all promises that hold now, None if they are as they were.
    """

    gone: tuple[GoneGroup, ...] = ()
    groups: tuple[GroupEntry, ...] = ()
    promises: tuple[Promise, ...] | None = None
    events: tuple[EventEntry, ...] = ()

    def is_empty(self) -> bool:
        """Whether there is nothing to write."""
        return self == _NOTHING


_NOTHING = Turn()


def merged(earlier: Turn, later: Turn) -> Turn:
    """One turn that leaves a ledger as the two after one another would."""
    gone = {each.entry.name for each in later.gone}
    groups = {entry.name: entry for entry in earlier.groups if entry.name not in gone}
    groups.update({entry.name: entry for entry in later.groups})
    promises = later.promises
    if promises is None and earlier.promises is not None:
        promises = tuple(each for each in earlier.promises if each.group not in gone)
    return Turn(
        gone=earlier.gone + later.gone,
        groups=tuple(groups.values()),
        promises=promises,
        events=earlier.events + later.events,
    )


@dataclass(frozen=True, slots=True)
class Recovered:
    """What a new leader finds: all groups that are there, in queue order, promises, open intents.

    `epoch` is the one under which it writes from now on.
    """

    epoch: int
    groups: tuple[GroupEntry, ...] = ()
    promises: tuple[Promise, ...] = ()
    intents: tuple[Intent, ...] = ()
