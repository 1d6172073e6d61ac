"""Small objects of disk IO to write tests with."""

import json
from typing import Any

import msgspec
from manifests import Manifest

from afflux.kube import objects

MI = 2**20
THROUGHPUT = "blockio.kubernetes.io/throughput"
RESOURCES = "blockio.kubernetes.io/resources"


def left(total: float, read: float | None = None, write: float | None = None) -> Manifest:
    """What a disk has left, as the typed form of the KEP states it."""
    read, write = (total if each is None else each for each in (read, write))
    return {"name": "/dev/sda", "status": {"total": total, "read": read, "write": write}}


def disk_info(
    node: str = "n1",
    disks: Manifest | None = None,
    *,
    generation: int | None = 1,
    observed: int | None = 1,
    reserved: Any = (),
    name: str | None = None,
    **metadata: Any,
) -> Manifest:
    """The NodeDiskIOInfo of a node; without disks it has no status."""
    status: Manifest = {"observedGeneration": observed, "allocatableBandwidth": disks}
    return {
        "apiVersion": "ioi.intel.com/v1",
        "kind": "NodeDiskIOInfo",
        "metadata": {
            "name": name or node,
            "namespace": "afflux-system",
            "uid": f"uid-{name or node}",
            **({} if generation is None else {"generation": generation}),
            **metadata,
        },
        "spec": {"nodeName": node, "reservedPods": list(reserved)},
        **({} if disks is None else {"status": status}),
    }


def read_info(manifest: Manifest) -> objects.NodeDiskIOInfo:
    return msgspec.json.decode(json.dumps(manifest), type=objects.NodeDiskIOInfo)


def stating(value: object, annotation: str = THROUGHPUT) -> Manifest:
    """The metadata of a pod that states this."""
    text = value if isinstance(value, str) else json.dumps(value)
    return {"name": "io", "namespace": "default", "annotations": {annotation: text}}
