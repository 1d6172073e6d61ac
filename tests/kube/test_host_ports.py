"""Host ports of pods, as kube-scheduler counts them."""

import json
from typing import Any

import msgspec
import pytest
from manifests import inventory, only_task, pod

from afflux.kube import objects
from afflux.kube.pods import task
from afflux.model.implied_resources import HostPort, port_requests
from afflux.model.task import Task


def asked(**spec: Any) -> dict[str, int]:
    """The port requests of the pod."""
    found = only_task(pod(**spec))
    assert found.blocked is None
    return {name: n for name, n in found.shape.requests if name.startswith("port/")}


def running(**spec: Any) -> Task:
    """A pod with a node."""
    found = json.dumps(pod(nodeName="n", **spec))
    return task(msgspec.json.decode(found, type=objects.Pod))


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
        ({"containers": ports({"containerPort": 80}), "hostNetwork": True}, [HostPort("TCP", 80)]),
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
def test_host_ports_of_a_pod(spec: dict[str, Any], expected: list[HostPort]) -> None:
    assert asked(**spec) == port_requests(expected)


def test_running_pods_keep_their_ports() -> None:
    manifest = pod(nodeName="n1", containers=ports({"hostPort": 80}))
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
    ((task, machine),) = inventory(node, manifest).running
    assert machine == "n1"
    assert dict(task.shape.requests).items() >= TCP80.items()


def test_a_pending_pod_with_too_many_ports_waits() -> None:
    many = [{"hostPort": number} for number in range(1, 5001)]
    found = only_task(pod(containers=ports(*many)))
    assert found.blocked == "spec.containers[*].ports: 5000 host ports, expected at most 128"
    assert len(found.shape.requests) < 10
    assert len(asked(containers=ports(*many[:128]))) == 128
    assert len(asked(containers=ports(*many[:128], *many[:128]))) == 128


def test_only_the_allowed_number_of_ports_of_a_running_pod_counts() -> None:
    many = [{"hostPort": number} for number in range(1, 5001)]
    found = running(containers=ports(*many)).shape.requests
    assert sum(name.startswith("port/") for name, _ in found) == 128


def test_a_pending_pod_with_too_many_resources_waits() -> None:
    many = {f"example.com/r{number}": "1" for number in range(300)} | {"cpu": "2"}
    found = only_task(pod(containers=[{"name": "c", "resources": {"requests": many}}]))
    assert found.blocked == (
        "spec.containers[*].resources: 302 different resources, expected at most 64"
    )
    there = running(containers=[{"name": "c", "resources": {"requests": many}}])
    assert there.blocked is None
    assert dict(there.shape.requests)["cpu"] == 2000
    assert len(there.shape.requests) == 66
