"""Announcements: what people are told about waiting tasks, when, and the metrics of these tasks.

A started task is told at once. The reason why a task waits is told, as an event and as its status,
when its text has changed. Tasks whose group is refused, groups that can never start, and groups
with a reserved start have events of their own. The adapter's `Notices` write them, at a limited
rate.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from types import MappingProxyType

from afflux.control.adapter import HeldTask, HoldKind, NoticeKind, Notices
from afflux.control.start_announcements import StartAnnouncements, start_text_in
from afflux.model import reason
from afflux.model.placement import Placement
from afflux.model.reservation import Reservation
from afflux.model.task import Task
from afflux.model.waiting_group import WaitingGroup
from afflux.web.scheduler_metrics import Metrics, PendingQueue, Started

# Waiting tasks are counted at most once per interval, and for at most this share of the time.
MIN_COUNT_INTERVAL_SECONDS = 1.0
MAX_COUNTING_SHARE = 0.02

NO_GROUPS: Mapping[str, str] = MappingProxyType({})

# In which queue kube-scheduler's metric would count a held task.
_QUEUE_OF_HOLD: Mapping[HoldKind, PendingQueue] = MappingProxyType(
    {
        "gated": "gated",
        "order": "backoff",
        "refused": "unschedulable",
        "task": "unschedulable",
        "incomplete": "incomplete",
    }
)


@dataclass(slots=True)
class _Wait:
    """A waiting task: since when it waits, why it is held if it is, and what was told last."""

    task: Task
    ready_at: float
    ready_round: int
    attempts: int = 1
    hold: HoldKind | None = None
    why: str = ""
    kind: NoticeKind = "waits"
    # The last announced start, and why the group can never start.
    start: str = ""
    unsatisfiable: str = ""


class Announcements:
    """Decides what is told about tasks; called by the control loop and by the adapter.

    `waiting_group` returns the waiting group of a key, None if there is none.
    """

    def __init__(
        self,
        notices: Notices,
        metrics: Metrics,
        waiting_group: Callable[[str], WaitingGroup | None],
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._notices = notices
        self._waiting_group = waiting_group
        self._metrics = metrics
        self._clock = clock
        self._waits: dict[str, _Wait] = {}
        self._start_announcements = StartAnnouncements()
        self._rounds = 0
        self._count_after_cleanup = 0
        self._cycle_seconds = 0.0
        self._next_count_at = 0.0

    # --- Called by the control loop

    def ready(self, groups: Iterable[WaitingGroup]) -> None:
        """These groups wait to be placed from now on."""
        for group in groups:
            for task in group.tasks:
                self._wait_of(task).hold = None

    def held_back(self, held: Iterable[HeldTask], machines: int) -> None:
        """These tasks cannot be considered for placement on any of so many machines, and why."""
        for each in held:
            wait, why = self._wait_of(each.task), each.why
            wait.hold = each.kind
            match each.kind:
                case "gated":
                    # The component that has to release the task says so.
                    pass
                case "refused":
                    self._announce(wait, why, "refused")
                case "order":
                    # This is about one machine.
                    self._announce(wait, why)
                case "task" | "incomplete":
                    self._announce(wait, reason.all_nodes(machines, why) if machines else why)

    def decided(
        self,
        seconds: float,
        reasons: Mapping[str, str],
        unsatisfiable: Mapping[str, str] = NO_GROUPS,
        reservations: Sequence[Reservation] = (),
        now_seconds: float = 0.0,
    ) -> None:
        """A cycle has ended; `reasons` says why tasks, by id, were not placed.

        `unsatisfiable` says, by key, which groups would not fit on the empty cluster either, and
        why; they are tried again when the cluster has changed, as all groups are.
        `reservations` are all current reservations.
        """
        self._rounds += 1
        self._cycle_seconds = seconds
        never_fit = self._unsatisfiable(unsatisfiable)
        starts = self._start_texts(reservations, now_seconds)
        by_profile: dict[str, int] = {}
        for task_id, why in reasons.items():
            wait = self._waits.get(task_id)
            if wait is not None:
                profile = wait.task.shape.profile
                by_profile[profile] = by_profile.get(profile, 0) + 1
                never, added = never_fit.get(task_id, ("", ""))
                self._announce(wait, why + added, start=starts.get(task_id, ""))
                self._announce_unsatisfiable(wait, never)
        for profile, count in by_profile.items():
            self._metrics.failed("unschedulable", profile, [seconds] * count)
        if len(self._waits) > 2 * self._count_after_cleanup + 1000:
            self._remove_gone_tasks()

    def _unsatisfiable(self, unsatisfiable: Mapping[str, str]) -> dict[str, tuple[str, str]]:
        """For every task of these groups, by id, what is told once, and a suffix for its reason.
        The reason of a single task has no suffix: it is kube-scheduler's text, which tools parse.
        """
        found: dict[str, tuple[str, str]] = {}
        for key, why in unsatisfiable.items():
            group = self._waiting_group(key)
            if group is not None:
                never = f"group {group.name}: {why}"
                added = f" Unsatisfiable: {why}." if group.is_gang else ""
                found.update({task.id: (never, added) for task in group.tasks})
        return found

    def _start_texts(
        self, reservations: Sequence[Reservation], now_seconds: float
    ) -> dict[str, str | None]:
        """The start text of every task, by id, whose group has a reservation. None if the
        announcement has to wait."""

        def tasks_of(name: str) -> int:
            group = self._waiting_group(name)
            return 0 if group is None else len(group.tasks)

        found: dict[str, str | None] = {}
        texts = self._start_announcements.announce(reservations, tasks_of, now_seconds)
        for name, text in texts.items():
            group = self._waiting_group(name)
            if group is not None:
                found.update({task.id: text for task in group.tasks})
        return found

    def placed(self, placements: Iterable[Placement]) -> None:
        for placement in placements:
            wait = self._waits.get(placement.task.id)
            if wait is not None:
                wait.attempts = self._rounds - wait.ready_round + 1

    def count_pending(self) -> None:
        """Update the metrics of pending pods. Metrics may be scraped at any rate, so counting takes
        at most a small share of the time."""
        began = self._clock()
        if began < self._next_count_at:
            return
        counts: Counter[PendingQueue] = Counter()
        for wait in self._waits.values():
            if self._notices.is_waiting(wait.task):
                counts[_queue_of(wait)] += 1
        self._metrics.pending(counts)
        pause = max(MIN_COUNT_INTERVAL_SECONDS, (self._clock() - began) / MAX_COUNTING_SHARE)
        self._next_count_at = self._clock() + pause

    def _wait_of(self, task: Task) -> _Wait:
        wait = self._waits.get(task.id)
        if wait is None:
            wait = self._waits[task.id] = _Wait(task, self._clock(), self._rounds)
            self._metrics.queued("active", "UnscheduledPodAdd")
        wait.task = task
        return wait

    def _remove_gone_tasks(self) -> None:
        self._waits = {
            task_id: wait
            for task_id, wait in self._waits.items()
            if self._notices.is_waiting(wait.task)
        }
        self._count_after_cleanup = len(self._waits)

    # --- Called by the adapter

    def bound(self, placement: Placement, seconds: float) -> None:
        task = placement.task
        wait = self._waits.pop(task.id, None)
        self._notices.started(placement)
        now = self._clock()
        started = Started(
            attempt_seconds=self._cycle_seconds + seconds,
            attempts=wait.attempts if wait else 1,
            since_ready_seconds=now - wait.ready_at if wait else seconds,
        )
        self._metrics.scheduled(task.shape.profile, [started])

    def not_bound(self, placement: Placement, seconds: float) -> None:
        """The order failed; the reason comes with `held_back` after the next reports."""
        self._metrics.failed("error", placement.task.shape.profile, [self._cycle_seconds + seconds])

    def in_doubt(self, placement: Placement, why: str) -> None:
        if self._notices.is_waiting(placement.task):
            self._notices.event(placement.task, "in doubt", why)

    # --- Telling

    def _announce_unsatisfiable(self, wait: _Wait, why: str) -> None:
        if why and why != wait.unsatisfiable and self._notices.is_waiting(wait.task):
            self._notices.event(wait.task, "unsatisfiable", why)
        wait.unsatisfiable = why

    def _announce(
        self, wait: _Wait, why: str, kind: NoticeKind = "waits", start: str | None = ""
    ) -> None:
        """Tell why a task waits and when it starts; with `start` None its start text stays."""
        if not wait.why:
            # An earlier leader may have announced the start. Removing its text and writing it again
            # would be two writes for every waiting task, all at once.
            wait.start = start_text_in(self._notices.status_of(wait.task))
        if start is None:
            start = wait.start
        is_known = (why, kind) == (wait.why, wait.kind)
        if (is_known and start == wait.start) or not self._notices.is_waiting(wait.task):
            return
        if not is_known:
            self._notices.event(wait.task, kind, why)
        if start and start != wait.start:
            self._notices.event(wait.task, "reserved", start)
        wait.why, wait.kind, wait.start = why, kind, start
        message = f"{why} {start}" if start else why
        self._notices.status(wait.task, message, order_refused=wait.hold == "order")


def _queue_of(wait: _Wait) -> PendingQueue:
    if wait.hold is not None:
        return _QUEUE_OF_HOLD[wait.hold]
    return "unschedulable" if wait.why else "active"
