"""The chart: rendered objects, refused values, and a configuration that afflux can read."""

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from chart_installation import CHART, NAMESPACE, configuration, helm, render
from chart_values import ALL_VALUES, NO_LEDGER, ROOT, SETTINGS, STATIC_POD, WITH_CLAIM, of_kind
from testbed import Manifest

from afflux.cli.arguments import RunOptions, parse
from afflux.config import default_configuration, effective_configuration, read_configuration
from afflux.ledger.directories import checked_directory
from afflux.ledger.directory_lock import DEFAULT_LOCK_TIMEOUTS
from afflux.ledger.embedded_postgres import DEFAULT_START_TIMING
from afflux.ledger.retention import MAX_HISTORY_DAYS

OFF = {"topologySpread": {"defaultingType": "List", "defaultConstraints": []}}
ONE_CONSTRAINT = {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
DEFAULT_CONSTRAINTS = {
    "topologySpread": {"defaultingType": "List", "defaultConstraints": [ONE_CONSTRAINT]}
}

# --- Rendered objects


@SETTINGS
def test_helm_lint_passes(values: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(json.dumps(values))
    assert "1 chart(s) linted, 0 chart(s) failed" in helm(
        "lint", "--strict", str(CHART), "--values", str(file)
    )


def test_the_versions_of_chart_image_and_package_agree() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["appVersion"] == version
    assert f"\nARG VERSION={version}\n" in (ROOT / "Dockerfile").read_text()
    assert f"image: afflux:{version}\n" in (STATIC_POD / "afflux.yaml").read_text()


def test_the_image_is_built_by_the_same_uv_and_from_files_that_are_not_ignored() -> None:
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    (uv,) = (line.split("uv==")[1] for line in lines if "uv==" in line)
    assert f"\nUV_VERSION := {uv}\n" in (ROOT / "Makefile").read_text()
    copied = [
        source
        for line in lines
        if line.startswith("COPY ") and "--from" not in line
        for source in line.split()[1:-1]
    ]
    allowed = (ROOT / ".dockerignore").read_text().splitlines()
    assert "pyproject.toml" in copied
    for source in copied:
        assert (ROOT / source).exists()
        assert f"!{source}" in allowed


def test_the_default_objects() -> None:
    manifests = render()
    assert sorted(each["kind"] for each in manifests) == [
        "ClusterRole", "ClusterRoleBinding", "ConfigMap", "Deployment", "Role", "RoleBinding",
        "Service", "ServiceAccount",
    ]  # fmt: skip
    for manifest in manifests:
        labels = manifest["metadata"]["labels"]
        assert labels["app.kubernetes.io/name"] == "afflux"
        assert labels["app.kubernetes.io/instance"] == "afflux"
        assert labels["app.kubernetes.io/managed-by"] == "Helm"
    spec = of_kind(manifests, "Deployment")["spec"]
    assert spec["replicas"] == 1
    pod = spec["template"]["spec"]
    assert pod["schedulerName"] == "default-scheduler"
    assert pod["priorityClassName"] == "system-cluster-critical"
    (spread,) = pod["topologySpreadConstraints"]
    assert spread["topologyKey"] == "kubernetes.io/hostname"
    assert spread["whenUnsatisfiable"] == "ScheduleAnyway"


def test_optional_objects_are_rendered_when_enabled() -> None:
    manifests = render(**ALL_VALUES)
    assert {each["kind"] for each in manifests} > {"ServiceMonitor", "NetworkPolicy"}
    pod = of_kind(manifests, "Deployment")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    options = parse(container["args"])
    assert isinstance(options, RunOptions)
    assert options.config == f"{container['volumeMounts'][0]['mountPath']}/config.yaml"
    assert container["image"] == f"images.example:5000/afflux@sha256:{'a' * 64}"
    assert container["args"][-4:] == [
        "--log-format=json", "--log-level=debug", "--context", "here"
    ]  # fmt: skip
    assert container["ports"][0]["containerPort"] == 9000
    assert container["livenessProbe"]["httpGet"]["scheme"] == "HTTPS"
    assert "topologySpreadConstraints" not in pod
    (endpoint,) = of_kind(manifests, "ServiceMonitor")["spec"]["endpoints"]
    assert endpoint["scheme"] == "https"
    roles = {each["metadata"]["name"]: each for each in manifests if each["kind"] == "Role"}
    lease = roles["afflux"]
    assert lease["metadata"]["namespace"] == NAMESPACE
    assert lease["rules"][0]["resourceNames"] == ["batch"]


def test_one_replica_without_election_needs_no_lease_and_can_be_drained() -> None:
    config = {"leaderElection": {"leaderElect": False}, **NO_LEDGER}
    manifests = render(replicas=1, config=config)
    kinds = {each["kind"] for each in manifests}
    assert not kinds & {"Role", "RoleBinding", "PodDisruptionBudget"}
    update = of_kind(manifests, "Deployment")["spec"]["strategy"]["rollingUpdate"]
    assert update == {"maxSurge": 0, "maxUnavailable": 1}  # never two at once


def test_only_a_new_configuration_replaces_the_pods() -> None:
    def template(**values: Any) -> Manifest:
        return of_kind(render(**values), "Deployment")["spec"]["template"]

    before = template(config=NO_LEDGER)
    more = {"replicas": 5, "podDisruptionBudget": {"enabled": False}}
    assert template(config=NO_LEDGER, **more) == before
    after = template(config={"strategy": "fcfs", **NO_LEDGER})
    assert after["metadata"]["annotations"] != before["metadata"]["annotations"]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"replica": 3}, "additional properties 'replica' not allowed"),
        ({"image": {"registry": "x"}}, "additional properties 'registry' not allowed"),
        ({"image": {"digest": "latest"}}, "'latest' does not match pattern"),
        ({"config": {"profile": []}}, "additional properties 'profile' not allowed"),
        ({"config": {"serving": {"port": 0}}}, "minimum: got 0, want 1"),
        ({"config": {"binding": {"timeout": "5"}}}, "'5' does not match pattern"),
        (
            {"replicas": 2, "config": {"leaderElection": {"leaderElect": False}, **NO_LEDGER}},
            "all of them would act",
        ),
        (
            {"replicas": 2},
            "each would have a ledger of its own; expected 1, or config.ledger.url, or",
        ),
        (
            {"replicas": 2, "config": {"ledger": {"directory": "/ledger"}}},
            "each would have a ledger of its own",
        ),
        (
            {"config": {"ledger": {"url": "postgresql://a@b/c", "directory": "/ledger"}}},
            "config.ledger.directory: given, expected either url, a database, or directory",
        ),
        (
            {"config": {"ledger": {"enabled": False, "url": "postgresql://a@b/c"}}},
            "config.ledger.url: given, expected none since config.ledger.enabled is false",
        ),
        (
            {"config": {"ledger": {"enabled": False, "directory": "/ledger"}}},
            "config.ledger.directory: given, expected none since config.ledger.enabled is false",
        ),
        ({"config": {"ledger": {"directory": "ledger"}}}, "'ledger' does not match pattern"),
        ({"config": {"ledger": {"directory": "/"}}}, "'/' does not match pattern"),
        ({"config": {"ledger": {"directory": "/a b"}}}, "'/a b' does not match pattern"),
        ({"config": {"ledger": {"directory": f"/{'x' * 88}"}}}, "maxLength: got 89, want 88"),
        ({"config": {"ledger": {"historyDays": 0}}}, "minimum: got 0, want 1"),
        ({"config": {"ledger": {"historyDays": 36_501}}}, "maximum: got 36,501, want 36,500"),
        ({"config": {"ledger": {"historyDays": "30"}}}, "got string, want null or integer"),
        ({"ledger": {"claim": {"accessModes": ["ReadOnlyMany"]}}}, "value must be one of"),
        ({"schedulerName": "afflux"}, "afflux is served by afflux itself"),
        (
            {"config": {"profiles": [{"schedulerName": "default-scheduler"}]}},
            "default-scheduler is served by afflux itself",
        ),
        ({"serviceAccount": {"create": False}}, "serviceAccount.name: missing"),
        (
            {"serviceMonitor": {"enabled": True}, "service": {"enabled": False}},
            "serviceMonitor.enabled: true without service.enabled",
        ),
    ],
    ids=lambda value: None if isinstance(value, str) else json.dumps(value),
)
def test_invalid_values_are_refused(values: dict[str, Any], words: str) -> None:
    with pytest.raises(RuntimeError, match="helm template") as refusal:
        render(**values)
    assert words in str(refusal.value)


# --- The ledger


def test_a_single_replica_has_an_embedded_ledger_on_a_volume() -> None:
    manifests = render()
    spec = of_kind(manifests, "Deployment")["spec"]
    # Never two pods at once, independent of the access mode of the volume.
    assert spec["strategy"] == {"type": "Recreate"}
    pod = spec["template"]["spec"]
    assert {"name": "ledger", "emptyDir": {}} in pod["volumes"]
    (container,) = pod["containers"]
    directory = yaml.safe_load(configuration(manifests))["ledger"]["directory"]
    assert {"name": "ledger", "mountPath": directory} in container["volumeMounts"]
    # The root file system is read-only.
    assert {"name": "TMPDIR", "value": directory} in container["env"]
    assert str(checked_directory(directory)) == directory
    # The user has a name in the image and owns the volume.
    user = pod["securityContext"]["runAsUser"]
    assert f"'afflux:x:{user}:" in (ROOT / "Dockerfile").read_text()
    assert pod["securityContext"]["fsGroup"] == user


@pytest.mark.parametrize("config", [{}, {"serving": {"certFile": "/c", "keyFile": "/k"}}])
def test_the_startup_probe_leaves_an_embedded_ledger_time_to_recover(
    config: dict[str, Any],
) -> None:
    """Without a startup probe the pod would be killed while its ledger recovers."""
    (container,) = of_kind(render(config=config), "Deployment")["spec"]["template"]["spec"][
        "containers"
    ]
    probe = container["startupProbe"]
    assert probe["httpGet"] == container["livenessProbe"]["httpGet"]
    # Another host releases the lock, the recovery times out, and a second start succeeds.
    timing = DEFAULT_START_TIMING
    longest = (
        DEFAULT_LOCK_TIMEOUTS.other_host_seconds
        + timing.recovery_timeout_seconds
        + 2 * timing.failure_timeout_seconds
    )
    assert probe["periodSeconds"] * probe["failureThreshold"] > longest


def test_the_volume_may_be_an_existing_or_a_new_claim() -> None:
    manifests = render(ledger={"claim": {"name": "mine"}}, config={"ledger": {"directory": "/d"}})
    assert "PersistentVolumeClaim" not in {each["kind"] for each in manifests}
    pod = of_kind(manifests, "Deployment")["spec"]["template"]["spec"]
    named = {"name": "ledger", "persistentVolumeClaim": {"claimName": "mine"}}
    assert named in pod["volumes"]
    assert {"name": "ledger", "mountPath": "/d"} in pod["containers"][0]["volumeMounts"]

    sized = {"create": True, "size": "5Gi", "storageClassName": "fast"}
    made = of_kind(render(ledger={"claim": sized}), "PersistentVolumeClaim")
    assert made["metadata"]["name"] == "afflux-ledger"
    assert made["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    assert made["spec"] == {
        "accessModes": ["ReadWriteOncePod"],
        "storageClassName": "fast",
        "resources": {"requests": {"storage": "5Gi"}},
    }


LATER: dict[str, Any] = {
    "startupProbe": None,
    "ledger": None,
    "inspection": None,
    "rbac": {"cleanupOwners": None},
}


@pytest.mark.parametrize(
    "missing",
    [*({key: value} for key, value in LATER.items()), LATER, {"ledger": {"claim": None}}],
    ids=json.dumps,
)
@pytest.mark.parametrize("config", [{}, {"cleanup": {"enabled": True}}])
def test_values_that_an_earlier_chart_lacked_have_their_defaults(
    missing: dict[str, Any], config: dict[str, Any]
) -> None:
    """`helm upgrade --reuse-values` supplies only the values of the earlier chart."""
    assert render(config=config, **missing) == render(config=config)


def test_a_claim_can_be_created_with_the_values_of_an_earlier_chart() -> None:
    few = {"name": None, "size": None, "storageClassName": None, "accessModes": None}
    assert render(ledger={"claim": {"create": True, **few}}) == render(**WITH_CLAIM)


@pytest.mark.parametrize("ledger", [{"url": "postgresql://a@b/c"}, {"enabled": False}])
def test_several_replicas_need_a_shared_database_or_no_ledger(ledger: Any) -> None:
    manifests = render(replicas=2, config={"ledger": ledger}, **WITH_CLAIM)
    assert "PersistentVolumeClaim" not in {each["kind"] for each in manifests}
    assert yaml.safe_load(configuration(manifests))["ledger"] == ledger
    spec = of_kind(manifests, "Deployment")["spec"]
    assert spec["strategy"]["type"] == "RollingUpdate"
    pod = spec["template"]["spec"]
    assert [volume["name"] for volume in pod["volumes"]] == ["config"]
    assert "env" not in pod["containers"][0]
    assert "startupProbe" not in pod["containers"][0]


@pytest.mark.parametrize(
    ("given", "kept"), [({"historyDays": 30}, 30), ({"historyDays": None}, 400)]
)
def test_the_history_of_an_embedded_ledger_is_configurable(
    given: dict[str, Any], kept: int, tmp_path: Path
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(configuration(render(config={"ledger": given})))
    ledger = read_configuration(str(file)).ledger
    assert ledger.history_days == kept
    assert ledger.directory


def test_the_schema_and_afflux_agree_on_the_maximum_history() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    days = schema["properties"]["config"]["properties"]["ledger"]["properties"]["historyDays"]
    assert (days["minimum"], days["maximum"]) == (1, MAX_HISTORY_DAYS)


# --- The configuration


def test_the_default_values_give_the_default_configuration(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(configuration(render()))
    read, usual = (
        effective_configuration(read_configuration(str(file))),
        effective_configuration(default_configuration()),
    )
    # Except for the directory of the ledger, which is on the volume.
    assert {**read, "ledger": None} == {**usual, "ledger": None}


@pytest.mark.parametrize("values", [ALL_VALUES, {"config": {"serving": None}}, {"config": None}])
def test_afflux_reads_the_rendered_configuration(values: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(configuration(render(**values)))
    read = effective_configuration(read_configuration(str(file)))
    assert _contains(read, _without_nulls(values["config"] or {}))


def test_the_schema_has_exactly_the_fields_of_a_configuration(tmp_path: Path) -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    # Entries of lists that are empty by default have fields as well.
    file = tmp_path / "config.yaml"
    file.write_text(configuration(render(config=DEFAULT_CONSTRAINTS)))
    assert _fields(effective_configuration(read_configuration(str(file)))) == set(
        _named(schema["properties"]["config"], schema["definitions"])
    )


@pytest.mark.parametrize(
    ("config", "granted"),
    [
        (None, True),
        ({"topologySpread": {"defaultConstraints": []}}, True),
        (OFF, False),
        ({"topologySpread": None, "profiles": [OFF]}, False),
        ({**OFF, "profiles": [{"schedulerName": "a", "topologySpread": None}]}, False),
        (
            {
                **OFF,
                "profiles": [
                    {"schedulerName": "a"},
                    {"schedulerName": "b", "topologySpread": {}},
                ],
            },
            True,
        ),
        (DEFAULT_CONSTRAINTS, True),
        ({**DEFAULT_CONSTRAINTS, "profiles": [OFF]}, False),
    ],
)
def test_services_and_owners_may_be_read_only_for_default_constraints(
    config: dict[str, Any] | None, granted: bool, tmp_path: Path
) -> None:
    manifests = render(config=config)
    rules = of_kind(manifests, "ClusterRole")["rules"]
    readable = {resource for rule in rules for resource in rule["resources"]}
    kinds = {"services", "replicationcontrollers", "replicasets", "statefulsets"}
    assert kinds & readable == (kinds if granted else set())
    file = tmp_path / "config.yaml"
    file.write_text(configuration(manifests))
    assert bool(read_configuration(str(file)).default_constraints()) == granted


def _contains(whole: Any, part: Any) -> bool:
    match part:
        case dict():
            return all(_contains(whole[key], inner) for key, inner in part.items())
        case list() | tuple():
            return all(_contains(a, b) for a, b in zip(whole, part, strict=True))
        case _:
            return whole == part


def _without_nulls(value: dict[str, Any]) -> dict[str, Any]:
    return {key: inner for key, inner in value.items() if inner is not None}


def _fields(value: Any, path: str = "") -> set[str]:
    match value:
        case dict() if not path.endswith(".args"):
            found = {f"{path}.{key}" for key in value}
            return found.union(*(_fields(inner, f"{path}.{key}") for key, inner in value.items()))
        case list() | tuple():
            return set().union(*(_fields(inner, path) for inner in value))
        case _:
            return set()


def _named(schema: dict[str, Any], definitions: dict[str, Any], path: str = "") -> Iterator[str]:
    if "$ref" in schema:
        schema = definitions[schema["$ref"].rpartition("/")[2]]
    if "items" in schema:
        yield from _named(schema["items"], definitions, path)
    for key, inner in schema.get("properties", {}).items():
        yield f"{path}.{key}"
        yield from _named(inner, definitions, f"{path}.{key}")
