"""Backfilling on a real API server: a head that is promised a start, and those who may pass it."""

import json
import subprocess
import sys
from datetime import datetime
from typing import Any

import pytest
from live_manifests import pod
from looking import create, delete, event_of, node_of, placed, waits
from scheduler import ALONE, Schedulers
from sharing import emptied
from testbed import ControlPlane

GRACE_SECONDS = 30


def shown(directory: str, what: str) -> list[dict[str, Any]]:
    """What `afflux queue` and the others say."""
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


def test_others_pass_the_head_only_if_it_loses_nothing(
    control_plane: ControlPlane, schedulers: Schedulers, directory: str
) -> None:
    afflux = schedulers.start(
        leaderElection=ALONE, ledger={"directory": directory}, strategy="easy"
    )
    cluster = emptied(control_plane, afflux)
    cluster.create_nodes(1, cpu="4")
    create(cluster, job("running", "3", 600))
    placed(cluster, "running")
    cluster.wait_until(lambda: "startTime" in cluster.pod("running")["status"], "the start")
    began = cluster.pod("running")["status"]["startTime"]
    end = datetime.fromisoformat(began).timestamp() + 600 + GRACE_SECONDS

    create(cluster, job("head", "4", 60))
    waits(cluster, "head", "Insufficient cpu")
    afflux.wait_until(lambda: "head" in expected_starts(directory), "a promise")
    assert expected_starts(directory) == {"head": pytest.approx(end, abs=2)}

    # And its owner sees it where everybody looks first.
    message = waits(cluster, "head", "Promised to start by")["message"]
    said = datetime.strptime(f"{message[-21:-5]}+0000", "%Y-%m-%d %H:%M%z").timestamp()
    assert end - 2 <= said <= end + 62
    assert message.endswith(event_of(cluster, "head", "StartPromised")["note"])

    create(cluster, job("long", "1", 3600))
    waits(cluster, "long", "behind others in the queue")
    create(cluster, job("short", "1", 60))
    placed(cluster, "short")
    assert node_of(cluster, "long") is None

    afflux.kill()
    afflux.start()
    afflux.wait_until(lambda: "head" in expected_starts(directory), "the promise after a restart")
    assert expected_starts(directory) == {"head": pytest.approx(end, abs=2)}
    assert [each["name"] for each in shown(directory, "queue")] == ["head", "long"]

    # Both end early: the head starts long before its time, and long does not pass it even now.
    delete(cluster, "Pod", "running", "short")
    placed(cluster, "head")
    assert node_of(cluster, "long") is None
    delete(cluster, "Pod", "head")
    placed(cluster, "long")
    afflux.assert_well()
    assert afflux.stop() == 0
