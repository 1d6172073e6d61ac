"""The process of the service: the gRPC server, control loop, ledger and HTTP pages."""

import asyncio
import logging
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field

from afflux.control.announcements import Announcements
from afflux.control.ledger_writer import LedgerWriter, WhenAway
from afflux.control.loop import ControlLoop
from afflux.cycle.interfaces import DeposedError, Ledger
from afflux.cycle.loop import Cycle
from afflux.groups.quorum import BUILT_IN, QuorumRule
from afflux.groups.register import GroupRegister
from afflux.queue.rules import ONE_QUEUE, QueueRules
from afflux.rpc.cluster_entries import DEFAULT_LIMITS, ClusterLimits
from afflux.rpc.firmament_service import DEFAULT_SAMPLES, FirmamentService
from afflux.rpc.server import DEFAULT_SERVER_LIMITS, Server, ServerLimits
from afflux.rpc.server_security import ListenAddress, SecurityOptions
from afflux.rpc.service_adapter import ServiceAdapter, ServiceNotices
from afflux.rpc.service_cluster import ServiceCluster
from afflux.rpc.state_file import StateFile
from afflux.web.pages import Pages
from afflux.web.scheduler_metrics import Metrics
from afflux.web.watchdog import Watchdog

# A client that waits for a schedule is answered after a failed cycle.
_ERROR_PAUSE_SECONDS = 1.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PageOptions:
    """Where health and metrics are served."""

    address: str
    port: int
    cert_file: str = ""
    key_file: str = ""
    stuck_seconds: float = 300.0


@dataclass(frozen=True, slots=True)
class ServiceOptions:
    """The options of the process. Without `pages`, none are served; without `state_path`, nothing
    but the ledger survives the process."""

    listen: ListenAddress
    security: SecurityOptions = field(default_factory=SecurityOptions)
    pages: PageOptions | None = None
    limits: ServerLimits = DEFAULT_SERVER_LIMITS
    cluster_limits: ClusterLimits = DEFAULT_LIMITS
    samples: int = DEFAULT_SAMPLES
    state_path: str = ""
    rules: Mapping[str, QueueRules] = field(default_factory=lambda: ONE_QUEUE)
    quorum_rules: Mapping[str, QuorumRule] = field(default_factory=lambda: BUILT_IN)
    when_ledger_away: WhenAway = "wait"
    configuration: Mapping[str, object] = field(default_factory=dict[str, object])


async def serve(cycle: Cycle, options: ServiceOptions, ledger: Ledger | None = None) -> None:
    """Serve until SIGTERM or SIGINT. Raises DeposedError if another process took the ledger."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signal_number, stop.set)
    async with ServiceProcess(cycle, options, ledger) as process:
        failed = asyncio.create_task(process.failed())
        stopped = asyncio.create_task(stop.wait())
        await asyncio.wait({failed, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if failed.done():
            await failed
        _log.info("stopping")
        for each in (failed, stopped):
            each.cancel()


class ServiceProcess:
    """Builds the components of the process and runs them while it is entered."""

    def __init__(self, cycle: Cycle, options: ServiceOptions, ledger: Ledger | None = None) -> None:
        self._options = options
        self._cycle = cycle
        self._ledger = ledger
        self.cluster = ServiceCluster(options.cluster_limits)
        self._metrics = Metrics()
        self._watchdog = Watchdog(options.pages.stuck_seconds if options.pages else 300.0)
        register = GroupRegister(options.rules, options.quorum_rules)
        self._announcements = Announcements(
            ServiceNotices(self.cluster), self._metrics, register.waiting_group
        )
        self._adapter = ServiceAdapter(
            self.cluster, register, self._announcements, has_ledger=ledger is not None
        )
        self.service = FirmamentService(self.cluster, self._adapter.run_pass, options.samples)
        self.server = Server(self.service, options.limits)
        self._ledger_writer: LedgerWriter | None = None
        if ledger is not None:
            self._ledger_writer = LedgerWriter(ledger, register, when_away=options.when_ledger_away)
        self._loop = ControlLoop(
            self._adapter,
            cycle,
            self._announcements,
            metrics=self._metrics,
            watchdog=self._watchdog,
            ledger_writer=self._ledger_writer,
            error_pause_seconds=_ERROR_PAUSE_SECONDS,
        )
        self._running: list[asyncio.Task[None]] = []
        self._state_file: StateFile | None = None
        self._pages = Pages(
            self._metrics.registry,
            live={"cycle": self._watchdog.complaint},
            ready={"service": self._not_serving},
            configuration=options.configuration,
            before_metrics=self._announcements.count_pending,
        )

    async def __aenter__(self) -> "ServiceProcess":
        options = self._options
        try:
            if options.state_path:
                self._restore(options.state_path)
            if options.pages is not None:
                each = options.pages
                await self._pages.start(each.address, each.port, each.cert_file, each.key_file)
            if self._ledger_writer is not None:
                self._running.append(asyncio.create_task(self._ledger_writer.run()))
                await self._ledger_writer.take_over(self._cycle, self._adapter, None, 0.0)
            self._running.append(asyncio.create_task(self._loop.run()))
            await self.server.start(options.listen, options.security)
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.server.close()
        for each in self._running:
            each.cancel()
        if self._running:
            await asyncio.wait(self._running)
        deposed = any(
            not each.cancelled() and isinstance(each.exception(), DeposedError)
            for each in self._running
        )
        if self._ledger_writer is not None and not deposed:
            await self._ledger_writer.finish()
        if self._ledger is not None:
            await self._ledger.close()
        await self._pages.close()
        if self._state_file is not None:
            self._state_file.close()

    def _restore(self, path: str) -> None:
        """Continue where the process stopped that used this file before."""
        self._state_file = file = StateFile(path)
        self.cluster.restore(file.read())
        file.snapshot = self.cluster.records
        file.rewrite()
        self.cluster.on_record = file.append
        machines, tasks = len(self.cluster.machines), len(self.cluster.tasks)
        _log.info("the state file has %d machines and %d tasks", machines, tasks)

    async def failed(self) -> None:
        """Raises the error with which a component ends."""
        done, _ = await asyncio.wait(self._running, return_when=asyncio.FIRST_COMPLETED)
        for each in done:
            await each

    def _not_serving(self) -> str | None:
        """For the readiness check."""
        if not self.server.port:
            return "not listening yet"
        return None if self._state_file is None else self._state_file.complaint
