"""Machines come, go, fill up and get out of order; afflux takes notice at once. Pods of others take
up room and are left alone.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from live_manifests import pod, taint, toleration
from looking import (
    condition,
    count,
    create,
    delete,
    events_of,
    node_of,
    placed,
    set_ready,
    set_spec,
    set_status,
    waits,
)
from scheduler import Scheduler
from sharing import emptied, shared
from testbed import ControlPlane, verdict

RUN_SECONDS = "testbed.afflux.dev/run-seconds"


@pytest.fixture(scope="module")
def afflux(
    control_plane: ControlPlane, rights: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scheduler]:
    with shared(control_plane, rights, tmp_path_factory.mktemp("nodes")) as process:
        yield process


@pytest.fixture
def cluster(control_plane: ControlPlane, afflux: Scheduler) -> ControlPlane:
    return emptied(control_plane, afflux)


# --- Machines


def test_a_cordoned_machine_takes_nobody_until_it_is_uncordoned(cluster: ControlPlane) -> None:
    (node,) = cluster.create_nodes(1)
    create(cluster, pod("before"))
    placed(cluster, "before")
    cluster.kubectl("cordon", node)
    create(cluster, pod("after"))
    waits(cluster, "after", "0/1 nodes are available: 1 node(s) were unschedulable.")
    create(cluster, pod("tolerant", tolerations=[toleration("node.kubernetes.io/unschedulable")]))
    placed(cluster, "tolerant")
    cluster.kubectl("uncordon", node)
    placed(cluster, "after")


@pytest.mark.parametrize("status", ["False", "Unknown"])
def test_a_machine_that_is_not_ready_takes_nobody_until_it_is(
    cluster: ControlPlane, status: str
) -> None:
    (node,) = cluster.create_nodes(1)
    set_ready(cluster, node, status)
    create(cluster, pod("patient"))
    waits(cluster, "patient", "1 node(s) had untolerated taint(s)")
    set_ready(cluster, node, "True")
    placed(cluster, "patient")


def test_not_ready_is_heeded_before_anybody_has_tainted_the_machine(cluster: ControlPlane) -> None:
    # The controller that would write the taint is not there: only the condition tells.
    cluster.stop_part("kube-controller-manager")
    try:
        (node,) = cluster.create_nodes(1)
        set_ready(cluster, node, "False")
        create(cluster, pod("patient"))
        waits(cluster, "patient", "1 node(s) had untolerated taint(s)")
    finally:
        cluster.restart("kube-controller-manager")


def test_a_new_machine_is_used_at_once_by_those_who_wait(cluster: ControlPlane) -> None:
    create(cluster, pod("early"))
    waits(cluster, "early", "no nodes available to schedule pods")
    (node,) = cluster.create_nodes(1)
    assert placed(cluster, "early") == {"early": node}


def test_a_deleted_machine_is_not_used_any_more(cluster: ControlPlane) -> None:
    first, second = cluster.create_nodes(2)
    create(cluster, pod("before"))
    placed(cluster, "before")
    delete(cluster, "Node", first)
    names = [f"p{index}" for index in range(5)]
    create(cluster, *(pod(name) for name in names))
    assert count(placed(cluster, *names)) == {second: 5}
    delete(cluster, "Node", second)
    create(cluster, pod("late"))
    waits(cluster, "late", "no nodes available to schedule pods")


def test_a_machine_that_comes_back_under_its_name_begins_anew(cluster: ControlPlane) -> None:
    (node,) = cluster.create_nodes(1, cpu="1")
    create(cluster, pod("first", cpu="1"))
    placed(cluster, "first")
    delete(cluster, "Node", node)
    delete(cluster, "Pod", "first")
    cluster.create_nodes(1, cpu="2")
    create(cluster, pod("large", cpu="2"))
    assert placed(cluster, "large") == {"large": node}


def test_whatever_changes_on_a_machine_helps_those_who_wait_for_it(cluster: ControlPlane) -> None:
    (node,) = cluster.create_nodes(1, cpu="1", taints=[taint("a", "NoSchedule")])
    create(cluster, pod("labelled", nodeSelector={"disk": "ssd"}, tolerations=[toleration("a")]))
    create(cluster, pod("intolerant"), pod("large", cpu="2", tolerations=[toleration("a")]))
    waits(cluster, "labelled", "didn't match Pod's node affinity/selector")
    waits(cluster, "intolerant", "untolerated taint")
    waits(cluster, "large", "Insufficient cpu")
    cluster.api.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": {"disk": "ssd"}}})
    placed(cluster, "labelled")
    set_spec(cluster, node, taints=None)
    placed(cluster, "intolerant")
    set_status(cluster, node, allocatable={"cpu": "4"})
    placed(cluster, "large")


# --- Room that comes free


def test_room_that_a_finished_pod_leaves_is_used_at_once(cluster: ControlPlane) -> None:
    (node,) = cluster.create_nodes(1, cpu="1")
    create(cluster, pod("job", cpu="1", annotations={RUN_SECONDS: "2"}))
    placed(cluster, "job")
    create(cluster, pod("next", cpu="1"))
    waits(cluster, "next", "1 Insufficient cpu")
    assert placed(cluster, "next") == {"next": node}
    assert cluster.pod("job")["status"]["phase"] == "Succeeded"


def test_room_that_a_deleted_pod_leaves_goes_to_the_most_important(cluster: ControlPlane) -> None:
    cluster.create_nodes(1, cpu="1")
    cluster.kubectl("create", "priorityclass", "urgent", "--value=1000")
    create(cluster, pod("old", cpu="1"))
    placed(cluster, "old")
    create(cluster, pod("usual", cpu="1"), pod("urgent", cpu="1", priorityClassName="urgent"))
    waits(cluster, "usual", "Insufficient cpu")
    waits(cluster, "urgent", "Insufficient cpu")
    delete(cluster, "Pod", "old")
    placed(cluster, "urgent")
    assert node_of(cluster, "usual") is None


def test_a_pod_that_is_on_its_way_out_counts_until_it_is_gone(cluster: ControlPlane) -> None:
    cluster.create_nodes(1, cpu="1")
    lingering = pod("lingering", cpu="1")
    lingering["metadata"]["finalizers"] = ["example.com/last-words"]
    create(cluster, lingering)
    placed(cluster, "lingering")
    delete(cluster, "Pod", "lingering")
    create(cluster, pod("next", cpu="1"))
    waits(cluster, "next", "1 Insufficient cpu")
    path = "/api/v1/namespaces/default/pods/lingering"
    cluster.api.patch(path, {"metadata": {"finalizers": None}})
    placed(cluster, "next")


def test_a_binding_is_meant_for_one_pod_and_not_for_another_of_its_name(
    cluster: ControlPlane,
) -> None:
    cluster.create_nodes(1)
    uids: set[str] = set()
    for _ in range(3):
        (made,) = create(cluster, pod("again"))
        uids.add(made["metadata"]["uid"])
        placed(cluster, "again")
        delete(cluster, "Pod", "again")
    bindings = verdict.bindings(cluster)
    assert {binding.uid for binding in bindings} == uids
    assert len(bindings) == 3


def test_a_pod_that_is_being_deleted_is_not_placed_any_more(cluster: ControlPlane) -> None:
    doomed = pod("doomed", cpu="1")
    doomed["metadata"]["finalizers"] = ["example.com/last-words"]
    create(cluster, doomed)
    waits(cluster, "doomed", "no nodes available")
    delete(cluster, "Pod", "doomed")
    cluster.create_nodes(1)
    create(cluster, pod("other"))
    placed(cluster, "other")
    assert node_of(cluster, "doomed") is None
    path = "/api/v1/namespaces/default/pods/doomed"
    cluster.api.patch(path, {"metadata": {"finalizers": None}})


# --- Pods of others


def test_pods_of_other_schedulers_are_counted_and_not_touched(cluster: ControlPlane) -> None:
    (node,) = cluster.create_nodes(1, cpu="1")
    create(cluster, pod("theirs", scheduler="another", cpu="800m"))
    create(cluster, pod("unnamed", scheduler="default-scheduler"))
    create(cluster, pod("ours", cpu="300m"))
    placed(cluster, "ours")
    for name in ("theirs", "unnamed"):
        assert node_of(cluster, name) is None
        assert condition(cluster.pod(name)) == {}
        assert events_of(cluster, name, "FailedScheduling") == []
    delete(cluster, "Pod", "ours")
    cluster.bind("theirs", node)
    create(cluster, pod("ours-again", cpu="300m"))
    waits(cluster, "ours-again", "1 Insufficient cpu")
    users = [binding.user for binding in verdict.bindings(cluster) if binding.pod == "theirs"]
    assert users == ["admin"]


def test_a_pod_that_somebody_else_binds_first_is_theirs(cluster: ControlPlane) -> None:
    create(cluster, pod("contested"))
    waits(cluster, "contested", "no nodes available")
    # Before afflux hears of a machine, somebody has bound the pod to it.
    cluster.bind("contested", "node-0000")
    cluster.create_nodes(2, cpu="1")
    create(cluster, pod("large", cpu="1"))
    assert placed(cluster, "large") == {"large": "node-0001"}
    assert node_of(cluster, "contested") == "node-0000"
