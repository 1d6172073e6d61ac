"""The process of the live scheduler: watches, leader election, control loop and HTTP pages.

Every replica watches the cluster, so that the next leader is up to date when its term begins. Only
the leader decides and binds. A leader that loses its lease exits, as kube-scheduler does; when the
process is restarted it starts from what the API server says.
"""

import asyncio
import logging
import signal
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field

from afflux.control.announcements import Announcements
from afflux.control.ledger_writer import LedgerWriter, WhenAway
from afflux.control.loop import ControlLoop
from afflux.control.violation_announcements import ViolationAnnouncements
from afflux.cycle.inspection_types import Inspection
from afflux.cycle.interfaces import DeposedError, Ledger
from afflux.cycle.loop import Cycle
from afflux.groups.half_bound import HalfBoundGroups
from afflux.groups.quorum import BUILT_IN, QuorumRule
from afflux.kube.api.client import Api
from afflux.kube.api.client_config import ClientConfig
from afflux.kube.cluster_relations import ClusterRelations
from afflux.kube.default_constraints import DefaultConstraints
from afflux.kube.group_deadlines import GroupDeadlines
from afflux.kube.live.access_review import AccessReviews, follow_authorities
from afflux.kube.live.binder import Binder, no_annotations
from afflux.kube.live.deadline_cleanup import DeadlineCleanup
from afflux.kube.live.disk_components import DiskComponents, LiveDisks
from afflux.kube.live.event_recorder import LEADER_ELECTION, EventRecorder
from afflux.kube.live.finished_cleanup import FinishedCleanup
from afflux.kube.live.half_bound_circles import HalfBoundCircles
from afflux.kube.live.half_bound_rollback import HalfBoundRollback
from afflux.kube.live.kubernetes_adapter import KubernetesAdapter
from afflux.kube.live.leader_election import LeaderElection, LeadershipTerm
from afflux.kube.live.object_refs import ObjectRef
from afflux.kube.live.pod_conditions import PodConditions
from afflux.kube.live.pod_evictor import PodEvictor
from afflux.kube.live.pod_locator import PodLocator
from afflux.kube.live.pod_notices import PodNotices
from afflux.kube.live.volume_binder import VolumeBinder
from afflux.kube.live.watched_kinds import optional_kinds, required_kinds, watch_all_kinds
from afflux.kube.reader.cluster_reader import ClusterReader
from afflux.model.relations import DEFAULT_REQUIRED_AFFINITY_WEIGHT
from afflux.queue.rules import ONE_QUEUE, QueueRules
from afflux.web.authentication import Authenticator
from afflux.web.inspection_pages import InspectionPages
from afflux.web.pages import Check, Pages
from afflux.web.scheduler_metrics import Metrics
from afflux.web.watchdog import Watchdog

# Connections in addition to those of the bindings: for watches, events, conditions and volumes.
OTHER_CONNECTIONS = 32
# For access reviews of the inspection service, which must not slow down the scheduler.
REVIEW_CONNECTIONS = 4
REVIEWS_PER_SECOND = 50.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LeaderElectionOptions:
    namespace: str
    name: str
    lease_duration_seconds: float = 15.0
    renew_deadline_seconds: float = 10.0
    retry_period_seconds: float = 2.0


@dataclass(frozen=True, slots=True)
class ServingOptions:
    address: str
    port: int
    cert_file: str = ""
    key_file: str = ""
    stuck_seconds: float = 300.0


@dataclass(frozen=True, slots=True)
class Options:
    """The options of the process.

    Without an `election` the process leads from the start. With `cleanup` groups are deleted after
    their deadline, with `cleanup_finished` when they have completed. With `half_bound_seconds` the
    bound pods of a group that has been half-bound for that long are deleted. Without `disks` no
    profile counts disk bandwidth. If a profile `preempts`, running pods are evicted.
    """

    scheduler_names: tuple[str, ...]
    election: LeaderElectionOptions | None
    serving: ServingOptions
    qps: float = 0.0
    burst: int = 0
    parallelism: int = 64
    bind_timeout_seconds: float = 30.0
    volume_timeout_seconds: float = 600.0
    rules: Mapping[str, QueueRules] = field(default_factory=lambda: ONE_QUEUE)
    quorum_rules: Mapping[str, QuorumRule] = field(default_factory=lambda: BUILT_IN)
    default_constraints: DefaultConstraints = field(default_factory=DefaultConstraints)
    affinity_weight: int = DEFAULT_REQUIRED_AFFINITY_WEIGHT
    cleanup: bool = False
    cleanup_finished: bool = False
    half_bound_seconds: float | None = None
    disks: LiveDisks | None = None
    preempts: bool = False
    when_ledger_away: WhenAway = "wait"
    configuration: Mapping[str, object] = field(default_factory=dict[str, object])


async def run(
    connection: ClientConfig,
    cycle: Cycle,
    options: Options,
    ledger: Ledger | None = None,
    inspection: Inspection | None = None,
) -> None:
    """Schedule until SIGTERM or SIGINT.

    Raises LostLeaseError if the lease is lost, DeposedError if the ledger knows a later leader.
    `inspection`, if given, is what the inspection service shows.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signal_number, stop.set)
    async with (
        Api(
            connection,
            qps=options.qps,
            burst=options.burst,
            connections=options.parallelism + OTHER_CONNECTIONS,
        ) as api,
        # A renewal must not queue behind a thousand bindings.
        Api(connection, connections=2) as lease_api,
        Api(
            connection, qps=REVIEWS_PER_SECOND, burst=100, connections=REVIEW_CONNECTIONS
        ) as review_api,
    ):
        shown = None if inspection is None else (inspection, review_api)
        process = _Process(api, lease_api, cycle, options, ledger=ledger, inspection=shown)
        work = asyncio.create_task(process.run())
        stopped = asyncio.create_task(stop.wait())
        await asyncio.wait({work, stopped}, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        if not work.done():
            _log.info("stopping")
            work.cancel()
        try:
            await work
        except asyncio.CancelledError:
            if not stop.is_set():
                raise


class _Process:
    """Builds the components of the process and runs them."""

    def __init__(
        self,
        api: Api,
        lease_api: Api,
        cycle: Cycle,
        options: Options,
        *,
        ledger: Ledger | None,
        inspection: tuple[Inspection, Api] | None,
    ) -> None:
        self._api = api
        # What the inspection service shows, and the client for its access reviews.
        self._inspection = inspection
        self._cycle = cycle
        self._options = options
        self._ledger = ledger
        self._metrics = Metrics()
        self._deadlines = GroupDeadlines() if options.cleanup else None
        after = options.half_bound_seconds
        self._half_bound_groups = HalfBoundGroups(after) if after is not None else None
        self._reader = ClusterReader(
            options.scheduler_names,
            options.rules,
            self._deadlines,
            self._half_bound_groups,
            ClusterRelations(options.default_constraints, options.affinity_weight),
            quorum_rules=options.quorum_rules,
            evicts=options.preempts,
            disks=options.disks.options if options.disks is not None else None,
        )
        self._watchdog = Watchdog(options.serving.stuck_seconds)
        self._recorder = EventRecorder(api, self._metrics, options.scheduler_names[0])
        self._pod_conditions = PodConditions(api, self._metrics)
        self._notices = PodNotices(self._reader, self._recorder, self._pod_conditions)
        self._announcements = Announcements(
            self._notices, self._metrics, self._reader.register.waiting_group
        )
        election = options.election
        self._leader_election = election and LeaderElection(
            lease_api,
            namespace=election.namespace,
            name=election.name,
            metrics=self._metrics,
            lease_duration_seconds=election.lease_duration_seconds,
            renew_deadline_seconds=election.renew_deadline_seconds,
            retry_period_seconds=election.retry_period_seconds,
            announce=self._announce,
        )
        self._required_kinds = required_kinds(
            self._reader, default_constraints=bool(options.default_constraints)
        )
        self._optional_kinds = optional_kinds(self._reader)
        self._disks: DiskComponents | None = None
        if options.disks is not None:
            self._disks = DiskComponents(
                api, self._reader, self._recorder, self._metrics, options.disks
            )
            self._required_kinds.append(self._disks.required_kind())
            self._optional_kinds.append(self._disks.optional_kind())
        self._stores = [each.store for each in (*self._required_kinds, *self._optional_kinds)]
        # Per kind, how many watch events and lists the metrics have; the first list is no relist.
        self._counted: dict[str, tuple[int, int]] = {}

    async def run(self) -> None:
        serving, inspection = self._options.serving, self._inspection
        pages = Pages(
            self._metrics.registry,
            live={"cycle": self._watchdog.complaint, **self._leader_election_check()},
            ready={"watches": self._not_synced},
            configuration=self._options.configuration,
            before_metrics=self._refresh_metrics,
            inspection=inspection
            and InspectionPages(inspection[0], Authenticator(AccessReviews(inspection[1]))),
        )
        async with pages:
            await pages.start(serving.address, serving.port, serving.cert_file, serving.key_file)
            try:
                async with asyncio.TaskGroup() as background:
                    watches = watch_all_kinds(self._api, self._required_kinds, self._optional_kinds)
                    tasks = [background.create_task(watches)]
                    if self._disks is not None:
                        tasks.append(background.create_task(self._disks.run()))
                    if inspection and serving.cert_file:
                        follow = follow_authorities(inspection[1], pages.trust_clients_of)
                        tasks.append(background.create_task(follow))
                    if self._leader_election:
                        await self._leader_election.lead(self._lead)
                    else:
                        await self._lead(None)
                    for task in tasks:
                        task.cancel()
            finally:
                await self._recorder.close()
                await self._pod_conditions.close()
                if self._ledger is not None:
                    await self._ledger.close()

    async def _lead(self, term: LeadershipTerm | None) -> None:
        """Run the components that only the leader runs."""
        remaining_seconds = term.remaining_seconds if term else _no_time_limit
        volume_binder = VolumeBinder(
            self._api, self._reader, self._options.volume_timeout_seconds, remaining_seconds
        )
        ledger_writer = self._ledger_writer()
        reserver = self._disks.reserver(remaining_seconds) if self._disks is not None else None
        binder = Binder(
            self._api,
            self._reader,
            self._announcements,
            metrics=self._metrics,
            remaining_seconds=remaining_seconds,
            parallelism=self._options.parallelism,
            timeout_seconds=self._options.bind_timeout_seconds,
            pre_binder=volume_binder,
            annotations=reserver.annotations if reserver is not None else no_annotations,
        )
        evictor = self._evictor(remaining_seconds)
        adapter = KubernetesAdapter(
            self._reader,
            volume_binder,
            binder,
            PodLocator(self._api, self._reader),
            half_bound_circles=self._half_bound_circles(),
            disk_reserver=reserver,
            evictor=evictor,
            needed=self._stores,
        )
        loop = ControlLoop(
            adapter,
            self._cycle,
            self._announcements,
            metrics=self._metrics,
            watchdog=self._watchdog,
            violation_announcements=ViolationAnnouncements(self._notices, self._metrics),
            ledger_writer=ledger_writer,
        )
        background = [binder.run()]
        if evictor is not None:
            background.append(evictor.run())
        if reserver is not None:
            background.append(reserver.run())
        if self._deadlines is not None:
            cleanup = DeadlineCleanup(
                self._api,
                self._reader,
                self._deadlines,
                self._recorder,
                remaining_seconds=remaining_seconds,
                announce=self._reader.register.overdue,
            )
            background.append(cleanup.run())
        if self._options.cleanup_finished:
            finished = FinishedCleanup(
                self._api, self._reader, self._recorder, remaining_seconds=remaining_seconds
            )
            self._reader.register.changes.on_ended.append(finished.finished)
            background.append(finished.run())
        if self._half_bound_groups is not None:
            rollback = HalfBoundRollback(
                self._api,
                self._reader,
                self._half_bound_groups,
                self._recorder,
                remaining_seconds=remaining_seconds,
            )
            background.append(rollback.run())
        if ledger_writer is None:
            async with asyncio.TaskGroup() as tasks:
                for each in background:
                    tasks.create_task(each)
                tasks.create_task(loop.run())
            return

        async def begin(cycle: Cycle) -> None:
            epoch = None if term is None else term.epoch
            await ledger_writer.take_over(cycle, adapter, epoch, self._lease_seconds())

        await self._lead_with_ledger(ledger_writer, [*background, loop.run(begin)])

    def _evictor(self, remaining_seconds: Callable[[], float | None]) -> PodEvictor | None:
        if not self._options.preempts:
            return None
        return PodEvictor(
            self._api,
            self._reader,
            self._recorder,
            remaining_seconds=remaining_seconds,
            on_evicted=self._metrics.preempted,
        )

    def _half_bound_circles(self) -> HalfBoundCircles | None:
        if self._half_bound_groups is None:
            return None
        return HalfBoundCircles(self._reader, self._half_bound_groups)

    def _ledger_writer(self) -> LedgerWriter | None:
        if self._ledger is None:
            return None
        return LedgerWriter(
            self._ledger, self._reader.register, when_away=self._options.when_ledger_away
        )

    def _lease_seconds(self) -> float:
        election = self._options.election
        return election.lease_duration_seconds if election else 0.0

    async def _lead_with_ledger(
        self, ledger_writer: LedgerWriter, parts: Sequence[Coroutine[None, None, None]]
    ) -> None:
        """Run the components with a ledger; stop if the ledger knows a later leader."""
        deposed: str | None = None
        try:
            async with asyncio.TaskGroup() as tasks:
                for each in (*parts, ledger_writer.run()):
                    tasks.create_task(each)
        except* DeposedError as errors:
            deposed = str(errors.exceptions[0])
        finally:
            if deposed is None:
                await ledger_writer.finish()
        if deposed is not None:
            raise DeposedError(deposed)

    def _announce(self, what: str) -> None:
        """Record an event on the Lease, as other components of Kubernetes do."""
        election = self._options.election
        if election is not None and self._leader_election is not None:
            lease = ObjectRef("coordination.k8s.io/v1", "Lease", election.namespace, election.name)
            self._recorder.event(LEADER_ELECTION, lease, f"{self._leader_election.identity} {what}")

    def _leader_election_check(self) -> dict[str, Check]:
        return {"leaderElection": self._leader_election.complaint} if self._leader_election else {}

    def _not_synced(self) -> str | None:
        """For the readiness check: an error while kinds have not been listed."""
        kinds = [store.kind for store in self._stores if not store.synced.is_set()]
        return f"not listed yet: {', '.join(kinds)}" if kinds else None

    def _refresh_metrics(self) -> None:
        """Update the metrics that are computed only when they are scraped."""
        self._announcements.count_pending()
        if self._disks is not None:
            self._disks.refresh_metrics()
        for store in self._stores:
            seen, lists = self._counted.get(store.kind, (0, 1))
            self._metrics.watched(store.kind, store.watch_events - seen)
            for _ in range(lists, store.lists):
                self._metrics.relisted(store.kind)
            self._counted[store.kind] = store.watch_events, max(1, store.lists)


def _no_time_limit() -> None:
    """Without leader election a term never ends."""
