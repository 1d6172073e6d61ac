"""The fields of a configuration file, with their defaults. docs/configuration.md explains each."""

import msgspec

from afflux.config.durations import Duration, seconds
from afflux.ledger.forgetting import USUAL_DAYS
from afflux.model.group import DEFAULT_QUEUE
from afflux.queue.rules import LARGEST_GROUP

API_VERSION = "afflux.dev/v1alpha1"
KIND = "AffluxConfiguration"

DEFAULT_POLICY = "cpu-memory"
DEFAULT_STRATEGY = "flow"
DEFAULT_SCHEDULER_NAME = "afflux"


class Fields(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A mapping in the file: names in camel case, none that is not known."""


class PolicySettings(Fields, frozen=True):
    """One policy: its name, how much it counts, its arguments."""

    name: str
    weight: int = 1
    args: dict[str, object] = {}


class ProfileFields(Fields, frozen=True):
    """The pods with this schedulerName are placed by these policies."""

    scheduler_name: str | None = None
    policies: tuple[PolicySettings, ...] | None = None


class QueueLimits(Fields, frozen=True):
    """Who is refused: groups that are too large or too long, and those who come when it is full."""

    group_size: int = LARGEST_GROUP
    duration: Duration | None = None
    groups: int | None = None


class QueueFields(Fields, frozen=True):
    """A named queue: who may start, and how far ahead is looked."""

    name: str
    strategy: str | None = None
    depth: int | None = None
    reservations: int | None = None
    default_duration: Duration | None = None
    hold_for_endless: bool = False
    limits: QueueLimits = QueueLimits()


class LeaderElection(Fields, frozen=True):
    """Which replica acts."""

    leader_elect: bool = True
    lease_duration: Duration = seconds(15)
    renew_deadline: Duration = seconds(10)
    retry_period: Duration = seconds(2)
    resource_name: str = "afflux"
    # The same for everybody, as for kube-scheduler. The pod's own namespace would be another one
    # for a replica that runs outside the cluster: two leases, two leaders.
    resource_namespace: str = "kube-system"


class ClientConnection(Fields, frozen=True):
    """The way to the API server."""

    kubeconfig: str = ""
    qps: float = 0.0
    burst: int = 0


class Serving(Fields, frozen=True):
    """Where health, metrics and the effective configuration are shown."""

    bind_address: str = "0.0.0.0"  # noqa: S104  kubelet and Prometheus come from outside
    port: int = 10251
    cert_file: str = ""
    key_file: str = ""
    stuck_after: Duration = seconds(300)


class Binding(Fields, frozen=True):
    """How decisions are carried out."""

    parallelism: int = 64
    timeout: Duration = seconds(30)


class Volumes(Fields, frozen=True):
    """How long a pod may wait for its volumes once its node is decided."""

    bind_timeout_seconds: int = 600


class Cleanup(Fields, frozen=True):
    """Whether groups are deleted when their deadline is over; and after how long the bound pods of
    a half-bound group are, never if it is not said."""

    enabled: bool = False
    half_bound_after: Duration | None = None


class Ledger(Fields, frozen=True):
    """Whether groups and their order are kept, and where: in a database by its URL, or in one of
    our own in a directory, by default one for each cluster. What happens while it is away; for how
    long it is remembered what has ended."""

    enabled: bool = True
    url: str = ""
    directory: str = ""
    when_away: str = "wait"
    history_days: int = USUAL_DAYS


class File(Fields, frozen=True):
    """A configuration file."""

    api_version: str
    kind: str
    strategy: str = DEFAULT_STRATEGY
    queues: tuple[QueueFields, ...] = (QueueFields(DEFAULT_QUEUE),)
    policies: tuple[PolicySettings, ...] = (PolicySettings(DEFAULT_POLICY),)
    profiles: tuple[ProfileFields, ...] = (ProfileFields(DEFAULT_SCHEDULER_NAME),)
    leader_election: LeaderElection = LeaderElection()
    client_connection: ClientConnection = ClientConnection()
    serving: Serving = Serving()
    binding: Binding = Binding()
    volumes: Volumes = Volumes()
    cleanup: Cleanup = Cleanup()
    ledger: Ledger = Ledger()
