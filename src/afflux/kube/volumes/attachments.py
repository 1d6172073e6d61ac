"""Attached volumes: a volume that several pods of one node use takes up one place there.

Each running pod counts what it adds: a handle is counted for the first pod of the node that uses
it, and passes to the next one when that pod leaves. A pod that has no node yet counts all its
handles, also those that some node holds already: that is more careful than kube-scheduler is.
"""

from collections.abc import Iterable

from afflux.model.implied import attachments
from afflux.model.resources import Resources, resources

# The driver that attaches a volume, and what it calls the volume.
Handle = tuple[str, str]


class Attachments:
    """Which pods of which node use which volumes."""

    def __init__(self) -> None:
        self._pods: dict[str, tuple[str, frozenset[Handle]]] = {}
        # By node and handle the pods that use it, the one that counts it first.
        self._users: dict[tuple[str, Handle], dict[str, None]] = {}

    def use(self, pod: str, node: str, handles: Iterable[Handle]) -> set[str]:
        """A pod runs on a node and uses these volumes; returns the pods whose count changed."""
        now = (node, frozenset(handles))
        if self._pods.get(pod) == now:
            return set()
        changed = self.leave(pod)
        if now[1]:
            self._pods[pod] = now
            for handle in now[1]:
                self._users.setdefault((node, handle), {})[pod] = None
            changed.add(pod)
        return changed

    def leave(self, pod: str) -> set[str]:
        """A pod is gone; returns the pods whose count changed."""
        node, handles = self._pods.pop(pod, ("", frozenset[Handle]()))
        changed = {pod} if handles else set[str]()
        for handle in handles:
            users = self._users[node, handle]
            counted = next(iter(users)) == pod
            del users[pod]
            if not users:
                del self._users[node, handle]
            elif counted:
                changed.add(next(iter(users)))
        return changed

    def of(self, pod: str) -> Resources:
        """What a running pod adds to what its node holds."""
        node, handles = self._pods.get(pod, ("", frozenset[Handle]()))
        counts: dict[str, int] = {}
        for handle in handles:
            if next(iter(self._users[node, handle])) == pod:
                name = attachments(handle[0])
                counts[name] = counts.get(name, 0) + 1
        return resources(counts)
