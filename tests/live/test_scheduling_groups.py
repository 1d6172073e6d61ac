"""Groups start together or not at all, however they are named."""

from collections.abc import Iterator
from typing import Any

import pytest
from live_manifests import pod
from looking import count, create, delete, node_of, placed, waits
from scheduler import Scheduler, install_rights
from sharing import emptied, shared
from testbed import ControlPlane, Manifest, verdict
from testbed.control_plane import Options

NATIVE = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups"
COSCHEDULING = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/default/podgroups"


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """A control plane that knows Kubernetes' own groups, and those of the coscheduling plugin."""
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
    with shared(plane, rights, tmp_path_factory.mktemp("groups")) as process:
        yield process


@pytest.fixture
def cluster(plane: ControlPlane, afflux: Scheduler) -> ControlPlane:
    for path in (NATIVE, COSCHEDULING):
        plane.api.delete(path)
    return emptied(plane, afflux)


def definition(name: str) -> Manifest:
    """A kind of which nobody checks the fields; names under k8s.io want an approval."""
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
    """Labels that name a group and say how large it is."""
    return {f"{prefix}group-name": name, f"{prefix}group-size": str(size)}


WAYS = ("afflux.dev/", "fluxnetes.", "scheduling.x-k8s.io", "scheduling.k8s.io")


def members(cluster: ControlPlane, way: str, name: str, size: int) -> dict[str, Any]:
    """Fields of pods of a group that needs so many, the group itself being made if need be."""
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


@pytest.mark.parametrize("way", WAYS)
def test_a_group_waits_until_it_is_complete_and_then_starts(
    cluster: ControlPlane, way: str
) -> None:
    cluster.create_nodes(2)
    fields = members(cluster, way, "trio", 3)
    create(cluster, pod("a", **fields), pod("b", **fields))
    # News about one pod come once in ten seconds at most: what is said of the last is up to date.
    words = "0/2 nodes are available: group default/trio has 2 of 3 members."
    assert waits(cluster, "b", words)["reason"] == "Unschedulable"
    waits(cluster, "a", "of 3 members")
    create(cluster, pod("c", **fields))
    placed(cluster, "a", "b", "c")


@pytest.mark.parametrize("way", WAYS)
def test_a_group_that_does_not_fit_as_a_whole_does_not_start_at_all(
    cluster: ControlPlane, way: str
) -> None:
    nodes = cluster.create_nodes(2, cpu="1")
    fields = members(cluster, way, "trio", 3)
    names = ["a", "b", "c"]
    create(cluster, *(pod(name, cpu="600m", **fields) for name in names))
    waits(cluster, "c", "group default/trio needs room for all 3 members at once")
    # Nobody is in the way of others meanwhile.
    create(cluster, pod("single", cpu="600m"))
    taken = placed(cluster, "single")["single"]
    delete(cluster, "Pod", "single")
    assert [node_of(cluster, name) for name in names] == [None] * 3
    (third,) = cluster.create_nodes(1, cpu="1", prefix="third")
    assert count(placed(cluster, *names)) == dict.fromkeys(sorted([*nodes, third]), 1)
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
    found = placed(cluster, "leader", "worker-1", "worker-2")
    assert found["leader"] == large
    assert {found["worker-1"], found["worker-2"]} == {small, large}


def test_a_member_that_was_lost_is_replaced_without_the_others(cluster: ControlPlane) -> None:
    cluster.create_nodes(2)
    fields = members(cluster, "scheduling.k8s.io", "trio", 3)
    create(cluster, *(pod(name, **fields) for name in ("a", "b", "c")))
    placed(cluster, "a", "b", "c")
    delete(cluster, "Pod", "b")
    create(cluster, pod("b-again", **fields))
    placed(cluster, "b-again")


def test_more_than_the_quorum_may_join(cluster: ControlPlane) -> None:
    cluster.create_nodes(2)
    fields = members(cluster, "scheduling.k8s.io", "pair", 2)
    create(cluster, *(pod(name, **fields) for name in ("a", "b", "c", "d")))
    placed(cluster, "a", "b", "c", "d")


def test_one_member_that_has_to_wait_holds_up_the_group(cluster: ControlPlane) -> None:
    cluster.create_nodes(2)
    labels = sized("afflux.dev/", "pair", 2)
    gate = {"schedulingGates": [{"name": "example.com/data"}]}
    create(cluster, pod("gated", labels=labels, **gate), pod("ready", labels=labels))
    waits(cluster, "ready", "group default/pair waits for default/gated: spec.schedulingGates")
    path = "/api/v1/namespaces/default/pods/gated"
    cluster.api.patch(path, {"spec": {"schedulingGates": None}})
    placed(cluster, "ready", "gated")


def test_a_group_that_is_not_there_is_waited_for(cluster: ControlPlane) -> None:
    cluster.create_nodes(1)
    create(cluster, pod("early", schedulingGroup={"podGroupName": "later"}))
    waits(cluster, "early", "PodGroup default/later")
    create_group(cluster, NATIVE, "later", schedulingPolicy={"basic": {}})
    placed(cluster, "early")


def test_labels_that_contradict_each_other_are_named(cluster: ControlPlane) -> None:
    cluster.create_nodes(1)
    create(cluster, pod("a", labels=sized("afflux.dev/", "g", 2)))
    create(cluster, pod("b", labels=sized("afflux.dev/", "g", 3)))
    create(cluster, pod("c", labels=sized("fluxnetes.", "h", 0)))
    waits(cluster, "b", "afflux.dev/group-size: 2 on default/a")
    waits(cluster, "c", "label fluxnetes.group-size: '0', expected a whole number from 1 up")
