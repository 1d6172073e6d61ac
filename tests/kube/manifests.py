"""Small Kubernetes objects to write tests with."""

import json
from typing import Any

from afflux.kube.cluster_snapshot import ClusterSnapshot, load
from afflux.model.task import Task

Manifest = dict[str, Any]


def node(name: str = "n1", **fields: Any) -> Manifest:
    allocatable = fields.pop("allocatable", {"cpu": "8", "memory": "32Gi", "pods": "110"})
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": fields.pop("labels", {})},
        "spec": fields.pop("spec", {}),
        "status": {"allocatable": allocatable, **fields},
    }


def pod(name: str = "web", *, metadata: Manifest | None = None, **spec: Any) -> Manifest:
    """A pending pod with one container; keywords are fields of its spec."""
    requests = spec.pop("requests", {"cpu": "1"})
    status = spec.pop("status", {"phase": "Pending"})
    labels = spec.pop("labels", {})
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": labels, **(metadata or {})},
        "spec": {"containers": [{"name": "main", "resources": {"requests": requests}}], **spec},
        "status": status,
    }


def pod_group(name: str, minimum: int | None) -> Manifest:
    return {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"minMember": minimum},
    }


def native_group(name: str, **spec: Any) -> Manifest:
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }


def as_list(*items: Any) -> bytes:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(items)}).encode()


def inventory(*items: Any) -> ClusterSnapshot:
    """The snapshot of one JSON list of these objects."""
    return load([("cluster.json", as_list(*items))])


def only_task(*items: Any) -> Task:
    """The only pending task among these objects, ready or waiting."""
    loaded = inventory(*items)
    tasks = [task for group in loaded.groups for task in group.tasks]
    tasks += [task for task, _ in loaded.waiting]
    assert len(tasks) == 1
    return tasks[0]


def reasons(*items: Any) -> dict[str, str]:
    """The reason of each waiting task, by name."""
    return {task.name: reason for task, reason in inventory(*items).waiting}
