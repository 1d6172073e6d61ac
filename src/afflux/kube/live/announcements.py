"""Reports: users hear what became of their pods, operators see the figures.

A pod that is bound gets its event at once. Why a pod waits is said as an event and a condition
when the words have changed; how often they may change is up to those who write them. Who waits
because of what they say about their group is told so by an event of another name; who waits for
something that can never be, by one more; and who was promised a start, by a last one.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from types import MappingProxyType

from afflux.kube import objects
from afflux.kube.decoding import scheduler_of
from afflux.kube.grouping import claimed_group
from afflux.kube.live.conditions import Condition, Conditions, scheduler_error, unschedulable
from afflux.kube.live.foretelling import Foretelling, words_in
from afflux.kube.live.mirror import Mirror
from afflux.kube.live.recording import FAILED, PROMISED, REFUSED, UNSATISFIABLE, Recorder, What
from afflux.kube.live.references import PodRef
from afflux.model import reason
from afflux.model.group import Group
from afflux.model.placement import Placement
from afflux.model.promise import Promise
from afflux.model.task import Task
from afflux.web.metrics import Metrics, Queue, Started

# Those who wait are counted at most so often, and for at most this share of the time.
SHORTEST_COUNT_SECONDS = 1.0
COUNTING_SHARE = 0.02

NOBODY: Mapping[str, str] = MappingProxyType({})


@dataclass(slots=True)
class _Wait:
    """One pod that waits: since when, and what was said last, and as what."""

    task: Task
    ready_at: float
    ready_round: int
    attempts: int = 1
    said: str = ""
    what: What = FAILED
    # When it will start, and why it can never start, as far as it was told.
    promised: str = ""
    never: str = ""


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
        self._foretelling = Foretelling()
        self._rounds = 0
        self._kept = 0
        self._last_seconds = 0.0
        self._next_count_at = 0.0

    # --- From the loop

    def ready(self, groups: Iterable[Group]) -> None:
        """These groups may be placed from now on."""
        for group in groups:
            for task in group.tasks:
                self._wait_of(task)

    def held_back(self, held: Iterable[tuple[Task, str]]) -> None:
        """These pods may not even be considered, and why."""
        machines = len(self._mirror.nodes)
        for task, why in held:
            if task.id in self._mirror.gathering.refused:
                self._tell(self._wait_of(task), why, REFUSED)
                continue
            # A refused binding is about one node only.
            general = machines and not self._mirror.is_refused(task.name)
            self._tell(self._wait_of(task), reason.everywhere(machines, why) if general else why)

    def decided(
        self,
        seconds: float,
        reasons: Mapping[str, str],
        unsatisfiable: Mapping[str, str] = NOBODY,
        promises: Sequence[Promise] = (),
        now_seconds: float = 0.0,
    ) -> None:
        """A cycle took so long; why those wait, by task id, whom it could not place.

        `unsatisfiable` are the groups, by name, that would not fit on the empty cluster either, and
        why. They are looked at again when the cluster has changed, as everybody is. `promises` are
        all that hold now.
        """
        self._rounds += 1
        self._last_seconds = seconds
        never = self._never(unsatisfiable)
        promised = self._promised(promises, now_seconds)
        by_profile: dict[str, int] = {}
        for task_id, why in reasons.items():
            wait = self._waits.get(task_id)
            if wait is not None:
                profile = wait.task.shape.profile
                by_profile[profile] = by_profile.get(profile, 0) + 1
                name, added = never.get(task_id, ("", ""))
                self._tell(wait, why + added, promised=promised.get(task_id, ""))
                self._tell_never(wait, name and f"group {name}: {unsatisfiable[name]}")
        for profile, count in by_profile.items():
            self._metrics.failed("unschedulable", profile, [seconds] * count)
        if len(self._waits) > 2 * self._kept + 1000:
            self._forget_the_gone()

    def _never(self, unsatisfiable: Mapping[str, str]) -> dict[str, tuple[str, str]]:
        """For every task of these groups, by id, its group, and what is added to its reason.

        Of a pod by itself the reason says for every machine what is missing, in kube-scheduler's
        words: those who read them find them as they are.
        """
        found: dict[str, tuple[str, str]] = {}
        for name, why in unsatisfiable.items():
            group = self._mirror.gathering.waiting(name)
            if group is not None:
                added = f" Unsatisfiable: {why}." if group.is_gang else ""
                found.update({task.id: (name, added) for task in group.tasks})
        return found

    def _promised(self, promises: Sequence[Promise], now_seconds: float) -> dict[str, str | None]:
        """For every task, by id, whose group is promised a start, the words for it.

        None if it is not its turn yet to hear some.
        """

        def pods_of(name: str) -> int:
            group = self._mirror.gathering.waiting(name)
            return 0 if group is None else len(group.tasks)

        found: dict[str, str | None] = {}
        for name, words in self._foretelling.tell(promises, pods_of, now_seconds).items():
            group = self._mirror.gathering.waiting(name)
            if group is not None:
                found.update({task.id: words for task in group.tasks})
        return found

    def placed(self, placements: Iterable[Placement]) -> None:
        """A cycle has found places for these."""
        for placement in placements:
            wait = self._waits.get(placement.task.id)
            if wait is not None:
                wait.attempts = self._rounds - wait.ready_round + 1

    def count_pending(self) -> None:
        """Bring the figures of those who wait up to date.

        Anybody may ask for them, as often as they like: to look at all who wait is worth a small
        share of the time at most.
        """
        began = monotonic()
        if began < self._next_count_at:
            return
        counts: Counter[Queue] = Counter()
        for wait in self._waits.values():
            pod = self._mirror.pending(wait.task)
            if pod is not None:
                counts[self._queue_of(wait, pod)] += 1
        self._metrics.pending(counts)
        pause = max(SHORTEST_COUNT_SECONDS, (monotonic() - began) / COUNTING_SHARE)
        self._next_count_at = monotonic() + pause

    def _queue_of(self, wait: _Wait, pod: objects.Pod) -> Queue:
        if wait.task.id not in self._mirror.gathering.held_back:
            return "unschedulable" if wait.said else "active"
        if pod.spec.scheduling_gates:
            return "gated"
        if self._mirror.is_refused(wait.task.name):
            return "backoff"
        if wait.task.id in self._mirror.gathering.refused:
            return "unschedulable"
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
            self._conditions.forget(_ref(pod))
            self._recorder.scheduled(_ref(pod), placement.machine, scheduler_of(pod))
        now = monotonic()
        self._metrics.scheduled(
            task.shape.profile,
            [
                Started(
                    attempt_seconds=self._last_seconds + seconds,
                    attempts=wait.attempts if wait else 1,
                    since_ready_seconds=now - wait.ready_at if wait else seconds,
                )
            ],
        )

    def not_bound(self, placement: Placement, seconds: float) -> None:
        """The pod has not got its node. Why, it is told when the mirror has looked at it again."""
        self._metrics.failed("error", placement.task.shape.profile, [self._last_seconds + seconds])

    def in_doubt(self, placement: Placement, why: str) -> None:
        """Nobody can find out whether the pod has its node."""
        pod = self._mirror.pending(placement.task)
        if pod is not None:
            self._recorder.failed(_ref(pod), why, scheduler_of(pod))

    # --- Saying it

    def _tell_never(self, wait: _Wait, why: str) -> None:
        pod = self._mirror.pending(wait.task)
        if pod is not None and why and why != wait.never:
            self._recorder.failed(_ref(pod), why, scheduler_of(pod), UNSATISFIABLE)
        wait.never = why

    def _tell(self, wait: _Wait, why: str, what: What = FAILED, promised: str | None = "") -> None:
        """With `promised` None the pod keeps what it has of a promise."""
        pod = self._mirror.pending(wait.task)
        if pod is not None and not wait.said and (seen := _seen(pod)) is not None:
            # Another leader may have told it. To take that back until it is its turn again would be
            # two writes for every pod that waits, all at once.
            wait.promised = words_in(seen.message)
        if promised is None:
            promised = wait.promised
        said = (why, what) == (wait.said, wait.what)
        # The API server itself says so of pods with gates.
        if (said and promised == wait.promised) or pod is None or pod.spec.scheduling_gates:
            return
        if not said:
            self._recorder.failed(_ref(pod), why, scheduler_of(pod), what)
        if promised and promised != wait.promised:
            self._recorder.failed(_ref(pod), promised, scheduler_of(pod), PROMISED)
        wait.said, wait.what, wait.promised = why, what, promised
        refused = self._mirror.is_refused(wait.task.name)
        message = f"{why} {promised}" if promised else why
        self._conditions.write(
            _ref(pod),
            scheduler_error(message) if refused else unschedulable(message),
            _seen(pod),
            generation=pod.metadata.generation or 0,
        )


def _seen(pod: objects.Pod) -> Condition | None:
    """The condition that the pod has."""
    for condition in (pod.status and pod.status.conditions) or ():
        if condition.type == "PodScheduled":
            return Condition(
                condition.status or "", condition.reason or "", condition.message or ""
            )
    return None


def _ref(pod: objects.Pod) -> PodRef:
    metadata = pod.metadata
    return PodRef(
        metadata.namespace or "",
        metadata.name or "",
        metadata.uid or "",
        metadata.resource_version or "",
    )
