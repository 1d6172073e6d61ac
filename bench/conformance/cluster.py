"""The cluster of the suite: four machines in two zones, with the system pods that it looks for."""

from collections.abc import Generator
from contextlib import contextmanager

from testbed import ControlPlane, Manifest
from testbed.components import Options

NODES = 4
ZONES = 2
# The suite waits a minute before most specs if a machine has no running pod with such a name.
SYSTEM_PODS = ("kube-proxy", "fluentd-elasticsearch", "node-problem-detector")
# For the specs of pod groups.
OPTIONS = Options(
    audit=False,
    runtime_config={"scheduling.k8s.io/v1beta1": "true"},
    feature_gates={"GenericWorkload": True},
)


@contextmanager
def running_cluster() -> Generator[ControlPlane]:
    """A fresh control plane with its machines; no scheduler runs."""
    with ControlPlane(options=OPTIONS) as plane:
        plane.wait_for_account("kube-system")
        for machine in plane.create_nodes(NODES, zones=ZONES):
            _start_system_pods(plane, machine)
        yield plane


def _start_system_pods(plane: ControlPlane, machine: str) -> None:
    pods = [_system_pod(f"{name}-{machine}") for name in SYSTEM_PODS]
    for pod in plane.create_pods(pods):
        # Bound, as the pods of a DaemonSet are.
        plane.bind(pod["metadata"]["name"], machine, "kube-system")


def _system_pod(name: str) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "kube-system"},
        "spec": {
            # No scheduler takes it before it is bound.
            "schedulerName": "none",
            "priorityClassName": "system-node-critical",
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "main", "image": "none"}],
        },
    }
