"""What the fields of a configuration may be. Every complaint names field, value and expectation."""

import ipaddress
import math
import re
from collections.abc import Sequence

from afflux.config.durations import Duration, seconds
from afflux.config.fields import (
    API_VERSION,
    KIND,
    Binding,
    ClientConnection,
    File,
    LeaderElection,
    Ledger,
    PolicySettings,
    ProfileFields,
    QueueFields,
    Serving,
)
from afflux.kube.complaints import shown
from afflux.ledger.forgetting import MOST_DAYS
from afflux.model.errors import InputError

# Costs are integers of 64 bits that add up over many tasks: what is larger could overflow them.
LARGEST_NUMBER = 10_000

# By so much client-go stretches the pause between two attempts, so as not to meet the others.
JITTER = 1.2

MOST_BINDS_AT_ONCE = 1_000

_LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
_QUALIFIED = re.compile(r"(?:(?P<prefix>[^/]+)/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


def check(file: File) -> None:
    """An InputError that starts with the first field that cannot be used."""
    for field, value, expected in (
        ("apiVersion", file.api_version, API_VERSION),
        ("kind", file.kind, KIND),
    ):
        if value != expected:
            raise _error(field, value, expected)
    check_policies(file.policies, "policies")
    _check_profiles(file.profiles)
    _check_queues(file.queues)
    if file.leader_election.leader_elect:
        _check_leader_election(file.leader_election)
    _check_connection(file.client_connection)
    _check_serving(file.serving)
    _check_binding(file.binding)
    if file.volumes.bind_timeout_seconds < 0:
        raise _error(
            "volumes.bindTimeoutSeconds",
            file.volumes.bind_timeout_seconds,
            "a whole number of seconds, 0 or more",
        )
    after = file.cleanup.half_bound_after
    if after is not None and after <= 0:
        raise _error("cleanup.halfBoundAfter", after, "more than 0s")
    _check_ledger(file.ledger)


def check_policies(policies: Sequence[PolicySettings], where: str) -> None:
    """At least one, each once, with numbers that can be used."""
    if not policies:
        raise _error(where, [], "at least one")
    for number, policy in enumerate(policies):
        _check_number(policy.weight, f"{where}[{number}].weight")
        for key, argument in policy.args.items():
            if isinstance(argument, int):
                _check_number(argument, f"{where}[{number}].args.{key}")
    refuse_twice(policies, where)


def refuse_twice(policies: Sequence[PolicySettings], where: str) -> None:
    """A policy is named once."""
    names = [policy.name for policy in policies]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise InputError(f"{where}: policy {twice!r:.80} is named twice; expected each once")


def is_subdomain(name: str) -> bool:
    """Whether most objects of Kubernetes may have this name."""
    return len(name) <= 253 and _SUBDOMAIN.fullmatch(name) is not None


def _check_queues(queues: Sequence[QueueFields]) -> None:
    if not queues:
        raise _error("queues", [], "at least one")
    first: dict[str, int] = {}
    for number, queue in enumerate(queues):
        where = f"queues[{number}]"
        # Pods name it in a label.
        if not _LABEL.fullmatch(queue.name):
            raise _error(
                f"{where}.name",
                queue.name,
                "at most 63 small letters, digits or '-', a letter or digit first and last",
            )
        if queue.name in first:
            raise _error(
                f"{where}.name", queue.name, f"a name that queues[{first[queue.name]}] has not"
            )
        first[queue.name] = number
        for field, count, least in (
            ("depth", queue.depth, 1),
            ("reservations", queue.reservations, 0),
            ("limits.groupSize", queue.limits.group_size, 1),
            ("limits.groups", queue.limits.groups, 0),
        ):
            if count is not None and count < least:
                raise _error(f"{where}.{field}", count, f"a whole number from {least} up")
        for field, duration in (
            ("defaultDuration", queue.default_duration),
            ("limits.duration", queue.limits.duration),
        ):
            if duration is not None and duration.seconds <= 0:
                raise _error(f"{where}.{field}", str(duration), "a duration above 0, such as 1h")


def _check_profiles(profiles: Sequence[ProfileFields]) -> None:
    if not profiles:
        raise _error("profiles", [], "at least one")
    first: dict[str, int] = {}
    for number, profile in enumerate(profiles):
        where = f"profiles[{number}]"
        name = profile.scheduler_name
        if profile.policies is not None:
            check_policies(profile.policies, f"{where}.policies")
        if name is None:
            if len(profiles) > 1:
                raise InputError(
                    f"{where}.schedulerName: missing, expected a name for each of several profiles"
                )
            continue
        # Events carry it as their reporting controller, which has to be such a name.
        qualified = _QUALIFIED.fullmatch(name)
        if not qualified or (qualified["prefix"] and not is_subdomain(qualified["prefix"])):
            raise _error(
                f"{where}.schedulerName",
                name,
                "at most 63 letters, digits, '-', '_' or '.', a letter or digit first and last",
            )
        if name in first:
            raise _error(
                f"{where}.schedulerName", name, f"a name that profiles[{first[name]}] has not"
            )
        first[name] = number


def _check_leader_election(fields: LeaderElection) -> None:
    where = "leaderElection"
    if fields.lease_duration < seconds(1):
        raise _error(f"{where}.leaseDuration", fields.lease_duration, "1s or more")
    for name, value in (
        ("renewDeadline", fields.renew_deadline),
        ("retryPeriod", fields.retry_period),
    ):
        if value <= 0:
            raise _error(f"{where}.{name}", value, "more than 0s")
    if fields.lease_duration <= fields.renew_deadline:
        raise _error(
            f"{where}.leaseDuration",
            fields.lease_duration,
            f"more than renewDeadline, {fields.renew_deadline}",
        )
    if fields.renew_deadline <= JITTER * fields.retry_period:
        raise _error(
            f"{where}.renewDeadline",
            fields.renew_deadline,
            f"more than {JITTER} times retryPeriod, {fields.retry_period}",
        )
    if not is_subdomain(fields.resource_name):
        raise _error(
            f"{where}.resourceName", fields.resource_name, "a name such as afflux or afflux.batch"
        )
    if not _LABEL.fullmatch(fields.resource_namespace):
        raise _error(f"{where}.resourceNamespace", fields.resource_namespace, "a namespace's name")


def _check_connection(fields: ClientConnection) -> None:
    if not math.isfinite(fields.qps):
        raise _error("clientConnection.qps", fields.qps, "a number; 0 or less is no limit")
    if fields.burst < 0:
        raise _error("clientConnection.burst", fields.burst, "a whole number, 0 or more")


def _check_serving(fields: Serving) -> None:
    try:
        ipaddress.ip_address(fields.bind_address)
    except ValueError:
        raise _error(
            "serving.bindAddress", fields.bind_address, "an IP address such as 0.0.0.0 or ::1"
        ) from None
    if not 0 <= fields.port <= 65535:
        raise _error("serving.port", fields.port, "a port from 1 to 65535, or 0 for a free one")
    if bool(fields.cert_file) != bool(fields.key_file):
        given, lacking = ("certFile", "keyFile")
        if fields.key_file:
            given, lacking = lacking, given
        raise InputError(f"serving.{lacking}: missing, expected a file since {given} is given")
    if fields.stuck_after <= 0:
        raise _error("serving.stuckAfter", fields.stuck_after, "more than 0s")


def _check_binding(fields: Binding) -> None:
    if not 1 <= fields.parallelism <= MOST_BINDS_AT_ONCE:
        raise _error(
            "binding.parallelism",
            fields.parallelism,
            f"a whole number from 1 to {MOST_BINDS_AT_ONCE}",
        )
    if fields.timeout <= 0:
        raise _error("binding.timeout", fields.timeout, "more than 0s")


def _check_ledger(fields: Ledger) -> None:
    for name, given in (("url", fields.url), ("directory", fields.directory)):
        if given and not fields.enabled:
            raise InputError(
                f"ledger.{name}: given, expected none since ledger.enabled is false and nothing is"
                " kept"
            )
    if fields.url and fields.directory:
        raise InputError(
            "ledger.directory: given, expected either url, a database, or directory, one of our own"
        )
    if fields.url and not fields.url.startswith(("postgresql://", "postgres://")):
        # The value may hold a password: it is not repeated.
        raise InputError("ledger.url: expected postgresql://USER@HOST/DATABASE")
    if fields.when_away not in {"wait", "continue"}:
        raise _error("ledger.whenAway", fields.when_away, "wait or continue")
    if not 1 <= fields.history_days <= MOST_DAYS:
        raise _error(
            "ledger.historyDays",
            fields.history_days,
            f"a whole number of days from 1 to {MOST_DAYS}, which is as good as for ever",
        )


def _check_number(number: int, where: str) -> None:
    if not 0 <= number <= LARGEST_NUMBER:
        raise _error(where, number, f"a whole number from 0 to {LARGEST_NUMBER}")


def _error(where: str, value: object, expected: str) -> InputError:
    text = str(value) if isinstance(value, Duration) else shown(value)
    return InputError(f"{where}: {text}, expected {expected}")
