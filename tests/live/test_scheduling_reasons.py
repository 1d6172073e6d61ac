"""Conditions and events that say why a pod waits and when it is placed; pods with a constraint that
afflux does not enforce are never placed.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster_objects import (
    condition,
    create,
    delete,
    event_of,
    events_of,
    node_of,
    wait_for_reason,
    wait_placed,
)
from live_manifests import HOSTNAME, pod
from scheduler_process import Scheduler
from shared_scheduler import empty_cluster, running_scheduler
from testbed import ControlPlane

SELECTING = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": HOSTNAME}
NOW = "requiredDuringSchedulingIgnoredDuringExecution"

NOT_ENFORCED: dict[str, tuple[dict[str, Any], str]] = {
    "resource claims": (
        {"resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}]},
        "spec.resourceClaims",
    ),
}


@pytest.fixture(scope="module")
def afflux(
    control_plane: ControlPlane, rights: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scheduler]:
    with running_scheduler(control_plane, rights, tmp_path_factory.mktemp("reasons")) as process:
        yield process


@pytest.fixture
def cluster(control_plane: ControlPlane, afflux: Scheduler) -> ControlPlane:
    return empty_cluster(control_plane, afflux)


# --- Constraints that are not enforced


def test_a_pod_with_an_unsupported_constraint_waits_and_its_reason_names_it(
    cluster: ControlPlane,
) -> None:
    cluster.create_nodes(3)
    names = [f"p{number}" for number in range(len(NOT_ENFORCED))]
    for name, (spec, _) in zip(names, NOT_ENFORCED.values(), strict=True):
        create(cluster, pod(name, labels={"app": "web"}, **spec))
    for name, (_, field) in zip(names, NOT_ENFORCED.values(), strict=True):
        words = f"0/3 nodes are available: {field} is not supported yet."
        assert wait_for_reason(cluster, name, words)["reason"] == "Unschedulable"
        assert event_of(cluster, name, "FailedScheduling")["note"] == words
    # These pods were considered, since a later pod is placed.
    create(cluster, pod("plain"))
    wait_placed(cluster, "plain")
    assert [node_of(cluster, name) for name in names] == [None] * len(names)


def test_a_pod_waits_while_the_anti_affinity_of_a_running_pod_excludes_it(
    cluster: ControlPlane,
) -> None:
    (node,) = cluster.create_nodes(1)
    repelling = {"affinity": {"podAntiAffinity": {NOW: [SELECTING]}}}
    create(cluster, pod("loner", scheduler="another", nodeName=node, **repelling))
    create(cluster, pod("web", labels={"app": "web"}), pod("batch", labels={"app": "batch"}))
    wait_placed(cluster, "batch")
    words = "0/1 nodes are available: 1 node(s) didn't satisfy existing pods anti-affinity rules."
    wait_for_reason(cluster, "web", words)
    delete(cluster, "Pod", "loner")
    wait_placed(cluster, "web")


# --- Conditions and events


def test_a_waiting_pod_has_the_condition_that_autoscalers_look_for(cluster: ControlPlane) -> None:
    cluster.create_nodes(2, cpu="1")
    create(cluster, pod("large", cpu="2"))
    found = wait_for_reason(cluster, "large", "0/2 nodes are available")
    assert isinstance(found.pop("lastTransitionTime"), str)
    assert found == {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/2 nodes are available: 2 Insufficient cpu.",
        "observedGeneration": 1,
        "lastProbeTime": None,
    }


def test_a_waiting_pod_gets_a_warning_and_a_bound_pod_a_normal_event(cluster: ControlPlane) -> None:
    create(cluster, pod("web"))
    failed = event_of(cluster, "web", "FailedScheduling")
    (node,) = cluster.create_nodes(1)
    scheduled = event_of(cluster, "web", "Scheduled")
    facts = ("type", "reason", "action", "note", "reportingController")
    assert [failed[fact] for fact in facts] == [
        "Warning", "FailedScheduling", "Scheduling", "no nodes available to schedule pods",
        "afflux",
    ]  # fmt: skip
    assert [scheduled[fact] for fact in facts] == [
        "Normal", "Scheduled", "Binding", f"Successfully assigned default/web to {node}", "afflux",
    ]  # fmt: skip
    web = cluster.pod("web")
    for event in (failed, scheduled):
        assert event["metadata"]["name"].startswith("web.")
        assert event["reportingInstance"].startswith("afflux-")
        about = event["regarding"]
        assert (about["kind"], about["namespace"], about["name"]) == ("Pod", "default", "web")
        assert about["uid"] == web["metadata"]["uid"]
    assert condition(web)["status"] == "True"


def test_kubectl_shows_the_condition_and_the_event(cluster: ControlPlane) -> None:
    create(cluster, pod("web"))
    event_of(cluster, "web", "FailedScheduling")
    wait_for_reason(cluster, "web")

    def described() -> list[list[str]]:
        return [line.split() for line in cluster.kubectl("describe", "pod", "web").splitlines()]

    assert ["PodScheduled", "False"] in described()
    (warning,) = (line for line in described() if line[:2] == ["Warning", "FailedScheduling"])
    assert warning[-7:] == ["afflux", "no", "nodes", "available", "to", "schedule", "pods"]
    cluster.create_nodes(1)
    event_of(cluster, "web", "Scheduled")
    (news,) = (line for line in described() if line[:2] == ["Normal", "Scheduled"])
    assert news[-6:] == ["afflux", "Successfully", "assigned", "default/web", "to", "node-0000"]


def test_an_unchanged_reason_is_announced_once(cluster: ControlPlane) -> None:
    (node,) = cluster.create_nodes(1, cpu="1")
    create(cluster, pod("large", cpu="2"))
    wait_for_reason(cluster, "large", "0/1 nodes are available")
    event_of(cluster, "large", "FailedScheduling")
    version = cluster.pod("large")["metadata"]["resourceVersion"]
    # Many cycles run, but for this pod nothing changes.
    for number in range(10):
        create(cluster, pod(f"small-{number}", cpu="10m"))
        wait_placed(cluster, f"small-{number}")
        label = {"metadata": {"labels": {"turn": str(number)}}}
        cluster.api.patch(f"/api/v1/nodes/{node}", label)
        delete(cluster, "Pod", f"small-{number}")
    assert cluster.pod("large")["metadata"]["resourceVersion"] == version
    (event,) = events_of(cluster, "large", "FailedScheduling")
    assert event.get("series") is None
    # A second machine that is too small changes the reason, which is announced at a limited rate.
    cluster.create_nodes(1, cpu="500m", prefix="small")
    wait_for_reason(cluster, "large", "0/2 nodes are available: 2 Insufficient cpu.")
    cluster.wait_until(lambda: len(events_of(cluster, "large", "FailedScheduling")) == 2, "news")


def test_every_waiting_pod_gets_an_event(cluster: ControlPlane) -> None:
    cluster.create_nodes(3, cpu="1")
    names = [f"p{number:02d}" for number in range(60)]
    cluster.create_pods([pod(name, cpu="2") for name in names])
    for name in names:
        wait_for_reason(cluster, name, "0/3 nodes are available: 3 Insufficient cpu.")
    told = {
        event["regarding"]["name"]
        for event in cluster.events("default")
        if event["reason"] == "FailedScheduling"
    }
    assert told == set(names)
