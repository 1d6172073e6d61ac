"""How a pod ended is known from what a real API server says, also after a restart."""

import asyncio
from collections.abc import Iterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta

import pytest
from cluster_objects import collection, create, delete, names, wait_placed
from live_manifests import OURS, pod
from scheduler_process import WITHOUT_ELECTION, Schedulers
from test_ledger_live import ask
from testbed import ControlPlane
from testbed.api import STRATEGIC

from afflux.groups.states import TaskEnd
from afflux.kube.api.client import Api
from afflux.kube.api.kubeconfig import read_kubeconfig
from afflux.kube.api.reflector import run_reflector
from afflux.kube.live.watched_kinds import required_kinds
from afflux.kube.reader.cluster_reader import ClusterReader

RUN_SECONDS = {"testbed.afflux.dev/run-seconds": "3"}
# Longer than any test: a pod with a container that does not stop by itself.
STOP_SECONDS = {"testbed.afflux.dev/stop-seconds": "600"}
# The API server keeps the deleted object as long as it has a finalizer.
FINALIZER = "testbed.afflux.dev/keeps"

# What the machines do to these pods; what is done to the others is below.
PODS = {
    "succeeds": pod("succeeds", annotations=RUN_SECONDS, restartPolicy="Never"),
    "fails": pod("fails", restartPolicy="Never"),
    "late": pod("late", activeDeadlineSeconds=3, restartPolicy="Never"),
    "deleted": pod("deleted"),
    "stopped": pod("stopped", annotations=STOP_SECONDS, restartPolicy="Never"),
    "refused": pod("refused", restartPolicy="Never"),
    "removed": pod("removed"),
}
PODS["stopped"]["metadata"]["finalizers"] = [FINALIZER]
ENDS = {
    "succeeds": "succeeded",
    "fails": "failed",
    "late": "deadline",
    "deleted": "deleted",
    "stopped": "deleted",
    "refused": "rejected",
    "removed": "deleted",
}
# Of these, the API server still has the object after they have ended.
KEPT = {"succeeds", "fails", "late", "stopped", "refused"}


@pytest.fixture(autouse=True)
def finalized(cluster: ControlPlane) -> Iterator[None]:
    """Removes the finalizer after a test, so that the cluster can be emptied."""
    yield
    if "stopped" in names(cluster):
        remove_finalizer(cluster)


def remove_finalizer(cluster: ControlPlane) -> None:
    cluster.api.patch(path_of("stopped"), {"metadata": {"finalizers": None}})


def path_of(name: str) -> str:
    return f"{collection('Pod')}/{name}"


def is_running(cluster: ControlPlane, *pods: str) -> bool:
    """Whether these pods run, or have run."""
    phases = {each["metadata"]["name"]: each["status"]["phase"] for each in cluster.pods("default")}
    return all(phases[name] != "Pending" for name in pods)


def containers_end(
    cluster: ControlPlane, name: str, phase: str, exit_code: int, in_seconds: int = 0
) -> None:
    """Write the status of a pod whose containers have ended, as the kubelet does."""
    at = (datetime.now(UTC) + timedelta(seconds=in_seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
    ended = {"exitCode": exit_code, "finishedAt": at, "startedAt": at}
    container = {"name": "main", "state": {"terminated": ended, "running": None}}
    status = {"phase": phase, "containerStatuses": [container]}
    cluster.api.patch(f"{path_of(name)}/status", {"status": status}, STRATEGIC)


def reject(cluster: ControlPlane, name: str) -> None:
    """Write the status of a pod that the kubelet does not admit."""
    message = "Pod was rejected: Node didn't have enough resource: cpu"
    status = {
        "phase": "Failed",
        "reason": "OutOfcpu",
        "message": message,
        "containerStatuses": None,
    }
    cluster.api.patch(f"{path_of(name)}/status", {"status": status})


def end_the_pods(cluster: ControlPlane) -> None:
    """Let all these pods, which have been bound, end."""
    cluster.wait_until(lambda: is_running(cluster, *PODS), "the pods to run")
    containers_end(cluster, "fails", "Failed", 1)
    reject(cluster, "refused")
    # With their grace period of 30 s; the containers of the first stop at once.
    for name in ("deleted", "stopped"):
        cluster.api.delete(path_of(name))
    # Not in the second of the deletion: a list could not tell which was first.
    containers_end(cluster, "stopped", "Succeeded", 0, in_seconds=2)
    delete(cluster, "Pod", "removed")
    cluster.wait_until(lambda: names(cluster) == KEPT, "the deleted pods to be gone")
    for name, phase in (("succeeds", "Succeeded"), ("late", "Failed")):
        cluster.wait_until(
            lambda name=name, phase=phase: cluster.pod(name)["status"]["phase"] == phase, name
        )


def release_the_pods(cluster: ControlPlane) -> None:
    """Delete what is left of the pods."""
    remove_finalizer(cluster)
    delete(cluster, "Pod", *(KEPT - {"stopped"}))
    cluster.wait_until(lambda: not names(cluster), "all pods to be gone")


@asynccontextmanager
async def reading(cluster: ControlPlane):
    """A reader whose pods are watched as `afflux run` watches them."""
    reader = ClusterReader([OURS])
    (pods,) = (
        each
        for each in required_kinds(reader, default_constraints=False)
        if each.store is reader.pods
    )
    api = Api(read_kubeconfig(str(cluster.kubeconfig)))
    async with api:
        watch = asyncio.create_task(run_reflector(api, pods.collection, pods.store))
        try:
            await reader.pods.synced.wait()
            yield reader
        finally:
            watch.cancel()
            with suppress(asyncio.CancelledError):
                await watch


async def ends_of(reader: ClusterReader, count: int) -> list[TaskEnd]:
    """The next `count` ends."""
    found: list[TaskEnd] = []
    async with asyncio.timeout(30):
        while len(found) < count:
            now_seconds = datetime.now().timestamp()
            found += reader.ended_pods.take(now_seconds)
            reader.take_events(now_seconds)
            await asyncio.sleep(0.05)
    return found


def test_each_way_in_which_a_pod_ends_is_told_apart_once(cluster: ControlPlane) -> None:
    async def test() -> None:
        (machine,) = cluster.create_nodes(1)
        create(cluster, *PODS.values())
        uids = {each["metadata"]["uid"]: each["metadata"]["name"] for each in cluster.pods()}
        async with reading(cluster) as reader:
            for name in PODS:
                cluster.bind(name, machine)
            await asyncio.to_thread(end_the_pods, cluster)
            ends = await ends_of(reader, len(ENDS))
            assert {uids[end.task_id]: end.how for end in ends} == ENDS
            assert len(reader.pods) == 0
            async with reading(cluster) as restarted:
                kept = await ends_of(restarted, len(KEPT))
                assert {uids[end.task_id]: end.how for end in kept} == {
                    name: ENDS[name] for name in KEPT
                }
                assert len(restarted.pods) == 0
                stated = [end for end in kept if uids[end.task_id] in {"succeeds", "fails", "late"}]
                assert len(stated) == 3
                assert set(stated) <= set(ends)
                await asyncio.to_thread(release_the_pods, cluster)
                create(cluster, pod("next"))
                delete(cluster, "Pod", "next")
                for each in (reader, restarted):
                    (end,) = await ends_of(each, 1)
                    assert end.task_id not in uids

    asyncio.run(test())


@pytest.mark.parametrize("is_away", [False, True])
def test_history_shows_how_groups_ended_also_while_nothing_ran(
    cluster: ControlPlane, schedulers: Schedulers, directory: str, is_away: bool
) -> None:
    cluster.create_nodes(1)
    afflux = schedulers.start(leaderElection=WITHOUT_ELECTION, ledger={"directory": directory})
    create(cluster, *PODS.values())
    wait_placed(cluster, *PODS)
    ran = "SELECT FROM afflux.running_groups WHERE state = 'running' UNION ALL"
    ran += " SELECT FROM afflux.finished_groups"
    afflux.wait_until(lambda: len(ask(directory, ran)) == len(PODS), "all to be written")
    if is_away:
        assert afflux.stop() == 0
    end_the_pods(cluster)
    if is_away:
        afflux.start()
    ended = "SELECT alone, how FROM afflux.finished_groups"
    afflux.wait_until(lambda: len(ask(directory, ended)) == len(PODS), "all to be history")
    assert dict(ask(directory, ended)) == ENDS
    afflux.assert_healthy()
