"""The chart with the policy disk-io: the definition of NodeDiskIOInfo, rights, vendors' keys."""

from typing import Any

import pytest
import yaml
from chart_installation import NAMESPACE, configuration, render
from chart_values import of_kind
from testbed import Manifest

WITH_POLICY: dict[str, Any] = {"policies": [{"name": "cpu-memory"}, {"name": "disk-io"}]}
KIND = "CustomResourceDefinition"


def named(manifests: list[Manifest], kind: str, name: str) -> Manifest:
    (found,) = (e for e in manifests if e["kind"] == kind and e["metadata"]["name"] == name)
    return found


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"policies": [{"name": "cpu-memory"}]},
        # No profile uses the policies of the top.
        {**WITH_POLICY, "profiles": [{"policies": [{"name": "cpu-memory"}]}]},
    ],
)
def test_without_the_policy_there_is_neither_definition_nor_right(config: Manifest) -> None:
    manifests = render(config=config, diskIO={"trustedKeysSecret": "keys"})
    assert KIND not in {each["kind"] for each in manifests}
    assert "ioi.intel.com" not in str(manifests)
    assert "disk-keys" not in str(manifests)


@pytest.mark.parametrize(
    "config", [WITH_POLICY, {"profiles": [{"schedulerName": "io", **WITH_POLICY}]}]
)
def test_with_the_policy_the_definition_is_installed_and_kept(config: Manifest) -> None:
    manifests = render(config=config)
    found = of_kind(manifests, KIND)
    assert found["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    (version,) = found["spec"]["versions"]
    assert version["subresources"] == {"status": {}}
    without = render(config=config, diskIO={"crd": {"create": False}})
    assert KIND not in {each["kind"] for each in without}


def test_the_scheduler_may_write_the_objects_of_one_namespace_and_read_one_config_map() -> None:
    manifests = render(config=WITH_POLICY)
    role = named(manifests, "Role", "afflux-disk-io")
    assert role["metadata"]["namespace"] == NAMESPACE
    assert role["rules"] == [
        {
            "apiGroups": ["ioi.intel.com"],
            "resources": ["nodediskioinfos"],
            "verbs": ["get", "list", "watch", "patch"],
        }
    ]
    role = named(manifests, "Role", "afflux-normalisers")
    assert role["metadata"]["namespace"] == "default"
    assert role["rules"][0]["resourceNames"] == ["normalization-func"]
    elsewhere = {
        "diskIO": {"namespace": "disks", "configMap": {"namespace": "vendors", "name": "models"}}
    }
    manifests = render(config={**WITH_POLICY, **elsewhere})
    assert named(manifests, "Role", "afflux-disk-io")["metadata"]["namespace"] == "disks"
    role = named(manifests, "Role", "afflux-normalisers")
    assert role["metadata"]["namespace"] == "vendors"
    assert role["rules"][0]["resourceNames"] == ["models"]


def test_the_keys_of_vendors_are_a_mounted_secret() -> None:
    manifests = render(config=WITH_POLICY, diskIO={"trustedKeysSecret": "keys"})
    pod = of_kind(manifests, "Deployment")["spec"]["template"]["spec"]
    assert {"name": "disk-keys", "secret": {"secretName": "keys"}} in pod["volumes"]
    directory = yaml.safe_load(configuration(manifests))["diskIO"]["trustedKeys"]
    (container,) = pod["containers"]
    mount = {"name": "disk-keys", "mountPath": directory, "readOnly": True}
    assert mount in container["volumeMounts"]
    stated = {**WITH_POLICY, "diskIO": {"trustedKeys": "/keys"}}
    with pytest.raises(RuntimeError, match=r"config\.diskIO\.trustedKeys: given, expected none"):
        render(config=stated, diskIO={"trustedKeysSecret": "keys"})
