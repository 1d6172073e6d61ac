"""Host ports of pods, as kube-scheduler counts them."""

from typing import Any

import pytest
from manifests import inventory, only_task, pod

from afflux.model.implied import HostPort, port_requests


def asked(**spec: Any) -> dict[str, int]:
    """What the pod asks for in ports."""
    task = only_task(pod(**spec))
    assert task.blocked is None
    return {name: n for name, n in task.shape.requests if name.startswith("port/")}


def ports(*stated: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"name": "main", "ports": list(stated)}]


TCP80 = port_requests([HostPort("TCP", 80)])
EVERY_ADDRESS = ".".join(4 * ["0"])


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"containers": ports({"containerPort": 80})}, []),
        ({"containers": ports({"containerPort": 80, "hostPort": 0})}, []),
        ({"containers": ports({"hostPort": 80})}, [HostPort("TCP", 80)]),
        ({"containers": ports({"hostPort": 80, "protocol": ""})}, [HostPort("TCP", 80)]),
        ({"containers": ports({"hostPort": 80, "hostIP": ""})}, [HostPort("TCP", 80)]),
        ({"containers": ports({"hostPort": 80, "hostIP": EVERY_ADDRESS})}, [HostPort("TCP", 80)]),
        ({"containers": ports({"hostPort": 80, "hostIP": "::"})}, [HostPort("TCP", 80, "::")]),
        (
            {"containers": ports({"hostPort": 53, "hostIP": "10.0.0.1", "protocol": "UDP"})},
            [HostPort("UDP", 53, "10.0.0.1")],
        ),
        (
            {"containers": ports({"containerPort": 80}), "hostNetwork": True},
            [HostPort("TCP", 80)],
        ),
        (
            {"containers": ports({"containerPort": 80, "hostPort": 81}), "hostNetwork": True},
            [HostPort("TCP", 81)],
        ),
        (
            {"initContainers": [{"restartPolicy": "Always", "ports": [{"hostPort": 9}]}]},
            [HostPort("TCP", 9)],
        ),
        ({"initContainers": [{"ports": [{"hostPort": 9}]}]}, []),
        (
            {"containers": ports({"hostPort": 80}, {"hostPort": 443}, {"hostPort": 80})},
            [HostPort("TCP", 443), HostPort("TCP", 80)],
        ),
    ],
)
def test_the_ports_a_pod_takes(spec: dict[str, Any], expected: list[HostPort]) -> None:
    assert asked(**spec) == port_requests(expected)


def test_running_pods_keep_their_ports() -> None:
    manifest = pod(nodeName="n1", containers=ports({"hostPort": 80}))
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
    ((task, machine),) = inventory(node, manifest).running
    assert machine == "n1"
    assert dict(task.shape.requests).items() >= TCP80.items()
