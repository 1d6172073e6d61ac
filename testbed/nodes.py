"""Manifests of machines (Kubernetes nodes)."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from testbed.api import Manifest

KUBELET = "v1.37.1"


def node(
    name: str,
    *,
    index: int = 0,
    cpu: str = "32",
    memory: str = "256Gi",
    pods: int = 110,
    resources: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    taints: Sequence[Mapping[str, str]] = (),
    zones: int = 3,
) -> Manifest:
    """A machine that is Ready from the start, with its whole capacity allocatable."""
    amounts = {
        "cpu": cpu,
        "memory": memory,
        "pods": str(pods),
        "ephemeral-storage": "1Ti",
        **(resources or {}),
    }
    spec: Manifest = {"taints": [dict(taint) for taint in taints]} if taints else {}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                # Otherwise the node lifecycle controller adds these two, with another write.
                "beta.kubernetes.io/os": "linux",
                "beta.kubernetes.io/arch": "amd64",
                "topology.kubernetes.io/region": "testbed",
                "topology.kubernetes.io/zone": f"zone-{index % zones}",
                **(labels or {}),
            },
        },
        "spec": spec,
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": _conditions(),
            "addresses": [
                {"type": "InternalIP", "address": f"10.1.{index // 250 % 250}.{index % 250 + 1}"},
                {"type": "Hostname", "address": name},
            ],
            "nodeInfo": {
                "architecture": "amd64",
                "bootID": "",
                "containerRuntimeVersion": "testbed://1",
                "kernelVersion": "6.0.0",
                "kubeProxyVersion": "",
                "kubeletVersion": KUBELET,
                "machineID": name,
                "operatingSystem": "linux",
                "osImage": "testbed",
                "systemUUID": name,
            },
        },
    }


def _conditions() -> list[Manifest]:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    pressures = {
        "MemoryPressure": "KubeletHasSufficientMemory",
        "DiskPressure": "KubeletHasNoDiskPressure",
        "PIDPressure": "KubeletHasSufficientPID",
    }
    conditions = [
        {"type": kind, "status": "False", "reason": reason, "message": "as good as new"}
        for kind, reason in pressures.items()
    ]
    conditions.append(
        {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "as good as new"}
    )
    return [
        condition | {"lastHeartbeatTime": now, "lastTransitionTime": now}
        for condition in conditions
    ]
