"""Leases, events and conditions on a real API server, with exactly the rights that they need."""

import asyncio
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from os import kill
from typing import Any

import pytest
from testbed import ControlPlane

from afflux.kube.api.client import Api
from afflux.kube.api.client_config import ClientConfig
from afflux.kube.api.kubeconfig import read_kubeconfig
from afflux.kube.live.event_recorder import LEADER_ELECTION, EventRecorder
from afflux.kube.live.leader_election import LeaderElection, LeadershipTerm, LostLeaseError
from afflux.kube.live.object_refs import ObjectRef, PodRef
from afflux.kube.live.pod_conditions import Condition, PodConditions, unschedulable
from afflux.web.scheduler_metrics import Metrics

RULES = {
    "leases": ("coordination.k8s.io", ["get", "create", "update"]),
    "events": ("events.k8s.io", ["create", "patch"]),
    "pods": ("", ["get"]),
    "pods/status": ("", ["patch"]),
}
WHY = "0/2 nodes are available: 2 Insufficient cpu."


@pytest.fixture
def connection(cluster: ControlPlane) -> ClientConfig:
    """The connection of an account with the rights of these components."""
    cluster.create_namespace("reporting")
    cluster.kubectl("create", "serviceaccount", "afflux", "-n", "reporting")
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "afflux"},
        "rules": [
            {"apiGroups": [group], "resources": [resource], "verbs": verbs}
            for resource, (group, verbs) in RULES.items()
        ],
    }
    path = "/apis/rbac.authorization.k8s.io/v1/namespaces/reporting/roles"
    cluster.api.create(path, role)
    cluster.kubectl(
        "create", "rolebinding", "afflux", "-n", "reporting", "--role=afflux",
        "--serviceaccount=reporting:afflux",
    )  # fmt: skip
    return read_kubeconfig(str(cluster.service_account_kubeconfig("reporting", "afflux")))


def pod(cluster: ControlPlane, name: str, **spec: Any) -> PodRef:
    container = {"name": "main", "image": "testbed.invalid/nothing"}
    made = cluster.api.create(
        "/api/v1/namespaces/reporting/pods",
        {
            "metadata": {"name": name},
            "spec": {"schedulerName": "none", "containers": [container], **spec},
        },
    )
    metadata = made["metadata"]
    return PodRef("reporting", name, metadata["uid"], metadata["resourceVersion"])


def condition(cluster: ControlPlane, ref: PodRef) -> dict[str, Any]:
    conditions = cluster.pod(ref.name, "reporting")["status"].get("conditions", [])
    return next((each for each in conditions if each["type"] == "PodScheduled"), {})


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(120):
            await test()

    asyncio.run(bounded())


async def until(what: Callable[[], bool], seconds: float = 60.0) -> None:
    """Checks in a thread, because the testbed's client blocks."""
    async with asyncio.timeout(seconds):
        while not await asyncio.to_thread(what):
            await asyncio.sleep(0.05)


# --- Events


def test_events_are_created_counted_and_shown_by_kubectl(
    cluster: ControlPlane, connection: ClientConfig
) -> None:
    long_name = "a" * 200 + "-" + "b" * 52
    waits, runs, longest = (pod(cluster, name) for name in ("waits", "runs", long_name))
    metrics = Metrics()

    async def test() -> None:
        async with Api(connection) as api:
            recorder = EventRecorder(api, metrics, "batch", repeat_interval_seconds=0.5)
            recorder.failed(waits, WHY)
            recorder.scheduled(runs, "n1")
            recorder.scheduled(longest, "n1")
            recorder.failed(longest, "ü" * 2000)
            lease = ObjectRef("coordination.k8s.io/v1", "Lease", "reporting", "afflux")
            recorder.event(LEADER_ELECTION, lease, "one became leader")
            await until(lambda: len(cluster.events("reporting")) == 5)
            await asyncio.sleep(0.6)
            recorder.failed(waits, WHY)
            await recorder.close(30)

    run(test)
    events = {
        (event["regarding"]["name"], event["reason"]): event
        for event in cluster.events("reporting")
    }
    assert len(events) == 5
    failed = events["waits", "FailedScheduling"]
    assert (failed["type"], failed["action"], failed["note"]) == ("Warning", "Scheduling", WHY)
    assert failed["series"]["count"] == 2
    assert failed["reportingController"] == "batch"
    assert events[long_name, "Scheduled"]["metadata"]["name"].startswith("a" * 200)
    # The limit is one of bytes.
    assert len(events[long_name, "FailedScheduling"]["note"].encode()) <= 1024
    assert metrics.registry.get_sample_value("afflux_events_total", {"result": "failed"}) is None
    # What kubectl shows.
    told = cluster.kubectl("describe", "pod", "runs", "-n", "reporting")
    assert "Successfully assigned reporting/runs to n1" in told


# --- Conditions


def test_conditions_say_why_and_leave_bound_pods_alone(
    cluster: ControlPlane, connection: ClientConfig
) -> None:
    (node,) = cluster.create_nodes(1)
    waits, bound, deleted = (pod(cluster, name) for name in ("waits", "bound", "deleted"))
    held = pod(cluster, "held", schedulingGates=[{"name": "example.com/wait"}])
    cluster.bind("bound", node, "reporting")
    cluster.kubectl("delete", "pod", "deleted", "-n", "reporting", "--now")
    recreated = PodRef("reporting", "waits", "the uid of an earlier one")
    # Another client changed the pod since it was read.
    cluster.kubectl("annotate", "pod", "waits", "-n", "reporting", "a=b")
    metrics = Metrics()

    async def test() -> None:
        async with Api(connection) as api:
            conditions = PodConditions(api, metrics, change_interval_seconds=0)
            for ref in (waits, bound, deleted, recreated):
                conditions.write(ref, unschedulable(WHY), None, generation=1)
            # The API server has written the condition itself.
            seen = await asyncio.to_thread(condition, cluster, held)
            known = Condition(seen["status"], seen["reason"], seen["message"])
            conditions.write(held, known, known, generation=1)
            await until(lambda: condition(cluster, waits).get("message") == WHY)
            first = await asyncio.to_thread(condition, cluster, waits)
            await asyncio.sleep(1.1)  # its times are in seconds
            conditions.write(waits, unschedulable("other"), None)
            await until(lambda: condition(cluster, waits).get("message") == "other")
            again = await asyncio.to_thread(condition, cluster, waits)
            assert again["lastTransitionTime"] == first["lastTransitionTime"]
            await conditions.close(30)

    run(test)
    written = condition(cluster, waits)
    assert (written["status"], written["reason"]) == ("False", "Unschedulable")
    assert condition(cluster, bound)["status"] == "True"
    counted = {
        result: metrics.registry.get_sample_value("afflux_conditions_total", {"result": result})
        for result in ("written", "unchanged", "gone", "failed")
    }
    assert counted == {"written": 2, "unchanged": 1, "gone": 3, "failed": None}


# --- Leases


def test_replicas_hand_over_and_survive_a_server_that_dies(
    cluster: ControlPlane, connection: ClientConfig
) -> None:
    terms: list[tuple[str, LeadershipTerm]] = []

    def valid() -> list[str]:
        return [name for name, term in terms if term.remaining_seconds() > 0]

    async def contend(name: str) -> None:
        async def work(term: LeadershipTerm) -> None:
            terms.append((name, term))
            while True:
                assert len(valid()) <= 1
                await asyncio.sleep(0.01)

        async with Api(connection) as api:
            lease = LeaderElection(
                api,
                namespace="reporting",
                name="afflux",
                metrics=Metrics(),
                lease_duration_seconds=5.0,
                renew_deadline_seconds=3.0,
                retry_period_seconds=0.3,
                identity=name,
            )
            while True:
                with suppress(LostLeaseError):
                    await lease.lead(work)

    async def test() -> None:
        tasks = {name: asyncio.create_task(contend(name)) for name in ("one", "two", "three")}
        try:
            await until(lambda: bool(valid()))
            # The leader releases the lease: another replica takes over with the next epoch.
            first = valid()[0]
            tasks.pop(first).cancel()
            await until(lambda: bool(valid()) and valid()[0] != first)
            # The server is away for longer than a term: no replica leads.
            await asyncio.to_thread(kill, cluster.pid("kube-apiserver"), signal.SIGSTOP)
            try:
                await until(lambda: not valid())
                await asyncio.sleep(1)
                assert not valid()
            finally:
                kill(cluster.pid("kube-apiserver"), signal.SIGCONT)
            await until(lambda: bool(valid()))
        finally:
            for task in tasks.values():
                task.cancel()
            await asyncio.wait(tasks.values())

    run(test)
    epochs = [term.epoch for _, term in terms]
    assert epochs == sorted(set(epochs))
    assert len(epochs) >= 3
    path = "/apis/coordination.k8s.io/v1/namespaces/reporting/leases/afflux"
    assert cluster.api.get(path)["spec"]["holderIdentity"] == ""
