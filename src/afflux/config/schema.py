"""The fields of a configuration file, with their defaults. docs/configuration.md explains each."""

import msgspec

from afflux.config.durations import Duration, seconds
from afflux.ledger.retention import DEFAULT_HISTORY_DAYS
from afflux.model.relations import DEFAULT_REQUIRED_AFFINITY_WEIGHT
from afflux.model.waiting_group import DEFAULT_QUEUE
from afflux.queue.rules import DEFAULT_MAX_GROUP_SIZE, DEFAULT_QUORUM

API_VERSION = "afflux.dev/v1alpha1"
KIND = "AffluxConfiguration"

DEFAULT_POLICY = "cpu-memory"
# Disk bandwidth counts for the profiles with this policy.
DISK_POLICY = "disk-io"
DEFAULT_STRATEGY = "flow"
DEFAULT_SCHEDULER_NAME = "afflux"


class Fields(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A mapping in the file: names in camel case; unknown fields are errors."""


class PolicySettings(Fields, frozen=True):
    """One policy: its name, weight and arguments."""

    name: str
    weight: int = 1
    args: dict[str, object] = {}


class DefaultConstraintFields(Fields, frozen=True):
    """A spread constraint for pods that state none; the fields are those of a pod's."""

    topology_key: str
    max_skew: int
    when_unsatisfiable: str
    min_domains: int | None = None
    node_affinity_policy: str = "Honor"
    node_taints_policy: str = "Ignore"


class TopologySpread(Fields, frozen=True):
    """Which spread constraints pods have that state none: kube-scheduler's own (`System`), or those
    of the list (`List`), which may be empty."""

    defaulting_type: str = "System"
    default_constraints: tuple[DefaultConstraintFields, ...] = ()


class PodAffinity(Fields, frozen=True):
    """How much the required affinity of a running pod attracts the pods that it selects."""

    hard_pod_affinity_weight: int = DEFAULT_REQUIRED_AFFINITY_WEIGHT


DEFAULT_TOPOLOGY_SPREAD = TopologySpread()
DEFAULT_POD_AFFINITY = PodAffinity()


class Preemption(Fields, frozen=True):
    """Whether running pods are evicted for waiting ones of a higher priority. None leaves it to the
    command."""

    enabled: bool | None = None


class ProfileFields(Fields, frozen=True):
    """Pods with this schedulerName are placed by these policies."""

    scheduler_name: str | None = None
    policies: tuple[PolicySettings, ...] | None = None
    topology_spread: TopologySpread | None = None
    preemption: Preemption = Preemption()


class QueueLimits(Fields, frozen=True):
    """Groups beyond these limits are refused: members, duration, groups in the queue."""

    group_size: int = DEFAULT_MAX_GROUP_SIZE
    duration: Duration | None = None
    groups: int | None = None


class QueueFields(Fields, frozen=True):
    """A named queue: its strategy and quorum rule, how many groups are considered, its limits."""

    name: str
    strategy: str | None = None
    quorum: str = DEFAULT_QUORUM
    depth: int | None = None
    reservations: int | None = None
    default_duration: Duration | None = None
    hold_for_endless: bool = False
    limits: QueueLimits = QueueLimits()


class LeaderElection(Fields, frozen=True):
    """Which replica schedules."""

    leader_elect: bool = True
    lease_duration: Duration = seconds(15)
    renew_deadline: Duration = seconds(10)
    retry_period: Duration = seconds(2)
    resource_name: str = "afflux"
    # A fixed namespace, as for kube-scheduler. The pod's own namespace would differ for a replica
    # outside the cluster: two leases, two leaders.
    resource_namespace: str = "kube-system"


class ClientConnection(Fields, frozen=True):
    """The connection to the API server."""

    kubeconfig: str = ""
    qps: float = 0.0
    burst: int = 0


class Serving(Fields, frozen=True):
    """The address that serves health, metrics and the effective configuration."""

    bind_address: str = "0.0.0.0"  # noqa: S104  kubelet and Prometheus come from outside
    port: int = 10251
    cert_file: str = ""
    key_file: str = ""
    stuck_after: Duration = seconds(300)


class Binding(Fields, frozen=True):
    parallelism: int = 64
    timeout: Duration = seconds(30)


class Volumes(Fields, frozen=True):
    """How long a pod may wait for its volumes once its node is decided."""

    bind_timeout_seconds: int = 600


class Cleanup(Fields, frozen=True):
    """Whether groups are deleted after their deadline, and when they have completed, and after how
    long the bound pods of a half-bound group are deleted; never by default."""

    enabled: bool = False
    finished: bool = False
    half_bound_after: Duration | None = None


class Ledger(Fields, frozen=True):
    """Whether groups and their order are stored, and where: in the database at a URL, or in an
    embedded PostgreSQL in a directory, by default one per cluster. `when_away` says what happens
    while the database is unavailable, `history_days` for how long ended groups are kept."""

    enabled: bool = True
    url: str = ""
    directory: str = ""
    when_away: str = "wait"
    history_days: int = DEFAULT_HISTORY_DAYS


class NormaliserConfigMap(Fields, frozen=True):
    """The ConfigMap that lists the normalisers of disk models; the KEP's by default."""

    namespace: str = "default"
    name: str = "normalization-func"


class DiskCharge(Fields, frozen=True):
    """What a pod counts for on disks that states nothing."""

    read: str = "5Mi"
    write: str = "5Mi"
    block_size: str = "32Ki"


class SilentDriver(Fields, frozen=True):
    """After how long without a status an IO driver is silent, and what its disks count for then."""

    after: Duration = seconds(60)
    action: str = "keep"
    degrade_to: float = 0.5


class Downloads(Fields, frozen=True):
    """The limits of one download of a normaliser."""

    timeout: Duration = seconds(10)
    max_size: str = "4Mi"


class DiskIO(Fields, frozen=True):
    """Disk bandwidth, for the profiles with the policy disk-io. In an empty namespace, the objects
    of the IO drivers are in that of the scheduler."""

    namespace: str = ""
    config_map: NormaliserConfigMap = NormaliserConfigMap()
    trusted_keys: str = ""
    default_charge: DiskCharge = DiskCharge()
    silent: SilentDriver = SilentDriver()
    downloads: Downloads = Downloads()


DEFAULT_DISK_IO = DiskIO()


class ConfigurationFile(Fields, frozen=True):
    api_version: str
    kind: str
    strategy: str = DEFAULT_STRATEGY
    queues: tuple[QueueFields, ...] = (QueueFields(DEFAULT_QUEUE),)
    policies: tuple[PolicySettings, ...] = (PolicySettings(DEFAULT_POLICY),)
    profiles: tuple[ProfileFields, ...] = (ProfileFields(DEFAULT_SCHEDULER_NAME),)
    topology_spread: TopologySpread = DEFAULT_TOPOLOGY_SPREAD
    pod_affinity: PodAffinity = DEFAULT_POD_AFFINITY
    leader_election: LeaderElection = LeaderElection()
    client_connection: ClientConnection = ClientConnection()
    serving: Serving = Serving()
    binding: Binding = Binding()
    volumes: Volumes = Volumes()
    disk_io: DiskIO = msgspec.field(name="diskIO", default=DEFAULT_DISK_IO)
    cleanup: Cleanup = Cleanup()
    ledger: Ledger = Ledger()
