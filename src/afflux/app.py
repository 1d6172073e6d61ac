"""The only place where the parts are put together."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
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
    Settings,
    effective,
    parse_spec,
)
from afflux.cycle.inspection import Inspection, InspectionError
from afflux.cycle.loop import Cycle
from afflux.cycle.optimising import Optimising
from afflux.cycle.ports import Scheduler
from afflux.model.errors import InputError
from afflux.policies.policy import Weighted
from afflux.policies.registry import constraints, make_policy
from afflux.queue.rules import QueueRules
from afflux.sim.pod_by_pod import PodByPod
from afflux.sim.replay import Contestant

if TYPE_CHECKING:
    from afflux.kube.api.connection import Connection
    from afflux.kube.live.running import Options
    from afflux.ledger.connecting import Address

POD_BY_POD = "pod-by-pod"
# What to type where nothing is found by itself.
ADDRESSES = (
    "expected the address of the inspection service, such as https://127.0.0.1:10251 while"
    " `kubectl --namespace afflux-system port-forward service/afflux-inspection 10251:443` runs, or"
    " --database with that of the ledger"
)

T = TypeVar("T")

_log = logging.getLogger(__name__)


def scheduler(settings: Settings, state: State) -> Scheduler:
    """A scheduler with these settings over this cluster; promises come without their witness."""
    return Optimising(state, _queues(settings), constraints(), _policies(settings), witnesses=False)


def _queues(settings: Settings) -> list[tuple[QueueRules, Strategy]]:
    return [
        (rules, find_strategy(rules.strategy, settings.origin)) for rules in settings.queue_rules()
    ]


def run_in_kubernetes(
    configuration: Configuration, kubeconfig: str | None, context: str | None
) -> str | None:
    """Schedule a live cluster until stopped; why it had to end, None if it was told to."""
    # Not needed by simulations, which should start quickly.
    from afflux.cycle.ports import DeposedError
    from afflux.kube.api.in_cluster import in_cluster
    from afflux.kube.api.kubeconfig import read_kubeconfig
    from afflux.kube.live.leasing import LostLeaseError
    from afflux.kube.live.running import run

    settings = configuration.settings
    state = State()
    optimising = Optimising(
        state,
        _queues(settings),
        constraints(),
        {each.scheduler_name: _policies(each.settings) for each in configuration.profiles},
    )
    path = kubeconfig or configuration.client_connection.kubeconfig or None
    connection = in_cluster() if path is None and context is None else None
    if connection is None:
        connection = read_kubeconfig(path, context)
    cycle = Cycle(state, optimising, spares_others=True, tolerance_seconds=1.0)
    options = _door_options(configuration)

    async def door(address: "Address | None") -> None:
        if address is None:
            await run(connection, cycle, options)
            return
        from afflux.ledger.inspecting import LedgerInspection
        from afflux.ledger.postgres import PostgresLedger

        # Whoever looks does so over connections of their own.
        async with LedgerInspection(address) as inspection:
            kept = PostgresLedger(address, configuration.ledger.history_days)
            await run(connection, cycle, options, kept, inspection)

    ledger = _somewhere(configuration.ledger, connection, configuration.leader_election)
    lost: BaseException | None = None
    try:
        with opened(ledger) as address, asyncio.Runner() as runner:
            runner.run(door(address))
    except* (LostLeaseError, DeposedError) as group:
        lost = group.exceptions[0]
    return str(lost) if lost else None


def _somewhere(fields: Ledger, connection: "Connection", election: LeaderElection) -> Ledger:
    """The same with a directory, if there is to be a ledger and nobody says where."""
    if not fields.enabled or fields.url or fields.directory:
        return fields
    from afflux.ledger.places import usual_directory

    lease = f"{election.resource_namespace}/{election.resource_name}"
    return replace(fields, directory=usual_directory(connection.server, lease))


@contextmanager
def opened(fields: Ledger) -> "Generator[Address | None]":
    """The address of the ledger that is configured, if there is one; a server of our own runs for
    as long."""
    if fields.url:
        from afflux.ledger.connecting import check_url

        check_url(fields.url)

        async def address() -> str:
            return fields.url

        yield address
        return
    if not fields.directory:
        yield None
        return
    from afflux.ledger.embedded import Embedded

    server = Embedded(fields.directory)
    try:
        server.start()
        _log.info("the ledger is in %s", fields.directory)
        yield server.address
    finally:
        server.stop()


def _door_options(configuration: Configuration) -> "Options":
    from afflux.kube.live.running import Election, Options, Served

    election, serving = configuration.leader_election, configuration.serving
    half_bound_after = configuration.cleanup.half_bound_after
    return Options(
        scheduler_names=tuple(each.scheduler_name for each in configuration.profiles),
        election=Election(
            namespace=election.resource_namespace,
            name=election.resource_name,
            lease_seconds=election.lease_duration.seconds,
            renew_seconds=election.renew_deadline.seconds,
            retry_seconds=election.retry_period.seconds,
        )
        if election.leader_elect
        else None,
        served=Served(
            address=serving.bind_address,
            port=serving.port,
            cert_file=serving.cert_file,
            key_file=serving.key_file,
            stuck_seconds=serving.stuck_after.seconds,
        ),
        qps=configuration.client_connection.qps,
        burst=configuration.client_connection.burst,
        parallelism=configuration.binding.parallelism,
        bind_seconds=configuration.binding.timeout.seconds,
        volume_seconds=float(configuration.volumes.bind_timeout_seconds),
        rules={rules.name: rules for rules in configuration.settings.queue_rules()},
        cleanup=configuration.cleanup.enabled,
        half_bound_seconds=half_bound_after.seconds if half_bound_after is not None else None,
        when_ledger_away=cast('Literal["wait", "continue"]', configuration.ledger.when_away),
        configuration=effective(configuration),
    )


def _policies(settings: Settings) -> list[Weighted]:
    if any(policy.name == POD_BY_POD for policy in settings.policies):
        raise InputError(
            f"{settings.origin}: {POD_BY_POD} is not a policy; expected it alone, without a"
            " strategy, as something to simulate"
        )
    return [
        Weighted(make_policy(policy.name, policy.args, settings.origin), policy.weight)
        for policy in settings.policies
    ]


def contestant(settings: Settings, name: str | None = None) -> Contestant:
    """A scheduler to simulate; a wrong setting is found here, not in the middle of a simulation."""
    if settings.policies == (PolicySettings(POD_BY_POD),) and settings.strategy == DEFAULT_STRATEGY:
        return Contestant(POD_BY_POD, lambda _: PodByPod(), whole_groups=False)
    scheduler(settings, State())
    if name is None:
        policies = "+".join(policy.name for policy in settings.policies)
        name = f"{policies}@{settings.strategy}"
    return Contestant(name, lambda state: scheduler(settings, state))


def contestants(specs: Sequence[str], strategy: str | None = None) -> list[Contestant]:
    """The schedulers that were named on the command line.

    `strategy` is for those that name none of their own; then it becomes part of their name.
    """
    found: list[Contestant] = []
    for spec in specs:
        bare = spec == POD_BY_POD or "@" in spec or strategy is None
        name = spec if bare else f"{spec}@{strategy}"
        found.append(contestant(parse_spec(name), name))
        if any(other.name == name for other in found[:-1]):
            raise InputError(f"--compare: {name!r:.80} is named twice; expected different names")
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where groups are looked at: the service at this address, as the user of a kubeconfig, or the
    ledger itself, by the address of its database or the directory of an embedded one; neither, the
    directory that `afflux run` takes for the kubeconfig's cluster if nothing is configured."""

    service: str = ""
    database: str = ""
    kubeconfig: str | None = None
    context: str | None = None
    certificate_authority: str | None = None
    tls_server_name: str | None = None
    timeout_seconds: float = 30.0


def inspect(source: Source, ask: Callable[[Inspection, str], Awaitable[T]]) -> T:
    """The answer to a question, which is told the usual namespace; an InspectionError if there is
    none."""

    async def asked() -> T:
        try:
            async with (
                asyncio.timeout(source.timeout_seconds),
                _opened(source) as (inspection, namespace),
            ):
                return await ask(inspection, namespace)
        except TimeoutError:
            raise InspectionError(
                f"not answered within {source.timeout_seconds:g} s (--request-timeout)"
            ) from None

    return asyncio.run(asked())


@asynccontextmanager
async def _opened(source: Source) -> AsyncGenerator[tuple[Inspection, str]]:
    if source.service:
        from afflux.kube.asking import ServiceInspection, service_connection

        user = _connection(source)
        connection = service_connection(
            user, source.service, source.certificate_authority, source.tls_server_name
        )
        async with ServiceInspection(connection, source.timeout_seconds) as service:
            yield service, user.namespace
        return
    from afflux.ledger.inspecting import LedgerInspection

    if source.database:
        fields, namespace = _ledger(source.database), "default"
    else:
        fields, namespace = _ledger_here(source)
    with opened(fields) as address:
        if address is not None:
            async with LedgerInspection(address) as ledger:
                yield ledger, namespace


def _connection(source: Source) -> "Connection":
    """The user of the kubeconfig, or of the pod in which we are."""
    from afflux.kube.api.in_cluster import in_cluster
    from afflux.kube.api.kubeconfig import read_kubeconfig

    named = source.kubeconfig is not None or source.context is not None
    return (None if named else in_cluster()) or read_kubeconfig(source.kubeconfig, source.context)


def _ledger_here(source: Source) -> tuple[Ledger, str]:
    """That of an `afflux run` on this machine of which nothing is configured, and whose namespace
    is usual."""
    try:
        connection = _connection(source)
    except InputError as error:
        raise InputError(
            f"--service: missing, and for which cluster a ledger would be kept here is not known"
            f" ({error}); {ADDRESSES}"
        ) from None
    fields = _somewhere(Ledger(), connection, LeaderElection())
    if not _has_begun(fields.directory):
        raise InputError(
            f"--service: missing, and in {fields.directory} no ledger is kept for"
            f" {connection.server}; {ADDRESSES}"
        )
    return fields, connection.namespace


def _ledger(database: str) -> Ledger:
    """What stands behind --database, as the configuration would say it."""
    if "://" in database or "=" in database:
        return Ledger(url=database)
    if not _has_begun(database):
        raise InputError(
            f"--database: {database!r:.200}, expected postgresql://user@host:port/name, or the"
            " directory of an embedded ledger"
        )
    return Ledger(directory=database)


def _has_begun(directory: str) -> bool:
    """Whether there has ever been a ledger in it."""
    return (Path(directory).expanduser() / "begun").is_file()
