"""Cleanup of completed groups: they are deleted up to their root owner, if enabled."""

from collections.abc import Iterator
from tempfile import TemporaryDirectory

import pytest
from cluster_objects import create, names, wait_placed
from live_manifests import JOBS, in_group, job, pod
from scheduler_process import Scheduler
from shared_scheduler import empty_cluster, installed_scheduler
from test_how_pods_end import containers_end, is_running
from test_ledger_live import ask
from testbed import ControlPlane, Manifest

from afflux.ledger.embedded_postgres import EmbeddedPostgres

RUN_SECONDS = "testbed.afflux.dev/run-seconds"


@pytest.fixture(scope="module")
def ledger_directory() -> Iterator[str]:
    with TemporaryDirectory(prefix="ledger-") as name:
        yield name
        # The scheduler was killed, its database server was not.
        server = EmbeddedPostgres(name)
        server.start()
        server.stop()


@pytest.fixture(scope="module")
def afflux(
    control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory, ledger_directory: str
) -> Iterator[Scheduler]:
    """A scheduler with exactly the rights that the chart grants for the cleanup."""
    directory = tmp_path_factory.mktemp("finished")
    sections = {"cleanup": {"finished": True}, "ledger": {"directory": ledger_directory}}
    with installed_scheduler(control_plane, "finished", directory, **sections) as process:
        yield process


@pytest.fixture
def cluster(control_plane: ControlPlane, afflux: Scheduler) -> ControlPlane:
    return empty_cluster(control_plane, afflux)


def short_job(name: str, seconds: int = 1) -> Manifest:
    """A Job of two pods that form a group and succeed."""
    found = job(name, 600)
    found["spec"]["template"]["metadata"]["annotations"] = {RUN_SECONDS: str(seconds)}
    return found


def jobs(cluster: ControlPlane) -> set[str]:
    return {each["metadata"]["name"] for each in cluster.api.list(JOBS)}


def test_a_completed_group_is_deleted_with_its_job(cluster: ControlPlane) -> None:
    cluster.create_nodes(2)
    cluster.api.create(JOBS, short_job("sum"))
    cluster.api.create(JOBS, short_job("long", 600))
    cluster.wait_until(lambda: "sum" not in jobs(cluster), "the end of the Job", 60)
    cluster.wait_until(lambda: len(names(cluster)) == 2, "the end of its pods")
    assert jobs(cluster) == {"long"}


def test_completed_pods_without_a_controller_are_deleted(cluster: ControlPlane) -> None:
    cluster.create_nodes(2)
    short = {"annotations": {RUN_SECONDS: "1"}, "restartPolicy": "Never"}
    create(cluster, *(pod(name, **short, **in_group("pair", 2)) for name in ("a", "b")))
    create(cluster, pod("alone", **short), pod("runs"))
    create(cluster, pod("theirs", scheduler="another", **short))
    cluster.bind("theirs", wait_placed(cluster, "runs")["runs"])
    cluster.wait_until(lambda: names(cluster) == {"runs", "theirs"}, "the end of the pods", 60)


def test_a_group_that_completed_while_no_replica_led_is_deleted_by_the_next_leader(
    cluster: ControlPlane, afflux: Scheduler, ledger_directory: str
) -> None:
    cluster.create_nodes(2)
    cluster.api.create(JOBS, short_job("sum", 600))
    running = "SELECT FROM afflux.running_groups WHERE state = 'running'"
    afflux.wait_until(lambda: len(ask(ledger_directory, running)) == 1, "the group to be written")
    cluster.wait_until(lambda: is_running(cluster, *names(cluster)), "its pods to run")
    assert afflux.stop() == 0
    for name in names(cluster):
        containers_end(cluster, name, "Succeeded", 0)

    def is_complete() -> bool:
        (found,) = cluster.api.list(JOBS)
        return any(each["type"] == "Complete" for each in found["status"].get("conditions", ()))

    cluster.wait_until(is_complete, "the end of the Job")
    afflux.start()
    cluster.wait_until(lambda: not jobs(cluster), "the deletion of the Job")
