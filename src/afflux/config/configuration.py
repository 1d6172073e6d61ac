"""Reads a configuration file, or a scheduler spec of the command line, into typed settings."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from afflux.bounded_read import read_file
from afflux.config.durations import Duration, parse_duration, seconds
from afflux.config.schema import (
    API_VERSION,
    DEFAULT_DISK_IO,
    DEFAULT_POD_AFFINITY,
    DEFAULT_POLICY,
    DEFAULT_SCHEDULER_NAME,
    DEFAULT_STRATEGY,
    DEFAULT_TOPOLOGY_SPREAD,
    DISK_POLICY,
    KIND,
    Binding,
    Cleanup,
    ClientConnection,
    ConfigurationFile,
    DiskIO,
    LeaderElection,
    Ledger,
    PodAffinity,
    PolicySettings,
    Preemption,
    ProfileFields,
    QueueFields,
    QueueLimits,
    Serving,
    TopologySpread,
    Volumes,
)
from afflux.config.unknown_fields import unknown_field
from afflux.config.validation import check, check_unique
from afflux.kube.default_constraints import (
    SYSTEM_DEFAULTS,
    DefaultConstraint,
    DefaultConstraints,
)
from afflux.kube.disks.annotations import bandwidth, block_size
from afflux.kube.disks.disk_requests import DiskCounting
from afflux.kube.input_errors import field_error, shown
from afflux.kube.yaml_reader import Value, documents
from afflux.model.disks import DiskRequest, VolumeIO
from afflux.model.errors import InputError
from afflux.queue.rules import QueueRules

# The password in a URL: between user and host, or among the parameters.
_PASSWORD = re.compile(
    r"(?P<before>://[^:/?@]*:|[?&](?:ssl)?password=)(?:(?<=:)[^/?]*(?=@)|(?<==)[^&]*)"
)


@dataclass(frozen=True, slots=True)
class SchedulerSettings:
    """The settings of one scheduler; `origin` names their source in messages."""

    origin: str
    policies: tuple[PolicySettings, ...] = (PolicySettings(DEFAULT_POLICY),)
    strategy: str = DEFAULT_STRATEGY
    # If empty, there is one queue with the strategy above.
    queues: tuple[QueueRules, ...] = ()
    # The schedulerNames of the pods in these queues.
    scheduler_names: tuple[str, ...] = (DEFAULT_SCHEDULER_NAME,)
    topology_spread: TopologySpread = DEFAULT_TOPOLOGY_SPREAD
    pod_affinity: PodAffinity = DEFAULT_POD_AFFINITY
    disk_io: DiskIO = DEFAULT_DISK_IO
    # Whether running tasks are evicted for waiting ones of a higher priority; None if it does not
    # say.
    preempts: bool | None = None

    @property
    def counts_disks(self) -> bool:
        return any(policy.name == DISK_POLICY for policy in self.policies)

    def disk_counting(self) -> DiskCounting | None:
        """For which pods of files disk bandwidth counts: for all, or None for none."""
        return DiskCounting(None, _default_charge(self.disk_io)) if self.counts_disks else None

    def queue_rules(self) -> tuple[QueueRules, ...]:
        return self.queues or (QueueRules(strategy=self.strategy),)

    def default_constraints(self) -> tuple[DefaultConstraint, ...]:
        """The spread constraints of pods that state none."""
        spread = self.topology_spread
        if spread.defaulting_type == "System":
            return SYSTEM_DEFAULTS
        return tuple(
            DefaultConstraint(
                each.topology_key,
                each.max_skew,
                required=each.when_unsatisfiable == "DoNotSchedule",
                min_domains=each.min_domains or 1,
                honors_affinity=each.node_affinity_policy == "Honor",
                honors_taints=each.node_taints_policy == "Honor",
            )
            for each in spread.default_constraints
        )


@dataclass(frozen=True, slots=True)
class Profile:
    """Pods with this schedulerName are placed with these settings."""

    scheduler_name: str
    settings: SchedulerSettings

    @property
    def preempts(self) -> bool:
        """Whether running pods of a cluster are evicted for waiting ones of this profile."""
        return self.settings.preempts is not False


@dataclass(frozen=True, slots=True)
class Configuration:
    """The whole configuration; `settings` is for commands without profiles."""

    settings: SchedulerSettings
    profiles: tuple[Profile, ...]
    leader_election: LeaderElection
    client_connection: ClientConnection
    serving: Serving
    binding: Binding
    volumes: Volumes
    disk_io: DiskIO
    cleanup: Cleanup
    ledger: Ledger

    def disk_counting(self) -> DiskCounting | None:
        """For which pods disk bandwidth counts, None if no profile counts it."""
        counting = (each for each in self.profiles if each.settings.counts_disks)
        names = frozenset(each.scheduler_name for each in counting)
        return DiskCounting(names, _default_charge(self.disk_io)) if names else None

    def default_constraints(self) -> DefaultConstraints:
        """The spread constraints of pods that state none, by profile."""
        of_profile = {
            each.scheduler_name: each.settings.default_constraints() for each in self.profiles
        }
        return DefaultConstraints((), of_profile)


def _default_charge(fields: DiskIO) -> DiskRequest | None:
    charge = fields.default_charge
    volume = VolumeIO(
        bandwidth(charge.read, "read"),
        bandwidth(charge.write, "write"),
        block_size(charge.block_size, "blockSize"),
    )
    return DiskRequest((volume,), is_stated=False) if volume.read or volume.write else None


def parse_scheduler_spec(text: str) -> SchedulerSettings:
    """The settings that POLICY[+POLICY...][@STRATEGY] stands for."""
    origin = f"scheduler {text!r:.80}"
    names, at, strategy = text.partition("@")
    policies = tuple(PolicySettings(name) for name in names.split("+"))
    check_unique(policies, origin)
    return SchedulerSettings(origin, policies, strategy if at else DEFAULT_STRATEGY)


def read_settings(path: str) -> SchedulerSettings:
    """The settings of a configuration file, for commands without profiles."""
    return read_configuration(path).settings


def read_configuration(path: str) -> Configuration:
    """The configuration in a file, with defaults for missing fields."""
    document = _drop_nulls(_read_document(path))
    try:
        file = msgspec.convert(document, ConfigurationFile, dec_hook=_decode)
    except msgspec.ValidationError as error:
        complaint = unknown_field(error) or field_error(error, msgspec.json.encode(document))
        raise InputError(f"{path}: {complaint}") from None
    try:
        check(file)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    return _configuration(file, path)


def default_configuration() -> Configuration:
    """The configuration without a file."""
    return _configuration(ConfigurationFile(API_VERSION, KIND), "the default configuration")


def effective_configuration(configuration: Configuration) -> dict[str, object]:
    """The complete configuration file, defaults included, as plain values for JSON or YAML."""
    file = ConfigurationFile(
        api_version=API_VERSION,
        kind=KIND,
        strategy=configuration.settings.strategy,
        queues=tuple(map(_queue_fields, configuration.settings.queue_rules())),
        policies=configuration.settings.policies,
        profiles=tuple(
            ProfileFields(
                profile.scheduler_name,
                profile.settings.policies,
                profile.settings.topology_spread,
                Preemption(profile.preempts),
            )
            for profile in configuration.profiles
        ),
        topology_spread=configuration.settings.topology_spread,
        pod_affinity=configuration.settings.pod_affinity,
        leader_election=configuration.leader_election,
        client_connection=configuration.client_connection,
        serving=configuration.serving,
        binding=configuration.binding,
        volumes=configuration.volumes,
        disk_io=configuration.disk_io,
        cleanup=configuration.cleanup,
        ledger=_without_password(configuration.ledger),
    )
    # Through JSON, so that tuples become lists, which YAML can write.
    return msgspec.json.decode(msgspec.json.encode(file, enc_hook=str), type=dict[str, object])


def _without_password(ledger: Ledger) -> Ledger:
    """The effective configuration is published: it must not contain the password."""
    url = _PASSWORD.sub(r"\g<before>***", ledger.url)
    return msgspec.structs.replace(ledger, url=url)


def _configuration(file: ConfigurationFile, origin: str) -> Configuration:
    """The configuration of a file; profiles get what they do not state."""
    queues = tuple(_queue_rules(queue, file.strategy) for queue in file.queues)
    profiles: list[Profile] = []
    for number, profile in enumerate(file.profiles):
        where, policies = origin, file.policies
        if profile.policies is not None:
            where, policies = f"{origin}: profiles[{number}]", profile.policies
        settings = SchedulerSettings(
            where,
            policies,
            file.strategy,
            topology_spread=profile.topology_spread or file.topology_spread,
            pod_affinity=file.pod_affinity,
            preempts=profile.preemption.enabled,
            disk_io=file.disk_io,
        )
        profiles.append(Profile(profile.scheduler_name or DEFAULT_SCHEDULER_NAME, settings))
    names = tuple(profile.scheduler_name for profile in profiles)
    return Configuration(
        settings=SchedulerSettings(
            origin,
            file.policies,
            file.strategy,
            queues,
            names,
            file.topology_spread,
            file.pod_affinity,
            file.disk_io,
            _any_preempts([profile.settings.preempts for profile in profiles]),
        ),
        profiles=tuple(profiles),
        leader_election=file.leader_election,
        client_connection=file.client_connection,
        serving=file.serving,
        binding=file.binding,
        volumes=file.volumes,
        disk_io=file.disk_io,
        cleanup=file.cleanup,
        ledger=file.ledger,
    )


def _any_preempts(stated: Sequence[bool | None]) -> bool | None:
    """For commands without profiles: whether one of the profiles preempts."""
    if True in stated:
        return True
    return None if None in stated else False


def _queue_rules(queue: QueueFields, strategy: str) -> QueueRules:
    def in_seconds(duration: Duration | None) -> float | None:
        return None if duration is None else duration.seconds

    return QueueRules(
        name=queue.name,
        strategy=queue.strategy or strategy,
        quorum=queue.quorum,
        depth=queue.depth,
        max_reservations=queue.reservations,
        default_run_seconds=in_seconds(queue.default_duration),
        max_run_seconds=in_seconds(queue.limits.duration),
        max_group_size=queue.limits.group_size,
        max_groups=queue.limits.groups,
        hold_for_endless=queue.hold_for_endless,
    )


def _queue_fields(rules: QueueRules) -> QueueFields:
    def duration(in_seconds: float | None) -> Duration | None:
        return None if in_seconds is None else seconds(in_seconds)

    return QueueFields(
        name=rules.name,
        strategy=rules.strategy,
        quorum=rules.quorum,
        depth=rules.depth,
        reservations=rules.max_reservations,
        default_duration=duration(rules.default_run_seconds),
        hold_for_endless=rules.hold_for_endless,
        limits=QueueLimits(rules.max_group_size, duration(rules.max_run_seconds), rules.max_groups),
    )


def _read_document(path: str) -> Value:
    content = read_file(path)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: byte {error.start} is not UTF-8 text; expected YAML") from None
    try:
        found = [value for value in documents(text) if value is not None]
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    if len(found) != 1:
        raise InputError(f"{path}: {len(found)} documents; expected one {KIND}")
    return found[0]


def _drop_nulls(value: Value) -> Value:
    """Removes null fields: as in Kubernetes, they count as missing. A mapping is null if all its
    fields are commented out. Arguments of policies are not changed."""
    match value:
        case dict():
            return {
                key: inner if key == "args" else _drop_nulls(inner)
                for key, inner in value.items()
                if inner is not None
            }
        case list():
            return [_drop_nulls(inner) for inner in value]
        case _:
            return value


def _decode(wanted: type, value: object) -> object:
    if wanted is not Duration:
        return value  # an argument of a policy, of any type
    if not isinstance(value, str):
        raise ValueError(f"{shown(value)}, expected a duration such as 15s, 1m30s or 500ms")
    return parse_duration(value)
