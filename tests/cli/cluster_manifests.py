"""Nodes and pods as `kubectl get -o json` prints them."""

import json
from pathlib import Path
from typing import Any

Manifest = dict[str, Any]


def node(
    name: str, cpu: str = "4", memory: str = "8Gi", pods: str = "110", **more: Any
) -> Manifest:
    """A node; keywords are further resources, or `labels`, `taints`, `unschedulable`."""
    labels = more.pop("labels", {})
    spec = {key: more.pop(key) for key in ("taints", "unschedulable") if key in more}
    allocatable = {"cpu": cpu, "memory": memory, "pods": pods, **more.pop("extended", {})}
    assert not more
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
        "status": {"allocatable": allocatable},
    }


def pod(name: str, cpu: str = "1", memory: str = "1Gi", **spec: Any) -> Manifest:
    """A pending pod; with `on` it runs on that node."""
    labels = spec.pop("labels", {})
    extended = spec.pop("extended", {})
    status = {"phase": "Pending"}
    if on := spec.pop("on", None):
        spec["nodeName"] = on
        status = {"phase": "Running"}
    requests = {"cpu": cpu, "memory": memory, **extended}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "shop", "labels": labels},
        "spec": {"containers": [{"name": "main", "resources": {"requests": requests}}], **spec},
        "status": status,
    }


def gang(name: str, size: int, **spec: Any) -> list[Manifest]:
    labels = {"afflux.dev/group-name": name, "afflux.dev/group-size": str(size)}
    return [pod(f"{name}-{i}", labels=labels, **spec) for i in range(size)]


def listed(*items: Manifest) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(items)})


def write(path: Path, *items: Manifest) -> Path:
    """Write a file as `kubectl get nodes,pods -A -o json` does."""
    path.write_text(listed(*items))
    return path
