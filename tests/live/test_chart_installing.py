"""The chart on a real API server: its objects are accepted; install, upgrade and uninstall."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from chart_installation import CHART, NAMESPACE, helm, install, render, revoke
from chart_values import ROOT, SETTINGS, STATIC_POD, of_kind
from testbed import ApiError, ControlPlane, Manifest

from afflux.config import read_configuration


def listed(*manifests: Manifest) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests})


def pod_of(deployment: Manifest, namespace: str) -> Manifest:
    """A pod of the Deployment."""
    template = deployment["spec"]["template"]
    metadata = {"name": "afflux-0", "namespace": namespace} | template["metadata"]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


@SETTINGS
def test_the_api_server_accepts_all_objects(cluster: ControlPlane, values: dict[str, Any]) -> None:
    # The CRD of the Prometheus operator is not installed here.
    manifests = [each for each in render(**values) if each["kind"] != "ServiceMonitor"]
    named = {each["metadata"].get("namespace", NAMESPACE) for each in manifests}
    for namespace in (named | {NAMESPACE}) - {"default", "kube-system"}:
        cluster.create_namespace(namespace)
    answer = cluster.kubectl(
        "apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-",
        input=listed(*manifests),
    )  # fmt: skip
    assert len(answer.splitlines()) == len(manifests)


def test_the_pods_pass_the_restricted_pod_security_standard(cluster: ControlPlane) -> None:
    cluster.create_namespace("strict")
    cluster.kubectl("label", "namespace", "strict", "pod-security.kubernetes.io/enforce=restricted")
    install(cluster, "strict")
    pod = pod_of(of_kind(render("strict"), "Deployment"), "strict")
    path = "/api/v1/namespaces/strict/pods"
    cluster.api.create(f"{path}?dryRun=All", pod)
    pod["spec"]["containers"][0]["securityContext"].pop("capabilities")
    with pytest.raises(ApiError, match="violates PodSecurity"):
        cluster.api.create(f"{path}?dryRun=All", pod)


def test_the_static_pod_and_its_configuration_are_accepted(cluster: ControlPlane) -> None:
    cluster.kubectl(
        "apply", "--server-side", "--dry-run=server", "--validate=strict",
        "-f", str(STATIC_POD / "afflux.yaml"),
    )  # fmt: skip
    pod = yaml.safe_load((STATIC_POD / "afflux.yaml").read_text())
    settings = read_configuration(str(STATIC_POD / "config.yaml"))
    assert "default-scheduler" in {profile.scheduler_name for profile in settings.profiles}
    (container,) = pod["spec"]["containers"]
    mounted = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert settings.client_connection.kubeconfig in mounted
    assert container["livenessProbe"]["httpGet"]["port"] == settings.serving.port


def test_afflux_can_be_the_default_scheduler_of_a_namespace(cluster: ControlPlane) -> None:
    policy = ("--server-side", "-f", str(ROOT / "deploy" / "namespaces.yaml"))
    cluster.create_namespace("given")
    cluster.create_namespace("kept")
    cluster.kubectl("label", "namespace", "given", "afflux.dev/scheduler=afflux")

    def scheduler(namespace: str, **spec: str) -> str:
        """The scheduler name that a new pod gets in this namespace."""
        pod: Manifest = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "new"},
            "spec": {"containers": [{"name": "main", "image": "testbed.invalid/nothing"}], **spec},
        }
        path = f"/api/v1/namespaces/{namespace}/pods?dryRun=All"
        return cluster.api.create(path, pod)["spec"]["schedulerName"]

    cluster.kubectl("apply", *policy)
    try:
        cluster.wait_until(lambda: scheduler("given") == "afflux", "the policy to be in force")
        assert scheduler("given", schedulerName="another") == "another"
        assert scheduler("kept") == "default-scheduler"
    finally:
        cluster.kubectl("delete", "-f", policy[-1])


def test_the_chart_is_installed_spread_upgraded_and_removed(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    cluster.create_nodes(3)
    cluster.start_scheduler()
    revoke(cluster)  # helm does not adopt objects that it did not create
    connection = ("--kubeconfig", str(cluster.kubeconfig), "--namespace", NAMESPACE)
    wait = ("--wait", "--timeout", "120s")
    two = ("--set", "replicas=2,config.ledger.enabled=false")

    def running() -> list[Manifest]:
        return [
            pod
            for pod in cluster.pods(NAMESPACE)
            if pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]
        ]

    helm("install", "afflux", str(CHART), *connection, "--create-namespace", *two, *wait)
    first = running()
    assert len(first) == len({pod["spec"]["nodeName"] for pod in first}) == 2
    assert all(pod["spec"]["priority"] == 2_000_000_000 for pod in first)

    # One of the two may be evicted, but not both.
    budget = f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets/afflux"
    cluster.wait_until(
        lambda: cluster.api.get(budget)["status"].get("disruptionsAllowed") == 1,
        "the budget to know its pods",
    )

    values = tmp_path / "values.yaml"
    values.write_text(json.dumps({"config": {"strategy": "fcfs"}}))
    helm("upgrade", "afflux", str(CHART), *connection, *two, "--values", str(values), *wait)
    cluster.wait_until(lambda: len(running()) == 2, "two pods to be left")
    assert not {pod["metadata"]["uid"] for pod in running()} & {
        pod["metadata"]["uid"] for pod in first
    }

    helm("uninstall", "afflux", *connection, *wait)
    cluster.wait_until(lambda: not cluster.pods(NAMESPACE), "the pods to go")
    left = cluster.kubectl(
        "get", "clusterroles,clusterrolebindings,roles,rolebindings,configmaps,services,pdb,sa",
        "-A", "-l", "app.kubernetes.io/instance=afflux", "-o", "name",
    )  # fmt: skip
    assert left == ""
