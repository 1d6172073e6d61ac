"""What people and programs are shown of groups: the queue, one group, reservations, history.

These values have one written form, which the service sends, the command prints with `-o json` and
docs/inspection.md lists. It is a promise to those who read it: fields are added, never renamed.
All of them are always there, null where nothing is known. Not here: where the answers come from,
nor who may see them.
"""

from datetime import UTC, datetime
from typing import Literal, Protocol

import msgspec

from afflux.cycle.phases import NOT_RUNNING, Phase

API_GROUP = "inspect.afflux.dev"
VERSION = "v1alpha1"
API_VERSION = f"{API_GROUP}/{VERSION}"
# Where the service has its pages, and what one may be allowed to get and to list there.
ROOT = f"/apis/{API_VERSION}"
RESOURCE = "groups"

# Lines of one answer: those that are not asked for by number, and the most that can be.
USUAL_LINES = 500
MOST_LINES = 1_000
# Machines in one line of a list.
MOST_MACHINES = 100
# Of one group. No more members than that may be in it, unless its queue says otherwise.
MOST_MEMBERS = 10_000
MOST_EVENTS = 200

MemberState = Literal["waiting", "binding", "unknown", "bound", "ended"]


class InspectionError(Exception):
    """What was asked cannot be answered; the message says why, in words for people."""


class _Written(msgspec.Struct, frozen=True, rename="camel"):
    """A value with a written form: names in camel case, times in UTC."""


class QueueLine(_Written, frozen=True, kw_only=True):
    """A group that has not ended.

    `position` counts from 1 within its queue; only those in the queue have one. `present` is how
    many of its `size` members exist. `waiting_since` is when it was ready, before that when its
    first member came. `promised` says whether the strategy holds a start for it; if it does and
    `expected_start` is null, nobody can know: it waits for work without end.
    """

    namespace: str
    name: str
    queue: str
    position: int | None
    size: int
    present: int
    priority: int
    state: Phase
    waiting_since: datetime
    run_seconds: float | None
    promised: bool
    expected_start: datetime | None
    reason: str


class Witness(_Written, frozen=True, kw_only=True):
    """A machine on which there is room for this member at the promised time."""

    member: str
    machine: str


class Reservation(_Written, frozen=True, kw_only=True):
    """A promise: the group starts at `start` at the latest, null if nobody can know, and is over
    at `end`, null without end. `witness` has a machine for every member, or for the first hundred
    of them."""

    namespace: str
    name: str
    queue: str
    size: int
    priority: int
    start: datetime | None
    end: datetime | None
    witness: tuple[Witness, ...]


class Finished(_Written, frozen=True, kw_only=True):
    """A group that has ended, and how: finished, deleted, deadline. One that never started has no
    `started`, and was on no machine. `machines` are the first hundred of `machine_count`."""

    namespace: str
    name: str
    queue: str
    size: int
    priority: int
    created: datetime
    ready: datetime | None
    started: datetime | None
    ended: datetime
    how: str
    machine_count: int
    machines: tuple[str, ...]


class Member(_Written, frozen=True, kw_only=True):
    """A pod of a group: where it is or was, or why it waits. Binding: it is being sent to its
    machine; unknown: whether it arrived there is being found out."""

    name: str
    uid: str | None
    state: MemberState
    machine: str | None
    reason: str


class GroupEvent(_Written, frozen=True, kw_only=True):
    """Something that happened to a group."""

    time: datetime
    kind: str
    message: str


class ListMeta(_Written, frozen=True, kw_only=True):
    """As of when; how to get the next lines, empty at the end of the list; how many there are, null
    if nobody has counted them."""

    time: datetime
    resume: str = msgspec.field(name="continue", default="")
    remaining_item_count: int | None = 0


class QueueList(_Written, frozen=True, kw_only=True, tag_field="kind", tag="QueueList"):
    """Groups that have not ended, by queue and position."""

    api_version: str = API_VERSION
    metadata: ListMeta
    items: tuple[QueueLine, ...]


class ReservationList(_Written, frozen=True, kw_only=True, tag_field="kind", tag="ReservationList"):
    """Promises, the earliest first."""

    api_version: str = API_VERSION
    metadata: ListMeta
    items: tuple[Reservation, ...]


class HistoryList(_Written, frozen=True, kw_only=True, tag_field="kind", tag="HistoryList"):
    """Groups that have ended, the latest first."""

    api_version: str = API_VERSION
    metadata: ListMeta
    items: tuple[Finished, ...]


class GroupMeta(_Written, frozen=True, kw_only=True):
    """As of when, and how many members and events there are, whether they are shown or not."""

    time: datetime
    members: int
    events: int


class GroupDetails(_Written, frozen=True, kw_only=True, tag_field="kind", tag="GroupDetails"):
    """Everything about one group; of several that had this name, the one that is there, or else
    the one that ended last. `until` is when a running group has to be over."""

    api_version: str = API_VERSION
    metadata: GroupMeta
    namespace: str
    name: str
    queue: str
    position: int | None
    size: int
    priority: int
    state: Phase
    reason: str
    created: datetime
    ready: datetime | None
    started: datetime | None
    until: datetime | None
    ended: datetime | None
    how: str | None
    run_seconds: float | None
    promised: bool
    expected_start: datetime | None
    witness: tuple[Witness, ...]
    members: tuple[Member, ...]
    events: tuple[GroupEvent, ...]


Listed = QueueList | ReservationList | HistoryList
Answer = Listed | GroupDetails


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """Which lines of a list: of one namespace, or of all if it is None; of one queue, or of all if
    it is empty; of groups in these states. `resume` is where the page before ended."""

    namespace: str | None
    queue: str = ""
    states: tuple[Phase, ...] = NOT_RUNNING
    limit: int = USUAL_LINES
    resume: str = ""


class Inspection(Protocol):
    """Somebody who can be asked: the ledger itself, or the service that reads it for others.

    Every method may raise an InspectionError, and an InputError about what was asked.
    """

    async def queue(self, asked: Asked) -> QueueList:
        """Who waits."""
        ...

    async def group(self, namespace: str, name: str) -> GroupDetails | None:
        """One group, if there is or was one of this name."""
        ...

    async def reservations(self, asked: Asked) -> ReservationList:
        """Who was promised what."""
        ...

    async def history(self, asked: Asked) -> HistoryList:
        """Who has ended."""
        ...


# What is expected to last for thousands of years has no date; the last one there is will do.
_LAST_SECONDS = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp()


def at(seconds: float) -> datetime:
    """Unix seconds as they are written."""
    return datetime.fromtimestamp(min(seconds, _LAST_SECONDS), UTC)


def maybe_at(seconds: float | None) -> datetime | None:
    """The same, where nothing may be known."""
    return None if seconds is None else at(seconds)
