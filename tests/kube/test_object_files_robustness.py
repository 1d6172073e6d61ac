"""Any input gives a snapshot or a one-line error, and JSON and YAML give the same."""

import json
import re
from copy import deepcopy
from typing import Any

import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from manifests import Inventory, Manifest, as_list, load, native_group, node, pod, pod_group
from storage_objects import allowed, claim, claiming, csi_node, driver, space, storage_class, volume

from afflux.model.errors import InputError

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
TERM = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}

RICH: list[Manifest] = [
    node(
        "n1",
        labels={"zone": "a"},
        spec={"taints": [{"key": "t", "effect": "NoExecute"}]},
        conditions=[{"type": "Ready", "status": "False"}],
        images=[{"names": ["app:1"], "sizeBytes": 10**9}],
    ),
    pod(
        "up",
        nodeName="n1",
        affinity={
            "podAntiAffinity": {
                REQUIRED: [
                    {"labelSelector": {"matchLabels": {"app": "x"}}, "namespaceSelector": {}}
                ]
            }
        },
        status={
            "phase": "Running",
            "conditions": [{"type": "Ready"}],
            "containerStatuses": [
                {"name": "main", "resources": {"requests": {"cpu": "1"}}, "allocatedResources": {}}
            ],
        },
    ),
    pod(
        "rich",
        metadata={"uid": "u1", "creationTimestamp": "2026-01-01T00:00:00Z"},
        labels={"afflux.dev/group-name": "g", "afflux.dev/group-size": "1"},
        affinity={
            "nodeAffinity": {
                REQUIRED: {"nodeSelectorTerms": [TERM]},
                PREFERRED: [{"weight": 5, "preference": TERM}],
            }
        },
        nodeSelector={"zone": "a"},
        tolerations=[{"key": "t", "operator": "Exists"}],
        initContainers=[
            {
                "name": "i",
                "image": "app:1",
                "restartPolicy": "Always",
                "ports": [{"hostPort": 7, "protocol": "UDP", "hostIP": "10.0.0.1"}],
            }
        ],
        overhead={"cpu": "10m"},
        resources={"limits": {"memory": "1Gi"}},
        volumes=[{"name": "v", "emptyDir": {}}, {"name": "i", "image": {"reference": "app:1"}}],
        activeDeadlineSeconds=60,
        priorityClassName="high",
        schedulingGates=[],
    ),
    pod("native", schedulingGroup={"podGroupName": "n"}),
    pod("member", labels={"scheduling.x-k8s.io/pod-group": "c"}),
    pod_group("c", 1),
    native_group("n", schedulingPolicy={"gang": {"minCount": 1}}),
    {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "high"},
        "value": 10,
    },
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default", "labels": {}}},
    {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}},
    claiming("claiming", "later", "bound", ephemeral=("tmp",)),
    claiming("attached", "bound", nodeName="n1"),
    claim("later", selector={"matchExpressions": [TERM["matchExpressions"][0]]}),
    claim("bound", volume="v"),
    volume("v", on=[{"zone": ["a"]}], claimRef={"namespace": "default", "name": "bound"}),
    volume("w", on=[{"zone": ["a"]}], labels={"topology.kubernetes.io/zone": "a__b"}),
    storage_class(provisioner="disk.example.com", allowedTopologies=allowed(zone="a")),
    driver(storageCapacity=True, preventPodSchedulingIfMissing=True),
    csi_node("n1", disk_example_com=3),
    space("s", nodeTopology={"matchLabels": {"zone": "a"}}, capacity="9Gi"),
]

values = st.recursive(
    st.none()
    | st.booleans()
    # In YAML, longer integers are floats and 1.0 is 1; in JSON they are what is written.
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False).filter(lambda x: not x.is_integer())
    | st.text(max_size=8)
    | st.sampled_from(["In", "Exists", "1Gi", "-1", "List", "Pod", "v1", "n1", "\n", "\ud800"]),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2)
    ),
    max_leaves=4,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value in this tree."""
    found = [path]
    children: Any = value.items() if isinstance(value, dict) else ()
    children = enumerate(value) if isinstance(value, list) else children
    for key, child in children:
        found += places(child, (*path, key))
    return found


PLACES = places(RICH)[1:]


def outcome(data: bytes, file: str = "x") -> Inventory | str:
    try:
        return load([(file, data)])
    except InputError as error:
        message = str(error)
    assert "\n" not in message
    assert message.startswith(f"{file}: ")
    return message


@settings(max_examples=400)
@given(st.lists(st.tuples(st.sampled_from(PLACES), values), min_size=1, max_size=3))
def test_objects_with_anything_in_any_field(changes: list[tuple[tuple[Any, ...], Any]]) -> None:
    changed: Any = deepcopy(RICH)
    for path, value in changes:
        parent = changed
        try:
            for step in path[:-1]:
                parent = parent[step]
            parent[path[-1]] = deepcopy(value)
        except (TypeError, KeyError, IndexError):
            continue
    outcome(as_list(*changed))


@settings(max_examples=200)
@given(st.binary(max_size=60))
def test_any_bytes(data: bytes) -> None:
    outcome(data)


RICH_JSON = as_list(*RICH)
RICH_YAML = yaml.safe_dump_all(RICH).encode()


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(
    original=st.sampled_from([RICH_JSON, RICH_YAML]),
    start=st.floats(0, 1),
    length=st.integers(0, 40),
    replacement=st.binary(max_size=3) | st.sampled_from([b"{", b"}", b'"', b"\n", b"  ", b"- "]),
)
def test_garbled_files(original: bytes, start: float, length: int, replacement: bytes) -> None:
    place = int(start * len(original))
    outcome(original[:place] + replacement + original[place + length :])


class Dumper(yaml.CSafeDumper):
    """Quotes texts that kubectl could take for something else; PyYAML leaves 0E0 and y plain."""


def represent_text(dumper: yaml.CSafeDumper, text: str) -> yaml.ScalarNode:
    style = None if re.fullmatch(r"[A-Za-z][A-Za-z./-]{5,}", text) else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style)


Dumper.add_representer(str, represent_text)


@settings(max_examples=60)
@example([((0, "metadata"), {"0E0": 1})], True)
@example([((0, "metadata"), {"y": 1})], False)
@given(st.lists(st.tuples(st.sampled_from(PLACES), values), max_size=1), st.booleans())
def test_json_and_yaml_of_the_same_objects_give_the_same(
    changes: list[tuple[tuple[Any, ...], Any]], flow: bool
) -> None:
    changed: Any = deepcopy(RICH)
    for path, value in changes:
        parent = changed
        for step in path[:-1]:
            parent = parent[step]
        parent[path[-1]] = deepcopy(value)
    manifest = {"apiVersion": "v1", "kind": "List", "items": changed}
    try:
        as_yaml = yaml.dump(
            manifest, Dumper=Dumper, default_flow_style=flow, sort_keys=False, allow_unicode=True
        ).encode()
        as_json = json.dumps(manifest, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return  # A lone surrogate is no text in either.
    assert outcome(as_yaml, "x.yaml") == outcome(as_json, "x.yaml")
