"""Deadline cleanup: overdue groups are deleted with their Job and nothing else, if enabled."""

from collections.abc import Iterator

import pytest
from cluster_objects import create, event_of, names, wait_placed
from live_manifests import JOBS, in_group, job, pod
from scheduler_process import Scheduler
from shared_scheduler import empty_cluster, installed_scheduler
from testbed import ControlPlane


@pytest.fixture(scope="module")
def afflux(
    control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scheduler]:
    """A scheduler with exactly the rights that the chart grants for the cleanup."""
    directory = tmp_path_factory.mktemp("deadlines")
    with installed_scheduler(
        control_plane, "cleanup", directory, cleanup={"enabled": True}
    ) as process:
        yield process


@pytest.fixture
def cluster(control_plane: ControlPlane, afflux: Scheduler) -> ControlPlane:
    return empty_cluster(control_plane, afflux)


def has_job(cluster: ControlPlane, name: str) -> bool:
    return name in {each["metadata"]["name"] for each in cluster.api.list(JOBS)}


def test_an_overdue_group_is_deleted_with_its_job_and_not_recreated(cluster: ControlPlane) -> None:
    cluster.create_nodes(2)
    create(cluster, pod("bystander", activeDeadlineSeconds=600))
    cluster.api.create(JOBS, job("sum", 3))
    cluster.wait_until(lambda: len(names(cluster)) == 3, "the pods")
    members = names(cluster) - {"bystander"}
    wait_placed(cluster, "bystander", *members)
    cluster.wait_until(lambda: not has_job(cluster, "sum"), "the end of the Job")
    cluster.wait_until(lambda: names(cluster) == {"bystander"}, "the end of its pods")
    note = event_of(cluster, min(members), "DeadlineOver")["note"]
    assert note == "The deadline of group default/sum has passed; deleted with it: Job default/sum"
    # The group name can be used again, and no pod of the old group was recreated meanwhile.
    create(cluster, *(pod(name, **in_group("sum", 2)) for name in ("a", "b")))
    wait_placed(cluster, "a", "b")
    assert names(cluster) == {"bystander", "a", "b"}


def test_overdue_pods_without_an_owner_end_and_pods_of_other_schedulers_stay(
    cluster: ControlPlane,
) -> None:
    cluster.create_nodes(2)
    pair = in_group("pair", 2)
    create(cluster, pod("theirs", scheduler="another", **pair))
    create(cluster, *(pod(name, activeDeadlineSeconds=2, **pair) for name in ("a", "b")))
    wait_placed(cluster, "a", "b")
    # If the kubelet was faster, the ended pods stay for inspection.
    cluster.wait_until(
        lambda: all(
            each["metadata"]["name"] == "theirs" or each["status"]["phase"] == "Failed"
            for each in cluster.pods("default")
        ),
        "their end",
    )
    assert "theirs" in names(cluster)


def test_overdue_pods_of_an_unreadable_owner_stay_and_the_event_names_the_missing_right(
    cluster: ControlPlane,
) -> None:
    cluster.create_nodes(1)
    path = "/api/v1/namespaces/default/configmaps"
    hidden = cluster.api.create(path, {"metadata": {"name": "hidden"}})
    member = pod("a", activeDeadlineSeconds=2, restartPolicy="Never", **in_group("solo", 1))
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "hidden", "controller": True}
    member["metadata"]["ownerReferences"] = [owner | {"uid": hidden["metadata"]["uid"]}]
    create(cluster, member)
    wait_placed(cluster, "a")
    note = event_of(cluster, "a", "DeadlineOver")["note"]
    assert "ConfigMap default/hidden could not be read" in note
    assert 'cannot get resource "configmaps" in API group "" in the namespace "default"' in note
    # The kubelet stopped the pod; afflux did not delete it.
    cluster.wait_until(lambda: cluster.pod("a")["status"]["phase"] == "Failed", "its end")
    assert "deletionTimestamp" not in cluster.pod("a")["metadata"]
