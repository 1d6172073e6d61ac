"""Constraints are converted to a canonical form, or the pod waits with a message."""

import json
import random
from typing import Any

import msgspec
import pytest
from manifests import inventory, node, only_task, pod, reasons

from afflux.kube import objects, pods
from afflux.model.errors import InputError
from afflux.model.selectors import NodeAffinity, Requirement, Term
from afflux.model.taints import Taint, Toleration

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


def node_affinity(*terms: Any, preferred: Any = ()) -> dict[str, Any]:
    stated = {REQUIRED: {"nodeSelectorTerms": list(terms)}, PREFERRED: list(preferred)}
    return {"nodeAffinity": stated}


def anti_affinity(selector: Any, **term: Any) -> dict[str, Any]:
    term = {"labelSelector": selector, "topologyKey": "kubernetes.io/hostname", **term}
    return {"podAntiAffinity": {REQUIRED: [term]}}


# --- What is understood


def test_a_node_becomes_a_machine_with_labels_taints_and_cordon() -> None:
    spec = {"unschedulable": True, "taints": [{"key": "gpu", "effect": "NoSchedule"}]}
    (machine,) = inventory(node("n1", labels={"zone": "a"}, spec=spec)).machines
    assert (machine.name, machine.labels) == ("n1", {"zone": "a"})
    assert machine.taints == (Taint("gpu", "NoSchedule", ""),)
    assert machine.unschedulable


@pytest.mark.parametrize(
    ("conditions", "keys"),
    [
        ([], []),
        ([("MemoryPressure", "True")], []),
        ([("Ready", "True")], []),
        ([("DiskPressure", "False"), ("Ready", "False")], ["node.kubernetes.io/not-ready"]),
        ([("Ready", "Unknown")], ["node.kubernetes.io/unreachable"]),
    ],
)
def test_a_node_that_is_not_ready_gets_the_taint_of_the_controller(
    conditions: list[tuple[str, str]], keys: list[str]
) -> None:
    stated = [{"type": kind, "status": status} for kind, status in conditions]
    (machine,) = inventory(node("n1", conditions=stated)).machines
    assert machine.taints == tuple(Taint(key, "NoSchedule") for key in keys)


def test_an_existing_taint_is_not_added_again() -> None:
    key = "node.kubernetes.io/not-ready"
    taints = [{"key": key, "effect": effect} for effect in ("NoExecute", "NoSchedule")]
    conditions = [{"type": "Ready", "status": "False"}]
    (written,) = inventory(node("n1", conditions=conditions, spec={"taints": taints})).machines
    assert written.taints == (Taint(key, "NoExecute"), Taint(key, "NoSchedule"))
    (half,) = inventory(node("n1", conditions=conditions, spec={"taints": taints[:1]})).machines
    assert half.taints == (Taint(key, "NoExecute"), Taint(key, "NoSchedule"))


def test_node_affinity_is_converted() -> None:
    term = {
        "matchExpressions": [expression("zone", "In", "b", "a"), expression("cores", "Gt", "8")],
        "matchFields": [expression("metadata.name", "NotIn", "n7")],
    }
    wish = {"weight": 10, "preference": {"matchExpressions": [expression("ssd", "Exists")]}}
    affinity = node_affinity(term, preferred=[wish])
    task = only_task(pod(affinity=affinity, nodeSelector={"os": "linux"}))
    assert task.blocked is None
    assert task.shape.affinity == NodeAffinity(
        selector=(("os", "linux"),),
        required=(
            Term(
                labels=(Requirement("cores", "Gt", ("8",)), Requirement("zone", "In", ("a", "b"))),
                names=(Requirement("metadata.name", "NotIn", ("n7",)),),
            ),
        ),
        preferred=((10, Term(labels=(Requirement("ssd", "Exists"),))),),
    )


def test_an_affinity_of_empty_terms_matches_no_machine() -> None:
    assert only_task(pod(affinity=node_affinity({}))).shape.affinity.required == ()


def test_an_empty_toleration_operator_means_equal() -> None:
    stated = [{"key": "a", "value": "1", "effect": "NoSchedule", "tolerationSeconds": 5}]
    assert only_task(pod(tolerations=stated)).shape.tolerations == (
        Toleration("a", "Equal", "1", "NoSchedule"),
    )


def test_equivalent_pods_share_a_shape() -> None:
    def shuffled(seed: int) -> dict[str, Any]:
        rng = random.Random(seed)

        def mixed(items: list[Any]) -> list[Any]:
            return rng.sample(items, len(items))

        terms = [
            {"matchExpressions": mixed([expression("a", "In", *mixed(["1", "2", "3"])), other])}
            for other in (expression("b", "Exists"), expression("c", "DoesNotExist"))
        ]
        tolerations = [{"key": "x", "operator": "Exists"}, {"operator": "Exists"}, {"key": "y"}]
        return pod(
            f"p{seed}",
            labels={"index": str(seed)},
            affinity=node_affinity(*mixed(terms)),
            tolerations=mixed(tolerations),
            requests=dict(mixed([("cpu", "1000m" if seed % 2 else 1), ("memory", "1Gi")])),
        )

    loaded = inventory(*(shuffled(seed) for seed in range(20)))
    assert len({id(group.tasks[0].shape) for group in loaded.groups}) == 1


# --- What holds a pod back


def unsupported(field: str) -> str:
    return f"{field} is not supported yet"


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"resourceClaims": [{"name": "gpu"}]}, unsupported("spec.resourceClaims")),
        (
            {"containers": [{"ports": [{"hostPort": 80, "protocol": "QUIC"}]}]},
            "spec.containers[0].ports[0].protocol: 'QUIC' is not supported",
        ),
        (
            {"schedulingGates": [{"name": "example.com/quota"}]},
            "spec.schedulingGates: waiting for gate 'example.com/quota' to be removed",
        ),
        (
            {"affinity": node_affinity({"matchExpressions": [expression("a", "Near", "b")]})},
            f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0].matchExpressions[0]"
            ".operator: 'Near' is not supported",
        ),
        (
            {"affinity": node_affinity({"matchExpressions": [expression("a", "Gt", "1_0")]})},
            f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0].matchExpressions[0]"
            '.values: ["1_0"], expected one whole number for Gt',
        ),
        (
            {"affinity": node_affinity({"matchFields": [expression("spec.x", "In", "b")]})},
            f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0].matchFields[0]"
            ".key: 'spec.x' is not supported, only metadata.name",
        ),
        (
            {"tolerations": [{"key": "a", "operator": "Like"}]},
            "spec.tolerations[0].operator: 'Like' is not supported",
        ),
        (
            {"tolerations": [{"operator": "Equal"}]},
            "spec.tolerations[0].operator: 'Equal', expected Exists without a key",
        ),
    ],
)
def test_a_pod_with_an_unsupported_constraint_waits(spec: dict[str, Any], reason: str) -> None:
    assert reasons(pod(**spec)) == {"default/web": reason}
    assert only_task(pod(**spec)).blocked == reason


@pytest.mark.parametrize(
    "kind",
    [
        "gcePersistentDisk", "awsElasticBlockStore", "iscsi", "rbd", "azureDisk", "azureFile",
        "cinder", "vsphereVolume", "portworxVolume", "novelVolume",
    ],
)  # fmt: skip
def test_a_pod_with_an_unsupported_volume_waits(kind: str) -> None:
    volumes = [{"name": "tmp", "emptyDir": {}}, {"name": "data", kind: {}}]
    assert reasons(pod(volumes=volumes)) == {
        "default/web": f"spec.volumes[1].{kind} is not supported yet"
    }


@pytest.mark.parametrize("kind", ["persistentVolumeClaim", "ephemeral"])
def test_a_pod_with_claims_waits_without_storage(kind: str) -> None:
    manifest = json.dumps(pod(volumes=[{"name": "data", kind: {}}]))
    claiming = msgspec.json.decode(manifest, type=objects.Pod)
    assert pods.task(claiming).blocked == f"spec.volumes[0].{kind} is not supported yet"


@pytest.mark.parametrize(
    "kind",
    ["emptyDir", "configMap", "secret", "projected", "downwardAPI", "hostPath", "nfs", "csi"],
)
def test_volumes_that_no_plugin_checks_do_not_block(kind: str) -> None:
    volumes = [{"name": "data", kind: {}, "persistentVolumeClaim": None}]
    assert not reasons(pod(volumes=volumes))


def test_a_port_of_an_init_container_does_not_block() -> None:
    assert not reasons(pod(initContainers=[{"ports": [{"hostPort": 80}]}]))


def test_running_pods_are_never_blocked() -> None:
    bound = pod(
        nodeName="n1",
        affinity=anti_affinity({"matchLabels": {"app": "x"}}),
        tolerations=[{"operator": "?"}],
        volumes=[{"name": "v", "persistentVolumeClaim": {}}],
    )
    loaded = inventory(node("n1"), bound)
    assert [(task.name, task.blocked, on) for task, on in loaded.running] == [
        ("default/web", None, "n1")
    ]


def test_an_unknown_effect_of_a_taint_is_an_error() -> None:
    with pytest.raises(InputError, match=r"spec\.taints\[0\]\.effect: 'Never', expected NoSche"):
        inventory(node(spec={"taints": [{"key": "a", "effect": "Never"}]}))


@pytest.mark.parametrize(
    ("annotations", "scheduler", "expected"),
    [
        (None, "afflux", False),
        ({}, "afflux", False),
        ({"afflux.dev/required-during-execution": "true"}, "afflux", True),
        ({"afflux.dev/required-during-execution": "true"}, "another", False),
        ({"afflux.dev/required-during-execution": "false"}, "afflux", False),
        ({"afflux.dev/required-during-execution": "True"}, "afflux", False),
    ],
)
def test_an_annotation_makes_requirements_of_our_pods_hold_during_execution(
    annotations: dict[str, str] | None, scheduler: str, expected: bool
) -> None:
    metadata = {"name": "web", "namespace": "default", "annotations": annotations}
    manifest = pod(metadata=metadata, schedulerName=scheduler)
    context = pods.PodContext(profiles=["afflux"])
    found = pods.task(msgspec.convert(manifest, objects.Pod), context)
    assert found.required_during_execution is expected
    without = pods.task(msgspec.convert(pod(schedulerName=scheduler), objects.Pod), context)
    assert found.shape is without.shape
