"""Running pods that do not meet their requirements any more, on a real API server."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster_objects import create, event_of, events_of, wait_placed
from live_manifests import ZONE, pod
from scheduler_process import Scheduler
from shared_scheduler import empty_cluster, running_scheduler
from testbed import ControlPlane

REQUIRED = {"afflux.dev/required-during-execution": "true"}


@pytest.fixture(scope="module")
def afflux(
    control_plane: ControlPlane, rights: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scheduler]:
    with running_scheduler(control_plane, rights, tmp_path_factory.mktemp("execution")) as process:
        yield process


@pytest.fixture
def cluster(control_plane: ControlPlane, afflux: Scheduler) -> ControlPlane:
    return empty_cluster(control_plane, afflux)


def violating(afflux: Scheduler, kind: str) -> float:
    return afflux.metric("afflux_violating_pods", f'constraint="{kind}"')


def test_a_pod_whose_node_loses_a_label_is_reported_until_it_has_it_again(
    cluster: ControlPlane, afflux: Scheduler
) -> None:
    (name,) = cluster.create_nodes(1, labels={ZONE: "a"})
    selector = {ZONE: "a"}
    create(cluster, pod("firm", annotations=REQUIRED, nodeSelector=selector))
    create(cluster, pod("plain", nodeSelector=selector))
    wait_placed(cluster, "firm", "plain")
    cluster.kubectl("label", "node", name, f"{ZONE}-")
    event = event_of(cluster, "firm", "RequirementViolated")
    assert event["type"] == "Warning"
    assert event["note"] == (
        f"{name} does not meet the pod's requirements: node(s) didn't match Pod's node"
        " affinity/selector"
    )
    cluster.wait_until(lambda: violating(afflux, "node-affinity") == 1, "the metric")
    cluster.kubectl("label", "node", name, f"{ZONE}=a")
    cluster.wait_until(lambda: violating(afflux, "node-affinity") == 0, "the metric")
    assert not events_of(cluster, "plain", "RequirementViolated")
    afflux.assert_healthy()
