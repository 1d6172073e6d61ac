"""Running pods are evicted for waiting pods of a higher priority, if enabled."""

from collections.abc import Iterator
from typing import Any

import pytest
from cluster_objects import create, delete, events_of, names, node_of, wait_for_reason, wait_placed
from live_manifests import in_group, pod
from scheduler_process import Scheduler
from shared_scheduler import empty_cluster, installed_scheduler
from testbed import ControlPlane, Manifest

PREEMPTS = [{"schedulerName": "afflux", "preemption": {"enabled": True}}]
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


@pytest.fixture(scope="module")
def afflux(
    control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scheduler]:
    """A scheduler with exactly the rights that the chart grants for preemption."""
    directory = tmp_path_factory.mktemp("preempts")
    with installed_scheduler(control_plane, "preempts", directory, profiles=PREEMPTS) as process:
        yield process


@pytest.fixture
def cluster(control_plane: ControlPlane, afflux: Scheduler) -> ControlPlane:
    plane = empty_cluster(control_plane, afflux)
    for name, value in (("high", 1000), ("higher", 2000)):
        plane.api.create(CLASSES, {"metadata": {"name": name}, "value": value})
    return plane


def high(name: str, cpu: str = "3", of: str = "high", **spec: Any) -> Manifest:
    return pod(name, cpu=cpu, priorityClassName=of, **spec)


def low(name: str, cpu: str = "3", **spec: Any) -> Manifest:
    return pod(name, cpu=cpu, terminationGracePeriodSeconds=1, **spec)


def is_being_deleted(plane: ControlPlane, name: str) -> bool:
    found = [each for each in plane.pods("default") if each["metadata"]["name"] == name]
    return not found or "deletionTimestamp" in found[0]["metadata"]


def test_a_critical_pod_takes_the_place_of_a_lower_one(cluster: ControlPlane) -> None:
    (node,) = cluster.create_nodes(1, cpu="4")
    create(cluster, low("low"))
    wait_placed(cluster, "low")
    create(cluster, high("critical"))
    assert wait_placed(cluster, "critical") == {"critical": node}
    assert "low" not in names(cluster)
    (event,) = events_of(cluster, "low", "Preempted")
    assert (event["type"], event["action"]) == ("Normal", "Preempting")
    assert "nominatedNodeName" not in cluster.pod("critical")["status"]


def test_the_preemptor_is_nominated_while_its_victim_ends(cluster: ControlPlane) -> None:
    (node,) = cluster.create_nodes(1, cpu="4")
    victim = low("slow")
    # The API server keeps a pod with a finalizer until that is removed.
    victim["metadata"]["finalizers"] = ["testbed.afflux.dev/slow"]
    create(cluster, victim)
    wait_placed(cluster, "slow")
    create(cluster, high("critical"))
    cluster.wait_until(lambda: is_being_deleted(cluster, "slow"), "the eviction")
    cluster.wait_until(
        lambda: cluster.pod("critical")["status"].get("nominatedNodeName") == node, "nomination"
    )
    conditions = {each["type"]: each for each in cluster.pod("slow")["status"]["conditions"]}
    assert conditions["DisruptionTarget"]["reason"] == "PreemptionByScheduler"
    # The place is held against equals; one that goes first takes it.
    create(cluster, high("equal"))
    wait_for_reason(cluster, "equal", "Insufficient cpu")
    assert node_of(cluster, "critical") is None
    _release(cluster, "slow")
    assert wait_placed(cluster, "critical") == {"critical": node}
    assert node_of(cluster, "equal") is None


def _release(plane: ControlPlane, name: str) -> None:
    path = f"/api/v1/namespaces/default/pods/{name}"
    plane.api.patch(path, {"metadata": {"finalizers": None}}, "application/merge-patch+json")


def test_a_preemptor_that_is_deleted_frees_the_place(cluster: ControlPlane) -> None:
    cluster.create_nodes(1, cpu="4")
    victim = low("slow")
    victim["metadata"]["finalizers"] = ["testbed.afflux.dev/slow"]
    create(cluster, victim)
    wait_placed(cluster, "slow")
    create(cluster, high("critical"))
    cluster.wait_until(lambda: is_being_deleted(cluster, "slow"), "the eviction")
    delete(cluster, "Pod", "critical")
    create(cluster, low("next"))
    _release(cluster, "slow")
    wait_placed(cluster, "next")


def test_budgets_are_respected(cluster: ControlPlane) -> None:
    cluster.create_nodes(2, cpu="4")
    create(cluster, low("protected", labels={"app": "web"}), low("other"))
    wait_placed(cluster, "protected", "other")
    selector = {"matchLabels": {"app": "web"}}
    budget = {"metadata": {"name": "web"}, "spec": {"minAvailable": 1, "selector": selector}}
    cluster.api.create(BUDGETS, budget)
    cluster.wait_until(
        lambda: "status" in cluster.api.get(f"{BUDGETS}/web"), "the status of the budget"
    )
    create(cluster, high("critical"))
    wait_placed(cluster, "critical")
    assert names(cluster) == {"critical", "protected"}


def test_a_gang_displaces_two_smaller_gangs(cluster: ControlPlane) -> None:
    cluster.create_nodes(4, cpu="4")
    for gang in ("one", "two"):
        create(cluster, *(low(f"{gang}-{n}", **in_group(gang, 2)) for n in range(2)))
        wait_placed(cluster, f"{gang}-0", f"{gang}-1")
    create(cluster, *(high(f"big-{n}", **in_group("big", 3)) for n in range(3)))
    wait_placed(cluster, "big-0", "big-1", "big-2")
    assert names(cluster) == {"big-0", "big-1", "big-2"}


def test_the_pods_of_a_deployment_are_placed_again(cluster: ControlPlane) -> None:
    cluster.create_nodes(1, cpu="4")
    template = low("-", labels={"app": "web"})
    deployment = {
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": template["spec"]},
        },
    }
    cluster.api.create(DEPLOYMENTS, deployment)
    cluster.wait_until(
        lambda: any(each["spec"].get("nodeName") for each in cluster.pods("default")), "a pod"
    )
    create(cluster, high("critical"))
    wait_placed(cluster, "critical")
    cluster.create_nodes(1, cpu="4", prefix="more")
    cluster.wait_until(
        lambda: sum(bool(e["spec"].get("nodeName")) for e in cluster.pods("default")) == 2,
        "the deployment's pod to run again",
    )


def test_a_slow_victim_is_waited_for(cluster: ControlPlane) -> None:
    cluster.create_nodes(2, cpu="4")
    slow = {"testbed.afflux.dev/stop-seconds": "3"}
    for name in ("one", "two"):
        create(cluster, pod(name, cpu="3", terminationGracePeriodSeconds=30, annotations=slow))
    wait_placed(cluster, "one", "two")
    create(cluster, high("critical"))
    wait_placed(cluster, "critical")
    assert len(names(cluster)) == 2
    assert sum(is_being_deleted(cluster, name) for name in ("one", "two")) == 1


def test_a_preemptor_whose_node_is_lost_goes_elsewhere(cluster: ControlPlane) -> None:
    nodes = cluster.create_nodes(2, cpu="4")
    for name, of in (("first", {}), ("second", {"priorityClassName": "high"})):
        victim = low(name, **of)
        victim["metadata"]["finalizers"] = ["testbed.afflux.dev/slow"]
        create(cluster, victim)
    where = wait_placed(cluster, "first", "second")
    create(cluster, high("critical", of="higher"))
    cluster.wait_until(lambda: is_being_deleted(cluster, "first"), "the eviction")
    delete(cluster, "Node", where["first"])
    cluster.wait_until(lambda: is_being_deleted(cluster, "second"), "the other eviction")
    for name in ("first", "second"):
        _release(cluster, name)
    left = next(node for node in nodes if node != where["first"])
    assert wait_placed(cluster, "critical")["critical"] == left


def test_higher_pods_take_the_places_that_are_held_for_others(cluster: ControlPlane) -> None:
    cluster.create_nodes(4, cpu="10", pods=110)
    slow = {"testbed.afflux.dev/stop-seconds": "25"}
    lower = [
        pod(f"low-{n}", cpu="1", terminationGracePeriodSeconds=60, annotations=slow)
        for n in range(40)
    ]
    create(cluster, *lower)
    wait_placed(cluster, *(f"low-{n}" for n in range(40)))
    create(cluster, *(high(f"middle-{n}", cpu="1") for n in range(40)))
    cluster.wait_until(
        lambda: all(is_being_deleted(cluster, f"low-{n}") for n in range(40)), "40 evictions", 15
    )
    create(cluster, *(high(f"top-{n}", cpu="1", of="higher") for n in range(20)))
    cluster.wait_until(
        lambda: all(
            "nominatedNodeName" in cluster.pod(f"top-{n}").get("status", {}) for n in range(20)
        ),
        "the nominations",
        15,
    )
    wait_placed(cluster, *(f"top-{n}" for n in range(20)))
    cluster.wait_until(
        lambda: sum(bool(e["spec"].get("nodeName")) for e in cluster.pods("default")) == 40,
        "as many as fit",
    )
