"""The chart with the IO driver and the aggregator: off by default, with no right too many."""

from typing import Any

import pytest
from chart_installation import NAMESPACE, render
from testbed import Manifest

from afflux.cli.arguments import parse
from afflux.cli.diskio_driver_arguments import AggregatorOptions, DriverOptions

PROFILE = {"kind": "DiskProfile", "model": "v/m", "read": {"32k": 1e9}, "write": {"32k": 1e9}}
DRIVER: dict[str, Any] = {"driver": {"enabled": True, "profiles": {"m": PROFILE}}}
BOTH: dict[str, Any] = {**DRIVER, "aggregator": {"enabled": True, "tlsSecret": "certificate"}}


def found(manifests: list[Manifest], kind: str, name: str) -> Manifest:
    (one,) = (e for e in manifests if e["kind"] == kind and e["metadata"]["name"] == name)
    return one


def rules(manifests: list[Manifest], kind: str, name: str) -> list[tuple[str, ...]]:
    return [
        (resource, *rule["verbs"])
        for rule in found(manifests, kind, name)["rules"]
        for resource in rule["resources"]
    ]


def test_both_are_off_by_default() -> None:
    assert "disk-io" not in str(render())


def test_the_driver_runs_on_every_node_and_reads_the_cgroups_of_the_host() -> None:
    manifests = render(diskIO=DRIVER)
    assert "CustomResourceDefinition" in {each["kind"] for each in manifests}
    pod = found(manifests, "DaemonSet", "afflux-disk-io-driver")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    options = parse([each.replace("$(NODE_NAME)", "node-1") for each in container["args"]])
    assert isinstance(options, DriverOptions)
    assert (options.node, options.namespace) == ("node-1", NAMESPACE)
    mounts = {mount["name"]: mount for mount in container["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    assert options.cgroup_root == mounts["cgroup"]["mountPath"]
    assert options.directories == [mounts["disk-0"]["mountPath"]]
    assert volumes["cgroup"]["hostPath"]["path"] == "/sys/fs/cgroup"
    # Only the driver's own directories can be written.
    assert {name for name, mount in mounts.items() if not mount.get("readOnly")} == {"disk-0"}
    assert options.profiles == [f"{mounts['profiles']['mountPath']}/m.json"]
    assert "m.json" in found(manifests, "ConfigMap", "afflux-disk-io-driver")["data"]
    assert options.aggregator is None
    security = container["securityContext"]
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert security["readOnlyRootFilesystem"]
    assert not security["allowPrivilegeEscalation"]
    assert container["resources"]["requests"]


def test_no_selector_of_the_scheduler_finds_the_pods_of_the_driver() -> None:
    manifests = render(diskIO=BOTH)
    selector = found(manifests, "Deployment", "afflux")["spec"]["selector"]["matchLabels"]
    for kind, name in (
        ("DaemonSet", "afflux-disk-io-driver"),
        ("Deployment", "afflux-disk-io-aggregator"),
    ):
        spec = found(manifests, kind, name)["spec"]
        labels = spec["template"]["metadata"]["labels"]
        assert spec["selector"]["matchLabels"].items() <= labels.items()
        assert not selector.items() <= labels.items()


def test_the_driver_alone_writes_and_with_an_aggregator_it_does_not() -> None:
    alone, both = render(diskIO=DRIVER), render(diskIO=BOTH)
    name = "afflux-disk-io-driver"
    for manifests in (alone, both):
        assert rules(manifests, "ClusterRole", name) == [("pods", "get", "list", "watch")]
    assert rules(alone, "Role", name) == [
        ("nodediskioinfos", "get", "list", "watch", "create", "patch"),
        ("nodediskioinfos/status", "patch"),
    ]
    assert rules(both, "Role", name) == [("nodediskioinfos", "get", "list", "watch", "create")]
    name = "afflux-disk-io-aggregator"
    assert rules(both, "Role", name) == [
        ("nodediskioinfos", "patch"),
        ("nodediskioinfos/status", "patch"),
    ]
    assert rules(both, "ClusterRole", name) == [("tokenreviews", "create")]


def test_drivers_report_to_the_aggregator_with_a_token_for_it_alone() -> None:
    manifests = render(diskIO=BOTH)
    driver = found(manifests, "DaemonSet", "afflux-disk-io-driver")["spec"]["template"]["spec"]
    options = parse(driver["containers"][0]["args"])
    assert isinstance(options, DriverOptions)
    url = f"https://afflux-disk-io-aggregator.{NAMESPACE}.svc:10271"
    assert options.aggregator == url
    (volume,) = (each for each in driver["volumes"] if each["name"] == "aggregator-token")
    (source,) = volume["projected"]["sources"]
    assert source["serviceAccountToken"]["audience"] == "afflux-disk-io"
    spec = found(manifests, "Deployment", "afflux-disk-io-aggregator")["spec"]
    assert spec["replicas"] == 1
    options = parse(spec["template"]["spec"]["containers"][0]["args"])
    assert isinstance(options, AggregatorOptions)
    assert options.account == f"{NAMESPACE}:afflux-disk-io-driver"
    service = found(manifests, "Service", "afflux-disk-io-aggregator")
    assert service["spec"]["ports"][0]["port"] == 10271


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"driver": {"directories": []}}, "minItems"),
        ({"driver": {"directories": ["relative"]}}, "does not match pattern"),
        ({"driver": {"profiles": {"m": {}}}}, "missing properties"),
        ({"driver": {"enable": True}}, "additional properties 'enable' not allowed"),
        ({"aggregator": {"qps": 0}}, "exclusiveMinimum"),
    ],
    ids=str,
)
def test_invalid_values_are_refused(values: dict[str, Any], words: str) -> None:
    with pytest.raises(RuntimeError, match="helm template") as refusal:
        render(diskIO=values)
    assert words in str(refusal.value)
