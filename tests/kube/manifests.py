"""Small Kubernetes objects to write tests with."""

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from afflux.control.adapter import Reports
from afflux.cycle.events import GroupReady, MachineSet, TaskRuns
from afflux.groups.group_id import GroupId, group_of_one
from afflux.kube import objects
from afflux.kube.file_adapter import FileAdapter
from afflux.kube.group_claims import claimed_group
from afflux.model.machine import Machine
from afflux.model.task import Task
from afflux.model.waiting_group import WaitingGroup
from afflux.queue.rules import ONE_QUEUE, QueueRules

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


def group_id(pod: objects.Pod, born: str = "uid-first") -> GroupId:
    """The group that the pod names, as it began with this pod, or the pod's own."""
    named = claimed_group(pod)
    if named is None:
        return group_of_one("default", pod.metadata.name or "", pod.metadata.uid or "")
    return GroupId("default", named.removeprefix("default/"), born)


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


@dataclass(frozen=True)
class Inventory:
    """What the reports about some files say."""

    reports: Reports
    ignored: Counter[str]
    notes: tuple[str, ...]

    @property
    def machines(self) -> list[Machine]:
        return [each.machine for each in self.reports.events if isinstance(each, MachineSet)]

    @property
    def running(self) -> list[tuple[Task, str]]:
        """The running tasks with their machines, those on unknown machines left out."""
        known = {each.name for each in self.machines}
        events = [each for each in self.reports.events if isinstance(each, TaskRuns)]
        return [(each.task, each.machine) for each in events if each.machine in known]

    @property
    def ends(self) -> dict[str, float]:
        events = [each for each in self.reports.events if isinstance(each, TaskRuns)]
        return {e.task.id: e.until_seconds for e in events if e.until_seconds is not None}

    @property
    def groups(self) -> list[WaitingGroup]:
        events = [each for each in self.reports.events if isinstance(each, GroupReady)]
        return [*{each.group.key: each.group for each in events}.values()]

    @property
    def waiting(self) -> list[tuple[Task, str]]:
        return [(held.task, held.why) for held in self.reports.held]


def load(
    sources: Sequence[tuple[str, bytes]],
    rules: Mapping[str, QueueRules] = ONE_QUEUE,
    scheduler_names: Collection[str] = (),
) -> Inventory:
    """What is read from these (file name, content) pairs."""
    adapter = FileAdapter(sources, rules, scheduler_names)
    reports = adapter.drain(0.0)
    return Inventory(reports, adapter.ignored, tuple(adapter.notes()))


def inventory(*items: Any) -> Inventory:
    """What is read from one JSON list of these objects."""
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
