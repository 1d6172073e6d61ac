"""Default spread constraints on a real API server: pods of one Service or controller are spread."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster_objects import count, create, wait_placed
from live_manifests import OURS, ZONE, pod
from scheduler_process import Scheduler
from shared_scheduler import empty_cluster, installed_scheduler, running_scheduler
from testbed import ControlPlane, Manifest

SERVICES = "/api/v1/namespaces/default/services"
REPLICA_SETS = "/apis/apps/v1/namespaces/default/replicasets"
EVENLY_OVER_ZONES: Manifest = {
    "defaultingType": "List",
    "defaultConstraints": [
        {"topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    ],
}
OFF: Manifest = {"defaultingType": "List", "defaultConstraints": []}
WEB = {"app": "web"}


@pytest.fixture(scope="module")
def afflux(
    control_plane: ControlPlane, rights: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scheduler]:
    directory = tmp_path_factory.mktemp("defaults")
    spread = {"topologySpread": EVENLY_OVER_ZONES}
    with running_scheduler(control_plane, rights, directory, **spread) as process:
        yield process


@pytest.fixture
def cluster(control_plane: ControlPlane, afflux: Scheduler) -> ControlPlane:
    """One large node in zone `a`, one in zone `b` with room for few pods."""
    plane = empty_cluster(control_plane, afflux)
    plane.create_nodes(1, prefix="large", labels={ZONE: "a"})
    plane.create_nodes(1, prefix="small", labels={ZONE: "b"}, pods=2)
    return plane


def zones(placed: dict[str, str]) -> dict[str, int]:
    return count({name: node.partition("-")[0] for name, node in placed.items()})


def service(selector: dict[str, str]) -> Manifest:
    spec = {"selector": selector, "ports": [{"port": 80}]}
    return {"metadata": {"name": "web"}, "spec": spec}


def test_pods_are_spread_while_their_service_exists(cluster: ControlPlane) -> None:
    cluster.api.create(SERVICES, service(WEB))
    names = [f"web-{number}" for number in range(6)]
    create(cluster, *(pod(name, labels=WEB) for name in names))
    cluster.wait_until(
        lambda: sum("nodeName" in each["spec"] for each in cluster.pods()) == 5,
        "five pods that are spread, three and two",
    )
    cluster.api.delete(f"{SERVICES}/web")
    assert zones(wait_placed(cluster, *names)) == {"large": 4, "small": 2}


def test_pods_of_a_replica_set_are_spread_without_a_service(cluster: ControlPlane) -> None:
    template = pod("-", labels=WEB, scheduler=OURS)
    cluster.api.create(
        REPLICA_SETS,
        {
            "metadata": {"name": "web"},
            "spec": {
                "replicas": 4,
                "selector": {"matchLabels": WEB},
                "template": {"metadata": {"labels": WEB}, "spec": template["spec"]},
            },
        },
    )
    cluster.wait_until(
        lambda: sum("nodeName" in each["spec"] for each in cluster.pods()) == 4, "four pods"
    )
    placed = {each["metadata"]["name"]: each["spec"]["nodeName"] for each in cluster.pods()}
    assert zones(placed) == {"large": 2, "small": 2}


def test_without_default_constraints_no_right_to_read_services_is_needed(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    with installed_scheduler(control_plane, "no-defaults", tmp_path, topologySpread=OFF) as process:
        control_plane.create_nodes(1, prefix="large", labels={ZONE: "a"})
        control_plane.api.create(SERVICES, service(WEB))
        create(control_plane, pod("web", labels=WEB))
        wait_placed(control_plane, "web")
        process.assert_healthy()
        assert process.logged("(service|set) watch") is None
