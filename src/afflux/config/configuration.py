"""From a file, or from a name on the command line, to values that the parts are made of."""

import re
from dataclasses import dataclass
from pathlib import Path

import msgspec

from afflux.config.checking import check, refuse_twice
from afflux.config.durations import Duration, parse_duration, seconds
from afflux.config.fields import (
    API_VERSION,
    DEFAULT_POLICY,
    DEFAULT_SCHEDULER_NAME,
    DEFAULT_STRATEGY,
    KIND,
    Binding,
    Cleanup,
    ClientConnection,
    File,
    LeaderElection,
    Ledger,
    PolicySettings,
    ProfileFields,
    QueueFields,
    QueueLimits,
    Serving,
    Volumes,
)
from afflux.config.spelling import unknown_field
from afflux.files import read_all
from afflux.kube.complaints import field_complaint, shown
from afflux.kube.yaml_events import Value, documents
from afflux.model.errors import InputError
from afflux.queue.rules import QueueRules

# In a URL: between user and host, or among the parameters.
_PASSWORD = re.compile(
    r"(?P<before>://[^:/?@]*:|[?&](?:ssl)?password=)(?:(?<=:)[^/?]*(?=@)|(?<==)[^&]*)"
)


@dataclass(frozen=True, slots=True)
class Settings:
    """What a scheduler is made of; `origin` is where it was asked for, for messages."""

    origin: str
    policies: tuple[PolicySettings, ...] = (PolicySettings(DEFAULT_POLICY),)
    strategy: str = DEFAULT_STRATEGY
    # Without any there is one, with the strategy above.
    queues: tuple[QueueRules, ...] = ()
    # Whose pods wait in them.
    scheduler_names: tuple[str, ...] = (DEFAULT_SCHEDULER_NAME,)

    def queue_rules(self) -> tuple[QueueRules, ...]:
        """Every queue there is."""
        return self.queues or (QueueRules(strategy=self.strategy),)


@dataclass(frozen=True, slots=True)
class Profile:
    """The pods that ask for this scheduler by name are placed with these settings."""

    scheduler_name: str
    settings: Settings


@dataclass(frozen=True, slots=True)
class Configuration:
    """Everything that can be configured; `settings` is for doors that know no profiles."""

    settings: Settings
    profiles: tuple[Profile, ...]
    leader_election: LeaderElection
    client_connection: ClientConnection
    serving: Serving
    binding: Binding
    volumes: Volumes
    cleanup: Cleanup
    ledger: Ledger


def parse_spec(text: str) -> Settings:
    """The settings that POLICY[+POLICY...][@STRATEGY] stands for."""
    origin = f"scheduler {text!r:.80}"
    names, at, strategy = text.partition("@")
    policies = tuple(PolicySettings(name) for name in names.split("+"))
    refuse_twice(policies, origin)
    return Settings(origin, policies, strategy if at else DEFAULT_STRATEGY)


def read_settings(path: str) -> Settings:
    """The settings in a configuration file, for those who know no profiles."""
    return read_configuration(path).settings


def read_configuration(path: str) -> Configuration:
    """What a configuration file says, with defaults for what it does not say."""
    document = _without_nulls(_only_document(path))
    try:
        file = msgspec.convert(document, File, dec_hook=_decode)
    except msgspec.ValidationError as error:
        complaint = unknown_field(error) or field_complaint(error, msgspec.json.encode(document))
        raise InputError(f"{path}: {complaint}") from None
    try:
        check(file)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    return _resolved(file, path)


def default_configuration() -> Configuration:
    """What holds if there is no file."""
    return _resolved(File(API_VERSION, KIND), "the default configuration")


def effective(configuration: Configuration) -> dict[str, object]:
    """The file that would say all of it, defaults included, as plain values for JSON or YAML."""
    file = File(
        api_version=API_VERSION,
        kind=KIND,
        strategy=configuration.settings.strategy,
        queues=tuple(map(_queue_fields, configuration.settings.queue_rules())),
        policies=configuration.settings.policies,
        profiles=tuple(
            ProfileFields(profile.scheduler_name, profile.settings.policies)
            for profile in configuration.profiles
        ),
        leader_election=configuration.leader_election,
        client_connection=configuration.client_connection,
        serving=configuration.serving,
        binding=configuration.binding,
        volumes=configuration.volumes,
        cleanup=configuration.cleanup,
        ledger=_without_password(configuration.ledger),
    )
    # Through JSON, so that lists are lists, as those expect who write YAML.
    return msgspec.json.decode(msgspec.json.encode(file, enc_hook=str), type=dict[str, object])


def _without_password(ledger: Ledger) -> Ledger:
    """What is shown is seen by people who must not know it."""
    url = _PASSWORD.sub(r"\g<before>***", ledger.url)
    return msgspec.structs.replace(ledger, url=url)


def _resolved(file: File, origin: str) -> Configuration:
    """Profiles with names and policies, whoever gave them."""
    queues = tuple(_queue_rules(queue, file.strategy) for queue in file.queues)
    profiles = tuple(
        Profile(
            profile.scheduler_name or DEFAULT_SCHEDULER_NAME,
            Settings(origin, file.policies, file.strategy)
            if profile.policies is None
            else Settings(f"{origin}: profiles[{number}]", profile.policies, file.strategy),
        )
        for number, profile in enumerate(file.profiles)
    )
    names = tuple(profile.scheduler_name for profile in profiles)
    return Configuration(
        settings=Settings(origin, file.policies, file.strategy, queues, names),
        profiles=profiles,
        leader_election=file.leader_election,
        client_connection=file.client_connection,
        serving=file.serving,
        binding=file.binding,
        volumes=file.volumes,
        cleanup=file.cleanup,
        ledger=file.ledger,
    )


def _queue_rules(queue: QueueFields, strategy: str) -> QueueRules:
    def in_seconds(duration: Duration | None) -> float | None:
        return None if duration is None else duration.seconds

    return QueueRules(
        name=queue.name,
        strategy=queue.strategy or strategy,
        depth=queue.depth,
        reservations=queue.reservations,
        default_run_seconds=in_seconds(queue.default_duration),
        longest_run_seconds=in_seconds(queue.limits.duration),
        largest_group=queue.limits.group_size,
        most_groups=queue.limits.groups,
        holds_for_endless=queue.hold_for_endless,
    )


def _queue_fields(rules: QueueRules) -> QueueFields:
    def duration(in_seconds: float | None) -> Duration | None:
        return None if in_seconds is None else seconds(in_seconds)

    return QueueFields(
        name=rules.name,
        strategy=rules.strategy,
        depth=rules.depth,
        reservations=rules.reservations,
        default_duration=duration(rules.default_run_seconds),
        hold_for_endless=rules.holds_for_endless,
        limits=QueueLimits(
            group_size=rules.largest_group,
            duration=duration(rules.longest_run_seconds),
            groups=rules.most_groups,
        ),
    )


def _only_document(path: str) -> Value:
    try:
        with Path(path).open("rb") as file:
            text = read_all(file, path).decode("utf-8-sig")
    except InputError:
        raise
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: byte {error.start} is not UTF-8 text; expected YAML") from None
    except (OSError, ValueError) as error:  # ValueError: a name that no file system can hold
        why = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise InputError(f"{path!r:.200}: {why}; expected a file that can be read") from None
    try:
        found = [value for value in documents(text) if value is not None]
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    if len(found) != 1:
        raise InputError(f"{path}: {len(found)} documents; expected one {KIND}")
    return found[0]


def _without_nulls(value: Value) -> Value:
    """A field that is null is a field that is not there, as everywhere in Kubernetes: what is
    left when somebody has commented out all fields of a mapping. Arguments stay as they are."""
    match value:
        case dict():
            return {
                key: inner if key == "args" else _without_nulls(inner)
                for key, inner in value.items()
                if inner is not None
            }
        case list():
            return [_without_nulls(inner) for inner in value]
        case _:
            return value


def _decode(wanted: type, value: object) -> object:
    if wanted is not Duration:
        return value  # an argument of a policy, which is anything
    if not isinstance(value, str):
        raise ValueError(f"{shown(value)}, expected a duration such as 15s, 1m30s or 500ms")
    return parse_duration(value)
