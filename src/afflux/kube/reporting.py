"""Reports: users hear what became of their pods, and no more often than there is news.

A pod that is bound gets its event at once. Why a pod waits is said as an event and a condition
when it is first known; after that only if the words have changed, and less and less often: the
counts in them change with every pod that comes or goes.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from time import monotonic

from afflux.kube import objects
from afflux.kube.conditions import Conditions
from afflux.kube.grouping import claimed_group
from afflux.kube.mirror import Mirror
from afflux.kube.recording import Recorder
from afflux.kube.references import PodRef
from afflux.model.group import Group
from afflux.model.placement import Placement
from afflux.model.task import Task
from afflux.web.metrics import Metrics, Queue, Started

FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 300.0

UNSCHEDULABLE = "Unschedulable"
SCHEDULER_ERROR = "SchedulerError"


@dataclass(slots=True)
class _Wait:
    """One pod that waits: since when, what was said last and what has not been said yet."""

    task: Task
    ready_at: float
    ready_round: int
    said: str = ""
    unsaid: str = ""
    due: float = 0.0
    pause: float = FIRST_PAUSE_SECONDS


class Reporting:
    """What the scheduler says to the users of the cluster."""

    def __init__(
        self, mirror: Mirror, recorder: Recorder, conditions: Conditions, metrics: Metrics
    ) -> None:
        self._mirror = mirror
        self._recorder = recorder
        self._conditions = conditions
        self._metrics = metrics
        self._waits: dict[str, _Wait] = {}
        self._due: dict[str, None] = {}
        self._more_due = asyncio.Event()
        self._rounds = 0
        self._kept = 0
        self._last_seconds = 0.0

    # --- From the loop

    def ready(self, groups: Iterable[Group]) -> None:
        """These groups may be placed from now on."""
        for group in groups:
            for task in group.tasks:
                self._wait_of(task)

    def held_back(self, held: Iterable[tuple[Task, str]]) -> None:
        """These pods may not even be considered, and why."""
        for task, why in held:
            self._tell(self._wait_of(task), why)

    def decided(self, seconds: float, reasons: Mapping[str, str]) -> None:
        """A cycle took so long; why those wait, by task id, whom it could not place."""
        self._rounds += 1
        self._last_seconds = seconds
        by_profile: dict[str, int] = {}
        for task_id, why in reasons.items():
            wait = self._waits.get(task_id)
            if wait is not None:
                profile = wait.task.shape.profile
                by_profile[profile] = by_profile.get(profile, 0) + 1
                self._tell(wait, why)
        for profile, count in by_profile.items():
            self._metrics.failed("unschedulable", profile, [seconds] * count)
        if len(self._waits) > 2 * self._kept + 1000:
            self._forget_the_gone()

    def count_pending(self) -> None:
        """Bring the figures of those who wait up to date."""
        counts: Counter[Queue] = Counter()
        for wait in self._waits.values():
            pod = self._mirror.pending(wait.task)
            if pod is not None:
                counts[self._queue_of(wait, pod)] += 1
        self._metrics.pending(counts)

    def _queue_of(self, wait: _Wait, pod: objects.Pod) -> Queue:
        if wait.task.id not in self._mirror.gathering.held_back:
            return "unschedulable" if wait.said or wait.unsaid else "active"
        if pod.spec.scheduling_gates:
            return "gated"
        if self._mirror.refusals(wait.task.name):
            return "backoff"
        return "unschedulable" if claimed_group(pod) is None else "incomplete"

    def _wait_of(self, task: Task) -> _Wait:
        wait = self._waits.get(task.id)
        if wait is None:
            wait = self._waits[task.id] = _Wait(task, monotonic(), self._rounds)
            self._metrics.queued("active", "UnscheduledPodAdd")
        wait.task = task
        return wait

    def _forget_the_gone(self) -> None:
        self._waits = {
            task_id: wait
            for task_id, wait in self._waits.items()
            if self._mirror.pending(wait.task) is not None
        }
        self._kept = len(self._waits)

    # --- From the bindings

    def bound(self, placement: Placement, seconds: float) -> None:
        """The pod has its node."""
        task = placement.task
        wait = self._waits.pop(task.id, None)
        pod = self._mirror.pods.get(task.name)
        if pod is not None and pod.metadata.uid == task.id:
            self._recorder.scheduled(_ref(pod), placement.machine)
        now = monotonic()
        self._metrics.scheduled(
            task.shape.profile,
            [
                Started(
                    attempt_seconds=self._last_seconds + seconds,
                    attempts=max(1, self._rounds - wait.ready_round) if wait else 1,
                    since_ready_seconds=now - wait.ready_at if wait else seconds,
                )
            ],
        )

    def not_bound(self, placement: Placement, why: str, seconds: float) -> None:
        """The pod has not got its node, and this is why."""
        self._metrics.failed("error", placement.task.shape.profile, [self._last_seconds + seconds])
        del why

    # --- Saying it

    def _tell(self, wait: _Wait, why: str) -> None:
        wait.unsaid = "" if why == wait.said else why
        if not wait.unsaid:
            return
        if monotonic() >= wait.due:
            self._say(wait)
        else:
            self._due[wait.task.id] = None
            self._more_due.set()

    def _say(self, wait: _Wait) -> None:
        pod = self._mirror.pending(wait.task)
        if pod is None or pod.spec.scheduling_gates:
            return
        wait.said, wait.unsaid = wait.unsaid, ""
        wait.due = monotonic() + wait.pause
        wait.pause = min(2 * wait.pause, LONGEST_PAUSE_SECONDS)
        refused = self._mirror.refusals(wait.task.name) > 0
        self._recorder.failed(_ref(pod), wait.said)
        self._conditions.unschedulable(
            pod, SCHEDULER_ERROR if refused else UNSCHEDULABLE, wait.said
        )

    async def run(self) -> None:
        """Say later what could not be said at once, until cancelled."""
        while True:
            await self._more_due.wait()
            self._more_due.clear()
            await asyncio.sleep(FIRST_PAUSE_SECONDS)
            now = monotonic()
            for task_id in list(self._due):
                wait = self._waits.get(task_id)
                if wait is not None and wait.unsaid and now < wait.due:
                    self._more_due.set()
                    continue
                del self._due[task_id]
                if wait is not None and wait.unsaid:
                    self._say(wait)


def _ref(pod: objects.Pod) -> PodRef:
    metadata = pod.metadata
    return PodRef(
        metadata.namespace or "",
        metadata.name or "",
        metadata.uid or "",
        metadata.resource_version or "",
    )
