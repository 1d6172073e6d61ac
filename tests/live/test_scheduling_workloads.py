"""Deployments, daemon sets, stateful sets and jobs whose pods afflux places."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster_objects import count, create
from live_manifests import claim, pod, storage_class
from scheduler_process import Scheduler
from shared_scheduler import empty_cluster, running_scheduler
from testbed import ControlPlane, Manifest

APPS = "/apis/apps/v1/namespaces/default"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
RUN_SECONDS = "testbed.afflux.dev/run-seconds"


@pytest.fixture(scope="module")
def afflux(
    control_plane: ControlPlane, rights: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scheduler]:
    with running_scheduler(control_plane, rights, tmp_path_factory.mktemp("workloads")) as process:
        yield process


@pytest.fixture
def cluster(control_plane: ControlPlane, afflux: Scheduler) -> ControlPlane:
    return empty_cluster(control_plane, afflux)


def workload(name: str, **spec: Any) -> Manifest:
    """A workload whose pods have its name as a label."""
    template: Manifest = pod("-", cpu="1", labels={"app": name}, **spec.pop("pods", {}))
    metadata = {key: template["metadata"][key] for key in ("labels", "annotations")}
    return {
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": metadata, "spec": template["spec"]},
            **spec,
        },
    }


def running(cluster: ControlPlane) -> dict[str, str]:
    """The running pods and their machines."""
    return {
        each["metadata"]["name"]: each["spec"]["nodeName"]
        for each in cluster.pods("default")
        if each["status"]["phase"] == "Running" and "deletionTimestamp" not in each["metadata"]
    }


def test_a_deployment_moves_when_a_machine_is_drained(cluster: ControlPlane) -> None:
    nodes = cluster.create_nodes(3)
    cluster.api.create(f"{APPS}/deployments", workload("web", replicas=6))
    cluster.wait_until(lambda: len(running(cluster)) == 6, "six replicas")
    assert count(running(cluster)) == dict.fromkeys(nodes, 2)
    cluster.kubectl("drain", nodes[0], "--force", "--timeout=60s")
    cluster.wait_until(lambda: len(running(cluster)) == 6, "six replicas again")
    assert count(running(cluster)) == dict.fromkeys(nodes[1:], 3)


def test_a_daemon_set_runs_on_every_machine_and_on_new_ones(cluster: ControlPlane) -> None:
    nodes = cluster.create_nodes(3)
    cluster.kubectl("cordon", nodes[1])
    cluster.api.create(f"{APPS}/daemonsets", workload("agent"))
    cluster.wait_until(lambda: count(running(cluster)) == dict.fromkeys(nodes, 1), "one on each")
    (late,) = cluster.create_nodes(1, prefix="late")
    expected = dict.fromkeys(sorted([*nodes, late]), 1)
    cluster.wait_until(lambda: count(running(cluster)) == expected, "one on the new machine")


def test_a_stateful_set_keeps_its_volumes(cluster: ControlPlane) -> None:
    cluster.create_nodes(3)
    create(cluster, storage_class("disk"))
    template = {"metadata": {"name": "data"}, "spec": claim("data")["spec"]}
    mounts = workload("db", replicas=3, serviceName="db", volumeClaimTemplates=[template])
    cluster.api.create(f"{APPS}/statefulsets", mounts)
    names = {"db-0", "db-1", "db-2"}
    cluster.wait_until(lambda: running(cluster).keys() == names, "three members")
    before = running(cluster)
    # A replaced member returns to the machine of its volume.
    cluster.kubectl("delete", "pod", "db-1", "--now")
    cluster.wait_until(lambda: running(cluster).keys() == names, "three members again")
    assert running(cluster) == before


def test_a_job_larger_than_the_cluster_runs_in_parts(cluster: ControlPlane) -> None:
    cluster.create_nodes(2, cpu="2")
    pods = {"restartPolicy": "Never", "annotations": {RUN_SECONDS: "0.5"}}
    job = workload("sum", completions=12, parallelism=12, pods=pods)
    del job["spec"]["selector"]
    cluster.api.create(JOBS, job)
    cluster.wait_until(
        lambda: cluster.api.get(f"{JOBS}/sum")["status"].get("succeeded") == 12, "the job"
    )
