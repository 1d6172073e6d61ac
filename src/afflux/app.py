"""Constructs the parts of afflux and connects them; no other module does."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar, cast

from msgspec.structs import replace

from afflux.admit.strategies import Strategy, find_strategy
from afflux.cluster.state import State
from afflux.config import (
    DEFAULT_STRATEGY,
    Configuration,
    LeaderElection,
    Ledger,
    PolicySettings,
    SchedulerSettings,
    effective_configuration,
    parse_scheduler_spec,
)
from afflux.cycle.inspection_types import Inspection, InspectionError
from afflux.cycle.interfaces import Scheduler
from afflux.cycle.loop import Cycle
from afflux.cycle.optimiser import Optimiser
from afflux.cycle.preempting_scheduler import PreemptingScheduler
from afflux.groups.quorum import QuorumRule, quorum_rule
from afflux.kube.quantities import storage_bytes
from afflux.model.errors import InputError
from afflux.policies.policy import Weighted
from afflux.policies.registry import constraints, make_policy
from afflux.queue.rules import QueueRules
from afflux.sim.pod_by_pod import PodByPod
from afflux.sim.replay import SimulatedScheduler

if TYPE_CHECKING:
    from afflux.kube.api.client_config import ClientConfig
    from afflux.kube.disks.disk_overview import NodeView
    from afflux.kube.file_adapter import FileDisks
    from afflux.kube.live.disk_components import LiveDisks
    from afflux.kube.live.process import Options
    from afflux.ledger.connection import AddressSource
    from afflux.ledger.embedded_postgres import StartTiming

POD_BY_POD = "pod-by-pod"
# The hint if no inspection service and no ledger is found.
ADDRESS_HINT = (
    "expected the address of the inspection service, such as https://127.0.0.1:10251 while"
    " `kubectl --namespace afflux-system port-forward service/afflux-inspection 10251:443` runs, or"
    " --database with that of the ledger"
)

T = TypeVar("T")

_log = logging.getLogger(__name__)


def make_scheduler(
    settings: SchedulerSettings, state: State, *, preempts: bool = False
) -> Scheduler:
    """A scheduler with these settings for this cluster; its reservations name no machines."""
    policies = _policies(settings)
    inner = Optimiser(state, _queues(settings), constraints(), policies, with_machines=False)
    return PreemptingScheduler(state, inner, [""]) if preempts else inner


def _queues(settings: SchedulerSettings) -> list[tuple[QueueRules, Strategy]]:
    rules = settings.queue_rules()
    return [(each, find_strategy(each.strategy, settings.origin)) for each in rules]


def quorum_rules(settings: SchedulerSettings) -> Mapping[str, QuorumRule]:
    """The quorum rules that the queues name, by name; an InputError for an unknown one."""
    return {
        each.quorum: quorum_rule(each.quorum, f"{settings.origin}: queues[{number}].quorum")
        for number, each in enumerate(settings.queue_rules())
    }


def file_disks(settings: SchedulerSettings) -> "FileDisks | None":
    """How disk bandwidth counts in a dry run on files, None if it does not."""
    counting = settings.disk_counting()
    if counting is None:
        return None
    from afflux.kube.file_adapter import FileDisks
    from afflux.kube.trusted_key_files import read_trusted_keys

    fields = settings.disk_io
    keys = read_trusted_keys(fields.trusted_keys) if fields.trusted_keys else {}
    named = fields.config_map
    return FileDisks(counting, f"{named.namespace}/{named.name}", keys)


def run_in_kubernetes(
    configuration: Configuration, kubeconfig: str | None, context: str | None
) -> str | None:
    """Schedules a live cluster until stopped. Returns why it lost leadership, None if stopped."""
    # Imported here because simulations do not need them and should start quickly.
    from afflux.cycle.interfaces import DeposedError
    from afflux.kube.api.in_cluster import in_cluster
    from afflux.kube.api.kubeconfig import read_kubeconfig
    from afflux.kube.live.leader_election import LostLeaseError
    from afflux.kube.live.process import run

    settings = configuration.settings
    state = State()
    profiles = {each.scheduler_name: _policies(each.settings) for each in configuration.profiles}
    optimiser = Optimiser(state, _queues(settings), constraints(), profiles)
    options = _options(configuration)
    path = kubeconfig or configuration.client_connection.kubeconfig or None
    client_config = in_cluster() if path is None and context is None else None
    if client_config is None:
        client_config = read_kubeconfig(path, context)
    preempting = [each.scheduler_name for each in configuration.profiles if each.preempts]
    scheduler = PreemptingScheduler(state, optimiser, preempting) if preempting else optimiser
    cycle = Cycle(state, scheduler, isolates_faults=True, tolerance_seconds=1.0)

    async def run_adapter(address: "AddressSource | None") -> None:
        if address is None:
            await run(client_config, cycle, options)
            return
        from afflux.ledger.postgres import PostgresLedger
        from afflux.ledger.queries import LedgerInspection
        from afflux.ledger.retention import Retention

        # Inspection uses its own database connections.
        async with LedgerInspection(address) as inspection:
            ledger_store = PostgresLedger(address, Retention(configuration.ledger.history_days))
            await run(client_config, cycle, options, ledger_store, inspection)

    election = configuration.leader_election
    ledger = _with_default_directory(configuration.ledger, client_config, election)
    lost: BaseException | None = None
    try:
        with open_ledger(ledger) as address, asyncio.Runner() as runner:
            runner.run(run_adapter(address))
    except* (LostLeaseError, DeposedError) as group:
        lost = group.exceptions[0]
    return str(lost) if lost else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceAddress:
    """Where the service listens, how clients have to show what they are, and the file in which its
    state survives."""

    listen: str
    insecure: bool = False
    cert_file: str = ""
    key_file: str = ""
    client_ca_file: str = ""
    token_file: str = ""
    state_file: str = ""


def serve(
    configuration: Configuration, settings: SchedulerSettings, address: ServiceAddress
) -> str | None:
    """Schedules what clients submit until stopped. Returns why it had to stop, None if it was
    stopped. Only a ledger that the configuration names is used: there is no cluster from which a
    default directory could be derived."""
    from afflux.cycle.interfaces import DeposedError
    from afflux.rpc.process import PageOptions, ServiceOptions
    from afflux.rpc.process import serve as serve_clients
    from afflux.rpc.server_security import SecurityOptions, listen_address

    state = State()
    scheduler: Scheduler
    scheduler = optimiser = Optimiser(state, _queues(settings), constraints(), _policies(settings))
    if settings.preempts is not False:
        scheduler = PreemptingScheduler(state, optimiser, [""])
    cycle = Cycle(state, scheduler, isolates_faults=True, tolerance_seconds=1.0)
    serving = configuration.serving
    options = ServiceOptions(
        listen_address(address.listen),
        SecurityOptions(
            insecure=address.insecure,
            cert_file=address.cert_file,
            key_file=address.key_file,
            client_ca_file=address.client_ca_file,
            token_file=address.token_file,
        ),
        PageOptions(
            serving.bind_address,
            serving.port,
            serving.cert_file,
            serving.key_file,
            serving.stuck_after.seconds,
        ),
        state_path=address.state_file,
        rules={rules.name: rules for rules in settings.queue_rules()},
        quorum_rules=quorum_rules(settings),
        when_ledger_away=cast('Literal["wait", "continue"]', configuration.ledger.when_away),
        configuration=effective_configuration(configuration),
    )

    async def serve_with(database: "AddressSource | None") -> None:
        if database is None:
            await serve_clients(cycle, options)
            return
        from afflux.ledger.postgres import PostgresLedger
        from afflux.ledger.retention import Retention

        store = PostgresLedger(database, Retention(configuration.ledger.history_days))
        await serve_clients(cycle, options, store)

    ledger = configuration.ledger
    named = ledger if ledger.enabled else Ledger(enabled=False)
    try:
        with open_ledger(named) as database, asyncio.Runner() as runner:
            runner.run(serve_with(database))
    except DeposedError as error:
        return str(error)
    return None


def _with_default_directory(
    fields: Ledger, client_config: "ClientConfig", election: LeaderElection
) -> Ledger:
    """The fields with the default directory if the ledger is enabled without URL and directory."""
    if not fields.enabled or fields.url or fields.directory:
        return fields
    from afflux.ledger.directories import default_directory

    lease = f"{election.resource_namespace}/{election.resource_name}"
    return replace(fields, directory=default_directory(client_config.server, lease))


@contextmanager
def open_ledger(
    fields: Ledger, timing: "StartTiming | None" = None
) -> "Generator[AddressSource | None]":
    """The address of the configured ledger, None without one; runs an embedded server for it."""
    if fields.url:
        from afflux.ledger.connection import check_url

        check_url(fields.url)

        async def address() -> str:
            return fields.url

        yield address
        return
    if not fields.directory:
        yield None
        return
    from afflux.ledger.embedded_postgres import DEFAULT_START_TIMING, EmbeddedPostgres

    server = EmbeddedPostgres(fields.directory, timing=timing or DEFAULT_START_TIMING)
    try:
        server.start()
        _log.info("the ledger is in %s", fields.directory)
        yield server.address
    finally:
        server.stop()


def _options(configuration: Configuration) -> "Options":
    from afflux.kube.live.process import LeaderElectionOptions, Options, ServingOptions

    election, serving = configuration.leader_election, configuration.serving
    half_bound_after = configuration.cleanup.half_bound_after
    return Options(
        scheduler_names=tuple(each.scheduler_name for each in configuration.profiles),
        election=LeaderElectionOptions(
            namespace=election.resource_namespace,
            name=election.resource_name,
            lease_duration_seconds=election.lease_duration.seconds,
            renew_deadline_seconds=election.renew_deadline.seconds,
            retry_period_seconds=election.retry_period.seconds,
        )
        if election.leader_elect
        else None,
        serving=ServingOptions(
            address=serving.bind_address,
            port=serving.port,
            cert_file=serving.cert_file,
            key_file=serving.key_file,
            stuck_seconds=serving.stuck_after.seconds,
        ),
        qps=configuration.client_connection.qps,
        burst=configuration.client_connection.burst,
        parallelism=configuration.binding.parallelism,
        bind_timeout_seconds=configuration.binding.timeout.seconds,
        volume_timeout_seconds=float(configuration.volumes.bind_timeout_seconds),
        rules={rules.name: rules for rules in configuration.settings.queue_rules()},
        quorum_rules=quorum_rules(configuration.settings),
        default_constraints=configuration.default_constraints(),
        affinity_weight=configuration.settings.pod_affinity.hard_pod_affinity_weight,
        cleanup=configuration.cleanup.enabled,
        cleanup_finished=configuration.cleanup.finished,
        half_bound_seconds=half_bound_after.seconds if half_bound_after is not None else None,
        disks=_live_disks(configuration),
        preempts=any(each.preempts for each in configuration.profiles),
        when_ledger_away=cast('Literal["wait", "continue"]', configuration.ledger.when_away),
        configuration=effective_configuration(configuration),
    )


def _live_disks(configuration: Configuration) -> "LiveDisks | None":
    """How disk bandwidth counts in a live cluster, None if no profile counts it."""
    counting = configuration.disk_counting()
    if counting is None:
        return None
    from afflux.kube.live.content_download import DownloadLimits
    from afflux.kube.live.disk_components import LiveDisks
    from afflux.kube.reader.cluster_disks import DiskOptions
    from afflux.kube.reader.node_disks import SilenceAction, SilenceRules

    fields = configuration.disk_io
    silent, named, downloads = fields.silent, fields.config_map, fields.downloads
    action = cast("SilenceAction", silent.action)
    return LiveDisks(
        DiskOptions(counting, SilenceRules(silent.after.seconds, action, silent.degrade_to)),
        namespace=fields.namespace,
        config_map=f"{named.namespace}/{named.name}",
        trusted_keys=fields.trusted_keys,
        downloads=DownloadLimits(downloads.timeout.seconds, storage_bytes(downloads.max_size)),
    )


def _policies(settings: SchedulerSettings) -> list[Weighted]:
    if any(policy.name == POD_BY_POD for policy in settings.policies):
        raise InputError(
            f"{settings.origin}: {POD_BY_POD} is not a policy; expected it alone, without a"
            " strategy, as something to simulate"
        )
    return [
        Weighted(make_policy(policy.name, policy.args, settings.origin), policy.weight)
        for policy in settings.policies
    ]


def simulated_scheduler(settings: SchedulerSettings, name: str | None = None) -> SimulatedScheduler:
    """A scheduler to simulate; wrong settings are refused here, before the simulation."""
    if settings.policies == (PolicySettings(POD_BY_POD),) and settings.strategy == DEFAULT_STRATEGY:
        return SimulatedScheduler(POD_BY_POD, lambda _: PodByPod(), whole_groups=False)
    make_scheduler(settings, State())
    if name is None:
        policies = "+".join(policy.name for policy in settings.policies)
        name = f"{policies}@{settings.strategy}"
    return SimulatedScheduler(
        name,
        lambda state: make_scheduler(settings, state, preempts=settings.preempts is True),
        counts_disks=settings.counts_disks,
        preempts=settings.preempts is True,
    )


def simulated_schedulers(
    specs: Sequence[str], strategy: str | None = None
) -> list[SimulatedScheduler]:
    """The schedulers named on the command line.

    `strategy` is appended to the names without a strategy.
    """
    found: list[SimulatedScheduler] = []
    for spec in specs:
        bare = spec == POD_BY_POD or "@" in spec or strategy is None
        name = spec if bare else f"{spec}@{strategy}"
        found.append(simulated_scheduler(parse_scheduler_spec(name), name))
        if any(other.name == name for other in found[:-1]):
            raise InputError(f"--compare: {name!r:.80} is named twice; expected different names")
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectionSource:
    """The source for inspection: the inspection service at an address, with the credentials of a
    kubeconfig; or the ledger, by the address of its database or its directory. If both are empty,
    the default directory of `afflux run` for the kubeconfig's cluster."""

    service: str = ""
    database: str = ""
    kubeconfig: str | None = None
    context: str | None = None
    certificate_authority: str | None = None
    tls_server_name: str | None = None
    timeout_seconds: float = 30.0


def inspect(source: InspectionSource, ask: Callable[[Inspection, str], Awaitable[T]]) -> T:
    """The answer to `ask`, which gets the inspection and the default namespace; an InspectionError
    if there is none."""

    async def answer() -> T:
        try:
            async with (
                asyncio.timeout(source.timeout_seconds),
                _open_inspection(source) as (inspection, namespace),
            ):
                return await ask(inspection, namespace)
        except TimeoutError:
            raise InspectionError(
                f"not answered within {source.timeout_seconds:g} s (--request-timeout)"
            ) from None

    return asyncio.run(answer())


@asynccontextmanager
async def _open_inspection(source: InspectionSource) -> AsyncGenerator[tuple[Inspection, str]]:
    if source.service:
        from afflux.kube.inspection_client import ServiceInspection, service_connection

        user = _client_config(source)
        client_config = service_connection(
            user, source.service, source.certificate_authority, source.tls_server_name
        )
        async with ServiceInspection(client_config, source.timeout_seconds) as service:
            yield service, user.namespace
        return
    from afflux.ledger.queries import LedgerInspection

    if source.database:
        fields, namespace = _ledger_at(source.database), "default"
    else:
        fields, namespace = _default_ledger(source)
    with ExitStack() as opened:
        try:
            address = opened.enter_context(open_ledger(fields))
        except InputError as error:
            if fields.url:
                raise
            # The directory holds a ledger: that its server does not start is no wrong query.
            raise InspectionError(f"the ledger does not answer: {error}") from None
        if address is not None:
            async with LedgerInspection(address) as ledger:
                yield ledger, namespace


def disks_of_cluster(kubeconfig: str | None, context: str | None) -> "list[NodeView]":
    """The disks of the cluster of this kubeconfig; a NoDisksError if they cannot be read."""
    from afflux.kube.disk_objects import disks_of_cluster as read_disks

    source = InspectionSource(kubeconfig=kubeconfig, context=context)
    return asyncio.run(read_disks(_client_config(source)))


def _client_config(source: InspectionSource) -> "ClientConfig":
    """The client configuration of the kubeconfig, or of the pod this process runs in."""
    from afflux.kube.api.in_cluster import in_cluster
    from afflux.kube.api.kubeconfig import read_kubeconfig

    named = source.kubeconfig is not None or source.context is not None
    return (None if named else in_cluster()) or read_kubeconfig(source.kubeconfig, source.context)


def _default_ledger(source: InspectionSource) -> tuple[Ledger, str]:
    """The ledger of an `afflux run` on this machine with the default configuration, and the default
    namespace."""
    try:
        client_config = _client_config(source)
    except InputError as error:
        raise InputError(
            f"--service: missing, and for which cluster a ledger would be kept here is not known"
            f" ({error}); {ADDRESS_HINT}"
        ) from None
    fields = _with_default_directory(Ledger(), client_config, LeaderElection())
    if not _holds_ledger(fields.directory):
        raise InputError(
            f"--service: missing, and in {fields.directory} no ledger is kept for"
            f" {client_config.server}; {ADDRESS_HINT}"
        )
    return fields, client_config.namespace


def _ledger_at(database: str) -> Ledger:
    """The ledger that --database names, as fields of the configuration."""
    if "://" in database or "=" in database:
        return Ledger(url=database)
    if not _holds_ledger(database):
        raise InputError(
            f"--database: {database!r:.200}, expected postgresql://user@host:port/name, or the"
            " directory of an embedded ledger"
        )
    return Ledger(directory=database)


def _holds_ledger(directory: str) -> bool:
    """Whether a ledger was ever started in this directory."""
    return (Path(directory).expanduser() / "begun").is_file()
