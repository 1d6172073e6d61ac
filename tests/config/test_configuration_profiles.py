"""What a configuration file says about a scheduler that runs: names, leading, serving, binding."""

import json
from pathlib import Path

import msgspec
import pytest

from afflux.config import (
    Configuration,
    default_configuration,
    effective_configuration,
    read_configuration,
    read_settings,
)
from afflux.config.durations import parse_duration
from afflux.model.errors import InputError

HEADER = "apiVersion: afflux.dev/v1alpha1\nkind: AffluxConfiguration\n"


def read(tmp_path: Path, content: str) -> Configuration:
    path = tmp_path / "afflux.yaml"
    path.write_text(HEADER + content)
    return read_configuration(str(path))


def names(configuration: Configuration) -> dict[str, list[str]]:
    return {
        profile.scheduler_name: [policy.name for policy in profile.settings.policies]
        for profile in configuration.profiles
    }


# --- Profiles


def test_without_a_file_there_is_one_profile_with_our_name() -> None:
    assert names(default_configuration()) == {"afflux": ["cpu-memory"]}


@pytest.mark.parametrize("content", ["", "profiles: [{}]", "profiles:\n", "leaderElection:\n"])
def test_an_empty_file_equals_the_defaults(tmp_path: Path, content: str) -> None:
    assert effective_configuration(read(tmp_path, content)) == effective_configuration(
        default_configuration()
    )


def test_a_profile_without_policies_has_those_of_the_top(tmp_path: Path) -> None:
    configuration = read(
        tmp_path,
        "strategy: fcfs\n"
        "policies: [{name: a, weight: 3}]\n"
        "profiles: [{schedulerName: one}, {schedulerName: two, policies: [{name: b}]}]",
    )
    assert names(configuration) == {"one": ["a"], "two": ["b"]}
    assert {profile.settings.strategy for profile in configuration.profiles} == {"fcfs"}


def test_commands_without_profiles_use_the_top_level_settings(tmp_path: Path) -> None:
    content = "policies: [{name: a}]\nprofiles: [{schedulerName: x, policies: [{name: b}]}]"
    configuration = read(tmp_path, content)
    assert configuration.settings == read_settings(str(tmp_path / "afflux.yaml"))
    assert [policy.name for policy in configuration.settings.policies] == ["a"]


def test_a_message_about_a_policy_can_say_of_which_profile(tmp_path: Path) -> None:
    content = "profiles: [{schedulerName: x}, {schedulerName: z, policies: [{name: b}]}]"
    first, second = read(tmp_path, content).profiles
    assert first.settings.origin == str(tmp_path / "afflux.yaml")
    assert second.settings.origin == f"{tmp_path / 'afflux.yaml'}: profiles[1]"


def test_the_default_scheduler_can_be_served(tmp_path: Path) -> None:
    configuration = read(tmp_path, "profiles: [{schedulerName: default-scheduler}]")
    assert names(configuration) == {"default-scheduler": ["cpu-memory"]}


# --- Queues


def test_a_queue_names_its_quorum_rule(tmp_path: Path) -> None:
    configuration = read(
        tmp_path, "queues: [{name: a}, {name: b, quorum: most}, {name: c, quorum: null}]"
    )
    assert [rules.quorum for rules in configuration.settings.queue_rules()] == [
        "whole-group",
        "most",
        "whole-group",
    ]
    shown = effective_configuration(configuration)
    path = tmp_path / "again.json"
    path.write_text(json.dumps(shown))
    assert effective_configuration(read_configuration(str(path))) == shown


# --- Leading, serving, binding


def test_every_field_can_be_set(tmp_path: Path) -> None:
    configuration = read(
        tmp_path,
        "leaderElection: {leaderElect: true, leaseDuration: 1m0s, renewDeadline: 40s,"
        " retryPeriod: 500ms, resourceName: a.b, resourceNamespace: c}\n"
        "clientConnection: {kubeconfig: /k, qps: 50, burst: 100}\n"
        "serving: {bindAddress: '::1', port: 0, certFile: c, keyFile: k, stuckAfter: 90s}\n"
        "binding: {parallelism: 8, timeout: 5s}\n"
        "volumes: {bindTimeoutSeconds: 10}\n"
        "cleanup: {enabled: true, finished: true, halfBoundAfter: 10m}\n"
        "ledger: {url: 'postgresql://u@h/d', whenAway: continue, historyDays: 30}\n",
    )
    leading = configuration.leader_election
    assert leading.lease_duration.seconds == 60
    assert (leading.renew_deadline.seconds, leading.retry_period.seconds) == (40, 0.5)
    assert (leading.resource_name, leading.resource_namespace) == ("a.b", "c")
    assert configuration.client_connection.qps == 50.0
    assert configuration.serving.port == 0
    assert configuration.serving.stuck_after.seconds == 90
    assert configuration.binding.timeout.seconds == 5
    assert configuration.volumes.bind_timeout_seconds == 10
    assert configuration.cleanup.enabled
    assert configuration.cleanup.finished
    assert configuration.cleanup.half_bound_after == parse_duration("10m")
    assert (configuration.ledger.url, configuration.ledger.when_away) == (
        "postgresql://u@h/d",
        "continue",
    )
    assert configuration.ledger.history_days == 30


def test_lease_durations_are_not_checked_without_leader_election(tmp_path: Path) -> None:
    content = "leaderElection: {leaderElect: false, leaseDuration: 0s, resourceName: ''}"
    assert not read(tmp_path, content).leader_election.leader_elect


def test_the_effective_configuration_is_an_equivalent_file(tmp_path: Path) -> None:
    configuration = read(
        tmp_path,
        "policies: [{name: a, args: {omega: 3, deep: {x: null}}}]\n"
        "leaderElection: {leaseDuration: 90s}\n",
    )
    shown = effective_configuration(configuration)
    assert shown["leaderElection"] == {
        "leaderElect": True,
        "leaseDuration": "1m30s",
        "renewDeadline": "10s",
        "retryPeriod": "2s",
        "resourceName": "afflux",
        "resourceNamespace": "kube-system",
    }
    path = tmp_path / "again.json"
    path.write_text(json.dumps(shown))
    assert effective_configuration(read_configuration(str(path))) == shown


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://u:secret@h/d", "postgresql://u:***@h/d"),
        ("postgresql://u:sec@ret@h:5432/d?x=1", "postgresql://u:***@h:5432/d?x=1"),
        ("postgresql://:secret@h", "postgresql://:***@h"),
        ("postgresql://u@h/d?password=secret&x=1", "postgresql://u@h/d?password=***&x=1"),
        ("postgresql://h/d?x=1&password=secret", "postgresql://h/d?x=1&password=***"),
        ("postgresql://h/d?sslpassword=secret&x=1", "postgresql://h/d?sslpassword=***&x=1"),
        ("postgresql://u@h:5432/d?options=-c%20a:b", "postgresql://u@h:5432/d?options=-c%20a:b"),
    ],
)
def test_a_password_is_never_shown(tmp_path: Path, url: str, shown: str) -> None:
    configuration = read(tmp_path, f"ledger: {{url: '{url}'}}")
    assert configuration.ledger.url == url
    assert effective_configuration(configuration)["ledger"] == {
        "enabled": True,
        "url": shown,
        "directory": "",
        "whenAway": "wait",
        "historyDays": 400,
    }


@pytest.mark.parametrize("content", ["", "ledger: null", "ledger: {historyDays: null}"])
def test_history_is_kept_for_a_year_and_a_month_unless_something_is_said(
    tmp_path: Path, content: str
) -> None:
    assert read(tmp_path, content).ledger.history_days == 400


def test_values_cannot_be_changed_by_accident() -> None:
    with pytest.raises(AttributeError):
        default_configuration().serving.port = 1
    changed = msgspec.structs.replace(default_configuration().serving, port=1)
    assert changed.port == 1


# --- What is refused

LEASE = "leaderElection: "
NAMES = "expected at most 63 letters, digits"


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        # Spelling
        ("leaderElecton: {}", "leaderElecton: unknown field; expected one of apiVersion, kind, "),
        ("leaderElecton: {}", "; did you mean leaderElection?"),
        (LEASE + "{leaseDuraton: 1s}", "leaderElection.leaseDuraton: unknown field; expected one"),
        (LEASE + "{leaseDuraton: 1s}", "; did you mean leaseDuration?"),
        (
            "profiles: [{schedulerName: a, policies: [{name: b, wieght: 1}]}]",
            "profiles[0].policies[0].wieght: unknown field; expected one of name, weight, args;"
            " did you mean weight?",
        ),
        ("leaseDuration: 15s", "leaseDuration: unknown field; expected one of apiVersion"),
        ("leaseDuration: 15s", "; it belongs under leaderElection"),
        ("port: 1", "; it belongs under serving"),
        # Durations
        (LEASE + "{leaseDuration: 15}", "leaderElection.leaseDuration: 15, expected a duration"),
        (LEASE + "{retryPeriod: soon}", "leaderElection.retryPeriod: 'soon', expected a duration"),
        (LEASE + "{leaseDuration: -1s}", "leaderElection.leaseDuration: '-1s', expected a durati"),
        ("binding: {timeout: 0s}", "binding.timeout: 0s, expected more than 0s"),
        ("serving: {stuckAfter: 0s}", "serving.stuckAfter: 0s, expected more than 0s"),
        ("cleanup: {halfBoundAfter: 0s}", "cleanup.halfBoundAfter: 0s, expected more than 0s"),
        # Leases
        (
            LEASE + "{leaseDuration: 10s}",
            "leaderElection.leaseDuration: 10s, expected more than renewDeadline, 10s",
        ),
        (
            LEASE + "{renewDeadline: 2400ms}",
            "leaderElection.renewDeadline: 2.4s, expected more than 1.2 times retryPeriod, 2s",
        ),
        (LEASE + "{leaseDuration: 999ms}", "leaderElection.leaseDuration: 999ms, expected 1s or m"),
        (LEASE + "{renewDeadline: 0s}", "leaderElection.renewDeadline: 0s, expected more than 0s"),
        (LEASE + "{retryPeriod: 0s}", "leaderElection.retryPeriod: 0s, expected more than 0s"),
        (LEASE + "{resourceName: A}", "leaderElection.resourceName: 'A', expected a name such as"),
        (LEASE + "{resourceNamespace: a.b}", "leaderElection.resourceNamespace: 'a.b', expected"),
        (LEASE + "{leaderElect: maybe}", "leaderElection.leaderElect: 'maybe', expected true or"),
        # Profiles
        ("profiles: []", "profiles: [], expected at least one"),
        (
            "profiles: [{schedulerName: a}, {schedulerName: b}, {schedulerName: a}]",
            "profiles[2].schedulerName: 'a', expected a name that profiles[0] has not",
        ),
        (
            "profiles: [{schedulerName: a}, {}]",
            "profiles[1].schedulerName: missing, expected a name for each of several profiles",
        ),
        ("profiles: [{schedulerName: ''}]", f"profiles[0].schedulerName: '', {NAMES}"),
        ("profiles: [{schedulerName: a b}]", f"profiles[0].schedulerName: 'a b', {NAMES}"),
        ("profiles: [{schedulerName: A_/b}]", f"profiles[0].schedulerName: 'A_/b', {NAMES}"),
        (f"profiles: [{{schedulerName: {'a' * 64}}}]", NAMES),
        ("profiles: [{schedulerName: 7}]", "profiles[0].schedulerName: 7, expected a string (put"),
        ("profiles: [{policies: []}]", "profiles[0].policies: [], expected at least one"),
        (
            "profiles: [{policies: [{name: a, weight: -1}]}]",
            "profiles[0].policies[0].weight: -1, expected a whole number from 0 to 10000",
        ),
        (
            "profiles: [{policies: [{name: a}, {name: a}]}]",
            "profiles[0].policies: policy 'a' is named twice",
        ),
        # The rest
        ("clientConnection: {qps: fast}", "clientConnection.qps: 'fast', expected a number"),
        ("clientConnection: {burst: -1}", "clientConnection.burst: -1, expected a whole number, 0"),
        ("serving: {bindAddress: here}", "serving.bindAddress: 'here', expected an IP address"),
        ("serving: {port: 65536}", "serving.port: 65536, expected a port from 1 to 65535"),
        ("serving: {certFile: a}", "serving.keyFile: missing, expected a file since certFile is"),
        ("serving: {keyFile: a}", "serving.certFile: missing, expected a file since keyFile is g"),
        ("binding: {parallelism: 0}", "binding.parallelism: 0, expected a whole number from 1 to"),
        ("volumes: {bindTimeoutSeconds: -1}", "volumes.bindTimeoutSeconds: -1, expected a whole n"),
        ("volumes: [600]", "volumes: [600], expected a mapping"),
        ("ledger: {url: 'mysql://h/d'}", "ledger.url: expected postgresql://USER@HOST/DATABASE"),
        ("ledger: {whenAway: panic}", "ledger.whenAway: 'panic', expected wait or continue"),
        ("ledger: {historyDays: 0}", "ledger.historyDays: 0, expected a whole number of days from"),
        ("ledger: {historyDays: -1}", "from 1 to 36500, which is as good as for ever"),
        ("ledger: {historyDays: 36501}", "ledger.historyDays: 36501, expected a whole number of"),
        ("ledger: {historyDays: 400d}", "ledger.historyDays: '400d', expected"),
        ("ledger: {historyDays: 1.5}", "ledger.historyDays: 1.5, expected"),
        ("ledger: {historyDays: true}", "ledger.historyDays: true, expected"),
        (
            "ledger: {enabled: false, url: 'postgresql://h/d'}",
            "ledger.url: given, expected none since ledger.enabled is false",
        ),
        (
            "ledger: {enabled: false, directory: /d}",
            "ledger.directory: given, expected none since ledger.enabled is false",
        ),
        (
            "ledger: {url: 'postgresql://h/d', directory: /d}",
            "ledger.directory: given, expected either url, a database, or directory",
        ),
    ],
)
def test_wrong_values_are_refused_with_their_field(
    tmp_path: Path, content: str, complaint: str
) -> None:
    with pytest.raises(InputError) as refused:
        read(tmp_path, content)
    message = str(refused.value)
    assert message.startswith(f"{tmp_path / 'afflux.yaml'}: ")
    assert complaint in message
    assert "\n" not in message
