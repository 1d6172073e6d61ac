"""Apart: which machines pods that wait must keep off, because of who runs there.

What `repulsion` says of one moment is kept up to date here, as pods and machines come and go. When
something has changed that may concern anybody, it is stale: then it is renewed, and everybody who
waits is looked at again.
"""

from collections.abc import Mapping
from dataclasses import replace

from afflux.kube import objects
from afflux.kube.repulsion import Labels, Repulsion, kept_out, repels, shut_out
from afflux.model.places import Places
from afflux.model.task import Task


class Apart:
    """The running pods that keep others away, and the labels of all machines."""

    def __init__(self) -> None:
        self.is_stale = False
        self._repelling: dict[str, objects.Pod] = {}
        self._labels: dict[str, Labels] = {}
        self._repulsion = Repulsion((), {}, {})
        # By where somebody may go, why that is nowhere; None if it is somewhere.
        self._shut: dict[Places, str | None] = {}

    def runs(self, name: str, pod: objects.Pod) -> None:
        """This pod has its node."""
        if name not in self._repelling and repels(pod):
            self._repelling[name] = pod
            self.is_stale = True

    def left(self, name: str) -> None:
        """This pod is gone."""
        self.is_stale |= self._repelling.pop(name, None) is not None

    def machine(self, node: str, labels: Labels | None) -> None:
        """A machine has these labels, None if it is gone: it may be in other domains now."""
        before = self._labels.pop(node, None)
        if labels is not None:
            self._labels[node] = labels
        if before != labels and self._repelling:
            # Who was shut out may not be any more; or, if one is gone, the other way round.
            may_shut = any(self._shut.values()) or (labels is None and bool(self._shut))
            self.is_stale |= may_shut or any(
                pod.spec.node_name == node for pod in self._repelling.values()
            )

    def namespaces_changed(self) -> None:
        """A namespace has other labels, has come or gone."""
        self.is_stale |= bool(self._repelling)

    def renew(self, namespaces: Mapping[str, Labels]) -> None:
        """Take everything into account that has happened."""
        running = {
            name: pod for name, pod in self._repelling.items() if pod.spec.node_name in self._labels
        }
        self._repulsion = Repulsion(running.items(), namespaces, self._labels)
        self._shut.clear()
        self.is_stale = False

    def kept(self, task: Task, pod: objects.Pod) -> Task:
        """The task of a pod that waits, kept off the machines that it must not go to."""
        if not self._repelling:
            return task
        places = self._repulsion.places(pod)
        blocked = task.blocked or self._repulsion.against(pod)
        if places is None:
            return replace(task, blocked=blocked) if blocked != task.blocked else task
        blocked = blocked or self._shut_out(places)
        return replace(task, shape=kept_out(task.shape, places), blocked=blocked)

    def _shut_out(self, places: Places) -> str | None:
        if places not in self._shut:
            self._shut[places] = shut_out(places, self._labels)
        return self._shut[places]
