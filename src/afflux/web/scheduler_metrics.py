"""The metrics of a running scheduler. Metrics that kube-scheduler has, too, have its names, labels
and buckets, so that dashboards and alerts keep working; the others begin with `afflux_`.

Each method reports one kind of occurrence and updates the metrics that depend on it. The methods
are cheap and never fail, and those that are called per pod take many pods at once.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from typing import Literal

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector

from afflux.web.metric_families import counters, exponential, gauges, histograms

Result = Literal["scheduled", "unschedulable", "error"]
PendingQueue = Literal["active", "backoff", "unschedulable", "gated", "incomplete"]
CyclePhase = Literal["observe", "decide", "commit", "explain"]
BindResult = Literal["bound", "refused", "overtaken"]
WriteResult = Literal["written", "unchanged", "gone", "failed"]
DiskWriteResult = Literal["written", "conflict", "failed"]
NormaliserLoad = Literal["loaded", "refused", "unavailable"]

QUEUES: tuple[PendingQueue, ...] = ("active", "backoff", "unschedulable", "gated", "incomplete")

# Larger numbers share a label: a pod that waits for days is tried every minute.
_MANY_ATTEMPTS = 15

_MILLISECONDS_UP = exponential(0.001, 2, 15)


@dataclass(frozen=True, slots=True)
class Started:
    """A pod that was bound: how long the last attempt took, how many there were, and how long it
    took from the first time it could have been scheduled."""

    attempt_seconds: float
    attempts: int
    since_ready_seconds: float


class Metrics:
    """All metrics of one process, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        GCCollector(registry=registry)
        counter, gauge = partial(counters, registry), partial(gauges, registry)
        histogram = partial(histograms, registry)
        gauge("afflux_build_info", "Which afflux this is; always 1.", ["version"]).of(
            version("afflux")
        ).put(1)

        # As in kube-scheduler
        self._attempts = counter(
            "scheduler_schedule_attempts_total",
            "Number of attempts to schedule pods, by the result. 'unschedulable' means a pod could"
            " not be scheduled, while 'error' means an internal scheduler problem.",
            ["result", "profile"],
        )
        self._attempt_seconds = histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "Scheduling attempt latency in seconds (scheduling algorithm + binding)",
            _MILLISECONDS_UP,
            ["result", "profile"],
        )
        self._algorithm_seconds = histogram(
            "scheduler_scheduling_algorithm_duration_seconds",
            "Scheduling algorithm latency in seconds",
            _MILLISECONDS_UP,
        ).of()
        self._pending = gauge(
            "scheduler_pending_pods",
            "Number of pending pods, by the queue type. 'active' are considered in the next cycle;"
            " 'backoff' wait after an error; 'unschedulable' were tried in vain and wait for a"
            " change; 'gated' have scheduling gates; 'incomplete' wait for their group.",
            ["queue"],
        )
        for queue in QUEUES:
            self._pending.of(queue)
        self._incoming = counter(
            "scheduler_queue_incoming_pods_total",
            "Number of pods added to scheduling queues by event and queue type.",
            ["queue", "event"],
        )
        self._attempts_needed = histogram(
            "scheduler_pod_scheduling_attempts",
            "Number of attempts to successfully schedule a pod.",
            exponential(1, 2, 5),
        ).of()
        self._ready_seconds = histogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "E2e latency for a pod being scheduled, from the time the pod enters the scheduling"
            " queue and might involve multiple scheduling attempts.",
            exponential(0.01, 2, 20),
            ["attempts"],
        )
        self._preemption_attempts = counter(
            "scheduler_preemption_attempts_total",
            "Total preemption attempts in the cluster till now",
        ).of()
        self._preemption_victims = histogram(
            "scheduler_preemption_victims",
            "Number of selected preemption victims",
            exponential(1, 2, 7),
        ).of()
        self._leads = gauge(
            "leader_election_master_status",
            "Gauge of if the reporting system is master of the relevant lease, 0 indicates backup,"
            " 1 indicates master. 'name' is the string used to identify the lease. Please make"
            " sure to group by name.",
            ["name"],
        )
        self._slow_renewals = counter(
            "leader_election_slowpath_total",
            "Total number of slow path exercised in renewing leader leases. 'name' is the string"
            " used to identify the lease. Please make sure to group by name.",
            ["name"],
        )

        # Ours
        self._cycle_seconds = histogram(
            "afflux_cycle_duration_seconds",
            "One cycle, from the first event taken to the last placement handed to the binder.",
            _MILLISECONDS_UP,
        ).of()
        self._phase_seconds = histogram(
            "afflux_cycle_phase_duration_seconds",
            "One phase of a cycle.",
            exponential(0.0001, 2, 18),
            ["phase"],
        )
        self._groups = gauge(
            "afflux_cycle_groups",
            "Groups in the last cycle that had any: considered, and placed of them.",
            ["state"],
        )
        self._solves = counter("afflux_solver_solves_total", "Flow networks solved.").of()
        self._gap = gauge(
            "afflux_plan_gap_ratio",
            "The cost of the last plan above its lower bound, as a share of the bound; NaN if"
            " unknown.",
        ).of()
        self._refused_proposals = counter(
            "afflux_refused_proposals_total",
            "Pods for which the flow network proposed a node without room, by the kind of"
            " constraint that refused them there.",
            ["constraint"],
        )
        self._cut_searches = counter(
            "afflux_cut_searches_total",
            "Searches for pods with constraints between them that gave up at a limit; another round"
            " follows.",
        ).of()
        self._untried_sets = counter(
            "afflux_untried_sets_total",
            "Sets of pods that require each other for which a round did not search, because it had"
            " reached a limit of searches.",
        ).of()
        self._violating_pods = gauge(
            "afflux_violating_pods",
            "Running pods with the annotation afflux.dev/required-during-execution whose node does"
            " not meet their requirements, by the kind of constraint; a pod may count in several.",
            ["constraint"],
        )
        self._reservations = gauge(
            "afflux_promises", "Waiting groups that have a reservation."
        ).of()
        self._promises_broken = counter(
            "afflux_promises_broken_total",
            "Groups that started later than first reserved, by cause.",
            ["cause"],
        )
        self._bind_seconds = histogram(
            "afflux_bind_duration_seconds",
            "One bind, from the first request to the answer, retries included.",
            _MILLISECONDS_UP,
            ["result"],
        )
        self._binds_in_flight = gauge(
            "afflux_binds_in_flight", "Binds sent and not answered yet."
        ).of()
        self._binds_held_back = gauge(
            "afflux_binds_held_back",
            "Binds that wait until the pods that they require are bound.",
        ).of()
        self._read_back_failures = counter(
            "afflux_bind_read_back_failures_total",
            "Failed attempts to read back what became of a bind that had no clear answer.",
        ).of()
        self._watch_events = counter(
            "afflux_watch_events_total", "Events that watches brought.", ["kind"]
        )
        self._relists = counter(
            "afflux_relists_total", "Lists after the first one of a watch.", ["kind"]
        )
        self._events = counter(
            "afflux_events_total",
            "Kubernetes Events by result; unchanged: nothing new to say.",
            ["result"],
        )
        self._events_dropped = counter(
            "afflux_events_dropped_total",
            "Kubernetes Events dropped because the API server could not keep up.",
        ).of()
        self._conditions = counter(
            "afflux_conditions_total",
            "Pod conditions by result; unchanged: nothing new to say.",
            ["result"],
        )
        self._conditions_dropped = counter(
            "afflux_conditions_dropped_total",
            "Pod conditions dropped because the API server could not keep up.",
        ).of()
        self._disk_nodes = gauge(
            "afflux_disk_nodes",
            "Nodes with a NodeDiskIOInfo object, and those of them whose IO driver is silent.",
            ["state"],
        )
        self._disk_statuses = counter(
            "afflux_disk_statuses_total",
            "Statuses of IO drivers: accepted; discarded, because they answer an older list of"
            " reserved pods; ahead, which answer a list that does not exist.",
            ["result"],
        )
        self._disk_intervals = histogram(
            "afflux_disk_status_interval_seconds",
            "The time between two statuses of an IO driver, discarded ones included.",
            exponential(0.5, 2, 12),
        ).of()
        self._disk_writes = counter(
            "afflux_disk_reservation_writes_total",
            "Writes of reserved pods into NodeDiskIOInfo objects, by result.",
            ["result"],
        )
        self._normalisers = gauge(
            "afflux_disk_normalisers",
            "Models of disks whose normaliser is in use, and problems with entries, contents and"
            " answers.",
            ["state"],
        )
        self._normaliser_loads = counter(
            "afflux_disk_normaliser_loads_total", "Contents of normalisers, by result.", ["result"]
        )

    # --- Cycles

    def decided(self, seconds: float, pods: int = 1) -> None:
        """A cycle decided about so many pods at once, in this time."""
        self._algorithm_seconds.observe(seconds, pods)

    def failed(self, result: Result, profile: str, seconds: Sequence[float]) -> None:
        """Attempts that did not end with a bound pod, each with how long it took."""
        self._attempts.of(result, profile).add(len(seconds))
        self._attempt_seconds.of(result, profile).observe_all(seconds)

    def scheduled(self, profile: str, pods: Sequence[Started]) -> None:
        self._attempts.of("scheduled", profile).add(len(pods))
        self._attempt_seconds.of("scheduled", profile).observe_all(
            [pod.attempt_seconds for pod in pods]
        )
        by_attempts: dict[int, list[float]] = {}
        for pod in pods:
            by_attempts.setdefault(pod.attempts, []).append(pod.since_ready_seconds)
        for attempts, seconds in by_attempts.items():
            self._attempts_needed.observe(attempts, len(seconds))
            label = str(attempts) if attempts < _MANY_ATTEMPTS else f"{_MANY_ATTEMPTS}+"
            self._ready_seconds.of(label).observe_all(seconds)

    def pending(self, counts: Mapping[PendingQueue, int]) -> None:
        """How many pods wait in each queue; a queue that is not named has none."""
        for queue in QUEUES:
            self._pending.of(queue).put(counts.get(queue, 0))

    def queued(self, queue: PendingQueue, event: str, pods: int = 1) -> None:
        """Pods that came into a queue, and the event that brought them, as `UnscheduledPodAdd`."""
        self._incoming.of(queue, event).add(pods)

    def preempted(self, victims: int) -> None:
        """One preemption, with so many victims."""
        self._preemption_attempts.add()
        self._preemption_victims.observe(victims)

    def cycled(
        self, seconds: float, considered: int, placed: int, solves: int, gap: float | None
    ) -> None:
        """A cycle that considered groups."""
        self._cycle_seconds.observe(seconds)
        self._groups.of("considered").put(considered)
        self._groups.of("placed").put(placed)
        self._solves.add(solves)
        self._gap.put(float("nan") if gap is None else gap)

    def refused(self, proposals: Mapping[str, int], cut_searches: int, untried_sets: int) -> None:
        """What the account refused in a cycle, by kind of constraint; the searches that gave up at
        a limit, and the sets of pods for which a limit left no search."""
        for constraint, pods in proposals.items():
            self._refused_proposals.of(constraint).add(pods)
        self._cut_searches.add(cut_searches)
        self._untried_sets.add(untried_sets)

    def violated(self, pods: Mapping[str, int]) -> None:
        """How many running pods violate their requirements, by kind of constraint."""
        for constraint, count in pods.items():
            self._violating_pods.of(constraint).put(count)

    def promised(self, current: int, missed: Iterable[str]) -> None:
        """The number of reservations, and the causes of those that were missed."""
        self._reservations.put(current)
        for cause in missed:
            self._promises_broken.of(cause).add()

    def phase(self, phase: CyclePhase, seconds: float) -> None:
        self._phase_seconds.of(phase).observe(seconds)

    # --- Towards the API server

    def bind_sent(self, pods: int = 1) -> None:
        self._binds_in_flight.add(pods)

    def bind_answered(self, result: BindResult, seconds: float) -> None:
        """A bind was answered or abandoned."""
        self._binds_in_flight.add(-1)
        self._bind_seconds.of(result).observe(seconds)

    def binds_held_back(self, binds: int) -> None:
        self._binds_held_back.put(binds)

    def read_back_failed(self) -> None:
        self._read_back_failures.add()

    def watched(self, kind: str, events: int = 1) -> None:
        self._watch_events.of(kind).add(events)

    def relisted(self, kind: str) -> None:
        """A watch could not go on and the list was read again."""
        self._relists.of(kind).add()

    def event(self, result: WriteResult) -> None:
        """The result of writing a Kubernetes Event."""
        self._events.of(result).add()

    def event_dropped(self) -> None:
        """A Kubernetes Event was dropped: the queue was full, or the process ended."""
        self._events_dropped.add()

    def condition(self, result: WriteResult) -> None:
        """The result of writing a condition of a pod."""
        self._conditions.of(result).add()

    def condition_dropped(self) -> None:
        """A condition was dropped: the queue was full, or the process ended."""
        self._conditions_dropped.add()

    # --- Disks

    def disk_nodes(self, known: int, silent: int) -> None:
        self._disk_nodes.of("known").put(known)
        self._disk_nodes.of("silent").put(silent)

    def disk_statuses(self, results: Mapping[str, int], intervals: Sequence[float]) -> None:
        """Statuses since the last call, and the seconds between them."""
        for result, count in results.items():
            self._disk_statuses.of(result).add(count)
        self._disk_intervals.observe_all(intervals)

    def disk_write(self, result: DiskWriteResult) -> None:
        self._disk_writes.of(result).add()

    def normalisers(self, in_use: int, problems: int) -> None:
        self._normalisers.of("in use").put(in_use)
        self._normalisers.of("problem").put(problems)

    def normaliser_load(self, result: NormaliserLoad) -> None:
        self._normaliser_loads.of(result).add()

    # --- Leading

    def leads(self, lease: str, leading: bool) -> None:
        self._leads.of(lease).put(float(leading))

    def renewed_slowly(self, lease: str) -> None:
        """A renewal had to read the lease first, because it had changed."""
        self._slow_renewals.of(lease).add()
