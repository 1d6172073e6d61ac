"""Preemption while the scheduler is killed: nothing more is evicted, and nothing is bound twice."""

from pathlib import Path

from cluster_objects import create, event_of, names, wait_for_reason, wait_placed
from live_manifests import pod
from scheduler_process import SHORT_LEASE
from shared_scheduler import installed_scheduler
from testbed import ControlPlane

PREEMPTS = [{"schedulerName": "afflux", "preemption": {"enabled": True}}]
ELECTION = {"resourceName": "killed", **SHORT_LEASE}
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
FINALIZER = "testbed.afflux.dev/slow"


def leaving(plane: ControlPlane) -> set[str]:
    """The pods that are being deleted."""
    pods = plane.pods("default")
    return {e["metadata"]["name"] for e in pods if "deletionTimestamp" in e["metadata"]}


def release(plane: ControlPlane, name: str) -> None:
    path = f"/api/v1/namespaces/default/pods/{name}"
    plane.api.patch(path, {"metadata": {"finalizers": None}}, "application/merge-patch+json")


def test_the_next_leader_waits_for_the_victims_of_the_last(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    plane, profiles = control_plane, PREEMPTS
    with installed_scheduler(
        plane, "killed", tmp_path, profiles=profiles, leaderElection=ELECTION
    ) as afflux:
        for name, value in (("middle", 1000), ("highest", 2000)):
            plane.api.create(CLASSES, {"metadata": {"name": name}, "value": value})
        plane.create_nodes(2, cpu="4")
        for name, of in (("slow", {}), ("other", {"priorityClassName": "middle"})):
            victim = pod(name, cpu="3", terminationGracePeriodSeconds=1, **of)
            victim["metadata"]["finalizers"] = [FINALIZER]
            create(plane, victim)
        wait_placed(plane, "slow", "other")
        create(plane, pod("critical", cpu="3", priorityClassName="highest"))
        plane.wait_until(
            lambda: "nominatedNodeName" in plane.pod("critical").get("status", {}), "the nomination"
        )
        plane.wait_until(lambda: leaving(plane) == {"slow"}, "the eviction")
        afflux.kill()
        afflux.start(ready=False)
        create(plane, pod("late", cpu="3"))
        wait_for_reason(plane, "late", "Insufficient cpu", seconds=60)
        assert leaving(plane) == {"slow"}
        release(plane, "slow")
        wait_placed(plane, "critical")
        assert leaving(plane) == set()
        assert names(plane) == {"critical", "other", "late"}
        event_of(plane, "critical", "Scheduled")
        release(plane, "other")
