"""Of objects of which a cluster has tens of thousands, only what is needed is kept in memory."""

import json
import tracemalloc

import msgspec
import pytest

from afflux.kube import objects

LABELS = {"app": "web", "pod-template-hash": "5d8c9"}


def manifest(number: int) -> bytes:
    container = {"name": "main", "image": "web:1", "env": [{"name": "A", "value": "x" * 2_000}]}
    return json.dumps(
        {
            "metadata": {
                "name": f"web-{number}",
                "namespace": "shop",
                "uid": f"u{number}",
                "resourceVersion": str(number),
                "labels": LABELS,
                "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "x" * 2_000},
                "ownerReferences": [{"kind": "Deployment", "name": "web", "controller": True}],
                "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:spec": {"f:a": {}}}}],
            },
            "spec": {
                "replicas": 3,
                "selector": {"matchLabels": LABELS},
                "template": {"metadata": {"labels": LABELS}, "spec": {"containers": [container]}},
            },
            "status": {"replicas": 3},
        }
    ).encode()


@pytest.mark.parametrize("kind", [objects.ReplicaSet, objects.StatefulSet])
def test_a_controller_is_its_identity_and_its_selector(
    kind: type[objects.ReplicaSet | objects.StatefulSet],
) -> None:
    found = msgspec.json.decode(manifest(7), type=kind)
    assert found.metadata == objects.Identity("web-7", "shop", "u7", "7")
    assert found.spec == objects.LabelSelectorSpec(objects.LabelSelector(LABELS))


@pytest.mark.parametrize("kind", [objects.Service, objects.ReplicationController])
def test_a_selector_may_be_a_mapping(
    kind: type[objects.Service | objects.ReplicationController],
) -> None:
    written = json.loads(manifest(7))
    written["spec"]["selector"] = LABELS
    found = msgspec.json.decode(json.dumps(written), type=kind)
    assert found.metadata.annotations is None
    assert found.spec == objects.MapSelectorSpec(LABELS)


def test_a_replica_set_takes_less_than_a_kilobyte() -> None:
    written = [manifest(number) for number in range(500)]
    decoder = msgspec.json.Decoder(objects.ReplicaSet)
    tracemalloc.start()
    try:
        found = [decoder.decode(each) for each in written]
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert used < 1_000 * len(found)
