"""Deadline cleanup: overdue groups are deleted with their Job and nothing else, if enabled."""

from collections.abc import Iterator

import pytest
from chart_installation import is_allowed
from cluster_objects import create, event_of, names, wait_placed
from live_manifests import JOBS, in_group, job, pod
from scheduler_process import Scheduler
from shared_scheduler import empty_cluster, installed_scheduler
from testbed import ControlPlane, Manifest


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


PODS = "/api/v1/namespaces/default/pods"
ROLES = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
ENDED = {"Succeeded", "Failed"}


def tenant_who_creates_pods(cluster: ControlPlane) -> str:
    """The token of a service account that may create pods in `default`, and nothing else."""
    cluster.api.create("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "pods"}})
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["create"]}
    cluster.api.create(f"{ROLES}/roles", {"metadata": {"name": "pods"}, "rules": [rule]})
    binding = {
        "metadata": {"name": "pods"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "pods"},
        "subjects": [{"kind": "ServiceAccount", "name": "pods", "namespace": "default"}],
    }
    cluster.api.create(f"{ROLES}/rolebindings", binding)
    user, pods = "system:serviceaccount:default:pods", {"resource": "pods", "namespace": "default"}
    cluster.wait_until(lambda: is_allowed(cluster, user, verb="create", **pods), "the right")
    assert not is_allowed(cluster, user, verb="delete", **pods)
    return cluster.service_account_token("default", "pods")


def claims_owner(kind: str, version: str, owner: Manifest) -> Manifest:
    """An owner reference that names this object as the controller."""
    names = {"name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}
    return {"apiVersion": version, "kind": kind, "controller": True, **names}


def test_a_tenant_who_may_only_create_pods_can_have_nothing_of_others_deleted(
    cluster: ControlPlane,
) -> None:
    nodes = cluster.create_nodes(2)
    create(cluster, pod("bystander", scheduler="another"))
    cluster.bind("bystander", nodes[0])
    # Suspended; one of another scheduler, and one of the same terms as the forged pods.
    for name, deadline, scheduler in (("theirs", 3600, "another"), ("alike", 1, "afflux")):
        suspended = job(name, deadline)
        suspended["spec"]["suspend"] = True
        suspended["spec"]["template"]["spec"]["schedulerName"] = scheduler
        cluster.api.create(JOBS, suspended)
    # It waits, and uses the name of the tenant's group.
    waiting = job("reused", 3600)
    waiting["spec"]["template"]["metadata"]["labels"]["afflux.dev/group-size"] = "3"
    cluster.api.create(JOBS, waiting)
    cluster.wait_until(lambda: len(names(cluster)) == 3, "the pods that wait")
    others = names(cluster)

    api = cluster.api_with_token(tenant_who_creates_pods(cluster))
    jobs = {each["metadata"]["name"]: each for each in cluster.api.list(JOBS)}
    owner_of = {
        "of-theirs": claims_owner("Job", "batch/v1", jobs["theirs"]),
        "of-alike": claims_owner("Job", "batch/v1", jobs["alike"]),
        "of-waiting": claims_owner("Job", "batch/v1", jobs["reused"]),
        "of-pod": claims_owner("Pod", "v1", cluster.pod("bystander")),
    }
    group_of = {"of-theirs": "theirs", "of-alike": "alike"}
    forged = {
        f"{name}-{number}": (group_of.get(name, "reused"), owner)
        for name, owner in {**owner_of, "bare": None}.items()
        for number in (1, 2)
    }
    try:
        for name, (group, owner) in forged.items():
            # Bound at once by its author, so that it runs whatever the scheduler thinks of it.
            member = pod(name, activeDeadlineSeconds=1, nodeName=nodes[1], **in_group(group, 2))
            member["metadata"]["ownerReferences"] = [owner] if owner else []
            api.create(PODS, member)
    finally:
        api.close()

    def over() -> bool:
        there = {each["metadata"]["name"]: each for each in cluster.pods("default")}
        return all(there[name]["status"].get("phase") in ENDED for name in forged.keys() & there)

    cluster.wait_until(over, "the end of the forged pods")
    # A later deadline has passed and its group is gone, so the cleanup is done with the earlier.
    cluster.api.create(JOBS, job("honest", 2))
    cluster.wait_until(lambda: has_job(cluster, "honest"), "the Job")
    cluster.wait_until(lambda: not has_job(cluster, "honest"), "the end of the Job", 60)
    assert {each["metadata"]["name"] for each in cluster.api.list(JOBS)} == jobs.keys()
    assert others <= names(cluster)


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
