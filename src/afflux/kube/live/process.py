"""The process: watches, election, loop and pages, from start to end.

Every replica follows the cluster, so that the next leader knows everything when its turn comes.
Only the leader decides and binds. A leader that loses its lease ends, as kube-scheduler does:
whoever starts it again starts from what the API server says.
"""

import asyncio
import logging
import signal
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field

from afflux.cycle.inspection import Inspection
from afflux.cycle.loop import Cycle
from afflux.cycle.ports import DeposedError, Ledger
from afflux.kube.api.client import Api
from afflux.kube.api.connection import Connection
from afflux.kube.live.binding import Binding
from afflux.kube.live.cleaning import Cleaning
from afflux.kube.live.conditions import Conditions
from afflux.kube.live.deadlines import Deadlines
from afflux.kube.live.following import always_there, follow_all, maybe_there
from afflux.kube.live.halves import Halves
from afflux.kube.live.keeping import Keeping, WhenAway
from afflux.kube.live.leasing import Lease, Term
from afflux.kube.live.mirror import Mirror
from afflux.kube.live.preparing import Preparing
from afflux.kube.live.recording import LEADER_ELECTION, Recorder
from afflux.kube.live.references import ObjectRef
from afflux.kube.live.reporting import Reporting
from afflux.kube.live.reviewing import Reviews, follow_authorities
from afflux.kube.live.scheduling import Scheduling
from afflux.kube.live.taking_back import TakingBack
from afflux.queue.quorum import ONE_QUEUE
from afflux.queue.rules import QueueRules
from afflux.web.authenticating import Gate
from afflux.web.inspecting import Inspecting
from afflux.web.metrics import Metrics
from afflux.web.serving import Check, Pages
from afflux.web.watchdog import Watchdog

# Beside the bindings: watches, events, conditions, volumes.
OTHER_CONNECTIONS = 32
# For reviews of those who ask the inspection service: many of them must not slow the scheduler.
REVIEW_CONNECTIONS = 4
REVIEWS_PER_SECOND = 50.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Election:
    """The Lease by which the leader is found, and its times."""

    namespace: str
    name: str
    lease_seconds: float = 15.0
    renew_seconds: float = 10.0
    retry_seconds: float = 2.0


@dataclass(frozen=True, slots=True)
class Served:
    """Where the pages are served."""

    address: str
    port: int
    cert_file: str = ""
    key_file: str = ""
    stuck_seconds: float = 300.0


@dataclass(frozen=True, slots=True)
class Options:
    """How the process runs. Without an `election` it leads from the start. With `cleanup` groups
    are deleted when their deadline is over; the bound pods of one that is half-bound for so many
    seconds are, if a number is given.
    """

    scheduler_names: tuple[str, ...]
    election: Election | None
    served: Served
    qps: float = 0.0
    burst: int = 0
    parallelism: int = 64
    bind_seconds: float = 30.0
    volume_seconds: float = 600.0
    rules: Mapping[str, QueueRules] = field(default_factory=lambda: ONE_QUEUE)
    cleanup: bool = False
    half_bound_seconds: float | None = None
    when_ledger_away: WhenAway = "wait"
    configuration: Mapping[str, object] = field(default_factory=dict[str, object])


async def run(
    connection: Connection,
    cycle: Cycle,
    options: Options,
    ledger: Ledger | None = None,
    inspection: Inspection | None = None,
) -> None:
    """Schedule until told to stop; a LostLeaseError if the lease is lost, a DeposedError if the
    ledger knows a later leader.

    `inspection`, if there is one, is what the inspection service shows.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for sign in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(sign, stop.set)
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
        door = _Door(api, lease_api, cycle, options, ledger=ledger, shown=shown)
        work = asyncio.create_task(door.run())
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


class _Door:
    """The parts of one process, made for each other."""

    def __init__(
        self,
        api: Api,
        lease_api: Api,
        cycle: Cycle,
        options: Options,
        *,
        ledger: Ledger | None,
        shown: tuple[Inspection, Api] | None,
    ) -> None:
        self._api = api
        # What the inspection service shows, and by whom it knows who may look.
        self._shown = shown
        self._cycle = cycle
        self._options = options
        self._ledger = ledger
        self._metrics = Metrics()
        self._deadlines = Deadlines() if options.cleanup else None
        after = options.half_bound_seconds
        self._halves = Halves(after) if after is not None else None
        self._mirror = Mirror(options.scheduler_names, options.rules, self._deadlines, self._halves)
        self._watchdog = Watchdog(options.served.stuck_seconds)
        name = options.scheduler_names[0]
        self._recorder = Recorder(api, self._metrics, name)
        self._conditions = Conditions(api, self._metrics)
        self._reporting = Reporting(self._mirror, self._recorder, self._conditions, self._metrics)
        self._lease = options.election and Lease(
            lease_api,
            namespace=options.election.namespace,
            name=options.election.name,
            metrics=self._metrics,
            lease_seconds=options.election.lease_seconds,
            renew_seconds=options.election.renew_seconds,
            retry_seconds=options.election.retry_seconds,
            announce=self._announce,
        )
        self._needed = [each.shelf for each in always_there(self._mirror)]
        self._needed += [each.shelf for each in maybe_there(self._mirror)]
        # Of each kind, how many changes and lists have been counted; the first list is no relist.
        self._counted: dict[str, tuple[int, int]] = {}

    async def run(self) -> None:
        served = self._options.served
        pages = Pages(
            self._metrics.registry,
            live={"cycle": self._watchdog.complaint, **self._lease_check()},
            ready={"watches": self._unfilled},
            configuration=self._options.configuration,
            before_metrics=self._bring_up_to_date,
            inspecting=self._shown and Inspecting(self._shown[0], Gate(Reviews(self._shown[1]))),
        )
        async with pages:
            await pages.start(served.address, served.port, served.cert_file, served.key_file)
            try:
                async with asyncio.TaskGroup() as beside:
                    tasks = [beside.create_task(follow_all(self._api, self._mirror))]
                    if self._shown and served.cert_file:
                        follow = follow_authorities(self._shown[1], pages.trust_clients_of)
                        tasks.append(beside.create_task(follow))
                    await (self._lease.lead(self._work) if self._lease else self._work(None))
                    for task in tasks:
                        task.cancel()
            finally:
                await self._recorder.close()
                await self._conditions.close()
                if self._ledger is not None:
                    await self._ledger.close()

    async def _work(self, term: Term | None) -> None:
        """What a leader does."""
        remaining_seconds = term.remaining_seconds if term else _for_ever
        preparing = Preparing(
            self._api, self._mirror, self._options.volume_seconds, remaining_seconds
        )
        keeping = self._keeping()
        binding = Binding(
            self._api,
            self._mirror,
            self._reporting,
            metrics=self._metrics,
            remaining_seconds=remaining_seconds,
            parallelism=self._options.parallelism,
            timeout_seconds=self._options.bind_seconds,
            preparing=preparing,
            outcomes=keeping,
        )
        scheduling = Scheduling(
            self._mirror,
            self._cycle,
            preparing,
            binding,
            self._reporting,
            metrics=self._metrics,
            watchdog=self._watchdog,
            keeping=keeping,
        )
        beside = [binding.run()]
        if self._deadlines is not None:
            announce = keeping.over_deadline if keeping is not None else _nobody
            beside.append(self._cleaning(self._deadlines, remaining_seconds, announce).run())
        if self._halves is not None:
            beside.append(self._taking_back(self._halves, remaining_seconds, keeping).run())
        if keeping is None:
            async with asyncio.TaskGroup() as parts:
                for each in beside:
                    parts.create_task(each)
                parts.create_task(scheduling.run(self._needed))
        else:
            await self._work_with(keeping, beside, scheduling, term)

    def _cleaning(
        self,
        deadlines: Deadlines,
        remaining_seconds: Callable[[], float | None],
        announce: Callable[[Collection[str]], None],
    ) -> Cleaning:
        return Cleaning(
            self._api,
            self._mirror,
            deadlines,
            self._recorder,
            remaining_seconds=remaining_seconds,
            announce=announce,
        )

    def _taking_back(
        self,
        halves: Halves,
        remaining_seconds: Callable[[], float | None],
        keeping: Keeping | None,
    ) -> TakingBack:
        return TakingBack(
            self._api,
            self._mirror,
            halves,
            self._recorder,
            remaining_seconds=remaining_seconds,
            announce=keeping.taken_back if keeping is not None else _nobody,
        )

    def _keeping(self) -> Keeping | None:
        if self._ledger is None:
            return None
        return Keeping(
            self._ledger,
            self._mirror,
            self._api,
            scheduler_names=self._options.scheduler_names,
            when_away=self._options.when_ledger_away,
        )

    async def _work_with(
        self,
        keeping: Keeping,
        beside: Sequence[Coroutine[None, None, None]],
        scheduling: Scheduling,
        term: Term | None,
    ) -> None:
        """The same with a ledger; whoever it says is not the leader stops."""
        election = self._options.election
        lease_seconds = election.lease_seconds if election else 0.0

        async def begin(cycle: Cycle) -> None:
            await keeping.begin(cycle, term, lease_seconds)

        deposed: str | None = None
        try:
            async with asyncio.TaskGroup() as parts:
                for each in beside:
                    parts.create_task(each)
                parts.create_task(keeping.run())
                parts.create_task(scheduling.run(self._needed, begin))
        except* DeposedError as errors:
            deposed = str(errors.exceptions[0])
        finally:
            if deposed is None:
                await keeping.end()
        if deposed is not None:
            raise DeposedError(deposed)

    def _announce(self, what: str) -> None:
        """Say on the Lease who leads, as other components do."""
        election = self._options.election
        if election is not None and self._lease is not None:
            lease = ObjectRef("coordination.k8s.io/v1", "Lease", election.namespace, election.name)
            self._recorder.event(LEADER_ELECTION, lease, f"{self._lease.identity} {what}")

    def _lease_check(self) -> dict[str, Check]:
        return {"leaderElection": self._lease.complaint} if self._lease else {}

    def _unfilled(self) -> str | None:
        """What has not been seen yet."""
        kinds = [shelf.kind for shelf in self._needed if not shelf.filled.is_set()]
        return f"not listed yet: {', '.join(kinds)}" if kinds else None

    def _bring_up_to_date(self) -> None:
        """Figures that nobody needs more often than they are read."""
        self._reporting.count_pending()
        for shelf in self._needed:
            seen, lists = self._counted.get(shelf.kind, (0, 1))
            self._metrics.watched(shelf.kind, shelf.seen - seen)
            for _ in range(lists, shelf.lists):
                self._metrics.relisted(shelf.kind)
            self._counted[shelf.kind] = shelf.seen, max(1, shelf.lists)


def _for_ever() -> None:
    """There is no term that could end."""


def _nobody(*_: object) -> None:
    """Nobody has to hear of it."""
