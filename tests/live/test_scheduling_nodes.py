"""Changes of machines and freed resources take effect at once; pods of other schedulers are counted
but not placed.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster_objects import (
    condition,
    count,
    create,
    delete,
    events_of,
    node_of,
    set_ready,
    set_spec,
    set_status,
    wait_for_reason,
    wait_placed,
)
from live_manifests import pod, taint, toleration
from scheduler_process import Scheduler
from shared_scheduler import empty_cluster, running_scheduler
from testbed import ControlPlane, verdict

RUN_SECONDS = "testbed.afflux.dev/run-seconds"


@pytest.fixture(scope="module")
def afflux(
    control_plane: ControlPlane, rights: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scheduler]:
    with running_scheduler(control_plane, rights, tmp_path_factory.mktemp("nodes")) as process:
        yield process


@pytest.fixture
def cluster(control_plane: ControlPlane, afflux: Scheduler) -> ControlPlane:
    return empty_cluster(control_plane, afflux)


# --- Machines


def test_a_cordoned_machine_takes_no_pods_until_it_is_uncordoned(cluster: ControlPlane) -> None:
    (node,) = cluster.create_nodes(1)
    create(cluster, pod("before"))
    wait_placed(cluster, "before")
    cluster.kubectl("cordon", node)
    create(cluster, pod("after"))
    wait_for_reason(cluster, "after", "0/1 nodes are available: 1 node(s) were unschedulable.")
    create(cluster, pod("tolerant", tolerations=[toleration("node.kubernetes.io/unschedulable")]))
    wait_placed(cluster, "tolerant")
    cluster.kubectl("uncordon", node)
    wait_placed(cluster, "after")


@pytest.mark.parametrize("status", ["False", "Unknown"])
def test_a_machine_takes_no_pods_until_it_is_ready(cluster: ControlPlane, status: str) -> None:
    (node,) = cluster.create_nodes(1)
    set_ready(cluster, node, status)
    create(cluster, pod("patient"))
    wait_for_reason(cluster, "patient", "1 node(s) had untolerated taint(s)")
    set_ready(cluster, node, "True")
    wait_placed(cluster, "patient")


def test_a_not_ready_condition_counts_before_the_taint_is_set(cluster: ControlPlane) -> None:
    # Without the controller the node has no taint, only the condition.
    cluster.stop_part("kube-controller-manager")
    try:
        (node,) = cluster.create_nodes(1)
        set_ready(cluster, node, "False")
        create(cluster, pod("patient"))
        wait_for_reason(cluster, "patient", "1 node(s) had untolerated taint(s)")
    finally:
        cluster.restart("kube-controller-manager")


def test_waiting_pods_use_a_new_machine_at_once(cluster: ControlPlane) -> None:
    create(cluster, pod("early"))
    wait_for_reason(cluster, "early", "no nodes available to schedule pods")
    (node,) = cluster.create_nodes(1)
    assert wait_placed(cluster, "early") == {"early": node}


def test_a_deleted_machine_is_not_used_any_more(cluster: ControlPlane) -> None:
    first, second = cluster.create_nodes(2)
    create(cluster, pod("before"))
    wait_placed(cluster, "before")
    delete(cluster, "Node", first)
    names = [f"p{index}" for index in range(5)]
    create(cluster, *(pod(name) for name in names))
    assert count(wait_placed(cluster, *names)) == {second: 5}
    delete(cluster, "Node", second)
    create(cluster, pod("late"))
    wait_for_reason(cluster, "late", "no nodes available to schedule pods")


def test_a_machine_recreated_under_its_name_is_a_new_machine(cluster: ControlPlane) -> None:
    (node,) = cluster.create_nodes(1, cpu="1")
    create(cluster, pod("first", cpu="1"))
    wait_placed(cluster, "first")
    delete(cluster, "Node", node)
    delete(cluster, "Pod", "first")
    cluster.create_nodes(1, cpu="2")
    create(cluster, pod("large", cpu="2"))
    assert wait_placed(cluster, "large") == {"large": node}


def test_changed_labels_taints_and_resources_of_a_machine_help_waiting_pods(
    cluster: ControlPlane,
) -> None:
    (node,) = cluster.create_nodes(1, cpu="1", taints=[taint("a", "NoSchedule")])
    create(cluster, pod("labelled", nodeSelector={"disk": "ssd"}, tolerations=[toleration("a")]))
    create(cluster, pod("intolerant"), pod("large", cpu="2", tolerations=[toleration("a")]))
    wait_for_reason(cluster, "labelled", "didn't match Pod's node affinity/selector")
    wait_for_reason(cluster, "intolerant", "untolerated taint")
    wait_for_reason(cluster, "large", "Insufficient cpu")
    cluster.api.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": {"disk": "ssd"}}})
    wait_placed(cluster, "labelled")
    set_spec(cluster, node, taints=None)
    wait_placed(cluster, "intolerant")
    set_status(cluster, node, allocatable={"cpu": "4"})
    wait_placed(cluster, "large")


# --- Freed resources


def test_the_room_of_a_finished_pod_is_used_at_once(cluster: ControlPlane) -> None:
    (node,) = cluster.create_nodes(1, cpu="1")
    create(cluster, pod("job", cpu="1", annotations={RUN_SECONDS: "2"}))
    wait_placed(cluster, "job")
    create(cluster, pod("next", cpu="1"))
    wait_for_reason(cluster, "next", "1 Insufficient cpu")
    assert wait_placed(cluster, "next") == {"next": node}
    assert cluster.pod("job")["status"]["phase"] == "Succeeded"


def test_the_room_of_a_deleted_pod_goes_to_the_highest_priority(cluster: ControlPlane) -> None:
    cluster.create_nodes(1, cpu="1")
    cluster.kubectl("create", "priorityclass", "urgent", "--value=1000")
    # As urgent, so that it is not evicted.
    create(cluster, pod("old", cpu="1", priorityClassName="urgent"))
    wait_placed(cluster, "old")
    create(cluster, pod("usual", cpu="1"), pod("urgent", cpu="1", priorityClassName="urgent"))
    wait_for_reason(cluster, "usual", "Insufficient cpu")
    wait_for_reason(cluster, "urgent", "Insufficient cpu")
    delete(cluster, "Pod", "old")
    wait_placed(cluster, "urgent")
    assert node_of(cluster, "usual") is None


def test_a_terminating_pod_counts_until_it_is_gone(cluster: ControlPlane) -> None:
    cluster.create_nodes(1, cpu="1")
    lingering = pod("lingering", cpu="1")
    lingering["metadata"]["finalizers"] = ["example.com/last-words"]
    create(cluster, lingering)
    wait_placed(cluster, "lingering")
    delete(cluster, "Pod", "lingering")
    create(cluster, pod("next", cpu="1"))
    wait_for_reason(cluster, "next", "1 Insufficient cpu")
    path = "/api/v1/namespaces/default/pods/lingering"
    cluster.api.patch(path, {"metadata": {"finalizers": None}})
    wait_placed(cluster, "next")


def test_pods_recreated_under_one_name_are_bound_once_each(cluster: ControlPlane) -> None:
    cluster.create_nodes(1)
    uids: set[str] = set()
    for _ in range(3):
        (made,) = create(cluster, pod("again"))
        uids.add(made["metadata"]["uid"])
        wait_placed(cluster, "again")
        delete(cluster, "Pod", "again")
    bindings = verdict.bindings(cluster)
    assert {binding.uid for binding in bindings} == uids
    assert len(bindings) == 3


def test_a_terminating_pod_is_not_placed(cluster: ControlPlane) -> None:
    doomed = pod("doomed", cpu="1")
    doomed["metadata"]["finalizers"] = ["example.com/last-words"]
    create(cluster, doomed)
    wait_for_reason(cluster, "doomed", "no nodes available")
    delete(cluster, "Pod", "doomed")
    cluster.create_nodes(1)
    create(cluster, pod("other"))
    wait_placed(cluster, "other")
    assert node_of(cluster, "doomed") is None
    path = "/api/v1/namespaces/default/pods/doomed"
    cluster.api.patch(path, {"metadata": {"finalizers": None}})


# --- Pods of other schedulers


def test_pods_of_other_schedulers_are_counted_but_not_placed(cluster: ControlPlane) -> None:
    (node,) = cluster.create_nodes(1, cpu="1")
    create(cluster, pod("theirs", scheduler="another", cpu="800m"))
    create(cluster, pod("unnamed", scheduler="default-scheduler"))
    create(cluster, pod("ours", cpu="300m"))
    wait_placed(cluster, "ours")
    for name in ("theirs", "unnamed"):
        assert node_of(cluster, name) is None
        assert condition(cluster.pod(name)) == {}
        assert events_of(cluster, name, "FailedScheduling") == []
    delete(cluster, "Pod", "ours")
    cluster.bind("theirs", node)
    create(cluster, pod("ours-again", cpu="300m"))
    wait_for_reason(cluster, "ours-again", "1 Insufficient cpu")
    users = [binding.user for binding in verdict.bindings(cluster) if binding.pod == "theirs"]
    assert users == ["admin"]


def test_a_pod_that_another_client_binds_first_stays_there(cluster: ControlPlane) -> None:
    create(cluster, pod("contested"))
    wait_for_reason(cluster, "contested", "no nodes available")
    # The test binds the pod before the machine exists.
    cluster.bind("contested", "node-0000")
    cluster.create_nodes(2, cpu="1")
    create(cluster, pod("large", cpu="1"))
    assert wait_placed(cluster, "large") == {"large": "node-0001"}
    assert node_of(cluster, "contested") == "node-0000"
