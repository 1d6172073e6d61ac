"""The testbed itself: real parts that behave as a cluster's do."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from testbed import ApiError, ControlPlane, Manifest, verdict
from testbed.api import STRATEGIC
from testbed.building import KUBERNETES_VERSION
from testbed.nodes import node

NO_SCHEDULER = "none"  # no such scheduler: tests bind these pods themselves


def pod(name: str, scheduler: str = NO_SCHEDULER, **spec: Any) -> Manifest:
    container = {"name": "main", "image": "testbed.invalid/nothing"}
    resources = {"requests": {"cpu": "100m", "memory": "64Mi"}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": {}},
        "spec": {"schedulerName": scheduler, "containers": [container | {"resources": resources}]}
        | spec,
    }


def phase(cluster: ControlPlane, name: str) -> str:
    return cluster.pod(name)["status"]["phase"]


def gone(cluster: ControlPlane, name: str) -> bool:
    return name not in {pod["metadata"]["name"] for pod in cluster.pods()}


def test_the_versions_of_server_and_kubectl_agree(cluster: ControlPlane) -> None:
    assert cluster.api.get("/version")["gitVersion"] == KUBERNETES_VERSION
    printed = cluster.kubectl("version")
    assert f"Client Version: {KUBERNETES_VERSION}" in printed
    assert f"Server Version: {KUBERNETES_VERSION}" in printed


@pytest.mark.parametrize("known", [False, True], ids=["anonymous", "service account"])
def test_requests_without_a_role_are_refused(cluster: ControlPlane, known: bool) -> None:
    token = cluster.service_account_token("default", "default") if known else None
    api = cluster.api_with_token(token)
    try:
        for path in ("/api/v1/pods", "/api/v1/nodes", "/api/v1/namespaces/default/secrets"):
            with pytest.raises(ApiError) as refusal:
                api.get(path)
            assert refusal.value.status == 403
    finally:
        api.close()


def test_a_kubeconfig_of_a_service_account_has_exactly_its_rights(cluster: ControlPlane) -> None:
    cluster.create_namespace("rights")
    cluster.kubectl("create", "serviceaccount", "reader", "-n", "rights")
    cluster.kubectl("create", "role", "reader", "-n", "rights", "--verb=list", "--resource=pods")
    cluster.kubectl(
        "create", "rolebinding", "reader", "-n", "rights", "--role=reader",
        "--serviceaccount=rights:reader",
    )  # fmt: skip
    config = cluster.service_account_kubeconfig("rights", "reader")
    can = ("--kubeconfig", str(config), "auth", "can-i", "-n", "rights")
    assert cluster.kubectl(*can, "list", "pods").strip() == "yes"
    assert cluster.kubectl(*can, "delete", "pods", check=False).strip() == "no"


def test_a_bound_pod_runs_and_ends(cluster: ControlPlane) -> None:
    (machine,) = cluster.create_nodes(1)
    short = pod("short")
    short["metadata"]["annotations"] = {"testbed.afflux.dev/run-seconds": "1"}
    cluster.create_pods([short, pod("long"), pod("late", activeDeadlineSeconds=1)])
    assert phase(cluster, "short") == "Pending"
    for name in ("short", "long", "late"):
        cluster.bind(name, machine)
    cluster.wait_until(lambda: phase(cluster, "short") == "Succeeded", "the short pod's end")
    cluster.wait_until(lambda: phase(cluster, "late") == "Failed", "the late pod's end")
    cluster.wait_until(lambda: phase(cluster, "long") == "Running", "the long pod's start")
    status = cluster.pod("long")["status"]
    conditions = {item["type"]: item["status"] for item in status["conditions"]}
    assert conditions["PodScheduled"] == conditions["Ready"] == "True"
    assert status["containerStatuses"][0]["state"]["running"]["startedAt"]
    assert status["startTime"]
    assert cluster.pod("late")["status"]["reason"] == "DeadlineExceeded"
    ending = cluster.pod("short")["status"]["containerStatuses"][0]["state"]["terminated"]
    assert ending["exitCode"] == 0


def test_a_deleted_pod_vanishes_from_its_machine(cluster: ControlPlane) -> None:
    (machine,) = cluster.create_nodes(1)
    cluster.create_pods([pod("doomed")])
    cluster.bind("doomed", machine)
    cluster.wait_until(lambda: phase(cluster, "doomed") == "Running", "the pod's start")
    cluster.api.delete("/api/v1/namespaces/default/pods/doomed")  # with a grace of 30 s
    cluster.wait_until(lambda: gone(cluster, "doomed"), "the pod's end", seconds=25)


@pytest.mark.parametrize("stated", ["preStop hook", "annotation"])
def test_a_deleted_pod_takes_its_time_to_stop(cluster: ControlPlane, stated: str) -> None:
    (machine,) = cluster.create_nodes(1)
    slow = pod("slow", terminationGracePeriodSeconds=900)
    if stated == "annotation":
        slow["metadata"]["annotations"] = {"testbed.afflux.dev/stop-seconds": "600"}
    else:
        slow["spec"]["containers"][0]["lifecycle"] = {"preStop": {"sleep": {"seconds": 600}}}
    brief = pod("brief", terminationGracePeriodSeconds=1)
    brief["metadata"]["annotations"] = {"testbed.afflux.dev/stop-seconds": "600"}
    cluster.create_pods([slow, brief, pod("quick")])
    names = ("slow", "brief", "quick")
    for name in names:
        cluster.bind(name, machine)
    cluster.wait_until(lambda: {phase(cluster, name) for name in names} == {"Running"}, "the start")
    for name in names:
        cluster.api.delete(f"/api/v1/namespaces/default/pods/{name}")
    cluster.wait_until(lambda: gone(cluster, "quick"), "the end of a pod that stops at once")
    cluster.wait_until(lambda: gone(cluster, "brief"), "the end of the grace period")
    assert cluster.pod("slow")["metadata"]["deletionTimestamp"]


def test_a_pod_that_was_created_with_its_machine_runs_and_counts_as_scheduled(
    cluster: ControlPlane,
) -> None:
    (machine,) = cluster.create_nodes(1)
    cluster.create_pods([pod("static", nodeName=machine)])
    cluster.wait_until(lambda: phase(cluster, "static") == "Running", "the pod's start")
    conditions = {item["type"]: item for item in cluster.pod("static")["status"]["conditions"]}
    assert conditions["PodScheduled"]["status"] == "True"


def test_an_extended_resource_that_is_added_to_a_machine_becomes_allocatable(
    cluster: ControlPlane,
) -> None:
    (machine,) = cluster.create_nodes(1)
    added = {"status": {"capacity": {"example.com/disk": "7"}}}
    cluster.api.patch(f"/api/v1/nodes/{machine}/status", added, STRATEGIC)

    def allocatable() -> dict[str, str]:
        return cluster.nodes()[0]["status"]["allocatable"]

    cluster.wait_until(lambda: "example.com/disk" in allocatable(), "the allocatable resource")
    assert allocatable()["example.com/disk"] == "7"
    assert allocatable()["cpu"] == "32"


def test_a_pod_on_a_machine_that_is_not_there_does_not_run(cluster: ControlPlane) -> None:
    cluster.create_nodes(1)
    cluster.create_pods([pod("early"), pod("present")])
    cluster.bind("early", "ghost-0000")
    cluster.bind("present", "node-0000")
    cluster.wait_until(lambda: phase(cluster, "present") == "Running", "the other pod's start")
    assert phase(cluster, "early") == "Pending"
    cluster.create_nodes(1, prefix="ghost")
    cluster.wait_until(lambda: phase(cluster, "early") == "Running", "the pod's start")


def test_a_machine_that_is_not_ready_is_tainted_as_in_a_cluster(cluster: ControlPlane) -> None:
    (machine,) = cluster.create_nodes(1)
    assert "taints" not in cluster.nodes()[0]["spec"]
    condition = {"type": "Ready", "status": "False", "reason": "KubeletNotReady"}
    cluster.api.patch(
        f"/api/v1/nodes/{machine}/status", {"status": {"conditions": [condition]}}, STRATEGIC
    )

    def keys() -> set[str]:
        return {taint["key"] for taint in cluster.nodes()[0]["spec"].get("taints", [])}

    cluster.wait_until(lambda: "node.kubernetes.io/not-ready" in keys(), "the taint")


@pytest.mark.parametrize("part", ["kube-apiserver", "etcd"])
def test_written_objects_survive_a_kill(cluster: ControlPlane, part: str) -> None:
    (machine,) = cluster.create_nodes(1)
    cluster.create_pods([pod("kept")])
    url = cluster.url
    cluster.kill(part)
    cluster.restart(part)
    assert cluster.url == url
    cluster.wait_until(lambda: answers(cluster), "the API server")
    assert [item["metadata"]["name"] for item in cluster.nodes()] == [machine]
    cluster.bind("kept", machine)
    cluster.wait_until(lambda: phase(cluster, "kept") == "Running", "the pod's start")


def answers(cluster: ControlPlane) -> bool:
    try:
        cluster.nodes()
    except (ApiError, OSError):
        return False
    return True


def test_the_peer_schedules(cluster: ControlPlane) -> None:
    cluster.create_nodes(3)
    cluster.start_scheduler(client_qps=-1)
    names = [f"plain-{index}" for index in range(20)]
    cluster.create_pods([pod(name, "default-scheduler") for name in names])
    expected = [f"default/{name}" for name in names]
    cluster.wait_until(lambda: not verdict.lost(cluster.pods(), expected), "all to be bound")
    sound = verdict.assert_sound(cluster, expected)
    assert {binding.user for binding in sound.bindings} == {"system:kube-scheduler"}
    assert len(sound.bindings) == len(names)
    cluster.wait_until(
        lambda: {item["status"]["phase"] for item in cluster.pods()} == {"Running"}, "all to run"
    )


def claim_and_class(cluster: ControlPlane) -> None:
    cluster.api.create(
        "/apis/storage.k8s.io/v1/storageclasses",
        {
            "metadata": {"name": "disk"},
            "provisioner": "testbed.afflux.dev/disk",
            "volumeBindingMode": "WaitForFirstConsumer",
        },
    )
    cluster.api.create(
        "/api/v1/namespaces/default/persistentvolumeclaims",
        {
            "metadata": {"name": "data"},
            "spec": {
                "storageClassName": "disk",
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            },
        },
    )


def test_a_claim_gets_its_volume_when_its_machine_is_chosen(cluster: ControlPlane) -> None:
    machines = cluster.create_nodes(2)
    claim_and_class(cluster)
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    cluster.create_pods([pod("writer", volumes=volumes)])
    path = "/api/v1/namespaces/default/persistentvolumeclaims/data"
    cluster.bind("writer", machines[1])
    assert cluster.api.get(path)["status"]["phase"] == "Pending"
    cluster.api.patch(
        path, {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": machines[1]}}}
    )
    cluster.wait_until(lambda: cluster.api.get(path)["status"]["phase"] == "Bound", "the volume")
    (volume,) = cluster.api.list("/api/v1/persistentvolumes")
    terms = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert terms[0]["matchExpressions"][0]["values"] == [machines[1]]
    cluster.wait_until(lambda: phase(cluster, "writer") == "Running", "the pod's start")
    cluster.delete_everything()
    assert cluster.api.list("/api/v1/persistentvolumes") == []


def test_delete_everything_leaves_no_objects(cluster: ControlPlane) -> None:
    (machine,) = cluster.create_nodes(1)
    cluster.create_namespace("work")
    cluster.kubectl("create", "deployment", "web", "-n", "work", "--image=none", "--replicas=3")
    cluster.kubectl("create", "configmap", "mine", "-n", "work")
    cluster.kubectl("create", "priorityclass", "urgent", "--value=10")
    cluster.wait_until(lambda: len(cluster.pods("work")) == 3, "the deployment's pods")
    cluster.create_pods([pod("bound"), pod("waiting")])
    cluster.bind("bound", machine)
    cluster.delete_everything()
    assert cluster.pods() == cluster.nodes() == []
    namespaces = {item["metadata"]["name"] for item in cluster.api.list("/api/v1/namespaces")}
    assert "work" not in namespaces
    # The content was deleted with the namespace: it does not come back with the name.
    cluster.kubectl("create", "namespace", "work")
    assert "mine" not in cluster.kubectl("get", "configmaps", "-n", "work")
    assert verdict.bindings(cluster) == []


# --- The verdict detects violations


def test_a_machine_over_its_capacity_is_seen(cluster: ControlPlane) -> None:
    (machine,) = cluster.create_nodes(1, cpu="150m", pods=5)
    cluster.create_pods([pod("one"), pod("two"), pod("three")])
    for name in ("one", "two"):
        cluster.bind(name, machine)
    told = {"type": "PodScheduled", "status": "False", "message": "no room"}
    path = "/api/v1/namespaces/default/pods/three/status"
    cluster.api.patch(path, {"status": {"conditions": [told]}}, STRATEGIC)
    found = verdict.verify(cluster, ["default/one", "default/three", "default/four"])
    (crowded,) = found.over_capacity
    assert "node-0000" in crowded
    assert "cpu" in crowded
    assert found.lost == ["pod default/three is not bound: no room", "pod default/four is gone"]
    with pytest.raises(AssertionError, match="over its capacity"):
        verdict.assert_sound(cluster)


def test_a_second_binding_is_refused_and_seen(cluster: ControlPlane) -> None:
    machines = cluster.create_nodes(2)
    cluster.create_pods([pod("wanted")])
    cluster.bind("wanted", machines[0])
    with pytest.raises(ApiError) as refusal:
        cluster.bind("wanted", machines[1])
    assert refusal.value.status == 409
    found = verdict.verify(cluster)
    assert found.bound_twice == []
    (refused,) = found.refused
    assert (refused.pod, refused.node, refused.code) == ("wanted", machines[1], 409)
    granted = [binding for binding in found.bindings if binding.bound]
    assert verdict.bound_twice([*granted, *granted]) == [
        f"pod default/wanted was bound 2 times: to {machines[0]} by admin at {granted[0].at}, "
        f"to {machines[0]} by admin at {granted[0].at}"
    ]


def test_requests_are_added_up_as_the_api_server_documents() -> None:
    def container(cpu: str, **more: str) -> Manifest:
        return {"name": "c", "resources": {"requests": {"cpu": cpu}}, **more}

    heavy = node("n", cpu="2900m", memory="1Gi")
    spec: Manifest = {
        "nodeName": "n",
        "containers": [container("1"), container("500m")],
        "initContainers": [container("200m", restartPolicy="Always"), container("2.5")],
        "overhead": {"cpu": "250m"},
    }
    (complaint,) = verdict.over_capacity([heavy], [{"spec": spec}])
    assert "2.950 of cpu, it has 2.900" in complaint
    spec["initContainers"][1] = container("2.4")
    assert verdict.over_capacity([heavy], [{"spec": spec}]) == []
    assert verdict.over_capacity([heavy], [{"spec": spec, "status": {"phase": "Failed"}}]) == []


# --- No processes are left behind


def test_a_killed_test_process_leaves_no_orphans(tmp_path: Path) -> None:
    script = (
        "import sys, time; from testbed import ControlPlane\n"
        f"plane = ControlPlane(directory=__import__('pathlib').Path({str(tmp_path)!r})).start()\n"
        "names = ('etcd', 'kube-apiserver', 'kube-controller-manager', 'machines')\n"
        "print(*(plane.pid(name) for name in names), flush=True); time.sleep(600)"
    )
    root = Path(__file__).parents[2]
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, cwd=root
    ) as process:
        assert process.stdout
        pids = [int(pid) for pid in process.stdout.readline().split()]
        assert len(pids) == 4
        assert all(alive(pid) for pid in pids)
        process.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 30
    while any(alive(pid) for pid in pids) or list(tmp_path.iterdir()):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # The process that inherits an orphan may reap it late.
    return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
