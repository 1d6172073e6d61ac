"""When a group's deadline is over it goes, with its Job and nothing else, if that was asked for."""

import time
from collections.abc import Iterator

import pytest
from live_manifests import JOBS, in_group, job, pod
from looking import create, event_of, names, placed
from scheduler import Scheduler
from sharing import emptied, installed
from testbed import ControlPlane


@pytest.fixture(scope="module")
def afflux(
    control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scheduler]:
    """With the rights that the chart grants for cleaning up, and no more."""
    directory = tmp_path_factory.mktemp("deadlines")
    with installed(control_plane, "cleanup", directory, cleanup={"enabled": True}) as process:
        yield process


@pytest.fixture
def cluster(control_plane: ControlPlane, afflux: Scheduler) -> ControlPlane:
    return emptied(control_plane, afflux)


def has_job(cluster: ControlPlane, name: str) -> bool:
    return name in {each["metadata"]["name"] for each in cluster.api.list(JOBS)}


def test_a_group_and_its_job_are_gone_and_nothing_is_made_anew(cluster: ControlPlane) -> None:
    cluster.create_nodes(2)
    create(cluster, pod("bystander", activeDeadlineSeconds=600))
    cluster.api.create(JOBS, job("sum", 3))
    cluster.wait_until(lambda: len(names(cluster)) == 3, "the pods")
    members = names(cluster) - {"bystander"}
    placed(cluster, "bystander", *members)
    cluster.wait_until(lambda: not has_job(cluster, "sum"), "the end of the Job")
    cluster.wait_until(lambda: names(cluster) == {"bystander"}, "the end of its pods")
    note = event_of(cluster, min(members), "DeadlineOver")["note"]
    assert note == "The deadline of group default/sum is over; deleted with it: Job default/sum"
    time.sleep(1)
    assert names(cluster) == {"bystander"}
    # The name is free.
    create(cluster, *(pod(name, **in_group("sum", 2)) for name in ("a", "b")))
    placed(cluster, "a", "b")


def test_pods_without_an_owner_go_and_those_of_other_schedulers_stay(
    cluster: ControlPlane,
) -> None:
    cluster.create_nodes(2)
    pair = in_group("pair", 2)
    create(cluster, pod("theirs", scheduler="another", **pair))
    create(cluster, *(pod(name, activeDeadlineSeconds=2, **pair) for name in ("a", "b")))
    placed(cluster, "a", "b")
    # The kubelet may have been faster: what has ended by itself stays to be looked at.
    cluster.wait_until(
        lambda: all(
            each["metadata"]["name"] == "theirs" or each["status"]["phase"] == "Failed"
            for each in cluster.pods("default")
        ),
        "their end",
    )
    assert "theirs" in names(cluster)


def test_below_an_owner_that_we_may_not_see_pods_stay_and_name_the_right_that_is_missing(
    cluster: ControlPlane,
) -> None:
    cluster.create_nodes(1)
    path = "/api/v1/namespaces/default/configmaps"
    hidden = cluster.api.create(path, {"metadata": {"name": "hidden"}})
    member = pod("a", activeDeadlineSeconds=2, restartPolicy="Never", **in_group("solo", 1))
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "hidden", "controller": True}
    member["metadata"]["ownerReferences"] = [owner | {"uid": hidden["metadata"]["uid"]}]
    create(cluster, member)
    placed(cluster, "a")
    note = event_of(cluster, "a", "DeadlineOver")["note"]
    assert "ConfigMap default/hidden could not be read" in note
    assert 'cannot get resource "configmaps" in API group "" in the namespace "default"' in note
    # Nobody but the kubelet has put an end to it.
    cluster.wait_until(lambda: cluster.pod("a")["status"]["phase"] == "Failed", "its end")
    assert "deletionTimestamp" not in cluster.pod("a")["metadata"]
