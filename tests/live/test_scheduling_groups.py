"""Gang scheduling for all kinds of groups: labels, coscheduling and native PodGroups."""

from collections.abc import Iterator
from typing import Any

import pytest
from cluster_objects import count, create, delete, node_of, wait_for_reason, wait_placed
from live_manifests import pod
from scheduler_process import Scheduler, install_rights
from shared_scheduler import empty_cluster, running_scheduler
from testbed import ControlPlane, Manifest, verdict
from testbed.control_plane import Options

NATIVE = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups"
COSCHEDULING = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/default/podgroups"


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """A control plane with native PodGroups and those of the coscheduling plugin."""
    options = Options(
        runtime_config={"scheduling.k8s.io/v1beta1": "true"},
        feature_gates={"GenericWorkload": True},
    )
    with ControlPlane(options=options) as plane:
        plane.api.create(
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            definition("podgroups.scheduling.x-k8s.io"),
        )
        plane.wait_until(lambda: serves(plane, COSCHEDULING), "the new kind")
        yield plane


@pytest.fixture(scope="module")
def afflux(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scheduler]:
    rights = install_rights(plane)
    with running_scheduler(plane, rights, tmp_path_factory.mktemp("groups")) as process:
        yield process


@pytest.fixture
def cluster(plane: ControlPlane, afflux: Scheduler) -> ControlPlane:
    for path in (NATIVE, COSCHEDULING):
        plane.api.delete(path)
    return empty_cluster(plane, afflux)


def definition(name: str) -> Manifest:
    """A CRD without validation; names under k8s.io need the approval annotation."""
    plural, _, group = name.partition(".")
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1alpha1", "served": True, "storage": True}
    return {
        "metadata": {
            "name": name,
            "annotations": {"api-approved.kubernetes.io": "https://example.com/1"},
        },
        "spec": {
            "group": group,
            "names": {"plural": plural, "kind": "PodGroup"},
            "scope": "Namespaced",
            "versions": [version | {"schema": {"openAPIV3Schema": schema}}],
        },
    }


def serves(plane: ControlPlane, path: str) -> bool:
    try:
        plane.api.get(path)
    except Exception:  # not yet: 404, or 503 while it begins to
        return False
    return True


def sized(prefix: str, name: str, size: int) -> Manifest:
    """Labels with the name and the size of a group."""
    return {f"{prefix}group-name": name, f"{prefix}group-size": str(size)}


GROUP_KINDS = ("afflux.dev/", "fluxnetes.", "scheduling.x-k8s.io", "scheduling.k8s.io")


def members(cluster: ControlPlane, way: str, name: str, size: int) -> dict[str, Any]:
    """The fields of the pods of a group; creates its PodGroup if this kind needs one."""
    match way:
        case "scheduling.x-k8s.io":
            create_group(cluster, COSCHEDULING, name, minMember=size)
            return {"labels": {"scheduling.x-k8s.io/pod-group": name}}
        case "scheduling.k8s.io":
            gang = {"gang": {"minCount": size}}
            create_group(cluster, NATIVE, name, schedulingPolicy=gang)
            return {"schedulingGroup": {"podGroupName": name}}
        case _:
            return {"labels": sized(way, name, size)}


def create_group(cluster: ControlPlane, path: str, name: str, **spec: Any) -> None:
    version = path.removeprefix("/apis/").partition("/namespaces")[0]
    group = {"apiVersion": version, "kind": "PodGroup", "metadata": {"name": name}, "spec": spec}
    cluster.api.create(path, group)


@pytest.mark.parametrize("way", GROUP_KINDS)
def test_a_group_waits_until_it_is_complete_and_then_starts(
    cluster: ControlPlane, way: str
) -> None:
    cluster.create_nodes(2)
    fields = members(cluster, way, "trio", 3)
    create(cluster, pod("a", **fields), pod("b", **fields))
    # A pod's condition is updated at most every ten seconds: b's is up to date, a's may not be.
    words = "0/2 nodes are available: group default/trio has 2 of 3 members."
    assert wait_for_reason(cluster, "b", words)["reason"] == "Unschedulable"
    wait_for_reason(cluster, "a", "of 3 members")
    create(cluster, pod("c", **fields))
    wait_placed(cluster, "a", "b", "c")


@pytest.mark.parametrize("way", GROUP_KINDS)
def test_a_group_that_does_not_fit_as_a_whole_does_not_start_at_all(
    cluster: ControlPlane, way: str
) -> None:
    nodes = cluster.create_nodes(2, cpu="1")
    fields = members(cluster, way, "trio", 3)
    names = ["a", "b", "c"]
    create(cluster, *(pod(name, cpu="600m", **fields) for name in names))
    wait_for_reason(cluster, "c", "group default/trio needs room for all 3 members at once")
    # The waiting group does not block other pods.
    create(cluster, pod("single", cpu="600m"))
    taken = wait_placed(cluster, "single")["single"]
    delete(cluster, "Pod", "single")
    assert [node_of(cluster, name) for name in names] == [None] * 3
    (third,) = cluster.create_nodes(1, cpu="1", prefix="third")
    assert count(wait_placed(cluster, *names)) == dict.fromkeys(sorted([*nodes, third]), 1)
    assert taken in nodes
    assert verdict.bound_twice(verdict.bindings(cluster)) == []


def test_members_of_different_sizes_start_together(cluster: ControlPlane) -> None:
    (small,) = cluster.create_nodes(1, cpu="1", prefix="small")
    (large,) = cluster.create_nodes(1, cpu="4", prefix="large")
    labels = sized("afflux.dev/", "mixed", 3)
    create(
        cluster, pod("worker-1", cpu="1", labels=labels), pod("worker-2", cpu="1", labels=labels)
    )
    create(cluster, pod("leader", cpu="3", labels=labels))
    found = wait_placed(cluster, "leader", "worker-1", "worker-2")
    assert found["leader"] == large
    assert {found["worker-1"], found["worker-2"]} == {small, large}


def test_a_lost_member_is_replaced_without_the_others(cluster: ControlPlane) -> None:
    cluster.create_nodes(2)
    fields = members(cluster, "scheduling.k8s.io", "trio", 3)
    create(cluster, *(pod(name, **fields) for name in ("a", "b", "c")))
    wait_placed(cluster, "a", "b", "c")
    delete(cluster, "Pod", "b")
    create(cluster, pod("b-again", **fields))
    wait_placed(cluster, "b-again")


def test_more_than_the_quorum_may_join(cluster: ControlPlane) -> None:
    cluster.create_nodes(2)
    fields = members(cluster, "scheduling.k8s.io", "pair", 2)
    create(cluster, *(pod(name, **fields) for name in ("a", "b", "c", "d")))
    wait_placed(cluster, "a", "b", "c", "d")


def test_a_gated_member_holds_back_its_group(cluster: ControlPlane) -> None:
    cluster.create_nodes(2)
    labels = sized("afflux.dev/", "pair", 2)
    gate = {"schedulingGates": [{"name": "example.com/data"}]}
    create(cluster, pod("gated", labels=labels, **gate), pod("ready", labels=labels))
    wait_for_reason(
        cluster, "ready", "group default/pair waits for default/gated: spec.schedulingGates"
    )
    path = "/api/v1/namespaces/default/pods/gated"
    cluster.api.patch(path, {"spec": {"schedulingGates": None}})
    wait_placed(cluster, "ready", "gated")


def test_a_pod_waits_for_a_pod_group_that_does_not_exist_yet(cluster: ControlPlane) -> None:
    cluster.create_nodes(1)
    create(cluster, pod("early", schedulingGroup={"podGroupName": "later"}))
    wait_for_reason(cluster, "early", "PodGroup default/later")
    create_group(cluster, NATIVE, "later", schedulingPolicy={"basic": {}})
    wait_placed(cluster, "early")


def test_contradicting_labels_are_named_in_the_reason(cluster: ControlPlane) -> None:
    cluster.create_nodes(1)
    create(cluster, pod("a", labels=sized("afflux.dev/", "g", 2)))
    create(cluster, pod("b", labels=sized("afflux.dev/", "g", 3)))
    create(cluster, pod("c", labels=sized("fluxnetes.", "h", 0)))
    wait_for_reason(cluster, "b", "afflux.dev/group-size: 2 on default/a")
    wait_for_reason(
        cluster, "c", "label fluxnetes.group-size: '0', expected a whole number from 1 up"
    )
