"""Announcements: events and conditions that tell users about their pods, and the pods' metrics.

A bound pod gets its event at once. The reason why a pod waits is written as an event and a
condition when its text has changed; the event recorder and the pod conditions limit the rate. Pods
with wrong group labels (GroupRefused), groups that can never fit (Unsatisfiable) and groups with a
reserved start (StartPromised) have events of their own.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from types import MappingProxyType

from afflux.kube import objects
from afflux.kube.group_claims import claimed_group
from afflux.kube.live.cluster_reader import ClusterReader
from afflux.kube.live.event_recorder import (
    FAILED_SCHEDULING,
    GROUP_REFUSED,
    START_PROMISED,
    UNSATISFIABLE,
    EventReason,
    EventRecorder,
)
from afflux.kube.live.object_refs import pod_ref
from afflux.kube.live.pod_conditions import Condition, PodConditions, scheduler_error, unschedulable
from afflux.kube.live.start_announcements import StartAnnouncements, start_text_in
from afflux.kube.pods import scheduler_of
from afflux.model import reason
from afflux.model.group import Group
from afflux.model.placement import Placement
from afflux.model.reservation import Reservation
from afflux.model.task import Task
from afflux.web.scheduler_metrics import Metrics, PendingQueue, Started

# Waiting pods are counted at most once per interval, and for at most this share of the time.
MIN_COUNT_INTERVAL_SECONDS = 1.0
MAX_COUNTING_SHARE = 0.02

NO_GROUPS: Mapping[str, str] = MappingProxyType({})


@dataclass(slots=True)
class _Wait:
    """A waiting pod: since when it waits, and what was announced last."""

    task: Task
    ready_at: float
    ready_round: int
    attempts: int = 1
    why: str = ""
    reason: EventReason = FAILED_SCHEDULING
    # The last announced start, and why the group can never start.
    start: str = ""
    unsatisfiable: str = ""


class Announcements:
    """Announces what happens to pods; called by the scheduling loop and the binder."""

    def __init__(
        self,
        reader: ClusterReader,
        recorder: EventRecorder,
        pod_conditions: PodConditions,
        metrics: Metrics,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._reader = reader
        self._recorder = recorder
        self._pod_conditions = pod_conditions
        self._metrics = metrics
        self._clock = clock
        self._waits: dict[str, _Wait] = {}
        self._start_announcements = StartAnnouncements()
        self._rounds = 0
        self._count_after_cleanup = 0
        self._cycle_seconds = 0.0
        self._next_count_at = 0.0

    # --- Called by the scheduling loop

    def ready(self, groups: Iterable[Group]) -> None:
        """These groups wait to be placed from now on."""
        for group in groups:
            for task in group.tasks:
                self._wait_of(task)

    def held_back(self, held: Iterable[tuple[Task, str]]) -> None:
        """These pods cannot be considered for placement, and why."""
        machines = len(self._reader.nodes)
        for task, why in held:
            if task.id in self._reader.live_groups.refused:
                self._announce(self._wait_of(task), why, GROUP_REFUSED)
                continue
            # A refused binding is about one node, other reasons about all.
            general = machines and not self._reader.is_bind_refused(task.name)
            self._announce(self._wait_of(task), reason.all_nodes(machines, why) if general else why)

    def decided(
        self,
        seconds: float,
        reasons: Mapping[str, str],
        unsatisfiable: Mapping[str, str] = NO_GROUPS,
        reservations: Sequence[Reservation] = (),
        now_seconds: float = 0.0,
    ) -> None:
        """A cycle has ended; `reasons` says why tasks, by id, were not placed.

        `unsatisfiable` says, by name, which groups would not fit on the empty cluster either, and
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
                name, added = never_fit.get(task_id, ("", ""))
                self._announce(wait, why + added, start=starts.get(task_id, ""))
                self._announce_unsatisfiable(wait, name and f"group {name}: {unsatisfiable[name]}")
        for profile, count in by_profile.items():
            self._metrics.failed("unschedulable", profile, [seconds] * count)
        if len(self._waits) > 2 * self._count_after_cleanup + 1000:
            self._remove_gone_pods()

    def _unsatisfiable(self, unsatisfiable: Mapping[str, str]) -> dict[str, tuple[str, str]]:
        """For every task of these groups, by id, its group and a suffix for its reason. The reason
        of a single pod has no suffix: it is kube-scheduler's text, which tools parse."""
        found: dict[str, tuple[str, str]] = {}
        for name, why in unsatisfiable.items():
            group = self._reader.live_groups.waiting_group(name)
            if group is not None:
                added = f" Unsatisfiable: {why}." if group.is_gang else ""
                found.update({task.id: (name, added) for task in group.tasks})
        return found

    def _start_texts(
        self, reservations: Sequence[Reservation], now_seconds: float
    ) -> dict[str, str | None]:
        """The start text of every task, by id, whose group has a reservation. None if the
        announcement has to wait."""

        def pods_of(name: str) -> int:
            group = self._reader.live_groups.waiting_group(name)
            return 0 if group is None else len(group.tasks)

        found: dict[str, str | None] = {}
        texts = self._start_announcements.announce(reservations, pods_of, now_seconds)
        for name, text in texts.items():
            group = self._reader.live_groups.waiting_group(name)
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
            pod = self._reader.pending_pod(wait.task)
            if pod is not None:
                counts[self._queue_of(wait, pod)] += 1
        self._metrics.pending(counts)
        pause = max(MIN_COUNT_INTERVAL_SECONDS, (self._clock() - began) / MAX_COUNTING_SHARE)
        self._next_count_at = self._clock() + pause

    def _queue_of(self, wait: _Wait, pod: objects.Pod) -> PendingQueue:
        if wait.task.id not in self._reader.live_groups.held_back:
            return "unschedulable" if wait.why else "active"
        if pod.spec.scheduling_gates:
            return "gated"
        if self._reader.is_bind_refused(wait.task.name):
            return "backoff"
        if wait.task.id in self._reader.live_groups.refused:
            return "unschedulable"
        return "unschedulable" if claimed_group(pod) is None else "incomplete"

    def _wait_of(self, task: Task) -> _Wait:
        wait = self._waits.get(task.id)
        if wait is None:
            wait = self._waits[task.id] = _Wait(task, self._clock(), self._rounds)
            self._metrics.queued("active", "UnscheduledPodAdd")
        wait.task = task
        return wait

    def _remove_gone_pods(self) -> None:
        self._waits = {
            task_id: wait
            for task_id, wait in self._waits.items()
            if self._reader.pending_pod(wait.task) is not None
        }
        self._count_after_cleanup = len(self._waits)

    # --- Called by the binder

    def bound(self, placement: Placement, seconds: float) -> None:
        task = placement.task
        wait = self._waits.pop(task.id, None)
        pod = self._reader.pods.get(task.name)
        if pod is not None and pod.metadata.uid == task.id:
            self._pod_conditions.forget(pod_ref(pod))
            self._recorder.scheduled(pod_ref(pod), placement.machine, scheduler_of(pod))
        now = self._clock()
        started = Started(
            attempt_seconds=self._cycle_seconds + seconds,
            attempts=wait.attempts if wait else 1,
            since_ready_seconds=now - wait.ready_at if wait else seconds,
        )
        self._metrics.scheduled(task.shape.profile, [started])

    def not_bound(self, placement: Placement, seconds: float) -> None:
        """The binding failed; the reason comes with `held_back` after the reader's next update."""
        self._metrics.failed("error", placement.task.shape.profile, [self._cycle_seconds + seconds])

    def in_doubt(self, placement: Placement, why: str) -> None:
        pod = self._reader.pending_pod(placement.task)
        if pod is not None:
            self._recorder.failed(pod_ref(pod), why, scheduler_of(pod))

    # --- Writing

    def _announce_unsatisfiable(self, wait: _Wait, why: str) -> None:
        pod = self._reader.pending_pod(wait.task)
        if pod is not None and why and why != wait.unsatisfiable:
            self._recorder.failed(pod_ref(pod), why, scheduler_of(pod), UNSATISFIABLE)
        wait.unsatisfiable = why

    def _announce(
        self, wait: _Wait, why: str, reason: EventReason = FAILED_SCHEDULING, start: str | None = ""
    ) -> None:
        """Announce why a pod waits and when it starts; with `start` None its start text stays."""
        pod = self._reader.pending_pod(wait.task)
        if pod is not None and not wait.why and (seen := _seen(pod)) is not None:
            # An earlier leader may have announced the start. Removing its text and writing it again
            # would be two writes for every waiting pod, all at once.
            wait.start = start_text_in(seen.message)
        if start is None:
            start = wait.start
        is_known = (why, reason) == (wait.why, wait.reason)
        # For pods with scheduling gates the API server itself writes the condition.
        if (is_known and start == wait.start) or pod is None or pod.spec.scheduling_gates:
            return
        if not is_known:
            self._recorder.failed(pod_ref(pod), why, scheduler_of(pod), reason)
        if start and start != wait.start:
            self._recorder.failed(pod_ref(pod), start, scheduler_of(pod), START_PROMISED)
        wait.why, wait.reason, wait.start = why, reason, start
        refused = self._reader.is_bind_refused(wait.task.name)
        message = f"{why} {start}" if start else why
        self._pod_conditions.write(
            pod_ref(pod),
            scheduler_error(message) if refused else unschedulable(message),
            _seen(pod),
            generation=pod.metadata.generation or 0,
        )


def _seen(pod: objects.Pod) -> Condition | None:
    """The PodScheduled condition that the pod has."""
    for each in (pod.status and pod.status.conditions) or ():
        if each.type == "PodScheduled":
            return Condition(each.status or "", each.reason or "", each.message or "")
    return None
