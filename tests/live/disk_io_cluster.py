"""A real control plane with nodes whose kernels are directories, for the IO driver."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from chart_installation import NAMESPACE, install
from scheduler_process import AffluxProcess, ProcessGroup
from testbed import ControlPlane, Manifest

from afflux.diskio.driver_identity import AUDIENCE
from fake_kernel import FakeKernel

OBJECTS = f"/apis/ioi.intel.com/v1/namespaces/{NAMESPACE}/nodediskioinfos"
PODS = "/api/v1/namespaces/default/pods"
DRIVER, AGGREGATOR = "afflux-disk-io-driver", "afflux-disk-io-aggregator"
DISK = "V_1"
MIB = 1 << 20
PROFILE = {
    "kind": "DiskProfile",
    "model": "v/m",
    "read": {"4k": 100 * MIB, "32k": 400 * MIB},
    "write": {"4k": 100 * MIB, "32k": 400 * MIB},
    "total": 500 * MIB,
}
CAPACITY = {"read": 400.0 * MIB, "write": 400.0 * MIB, "total": 500.0 * MIB}
# Long: what happens at once does not wait for it.
LONG = ("--interval", "3600")


class DiskIOCluster(ProcessGroup):
    """Starts drivers and aggregators with the rights of the chart; ends them after the test."""

    def __init__(self, plane: ControlPlane, directory: Path, *, aggregated: bool = False) -> None:
        super().__init__(directory)
        self.plane = plane
        self.kernels: dict[str, FakeKernel] = {}
        self._profile = directory / "profile.json"
        self._profile.write_text(json.dumps(PROFILE))
        values: dict[str, Any] = {"driver": {"enabled": True}}
        if aggregated:
            values["aggregator"] = {"enabled": True}
        self.kubeconfig = install(plane, account=DRIVER, diskIO=values)

    # --- Processes

    def driver(self, node: str, *arguments: str) -> AffluxProcess:
        """The driver of a node with a disk, not started."""
        if node not in self.kernels:
            kernel = FakeKernel(self._directory / f"kernel-{node}")
            kernel.add_disk("sda", "8:0", device__vendor="V", device__model="m", serial="1")
            self.kernels[node] = kernel
        kernel = self.kernels[node]
        return self._process(
            [
                "diskio", "driver", "--node", node, "--device", "sda",
                "--model", f"{DISK}=v/m", "--profile", str(self._profile),
                "--proc", str(kernel.proc), "--sys", str(kernel.sys),
                "--cgroup-root", str(kernel.cgroup),
                "--sample-interval", "0.1", "--window", "1", "--interval", "0.3",
                *self._common(self.kubeconfig), *arguments,
            ]
        )  # fmt: skip

    def aggregator(self, *arguments: str) -> AffluxProcess:
        """An aggregator, not started."""
        kubeconfig = self.plane.service_account_kubeconfig(NAMESPACE, AGGREGATOR)
        return self._process(["diskio", "aggregator", *self._common(kubeconfig), *arguments])

    def _process(self, arguments: Sequence[str]) -> AffluxProcess:
        made = AffluxProcess(arguments, self._next_directory(), self._reaper)
        self._processes.append(made)
        return made

    def _common(self, kubeconfig: Path) -> list[str]:
        return [
            "--kubeconfig", str(kubeconfig), "--namespace", NAMESPACE,
            "--address", "127.0.0.1", "--port", "0",
        ]  # fmt: skip

    def driver_token(self) -> Path:
        """A token of the drivers' account that is good for the aggregator only."""
        path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{DRIVER}/token"
        spec = {"audiences": [AUDIENCE], "expirationSeconds": 3600}
        answer = self.plane.api.create(
            path,
            {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec},
        )
        file = self._directory / "token"
        file.write_text(answer["status"]["token"])
        return file

    # --- Objects

    def pod(self, name: str, node: str, request: Mapping[str, str] | None = None) -> str:
        """A pod on a node, with its cgroup; returns its uid."""
        annotations = {}
        if request is not None:
            annotations["blockio.kubernetes.io/throughput"] = json.dumps(request)
        made = self.plane.api.create(
            PODS,
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name, "annotations": annotations},
                "spec": {
                    "nodeName": node,
                    "containers": [{"name": "main", "image": "none"}],
                    # Nothing runs: deleting it waits for no container.
                    "terminationGracePeriodSeconds": 0,
                },
            },
        )
        uid = made["metadata"]["uid"]
        self.kernels[node].add_pod(uid, "besteffort")
        return uid

    def reserve(self, node: str, *uids: str) -> int:
        """Writes the list of reserved pods, as the scheduler does; returns its generation."""
        body = {"spec": {"reservedPods": list(uids)}}
        return self.plane.api.patch(f"{OBJECTS}/{node}", body)["metadata"]["generation"]

    def info(self, node: str) -> Manifest:
        """The object of a node; empty if there is none."""
        found = [e for e in self.plane.api.list(OBJECTS) if e["metadata"]["name"] == node]
        return found[0] if found else {}

    def observed(self, node: str) -> int | None:
        """The generation that the driver has answered."""
        return self.info(node).get("status", {}).get("observedGeneration")

    def left(self, node: str) -> dict[str, float]:
        """What the disk of a node has left."""
        return self.info(node)["status"]["allocatableBandwidth"][DISK]["status"]


def less(**taken: float) -> dict[str, float]:
    """What is left of the disk."""
    total = sum(taken.values())
    return {
        name: CAPACITY[name] - (total if name == "total" else taken.get(name, 0))
        for name in CAPACITY
    }
