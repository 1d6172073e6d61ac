"""Half-bound groups are rolled back, if enabled."""

from collections.abc import Iterator

import pytest
from cluster_objects import create, event_of, node_of, wait_for_reason, wait_placed
from live_manifests import in_group, pod
from scheduler_process import Scheduler
from shared_scheduler import empty_cluster, installed_scheduler
from testbed import ControlPlane, Manifest

REPLICA_SETS = "/apis/apps/v1/namespaces/default/replicasets"


@pytest.fixture(scope="module")
def afflux(
    control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scheduler]:
    """A scheduler with exactly the rights that the chart grants for the rollback."""
    directory = tmp_path_factory.mktemp("halves")
    with installed_scheduler(
        control_plane, "halves", directory, cleanup={"halfBoundAfter": "1s"}
    ) as process:
        yield process


@pytest.fixture
def cluster(control_plane: ControlPlane, afflux: Scheduler) -> ControlPlane:
    return empty_cluster(control_plane, afflux)


def replica_set(name: str) -> Manifest:
    """A ReplicaSet of two pods that form a group, each too large to share a machine."""
    template = pod("-", cpu="3", **in_group(name, 2))
    labels = template["metadata"]["labels"]
    return {
        "metadata": {"name": name},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": template["spec"]},
        },
    }


def names(cluster: ControlPlane) -> set[str]:
    """The names of the pods that are not terminating."""
    return {
        each["metadata"]["name"]
        for each in cluster.pods("default")
        if "deletionTimestamp" not in each["metadata"]
    }


def test_the_bound_half_is_recreated_and_the_whole_group_starts_together(
    cluster: ControlPlane,
) -> None:
    (node,) = cluster.create_nodes(1, cpu="4")
    cluster.api.create(REPLICA_SETS, replica_set("pair"))
    cluster.wait_until(lambda: len(names(cluster)) == 2, "the pods")
    bound, rest = sorted(names(cluster))
    wait_for_reason(cluster, rest)
    # As if the machine of the other pod had vanished before its bind.
    cluster.bind(bound, node)
    note = event_of(cluster, bound, "TakenBack")["note"]
    assert note.startswith("Only 1 of 2 members of group default/pair were bound")
    cluster.wait_until(
        lambda: bound not in names(cluster) and len(names(cluster)) == 2, "a replacement pod"
    )
    assert all(node_of(cluster, name) is None for name in names(cluster))
    cluster.create_nodes(1, cpu="4", prefix="more")
    assert set(wait_placed(cluster, *names(cluster)).values()) == {node, "more-0000"}


def test_bound_pods_without_a_controller_stay_and_the_rest_follows(cluster: ControlPlane) -> None:
    (node,) = cluster.create_nodes(1, cpu="4")
    create(cluster, *(pod(name, cpu="3", **in_group("pair", 2)) for name in "ab"))
    wait_for_reason(cluster, "b")
    cluster.bind("a", node)
    # A group that became half-bound later has been rolled back.
    cluster.api.create(REPLICA_SETS, replica_set("later"))
    cluster.wait_until(lambda: len(names(cluster)) == 4, "the pods")
    later = min(names(cluster) - {"a", "b"})
    cluster.bind(later, node)
    event_of(cluster, later, "TakenBack")
    cluster.api.delete(f"{REPLICA_SETS}/later")
    cluster.wait_until(lambda: names(cluster) == {"a", "b"}, "the end of the later group")
    cluster.create_nodes(1, cpu="4", prefix="more")
    wait_placed(cluster, "b")
    assert node_of(cluster, "a") == node
