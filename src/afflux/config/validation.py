"""Checks the values of a configuration; every error names field, value and expectation."""

import ipaddress
import math
import re
from collections.abc import Sequence

from afflux.config.durations import Duration, seconds
from afflux.config.schema import (
    API_VERSION,
    KIND,
    Binding,
    ClientConnection,
    ConfigurationFile,
    DiskIO,
    LeaderElection,
    Ledger,
    PodAffinity,
    PolicySettings,
    ProfileFields,
    QueueFields,
    Serving,
    TopologySpread,
)
from afflux.kube.disks.annotations import bandwidth, block_size
from afflux.kube.input_errors import shown
from afflux.kube.quantities import storage_bytes
from afflux.ledger.retention import MAX_HISTORY_DAYS
from afflux.model.errors import InputError

# Costs are 64-bit sums over many tasks: larger weights could overflow them.
MAX_NUMBER = 10_000

# client-go lengthens the retry period by up to this factor.
JITTER = 1.2

MAX_PARALLEL_BINDS = 1_000

MAX_INT32 = 2**31 - 1

# Modules of disk vendors have some hundred kB.
MAX_DOWNLOAD_BYTES = 64 * 2**20
MAX_DOWNLOAD_SECONDS = 600

_LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
_QUALIFIED = re.compile(r"(?:(?P<prefix>[^/]+)/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_EXPECTED_QUALIFIED = (
    "at most 63 letters, digits, '-', '_' or '.', a letter or digit first and last"
)


def check(file: ConfigurationFile) -> None:
    """Raises an InputError for the first field with a wrong value."""
    _require(file.api_version == API_VERSION, "apiVersion", file.api_version, API_VERSION)
    _require(file.kind == KIND, "kind", file.kind, KIND)
    check_policies(file.policies, "policies")
    _check_profiles(file.profiles)
    _check_topology_spread(file.topology_spread, "topologySpread")
    _check_pod_affinity(file.pod_affinity)
    _check_queues(file.queues)
    if file.leader_election.leader_elect:
        _check_leader_election(file.leader_election)
    _check_connection(file.client_connection)
    _check_serving(file.serving)
    _check_binding(file.binding)
    timeout, expected = file.volumes.bind_timeout_seconds, "a whole number of seconds, 0 or more"
    _require(timeout >= 0, "volumes.bindTimeoutSeconds", timeout, expected)
    _check_disk_io(file.disk_io)
    after = file.cleanup.half_bound_after
    _require(after is None or after > 0, "cleanup.halfBoundAfter", after, "more than 0s")
    _check_ledger(file.ledger)


def check_policies(policies: Sequence[PolicySettings], where: str) -> None:
    """Checks that there is a policy, that none is named twice, and the ranges of numbers."""
    _require(bool(policies), where, [], "at least one")
    for number, policy in enumerate(policies):
        _check_number(policy.weight, f"{where}[{number}].weight")
        for key, argument in policy.args.items():
            if isinstance(argument, int):
                _check_number(argument, f"{where}[{number}].args.{key}")
    check_unique(policies, where)


def check_unique(policies: Sequence[PolicySettings], where: str) -> None:
    """Raises an InputError if a policy is named twice."""
    names = [policy.name for policy in policies]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise InputError(f"{where}: policy {twice!r:.80} is named twice; expected each once")


def is_subdomain(name: str) -> bool:
    """Whether the name is a DNS subdomain, as most objects of Kubernetes require."""
    return len(name) <= 253 and _SUBDOMAIN.fullmatch(name) is not None


def _is_qualified(name: str) -> bool:
    parts = _QUALIFIED.fullmatch(name)
    return parts is not None and (not parts["prefix"] or is_subdomain(parts["prefix"]))


def _check_topology_spread(fields: TopologySpread, where: str) -> None:
    kind, constraints = fields.defaulting_type, fields.default_constraints
    _require(kind in {"System", "List"}, f"{where}.defaultingType", kind, "System or List")
    if constraints and kind == "System":
        raise InputError(
            f"{where}.defaultConstraints: given, expected none since defaultingType is System"
        )
    first: dict[tuple[str, str], int] = {}
    for number, each in enumerate(constraints):
        place = f"{where}.defaultConstraints[{number}]"
        key, what = each.topology_key, each.when_unsatisfiable
        expected = f"a label of nodes: {_EXPECTED_QUALIFIED}"
        _require(_is_qualified(key), f"{place}.topologyKey", key, expected)
        expected = "DoNotSchedule or ScheduleAnyway"
        known = what in {"DoNotSchedule", "ScheduleAnyway"}
        _require(known, f"{place}.whenUnsatisfiable", what, expected)
        earlier = first.setdefault((key, what), number)
        expected = f"a key that defaultConstraints[{earlier}] with {what} has not"
        _require(earlier == number, f"{place}.topologyKey", key, expected)
        for name, count in (("maxSkew", each.max_skew), ("minDomains", each.min_domains)):
            holds = count is None or 1 <= count <= MAX_INT32
            _require(holds, f"{place}.{name}", count, f"a whole number from 1 to {MAX_INT32}")
        if each.min_domains is not None and what != "DoNotSchedule":
            raise _error(f"{place}.minDomains", each.min_domains, "none except for DoNotSchedule")
        for name, policy in (
            ("nodeAffinityPolicy", each.node_affinity_policy),
            ("nodeTaintsPolicy", each.node_taints_policy),
        ):
            _require(policy in {"Honor", "Ignore"}, f"{place}.{name}", policy, "Honor or Ignore")


def _check_pod_affinity(fields: PodAffinity) -> None:
    weight, expected = fields.hard_pod_affinity_weight, "a whole number from 0 to 100"
    _require(0 <= weight <= 100, "podAffinity.hardPodAffinityWeight", weight, expected)


def _check_queues(queues: Sequence[QueueFields]) -> None:
    _require(bool(queues), "queues", [], "at least one")
    first: dict[str, int] = {}
    for number, queue in enumerate(queues):
        where = f"queues[{number}]"
        # Pods name their queue in a label.
        expected = "at most 63 small letters, digits or '-', a letter or digit first and last"
        _require(bool(_LABEL.fullmatch(queue.name)), f"{where}.name", queue.name, expected)
        earlier = first.setdefault(queue.name, number)
        expected = f"a name that queues[{earlier}] has not"
        _require(earlier == number, f"{where}.name", queue.name, expected)
        for field, count, least in (
            ("depth", queue.depth, 1),
            ("reservations", queue.reservations, 0),
            ("limits.groupSize", queue.limits.group_size, 1),
            ("limits.groups", queue.limits.groups, 0),
        ):
            holds = count is None or count >= least
            _require(holds, f"{where}.{field}", count, f"a whole number from {least} up")
        for field, duration in (
            ("defaultDuration", queue.default_duration),
            ("limits.duration", queue.limits.duration),
        ):
            holds = duration is None or duration.seconds > 0
            _require(holds, f"{where}.{field}", str(duration), "a duration above 0, such as 1h")


def _check_profiles(profiles: Sequence[ProfileFields]) -> None:
    _require(bool(profiles), "profiles", [], "at least one")
    first: dict[str, int] = {}
    for number, profile in enumerate(profiles):
        where = f"profiles[{number}]"
        name = profile.scheduler_name
        if profile.policies is not None:
            check_policies(profile.policies, f"{where}.policies")
        if profile.topology_spread is not None:
            _check_topology_spread(profile.topology_spread, f"{where}.topologySpread")
        if name is None:
            if len(profiles) > 1:
                raise InputError(
                    f"{where}.schedulerName: missing, expected a name for each of several profiles"
                )
            continue
        # Events carry it as their reporting controller, which must be a qualified name.
        _require(_is_qualified(name), f"{where}.schedulerName", name, _EXPECTED_QUALIFIED)
        earlier = first.setdefault(name, number)
        expected = f"a name that profiles[{earlier}] has not"
        _require(earlier == number, f"{where}.schedulerName", name, expected)


def _check_leader_election(fields: LeaderElection) -> None:
    where = "leaderElection"
    lease, renewal, retry = fields.lease_duration, fields.renew_deadline, fields.retry_period
    _require(lease >= seconds(1), f"{where}.leaseDuration", lease, "1s or more")
    _require(renewal > 0, f"{where}.renewDeadline", renewal, "more than 0s")
    _require(retry > 0, f"{where}.retryPeriod", retry, "more than 0s")
    expected = f"more than renewDeadline, {renewal}"
    _require(lease > renewal, f"{where}.leaseDuration", lease, expected)
    expected = f"more than {JITTER} times retryPeriod, {retry}"
    _require(renewal > JITTER * retry, f"{where}.renewDeadline", renewal, expected)
    name, expected = fields.resource_name, "a name such as afflux or afflux.batch"
    _require(is_subdomain(name), f"{where}.resourceName", name, expected)
    name, holds = fields.resource_namespace, bool(_LABEL.fullmatch(fields.resource_namespace))
    _require(holds, f"{where}.resourceNamespace", name, "a namespace's name")


def _check_connection(fields: ClientConnection) -> None:
    qps, burst = fields.qps, fields.burst
    _require(math.isfinite(qps), "clientConnection.qps", qps, "a number; 0 or less is no limit")
    _require(burst >= 0, "clientConnection.burst", burst, "a whole number, 0 or more")


def _check_serving(fields: Serving) -> None:
    try:
        ipaddress.ip_address(fields.bind_address)
    except ValueError:
        raise _error(
            "serving.bindAddress", fields.bind_address, "an IP address such as 0.0.0.0 or ::1"
        ) from None
    expected = "a port from 1 to 65535, or 0 for a free one"
    _require(0 <= fields.port <= 65535, "serving.port", fields.port, expected)
    if bool(fields.cert_file) != bool(fields.key_file):
        given, lacking = ("keyFile", "certFile") if fields.key_file else ("certFile", "keyFile")
        raise InputError(f"serving.{lacking}: missing, expected a file since {given} is given")
    _require(fields.stuck_after > 0, "serving.stuckAfter", fields.stuck_after, "more than 0s")


def _check_binding(fields: Binding) -> None:
    count, expected = fields.parallelism, f"a whole number from 1 to {MAX_PARALLEL_BINDS}"
    _require(1 <= count <= MAX_PARALLEL_BINDS, "binding.parallelism", count, expected)
    _require(fields.timeout > 0, "binding.timeout", fields.timeout, "more than 0s")


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
    known = fields.when_away in {"wait", "continue"}
    _require(known, "ledger.whenAway", fields.when_away, "wait or continue")
    days, longest = fields.history_days, f"{MAX_HISTORY_DAYS}, which is as good as for ever"
    expected = f"a whole number of days from 1 to {longest}"
    _require(1 <= days <= MAX_HISTORY_DAYS, "ledger.historyDays", days, expected)


def _check_disk_io(fields: DiskIO) -> None:
    where, expected = "diskIO", "at most 63 small letters, digits or '-'"
    for name, namespace in (
        ("namespace", fields.namespace),
        ("configMap.namespace", fields.config_map.namespace),
    ):
        optional = name == "namespace" and not namespace
        _require(
            optional or bool(_LABEL.fullmatch(namespace)), f"{where}.{name}", namespace, expected
        )
    name = fields.config_map.name
    _require(is_subdomain(name), f"{where}.configMap.name", name, "the name of a ConfigMap")
    charge = fields.default_charge
    bandwidth(charge.read, f"{where}.defaultCharge.read")
    bandwidth(charge.write, f"{where}.defaultCharge.write")
    block_size(charge.block_size, f"{where}.defaultCharge.blockSize")
    silent = fields.silent
    _require(silent.after > 0, f"{where}.silent.after", silent.after, "more than 0s")
    known = silent.action in {"keep", "degrade", "exclude"}
    _require(known, f"{where}.silent.action", silent.action, "keep, degrade or exclude")
    share, expected = silent.degrade_to, "a number from 0 to 1"
    _require(0 <= share <= 1, f"{where}.silent.degradeTo", share, expected)
    timeout, longest = fields.downloads.timeout, seconds(MAX_DOWNLOAD_SECONDS)
    expected = f"more than 0s, at most {longest}"
    _require(0 < timeout <= longest, f"{where}.downloads.timeout", timeout, expected)
    size = download_bytes(fields.downloads.max_size)
    expected = f"a size from 1 to {MAX_DOWNLOAD_BYTES} bytes, such as 4Mi"
    holds = size is not None and 1 <= size <= MAX_DOWNLOAD_BYTES
    _require(holds, f"{where}.downloads.maxSize", fields.downloads.max_size, expected)


def download_bytes(written: str) -> int | None:
    """A size in bytes, None if it is none."""
    try:
        return storage_bytes(written)
    except InputError:
        return None


def _check_number(number: int, where: str) -> None:
    expected = f"a whole number from 0 to {MAX_NUMBER}"
    _require(0 <= number <= MAX_NUMBER, where, number, expected)


def _require(holds: bool, where: str, value: object, expected: str) -> None:
    if not holds:
        raise _error(where, value, expected)


def _error(where: str, value: object, expected: str) -> InputError:
    text = str(value) if isinstance(value, Duration) else shown(value)
    return InputError(f"{where}: {text}, expected {expected}")
