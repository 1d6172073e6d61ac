"""Backfilling on a real API server: groups may start before a head that has a reservation."""

import json
import subprocess
import sys
from datetime import datetime
from typing import Any

import pytest
from cluster_objects import create, delete, event_of, node_of, wait_for_reason, wait_placed
from live_manifests import pod
from scheduler_process import WITHOUT_ELECTION, Schedulers
from shared_scheduler import empty_cluster
from testbed import ControlPlane

GRACE_SECONDS = 30


def shown(directory: str, what: str) -> list[dict[str, Any]]:
    """The items that an inspection command prints."""
    command = [sys.executable, "-m", "afflux.cli", what]
    command += ["--database", directory, "-A", "-o", "json"]
    return json.loads(subprocess.check_output(command))["items"]


def expected_starts(directory: str) -> dict[str, float]:
    return {
        each["name"]: datetime.fromisoformat(each["start"]).timestamp()
        for each in shown(directory, "reservations")
        if each["start"]
    }


def job(name: str, cpu: str, seconds: int) -> dict[str, Any]:
    return pod(name, cpu=cpu, activeDeadlineSeconds=seconds)


@pytest.mark.long
def test_groups_are_backfilled_only_if_they_do_not_delay_the_head(
    control_plane: ControlPlane, schedulers: Schedulers, directory: str
) -> None:
    afflux = schedulers.start(
        leaderElection=WITHOUT_ELECTION, ledger={"directory": directory}, strategy="easy"
    )
    cluster = empty_cluster(control_plane, afflux)
    cluster.create_nodes(1, cpu="4")
    create(cluster, job("running", "3", 600))
    wait_placed(cluster, "running")
    cluster.wait_until(lambda: "startTime" in cluster.pod("running")["status"], "the start")
    began = cluster.pod("running")["status"]["startTime"]
    end = datetime.fromisoformat(began).timestamp() + 600 + GRACE_SECONDS

    create(cluster, job("head", "4", 60))
    wait_for_reason(cluster, "head", "Insufficient cpu")
    afflux.wait_until(lambda: "head" in expected_starts(directory), "a reservation")
    assert expected_starts(directory) == {"head": pytest.approx(end, abs=2)}

    # The condition and an event of the pod show the reservation.
    message = wait_for_reason(cluster, "head", "Promised to start by")["message"]
    said = datetime.strptime(f"{message[-21:-5]}+0000", "%Y-%m-%d %H:%M%z").timestamp()
    assert end - 2 <= said <= end + 62
    assert message.endswith(event_of(cluster, "head", "StartPromised")["note"])

    create(cluster, job("long", "1", 3600))
    wait_for_reason(cluster, "long", "behind others in the queue")
    create(cluster, job("short", "1", 60))
    wait_placed(cluster, "short")
    assert node_of(cluster, "long") is None

    afflux.kill()
    afflux.start()
    afflux.wait_until(
        lambda: "head" in expected_starts(directory), "the reservation after a restart"
    )
    assert expected_starts(directory) == {"head": pytest.approx(end, abs=2)}
    assert [each["name"] for each in shown(directory, "queue")] == ["head", "long"]

    # Both end early: the head starts before its reservation, and `long` does not overtake it.
    delete(cluster, "Pod", "running", "short")
    wait_placed(cluster, "head")
    assert node_of(cluster, "long") is None
    delete(cluster, "Pod", "head")
    wait_placed(cluster, "long")
    afflux.assert_healthy()
    assert afflux.stop() == 0
