"""Pods with volumes run only where their volumes are or can be provisioned."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster_objects import (
    collection,
    create,
    delete,
    event_of,
    node_of,
    wait_for_reason,
    wait_placed,
)
from live_manifests import (
    HOSTNAME,
    ZONE,
    claim,
    csi,
    csi_node,
    expression,
    labelled,
    mounting,
    pod,
    storage_class,
    volume,
)
from scheduler_process import Scheduler
from shared_scheduler import empty_cluster, running_scheduler
from testbed import ControlPlane, Manifest

BY_HAND = "kubernetes.io/no-provisioner"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
SHARE = {"server": "somewhere", "path": "/"}
DRIVER = "attached.example.com"


@pytest.fixture(scope="module")
def afflux(
    control_plane: ControlPlane, rights: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scheduler]:
    with running_scheduler(control_plane, rights, tmp_path_factory.mktemp("volumes")) as process:
        yield process


@pytest.fixture
def cluster(control_plane: ControlPlane, afflux: Scheduler) -> ControlPlane:
    return empty_cluster(control_plane, afflux)


def read(cluster: ControlPlane, kind: str, name: str) -> Manifest:
    return cluster.api.get(f"{collection(kind)}/{name}")


def claim_volume(cluster: ControlPlane, name: str, **fields: object) -> None:
    """Create a claim that is bound to a volume of the same name."""
    mode = {"mode": fields["mode"]} if "mode" in fields else {}
    create(cluster, volume(name, for_claim=name, **fields), claim(name, volumeName=name, **mode))
    cluster.wait_until(
        lambda: read(cluster, "PersistentVolumeClaim", name)["status"]["phase"] == "Bound", name
    )


def wait_running(cluster: ControlPlane, name: str) -> None:
    """Wait until the node has mounted the pod's volumes and started it."""
    cluster.wait_until(lambda: cluster.pod(name)["status"]["phase"] == "Running", f"{name} to run")


def at(key: str, *values: str) -> list[Manifest]:
    return [labelled(expression(key, "In", *values))]


def test_a_pod_goes_to_a_machine_that_reaches_its_volume(cluster: ControlPlane) -> None:
    nodes = cluster.create_nodes(4)
    claim_volume(cluster, "data", terms=at(HOSTNAME, nodes[2]))
    claim_volume(cluster, "away", terms=at(HOSTNAME, "somewhere-else"))
    create(cluster, pod("writer", volumes=mounting("data")))
    create(cluster, pod("stranded", volumes=mounting("away")))
    assert wait_placed(cluster, "writer") == {"writer": nodes[2]}
    wait_for_reason(cluster, "stranded", "4 node(s) didn't match PersistentVolume's node affinity")


def test_a_pod_goes_to_the_zone_on_the_label_of_its_volume(cluster: ControlPlane) -> None:
    nodes = cluster.create_nodes(3)  # one in each of three zones
    claim_volume(cluster, "data", labels={ZONE: "zone-1"}, nfs=SHARE)
    claim_volume(cluster, "both", labels={ZONE: "zone-7__zone-2"}, nfs=SHARE)
    claim_volume(cluster, "away", labels={ZONE: "zone-7"}, nfs=SHARE)
    for name in ("data", "both", "away"):
        create(cluster, pod(f"with-{name}", volumes=mounting(name)))
    assert wait_placed(cluster, "with-data", "with-both") == {
        "with-data": nodes[1],
        "with-both": nodes[2],
    }
    wait_for_reason(cluster, "with-away", "3 node(s) had no available volume zone")


def test_a_volume_is_provisioned_on_the_machine_of_its_first_pod(cluster: ControlPlane) -> None:
    nodes = cluster.create_nodes(3)
    create(cluster, storage_class("disk"), claim("data"))
    create(cluster, pod("first", volumes=mounting("data"), nodeSelector={HOSTNAME: nodes[1]}))
    assert wait_placed(cluster, "first") == {"first": nodes[1]}
    wait_running(cluster, "first")
    found = read(cluster, "PersistentVolumeClaim", "data")
    assert found["metadata"]["annotations"][SELECTED_NODE] == nodes[1]
    # The second pod must go to the same machine.
    create(cluster, pod("second", volumes=mounting("data")))
    assert wait_placed(cluster, "second") == {"second": nodes[1]}
    wait_running(cluster, "second")
    assert event_of(cluster, "first", "Scheduled")["note"].endswith(f"to {nodes[1]}")


def test_every_pod_of_many_gets_a_provisioned_volume(cluster: ControlPlane) -> None:
    cluster.create_nodes(4)
    create(cluster, storage_class("disk"))
    names = [f"p{index}" for index in range(12)]
    for name in names:
        create(cluster, claim(name), pod(name, cpu="8", volumes=mounting(name)))
    wait_placed(cluster, *names)
    for name in names:
        wait_running(cluster, name)


def test_a_class_with_allowed_topologies_is_used_there_only(cluster: ControlPlane) -> None:
    nodes = cluster.create_nodes(3)
    topology = [{"matchLabelExpressions": [{"key": ZONE, "values": ["zone-2"]}]}]
    create(cluster, storage_class("disk", allowedTopologies=topology), claim("data"))
    create(cluster, pod("writer", volumes=mounting("data")))
    assert wait_placed(cluster, "writer") == {"writer": nodes[2]}
    wait_running(cluster, "writer")


def test_two_pods_get_two_existing_volumes(cluster: ControlPlane) -> None:
    nodes = cluster.create_nodes(5)
    create(cluster, storage_class("local", BY_HAND))
    for name, node in {"disk-a": nodes[1], "disk-b": nodes[3]}.items():
        create(cluster, volume(name, "local", terms=at(HOSTNAME, node)))
    names = ("one", "two", "three")
    for name in names:
        create(cluster, claim(name, "local"))
    create(cluster, *(pod(name, volumes=mounting(name)) for name in names))
    cluster.wait_until(
        lambda: sum(bool(node_of(cluster, name)) for name in names) == 2, "two of the three"
    )
    lucky = [name for name in names if node_of(cluster, name)]
    (unlucky,) = set(names) - set(lucky)
    assert {node_of(cluster, name) for name in lucky} == {nodes[1], nodes[3]}
    volumes = {read(cluster, "PersistentVolumeClaim", n)["spec"]["volumeName"] for n in lucky}
    assert volumes == {"disk-a", "disk-b"}
    for name in lucky:
        wait_running(cluster, name)
    words = "0/5 nodes are available: 5 node(s) didn't find available persistent volumes to bind."
    assert wait_for_reason(cluster, unlucky, words)["reason"] == "Unschedulable"
    # A third volume is used as soon as it exists.
    create(cluster, volume("disk-c", "local", terms=at(HOSTNAME, nodes[0])))
    assert wait_placed(cluster, unlucky) == {unlucky: nodes[0]}
    wait_running(cluster, unlucky)


def test_pods_that_prefer_the_same_volume_get_one_each_without_delay(
    cluster: ControlPlane, afflux: Scheduler
) -> None:
    # Each machine is busier than the one before, so that all pods prefer the first.
    nodes = cluster.create_nodes(8)
    create(cluster, storage_class("local", BY_HAND))
    for number, node in enumerate(nodes):
        create(cluster, volume(f"disk-{number}", "local", terms=at(HOSTNAME, node)))
        busy = str(1 + 3 * number)
        create(cluster, pod(f"busy-{number}", scheduler="another", cpu=busy, nodeName=node))
    names = [f"p{number}" for number in range(len(nodes))]
    create(cluster, *(claim(name, "local") for name in names))
    cluster.create_pods([pod(name, cpu="10m", volumes=mounting(name)) for name in names])
    assert set(wait_placed(cluster, *names).values()) == set(nodes)
    # A conflict between pods of one cycle is not an error, which would cause a backoff.
    assert afflux.metric("scheduler_schedule_attempts_total", 'result="error"') == 0


def gang(name: str, size: int, storage: str = "local") -> tuple[list[str], list[Manifest]]:
    """The names of the members of a group, and their manifests: a claim and a pod each."""
    labels = {"afflux.dev/group-name": name, "afflux.dev/group-size": str(size)}
    names = [f"{name}-{number}" for number in range(size)]
    claims = [claim(each, storage) for each in names]
    return names, claims + [pod(each, labels=labels, volumes=mounting(each)) for each in names]


def test_a_group_starts_when_there_is_a_volume_for_each_of_its_members(
    cluster: ControlPlane, afflux: Scheduler
) -> None:
    nodes = cluster.create_nodes(5)
    create(cluster, storage_class("local", BY_HAND))
    for name, node in {"disk-a": nodes[1], "disk-b": nodes[3]}.items():
        create(cluster, volume(name, "local", terms=at(HOSTNAME, node)))
    names, members = gang("g", 3)
    create(cluster, *members)
    words = "group default/g needs volumes for 3 claims at once, 2 are available"
    for name in names:
        assert wait_for_reason(cluster, name, words)["reason"] == "Unschedulable"
    # The waiting group does not block single pods.
    create(cluster, claim("single", "local"), pod("single", volumes=mounting("single")))
    assert wait_placed(cluster, "single")["single"] in {nodes[1], nodes[3]}
    wait_for_reason(cluster, names[0], "at once, 1 are available")
    for name, node in {"disk-c": nodes[0], "disk-d": nodes[2]}.items():
        assert not any(node_of(cluster, member) for member in names)
        create(cluster, volume(name, "local", terms=at(HOSTNAME, node)))
    found = wait_placed(cluster, *names)
    rest = {nodes[1], nodes[3]} - {node_of(cluster, "single")}
    assert set(found.values()) == {nodes[0], nodes[2], *rest}
    for name in names:
        wait_running(cluster, name)
    assert afflux.metric("scheduler_schedule_attempts_total", 'result="error"') == 0


def test_the_members_of_a_group_go_to_the_machines_of_the_volumes(cluster: ControlPlane) -> None:
    nodes = cluster.create_nodes(4)
    create(cluster, storage_class("local", BY_HAND))
    # All volumes for the first group are on one machine; the second group gets the others.
    for number in range(3):
        create(cluster, volume(f"disk-{number}", "local", terms=at(HOSTNAME, nodes[2])))
    names, members = gang("g", 3)
    create(cluster, *members)
    assert wait_placed(cluster, *names) == dict.fromkeys(names, nodes[2])
    create(cluster, volume("left", "local", terms=at(HOSTNAME, nodes[0])))
    create(cluster, volume("right", "local", terms=at(HOSTNAME, nodes[3])))
    others, members = gang("h", 2)
    create(cluster, *members)
    assert set(wait_placed(cluster, *others).values()) == {nodes[0], nodes[3]}
    for name in (*names, *others):
        wait_running(cluster, name)


def test_groups_that_need_the_same_volumes_start_one_after_the_other(cluster: ControlPlane) -> None:
    nodes = cluster.create_nodes(6)  # two in each of three zones
    create(cluster, storage_class("local", BY_HAND))
    for number in range(4):
        zone = "zone-1" if number < 2 else "zone-2"
        create(cluster, volume(f"disk-{number}", "local", terms=at(ZONE, zone), nfs=SHARE))
    groups = [gang(name, 3) for name in ("g", "h")]
    create(cluster, *(each for _, members in groups for each in members))
    cluster.wait_until(
        lambda: any(all(node_of(cluster, n) for n in names) for names, _ in groups), "one of two"
    )
    first, second = sorted(
        (names for names, _ in groups), key=lambda names: node_of(cluster, names[0]) is None
    )
    assert set(wait_placed(cluster, *first).values()) <= {nodes[i] for i in (1, 2, 4, 5)}
    wait_for_reason(cluster, second[0], "needs volumes for 3 claims at once, 1 are available")
    assert not any(node_of(cluster, name) for name in second)
    for number in range(4, 6):
        create(cluster, volume(f"disk-{number}", "local", terms=at(ZONE, "zone-0"), nfs=SHARE))
    wait_placed(cluster, *second)
    for name in (*first, *second):
        wait_running(cluster, name)


def test_a_group_gets_provisioned_volumes(cluster: ControlPlane) -> None:
    cluster.create_nodes(3)
    create(cluster, storage_class("disk"))
    names, members = gang("g", 4, "disk")
    create(cluster, *members)
    wait_placed(cluster, *names)
    for name in names:
        wait_running(cluster, name)


def test_a_pod_with_two_volumes_goes_to_a_machine_that_reaches_both(cluster: ControlPlane) -> None:
    nodes = cluster.create_nodes(3)
    create(cluster, storage_class("local", BY_HAND))
    for name, node in {"lonely": nodes[0], "left": nodes[2], "right": nodes[2]}.items():
        create(cluster, volume(name, "local", terms=at(HOSTNAME, node)))
    create(cluster, claim("a", "local"), claim("b", "local"))
    create(cluster, pod("both", volumes=mounting("a", "b")))
    assert wait_placed(cluster, "both") == {"both": nodes[2]}
    wait_running(cluster, "both")


def test_no_more_volumes_are_attached_to_a_machine_than_it_can_hold(cluster: ControlPlane) -> None:
    small, large = cluster.create_nodes(2)
    create(cluster, csi_node(small, 1, DRIVER), csi_node(large, 2, DRIVER))
    names = ("a", "b", "c", "d")
    for name in names:
        claim_volume(cluster, name, csi=csi(name, DRIVER))
    for name in names:
        create(cluster, pod(name, volumes=mounting(name)))
    cluster.wait_until(lambda: sum(bool(node_of(cluster, name)) for name in names) == 3, "three")
    (fourth,) = (name for name in names if not node_of(cluster, name))
    where = [node_of(cluster, name) for name in names]
    assert (where.count(small), where.count(large)) == (1, 2)
    wait_for_reason(cluster, fourth, "0/2 nodes are available: 2 node(s) exceed max volume count.")
    delete(cluster, "Pod", next(name for name in names if node_of(cluster, name) == small))
    assert wait_placed(cluster, fourth) == {fourth: small}


def test_a_read_write_once_pod_claim_is_used_by_one_pod_at_a_time(cluster: ControlPlane) -> None:
    cluster.create_nodes(2)
    claim_volume(cluster, "mine", mode="ReadWriteOncePod", nfs=SHARE)
    create(cluster, pod("first", volumes=mounting("mine")))
    wait_placed(cluster, "first")
    create(cluster, pod("second", volumes=mounting("mine")))
    words = "PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
    wait_for_reason(cluster, "second", words)
    delete(cluster, "Pod", "first")
    wait_placed(cluster, "second")


def test_a_pod_is_placed_when_its_claim_is_created(cluster: ControlPlane) -> None:
    cluster.create_nodes(1)
    create(cluster, storage_class("disk"), pod("early", volumes=mounting("data")))
    wait_for_reason(cluster, "early", 'persistentvolumeclaim "data" not found')
    create(cluster, claim("data"))
    wait_placed(cluster, "early")
    wait_running(cluster, "early")


def test_a_generic_ephemeral_volume_is_provisioned(cluster: ControlPlane) -> None:
    cluster.create_nodes(2)
    create(cluster, storage_class("disk"))
    template = {"volumeClaimTemplate": {"spec": claim("-")["spec"]}}
    create(cluster, pod("guest", volumes=[{"name": "scratch", "ephemeral": template}]))
    wait_placed(cluster, "guest")
    wait_running(cluster, "guest")


def test_a_pod_with_an_immediately_bound_claim_is_placed(cluster: ControlPlane) -> None:
    nodes = cluster.create_nodes(3)
    create(cluster, storage_class("at-once", volumeBindingMode="Immediate"))
    create(cluster, claim("data", "at-once"))
    create(cluster, pod("writer", volumes=mounting("data")))
    assert wait_placed(cluster, "writer")["writer"] in nodes
    wait_running(cluster, "writer")
