"""A group of which only a part could be bound is taken back, if that was asked for."""

import time
from collections.abc import Iterator

import pytest
from live_manifests import in_group, pod
from looking import create, event_of, node_of, placed, waits
from scheduler import Scheduler
from sharing import emptied, installed
from testbed import ControlPlane, Manifest

REPLICA_SETS = "/apis/apps/v1/namespaces/default/replicasets"


@pytest.fixture(scope="module")
def afflux(
    control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scheduler]:
    """With the right to delete pods that the chart grants for this, and no more."""
    directory = tmp_path_factory.mktemp("halves")
    with installed(control_plane, "halves", directory, cleanup={"halfBoundAfter": "1s"}) as process:
        yield process


@pytest.fixture
def cluster(control_plane: ControlPlane, afflux: Scheduler) -> ControlPlane:
    return emptied(control_plane, afflux)


def replica_set(name: str) -> Manifest:
    """Two pods that are a group, each too large to share a machine."""
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
    """Of the pods that are not on their way out."""
    return {
        each["metadata"]["name"]
        for each in cluster.pods("default")
        if "deletionTimestamp" not in each["metadata"]
    }


def test_the_bound_half_is_made_anew_and_the_whole_starts_together(cluster: ControlPlane) -> None:
    (node,) = cluster.create_nodes(1, cpu="4")
    cluster.api.create(REPLICA_SETS, replica_set("pair"))
    cluster.wait_until(lambda: len(names(cluster)) == 2, "the pods")
    bound, rest = sorted(names(cluster))
    waits(cluster, rest)
    # As if the machine of the other one had vanished before it was bound.
    cluster.bind(bound, node)
    note = event_of(cluster, bound, "TakenBack")["note"]
    assert note.startswith("Only 1 of 2 members of group default/pair were bound")
    cluster.wait_until(
        lambda: bound not in names(cluster) and len(names(cluster)) == 2, "another one in its place"
    )
    assert all(node_of(cluster, name) is None for name in names(cluster))
    cluster.create_nodes(1, cpu="4", prefix="more")
    assert set(placed(cluster, *names(cluster)).values()) == {node, "more-0000"}


def test_what_nobody_makes_anew_stays_and_the_rest_follows(cluster: ControlPlane) -> None:
    (node,) = cluster.create_nodes(1, cpu="4")
    create(cluster, *(pod(name, cpu="3", **in_group("pair", 2)) for name in "ab"))
    waits(cluster, "b")
    cluster.bind("a", node)
    time.sleep(2)
    assert names(cluster) == {"a", "b"}
    cluster.create_nodes(1, cpu="4", prefix="more")
    placed(cluster, "b")
    assert node_of(cluster, "a") == node
