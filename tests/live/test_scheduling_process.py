"""The process as its operator sees it: pages, metrics, lease, idling, configuration and errors."""

import json
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from cluster_objects import create, event_of, wait_for_reason, wait_placed
from live_manifests import pod
from scheduler_process import CONFIGURATION, LEASE, NAMESPACE, Scheduler, Schedulers
from shared_scheduler import empty_cluster, running_scheduler
from testbed import ControlPlane
from testbed.processes import cpu_seconds

COMMAND = (sys.executable, "-m", "afflux.cli")
ROOT = Path(__file__).parents[2]

# As in kube-scheduler, so that its dashboards work.
METRICS = {
    "scheduler_schedule_attempts_total",
    "scheduler_scheduling_attempt_duration_seconds",
    "scheduler_scheduling_algorithm_duration_seconds",
    "scheduler_pending_pods",
    "scheduler_pod_scheduling_attempts",
    "scheduler_pod_scheduling_sli_duration_seconds",
    "scheduler_queue_incoming_pods_total",
    "scheduler_preemption_attempts_total",
    "scheduler_preemption_victims",
    "leader_election_master_status",
    "process_cpu_seconds_total",
}


@pytest.fixture(scope="module")
def afflux(
    control_plane: ControlPlane, rights: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scheduler]:
    with running_scheduler(control_plane, rights, tmp_path_factory.mktemp("process")) as process:
        yield process


@pytest.fixture
def cluster(control_plane: ControlPlane, afflux: Scheduler) -> ControlPlane:
    return empty_cluster(control_plane, afflux)


def run(*arguments: str, seconds: float = 60) -> subprocess.CompletedProcess[str]:
    """Run `afflux ...` until it exits."""
    return subprocess.run(
        [*COMMAND, *arguments],
        env={"PYTHONPATH": str(ROOT / "src"), "PATH": "/usr/bin:/bin", "HOME": "/nonexistent"},
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds,
    )


# --- Pages


@pytest.mark.parametrize("page", ["livez", "readyz", "healthz"])
def test_health_pages_are_those_of_kubernetes_components(afflux: Scheduler, page: str) -> None:
    assert afflux.ask(page) == (True, "ok")
    well, verbose = afflux.ask(f"{page}?verbose")
    assert well
    assert "[+]ping ok" in verbose
    assert verbose.endswith(f"{page} check passed\n")


def test_the_configuration_in_effect_is_shown(afflux: Scheduler) -> None:
    shown = json.loads(afflux.ask("configz")[1])["afflux.dev"]
    assert shown["kind"] == "AffluxConfiguration"
    assert shown["leaderElection"]["resourceName"] == LEASE
    assert shown["profiles"] == [
        {
            "schedulerName": "afflux",
            "policies": [{"name": "cpu-memory", "weight": 1, "args": {}}],
            "topologySpread": {"defaultingType": "System", "defaultConstraints": []},
            "preemption": {"enabled": True},
        }
    ]
    assert shown["clientConnection"]["qps"] == 0  # a default


def test_metrics_have_the_names_that_dashboards_use(
    cluster: ControlPlane, afflux: Scheduler
) -> None:
    cluster.create_nodes(1, cpu="1")
    create(cluster, pod("small"), pod("large", cpu="2"))
    create(cluster, pod("gated", schedulingGates=[{"name": "example.com/x"}]))
    wait_placed(cluster, "small")
    wait_for_reason(cluster, "large", "Insufficient cpu")
    _, page = afflux.ask("metrics")
    names = set(re.findall(r"^# TYPE (\S+) ", page, re.MULTILINE))
    assert names >= METRICS
    attempts = "scheduler_schedule_attempts_total"
    assert afflux.metric(attempts, 'profile="afflux",result="scheduled"') >= 1
    assert afflux.metric(attempts, 'profile="afflux",result="unschedulable"') >= 1
    assert afflux.metric("scheduler_pod_scheduling_sli_duration_seconds_count") >= 1
    cluster.wait_until(
        lambda: (
            [
                afflux.metric("scheduler_pending_pods", f'queue="{queue}"')
                for queue in ("active", "unschedulable", "gated")
            ]
            == [0, 1, 1]
        ),
        "the metrics of waiting pods",
    )


# --- Lease


def test_the_lease_names_the_leader(control_plane: ControlPlane, afflux: Scheduler) -> None:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{LEASE}"
    control_plane.wait_until(lambda: bool(afflux.identity), "a candidate")
    control_plane.wait_until(
        lambda: control_plane.api.get(path)["spec"]["holderIdentity"] == afflux.identity, "a leader"
    )
    lease = control_plane.api.get(path)["spec"]
    assert lease["leaseDurationSeconds"] == 90
    assert {"acquireTime", "renewTime", "leaseTransitions"} <= lease.keys()
    assert afflux.metric("leader_election_master_status", f'name="{LEASE}"') == 1
    control_plane.wait_until(
        lambda: control_plane.api.get(path)["spec"]["renewTime"] != lease["renewTime"], "a renewal"
    )


def test_a_deleted_lease_is_created_again(cluster: ControlPlane, afflux: Scheduler) -> None:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
    cluster.api.delete(f"{path}/{LEASE}")
    cluster.wait_until(
        lambda: LEASE in {each["metadata"]["name"] for each in cluster.api.list(path)}, "the lease"
    )
    cluster.create_nodes(1)
    create(cluster, pod("after"))
    wait_placed(cluster, "after")
    afflux.assert_healthy()


# --- Idling


def test_the_process_idles_when_there_is_nothing_to_do(
    cluster: ControlPlane, afflux: Scheduler
) -> None:
    cluster.create_nodes(10)
    create(cluster, pod("placed"), pod("waiting", cpu="1000"))
    wait_placed(cluster, "placed")
    event_of(cluster, "waiting", "FailedScheduling")
    time.sleep(1)
    began, used = time.monotonic(), cpu_seconds(afflux.pid)
    time.sleep(4)
    share = (cpu_seconds(afflux.pid) - used) / (time.monotonic() - began)
    print(f"at rest afflux uses {share:.1%} of a processor")
    assert share < 0.05


# --- Configuration and errors


def test_the_configuration_can_be_printed_and_read_back(tmp_path: Path) -> None:
    first = run("run", "--print-config")
    assert (first.returncode, first.stderr) == (0, "")
    assert yaml.safe_load(first.stdout)["profiles"][0]["schedulerName"] == "afflux"
    file = tmp_path / "config.yaml"
    file.write_text(first.stdout)
    assert run("run", "--print-config", "--config", str(file)).stdout == first.stdout


MISTAKES = {
    "a field that is not known": (
        {"leaderElection": {"leaseDurations": "15s"}},
        ["leaderElection", "leaseDurations", "leaseDuration"],
    ),
    "a policy that is not known": ({"policies": [{"name": "luck"}]}, ["luck", "cpu-memory"]),
    "a duration that is none": ({"leaderElection": {"leaseDuration": "soon"}}, ["soon"]),
    "two profiles of one name": (
        {"profiles": [{"schedulerName": "a"}, {"schedulerName": "a"}]},
        ["schedulerName", "a"],
    ),
    "another kind": ({"kind": "KubeSchedulerConfiguration"}, ["kind", "AffluxConfiguration"]),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_an_error_in_the_configuration_is_explained_in_one_line(
    tmp_path: Path, mistake: str
) -> None:
    section, words = MISTAKES[mistake]
    file = tmp_path / "config.yaml"
    file.write_text(json.dumps({**CONFIGURATION, **section}))
    done = run("run", "--config", str(file), "--kubeconfig", "/nonexistent/kubeconfig")
    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    for word in ("config.yaml", *words):
        assert word in line


def test_a_missing_kubeconfig_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "kubeconfig"
    done = run("run", "--kubeconfig", str(missing))
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert str(missing) in line


def test_a_missing_context_is_named(control_plane: ControlPlane) -> None:
    done = run("run", "--kubeconfig", str(control_plane.kubeconfig), "--context", "production")
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "production" in line


def test_a_port_in_use_is_named(control_plane: ControlPlane, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        file = tmp_path / "config.yaml"
        serving = {"bindAddress": "127.0.0.1", "port": port}
        file.write_text(json.dumps({**CONFIGURATION, "serving": serving}))
        kubeconfig = str(control_plane.kubeconfig)
        done = run("run", "--config", str(file), "--kubeconfig", kubeconfig)
    assert done.returncode == 2
    assert f"serving.port: {port}" in done.stderr.splitlines()[-1]


# --- Credentials and retries


def test_a_client_certificate_is_accepted(cluster: ControlPlane, schedulers: Schedulers) -> None:
    schedulers.make(cluster.kubeconfig).start().assert_healthy()


def test_a_credential_plugin_is_used(
    cluster: ControlPlane, schedulers: Schedulers, tmp_path: Path
) -> None:
    written = yaml.safe_load(schedulers.kubeconfig.read_text())
    credential = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"token": written["users"][0]["user"]["token"]},
    }
    (tmp_path / "credential.json").write_text(json.dumps(credential))
    written["users"][0]["user"] = {
        "exec": {
            "apiVersion": credential["apiVersion"],
            "command": "cat",
            "args": [str(tmp_path / "credential.json")],
            "interactiveMode": "Never",
        }
    }
    file = tmp_path / "kubeconfig"
    file.write_text(json.dumps(written))
    schedulers.make(file).start().assert_healthy()


def test_an_unreachable_server_is_tried_again(
    cluster: ControlPlane, schedulers: Schedulers, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    text = schedulers.kubeconfig.read_text()
    file = tmp_path / "kubeconfig"
    file.write_text(re.sub(r"https://127\.0\.0\.1:\d+", f"https://127.0.0.1:{port}", text))
    process = schedulers.make(file).start(ready=False)
    process.wait_until(
        lambda: bool(process.logged("(node watch: .*; trying again in)")), "a complaint"
    )
    assert process.alive
    process.wait_until(lambda: process.ask("livez") == (True, "ok"), "being alive")
    ready, why = process.ask("readyz")
    assert not ready
    assert "[-]watches failed" in why
    said = process.log.read_text()
    assert "Traceback" not in said
    assert f"127.0.0.1:{port}" in said
    assert process.stop() == 0
