"""The adapter: what connects the cycle to a cluster. A new cluster manager implements this.

An adapter reports what happens in the cluster, reserves what the cluster must agree to before a
task can start, carries out orders, and says where a task is. It keeps no order and no decisions:
these are the cycle's. Everything here is about tasks, machines and groups of the model.

One pass, by the control loop (control/loop.py) or by a dry run:

    reports = adapter.drain(now)                         events for the cycle, held tasks
    outcome = cycle.run(reports.events, now, reports.unconfirmed)
    adapter.assume(outcome)                              the placements count on their machines
    placements = await adapter.reserve(outcome)          volumes; the others are reported again
    adapter.place(placements, outcome.rests_on)          orders; their results are reports
    adapter.evict(outcome.evictions, outcome.nominations)

A dry run (dry_run.py) repeats the pass until `drain` has no events any more and the cycle places
nothing. It needs only an `Adapter`, and no event loop, because the `reserve` of that adapter never
suspends. `place` records the placements as done, and the next `drain` reports what follows from
them (a volume is taken, a queue has room).

The register (groups/register.py) is told by the adapter

    set, ended                         that a task exists, has changed, has ended
    confirm_restored                   in `drain`, before the first of these, which of the tasks
                                       that a ledger knew exist; reported ends come before it
    take_starts, take_held_back        in `drain`: what may start, and what is held
    sent                               in `assume`
    bound, not_bound, doubtful         the results of orders

The control loop needs a `LiveAdapter`. What it tells people goes through `Notices`; an
`OrderListener` is told when orders end.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from afflux.cycle.event_intake import ResyncRequest
from afflux.cycle.events import Event
from afflux.cycle.loop import Outcome
from afflux.groups.register import GroupRegister
from afflux.model.eviction import Eviction
from afflux.model.placement import Placement
from afflux.model.task import Task

# Why a task cannot be considered. incomplete: its group lacks members. refused: what it declares
# about its group is wrong, or its queue is full. gated: it has to be released first. order: the
# last order to start it was refused; it is tried again later. task: all else about the task itself.
HoldKind = Literal["incomplete", "refused", "gated", "order", "task"]

RestsOn = Mapping[str, tuple[str, ...]]
"""By task id, the ids of the tasks that have to be placed before."""


@dataclass(frozen=True, slots=True)
class HeldTask:
    """A task that waits and cannot be considered for placement, and why."""

    task: Task
    why: str
    kind: HoldKind = "task"


@dataclass(frozen=True, slots=True)
class Reports:
    """What has happened since the last reports.

    `held` are the tasks that were found to be held since then. `unconfirmed` are the ids of the
    tasks whose placement may still fail. `machines` is how many machines there are, for sentences.
    """

    events: Sequence[Event] = ()
    held: Sequence[HeldTask] = ()
    unconfirmed: Collection[str] = frozenset()
    machines: int = 0


@dataclass(frozen=True, slots=True)
class TaskLocation:
    """What the cluster says about a task: whether it exists, and its machine if it has one. A task
    that has ended does not exist."""

    exists: bool
    machine: str | None = None

    @property
    def is_pending(self) -> bool:
        return self.exists and self.machine is None


NOWHERE = TaskLocation(exists=False)


class Adapter(Protocol):
    """Where events come from and where placements go. No method is called during a cycle."""

    @property
    def register(self) -> GroupRegister:
        """The groups of this cluster. The adapter reports members to it, which of them are about to
        be started, and with what result; `drain` returns as events what may start."""
        ...

    def drain(self, now_seconds: float) -> Reports:
        """The reports since the last call. After an error nothing is lost."""
        ...

    def assume(self, outcome: Outcome) -> None:
        """The tasks of this outcome count on their machines from now on, although none has started.
        Either `place` or `give_up` follows for each."""
        ...

    async def reserve(self, outcome: Outcome) -> Sequence[Placement]:
        """Reserve what the cluster must agree to before these tasks can start. Returns the
        placements that can be carried out; the adapter gives up the others, and reports them again.

        The members of a group, and the tasks of a circle, get what they need together or not at
        all.
        """
        ...

    def place(self, placements: Sequence[Placement], rests_on: RestsOn) -> None:
        """Start these tasks on their machines, in this order. Tasks that rest on others start after
        these. A task that could not be started is reported again."""
        ...

    def give_up(self, placements: Sequence[Placement], evictions: Sequence[Eviction] = ()) -> None:
        """These placements and evictions are not carried out; their tasks are reported again at
        once."""
        ...


class TaskLocator(Protocol):
    """Says where tasks are; the cluster is authoritative, not the scheduler."""

    def observed(self, task_id: str, name: str) -> TaskLocation:
        """Where the task is according to the last reports, which may be behind."""
        ...

    async def locate(self, task_id: str, name: str) -> TaskLocation:
        """Ask the cluster where the task is, until there is an answer: of a task that was about to
        be started, it is not known whether it was. From then on `observed` says so too."""
        ...


class LiveAdapter(Adapter, TaskLocator, Protocol):
    """An adapter of a cluster that changes meanwhile, for the control loop."""

    async def synced(self) -> None:
        """Wait until everything that exists in the cluster has been reported once."""
        ...

    async def wait_for_reports(self) -> None:
        """Wait until there is something to drain, or `wake` was called since the last drain."""
        ...

    def wake(self) -> None:
        """Let `wait_for_reports` return although nothing has happened."""
        ...

    def resync(self, requests: Sequence[ResyncRequest], pause_seconds: float) -> None:
        """The cycle has dropped these machines and groups after an error: report them in full, not
        later than after this pause. A machine is never reported without the tasks that run on it.
        """
        ...

    def evict(self, evictions: Sequence[Eviction], nominations: Sequence[Placement]) -> None:
        """End these tasks, with their grace periods; report `EvictionFailed` for those that stay.
        `nominations` are all places that are held for waiting tasks; other schedulers see them."""
        ...

    async def orders_sent(self) -> None:
        """Wait until no order waits to be sent; the answers may still be missing."""
        ...


# waits: why the task waits. refused: why it is held, if its group is refused. unsatisfiable: its
# group can never start. reserved: when its group starts at the latest. violation: it runs and does
# not meet its requirements any more. in doubt: whether it was started is not known.
NoticeKind = Literal["waits", "refused", "unsatisfiable", "reserved", "violation", "in doubt"]


class Notices(Protocol):
    """Tells people about tasks, in the background and at a limited rate. What is told is decided in
    control/announcements.py. A notice about a task that is gone is dropped."""

    def is_waiting(self, task: Task) -> bool:
        """Whether the task exists and has not been started."""
        ...

    def status_of(self, task: Task) -> str:
        """The status text that a waiting task shows, also if an earlier leader wrote it."""
        ...

    def event(self, task: Task, kind: NoticeKind, text: str) -> None:
        """Tell once."""
        ...

    def status(self, task: Task, text: str, *, order_refused: bool) -> None:
        """Replace the status of a waiting task. `order_refused` if it waits only because an order
        to start it was refused, which is no shortage of room."""
        ...

    def started(self, placement: Placement) -> None:
        """The task was started: its status as a waiting task is over."""
        ...


class OrderListener(Protocol):
    """Is called when an order to start a task ends, `seconds` after it was sent."""

    def bound(self, placement: Placement, seconds: float) -> None:
        """The task is on its machine."""

    def not_bound(self, placement: Placement, seconds: float) -> None:
        """The order was refused."""

    def in_doubt(self, placement: Placement, why: str) -> None:
        """It is unknown, for a long time, whether the task is on its machine."""
