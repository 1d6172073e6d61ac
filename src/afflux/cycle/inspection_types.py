"""The inspection API: queue, group, reservations and history, as people and programs see them.

The service sends these values as JSON, the command prints the same JSON with `-o json`, and
docs/inspection.md lists it. The form is stable: fields are added, never renamed. Every field is
always present, null where nothing is known. Not here: where the answers come from, and which
users may see them.
"""

import re
from datetime import UTC, datetime
from typing import Literal, Protocol

import msgspec

from afflux.groups.states import GroupState

API_GROUP = "inspect.afflux.dev"
VERSION = "v1alpha1"
API_VERSION = f"{API_GROUP}/{VERSION}"
# The path of the service, and the resource that RBAC rules name.
ROOT = f"/apis/{API_VERSION}"
RESOURCE = "groups"

# Lines of one answer: the default `limit`, and the largest.
DEFAULT_LINES = 500
MAX_LINES = 1_000
# In one line of a list.
MAX_MACHINES = 100
# Of one group. A group may have no more members than that, unless its queue allows more.
MAX_MEMBERS = 10_000
MAX_EVENTS = 200
# A group's name is a pod's, a label's value, or the default name of a pod's group: with the prefix
# fluxnetes-group- and the namespace at most 333 characters.
_NAME = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,331}[A-Za-z0-9])?")

MemberState = Literal["waiting", "binding", "unknown", "bound", "ended"]


def is_name(text: str) -> bool:
    """Whether a group or a queue may have this name; the others are refused in queries."""
    return _NAME.fullmatch(text) is not None


class InspectionError(Exception):
    """The query cannot be answered; the message says why."""


class _Json(msgspec.Struct, frozen=True, rename="camel"):
    """A value with a stable JSON form: names in camel case, times in UTC."""


class QueueLine(_Json, frozen=True, kw_only=True):
    """A group that has not ended.

    `name` is the name of the pod if it names no group, unless a group is there that has this name:
    then it is `full_name`, the default name `fluxnetes-group-NAMESPACE-POD`. Both are the same for
    groups with a name.

    `position` counts from 1 within its queue; null for groups that are not in the queue. `present`
    of its `size` members exist, and `waiting` members have no machine: null if the service is of an
    earlier version. `waiting_since` is when the group had all its members, or before that when its
    first member was created; of a running group, when the oldest of its members that wait was
    created. `promised` says whether the group has a reservation; if
    it has one and `expected_start` is null, it waits for work without a known end.
    """

    namespace: str
    name: str
    queue: str
    position: int | None
    size: int
    present: int
    priority: int
    state: GroupState
    waiting_since: datetime
    run_seconds: float | None
    promised: bool
    expected_start: datetime | None
    reason: str
    full_name: str = ""
    waiting: int | None = None


class Witness(_Json, frozen=True, kw_only=True):
    """A machine that has room for this member at the reserved start."""

    member: str
    machine: str


class ReservationLine(_Json, frozen=True, kw_only=True):
    """A reservation: the group, or a late member of it, starts at `start` at the latest and ends at
    `end`. `start` is null if it cannot be known, `end` is null without an expected end. `starting`
    members have a machine then; null if the service is of an earlier version. `witness` has this
    machine for each of them, or for the first hundred."""

    namespace: str
    name: str
    queue: str
    size: int
    priority: int
    start: datetime | None
    end: datetime | None
    witness: tuple[Witness, ...]
    full_name: str = ""
    starting: int | None = None


class HistoryLine(_Json, frozen=True, kw_only=True):
    """A group that has ended; `how` is succeeded, failed, deadline, deleted or rejected; finished,
    if it ended by itself before 2026-11-19. `started` is null for a group that never started.
    `machines` are the first hundred of `machine_count`."""

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
    full_name: str = ""


class Member(_Json, frozen=True, kw_only=True):
    """A pod of a group: its machine, or why it waits. `binding`: the bind is under way. `unknown`:
    the bind had no clear answer, and its outcome is being confirmed. `how` it ended is one of the
    values of a group's, null if it has not, or if this is not known."""

    name: str
    uid: str | None
    state: MemberState
    machine: str | None
    reason: str
    how: str | None = None


class GroupEvent(_Json, frozen=True, kw_only=True):
    """An event in the life of a group. Created, Ready, Started and Ended are known of every group;
    others say what happened meanwhile."""

    time: datetime
    kind: str
    message: str


class ListMeta(_Json, frozen=True, kw_only=True):
    """The time of the answer; the token of the next page, empty after the last; the number of lines
    that remain, null if they are not counted."""

    time: datetime
    continue_token: str = msgspec.field(name="continue", default="")
    remaining_item_count: int | None = 0


class QueueList(_Json, frozen=True, kw_only=True, tag_field="kind", tag="QueueList"):
    """Groups that have not ended, by queue and position."""

    api_version: str = API_VERSION
    metadata: ListMeta
    items: tuple[QueueLine, ...]


class ReservationList(_Json, frozen=True, kw_only=True, tag_field="kind", tag="ReservationList"):
    """Reservations, the earliest first."""

    api_version: str = API_VERSION
    metadata: ListMeta
    items: tuple[ReservationLine, ...]


class HistoryList(_Json, frozen=True, kw_only=True, tag_field="kind", tag="HistoryList"):
    """Groups that have ended, the latest first."""

    api_version: str = API_VERSION
    metadata: ListMeta
    items: tuple[HistoryLine, ...]


class GroupMeta(_Json, frozen=True, kw_only=True):
    """The time of the answer, and the numbers of members and events, shown or not."""

    time: datetime
    members: int
    events: int


class GroupDetails(_Json, frozen=True, kw_only=True, tag_field="kind", tag="GroupDetails"):
    """Everything about one group. Of several groups with this name it is the present one, or else
    the one that ended last; a group goes before a pod of this name that names no group, whose full
    name is then in `namesake`. `present` of its `size` members exist. `until` is the deadline of a
    running group. `events` are in the order of time."""

    api_version: str = API_VERSION
    metadata: GroupMeta
    namespace: str
    name: str
    queue: str
    position: int | None
    size: int
    priority: int
    state: GroupState
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
    full_name: str = ""
    namesake: str | None = None
    present: int | None = None


GroupList = QueueList | ReservationList | HistoryList
Answer = GroupList | GroupDetails


class ListQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Selects lines of a list: one namespace, None for all; one queue, empty for all; groups in
    these states, empty for groups with members that wait or are being bound. `continue_token` is
    that of the page before."""

    namespace: str | None
    queue: str = ""
    states: tuple[GroupState, ...] = ()
    limit: int = DEFAULT_LINES
    continue_token: str = ""


class Inspection(Protocol):
    """Answers queries: from the ledger itself, or from the inspection service.

    Every method may raise an InspectionError, and an InputError if the query is invalid.
    """

    async def queue(self, query: ListQuery) -> QueueList: ...

    async def group(self, namespace: str, name: str) -> GroupDetails | None:
        """One group, None if the ledger has none of this name."""
        ...

    async def reservations(self, query: ListQuery) -> ReservationList: ...

    async def history(self, query: ListQuery) -> HistoryList: ...


# The last date that `datetime` has; a start or an end after it is shown as this date.
_LAST_SECONDS = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp()


def to_datetime(seconds: float) -> datetime:
    """Unix seconds as a time in UTC."""
    return datetime.fromtimestamp(min(seconds, _LAST_SECONDS), UTC)


def to_optional_datetime(seconds: float | None) -> datetime | None:
    """The same; None stays None."""
    return None if seconds is None else to_datetime(seconds)
