"""The required anti-affinity of running pods, kept up to date as pods and machines come and go.

It restricts pending pods to machines where no running pod repels them. When a change may concern
other pending pods, the index is stale: then it is refreshed, and all pending pods are evaluated
again.
"""

from collections.abc import Mapping
from dataclasses import replace

from afflux.kube import objects
from afflux.kube.running_anti_affinity import (
    Labels,
    RunningAntiAffinity,
    excluded_reason,
    has_required_anti_affinity,
    restricted_shape,
)
from afflux.model.reachability import Reachability
from afflux.model.task import Task


class AntiAffinityIndex:
    """The running pods with required anti-affinity, and the labels of all machines."""

    def __init__(self) -> None:
        self.is_stale = False
        self._repelling: dict[str, objects.Pod] = {}
        self._labels: dict[str, Labels] = {}
        self._running = RunningAntiAffinity((), {}, {})
        # By the machines that remain: why a pod fits none of them, None if it fits one.
        self._excluded: dict[Reachability, str | None] = {}

    def add_pod(self, name: str, pod: objects.Pod) -> None:
        """A pod has a node."""
        if name not in self._repelling and has_required_anti_affinity(pod):
            self._repelling[name] = pod
            self.is_stale = True

    def remove_pod(self, name: str) -> None:
        self.is_stale |= self._repelling.pop(name, None) is not None

    def set_machine(self, node: str, labels: Labels | None) -> None:
        """A machine has these labels, and so its topology domains; None if it is gone."""
        before = self._labels.pop(node, None)
        if labels is not None:
            self._labels[node] = labels
        if before != labels and self._repelling:
            # A pod that no machine could take may fit now, or, if a machine is gone, fit no longer.
            may_change = any(self._excluded.values()) or (labels is None and bool(self._excluded))
            repels = any(pod.spec.node_name == node for pod in self._repelling.values())
            self.is_stale |= may_change or repels

    def namespaces_changed(self) -> None:
        """A namespace was added or removed, or its labels changed."""
        self.is_stale |= bool(self._repelling)

    def refresh(self, namespaces: Mapping[str, Labels]) -> None:
        running = {
            name: pod for name, pod in self._repelling.items() if pod.spec.node_name in self._labels
        }
        self._running = RunningAntiAffinity(running.items(), namespaces, self._labels)
        self._excluded.clear()
        self.is_stale = False

    def restrict(self, task: Task, pod: objects.Pod) -> Task:
        """The task of a pending pod, restricted to the machines that it may use."""
        if not self._repelling:
            return task
        reachability = self._running.reachability(pod)
        blocked = task.blocked or self._running.blocking_reason(pod)
        if reachability is None:
            return replace(task, blocked=blocked) if blocked != task.blocked else task
        blocked = blocked or self._why_excluded(reachability)
        return replace(task, shape=restricted_shape(task.shape, reachability), blocked=blocked)

    def _why_excluded(self, reachability: Reachability) -> str | None:
        if reachability not in self._excluded:
            self._excluded[reachability] = excluded_reason(reachability, self._labels)
        return self._excluded[reachability]
