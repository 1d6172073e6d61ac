"""Attached volumes: a volume that several pods of a node use counts once towards its limit.

Each volume is counted for the first pod of the node that uses it, and for the next one when that
pod is gone. A pod without a node counts all its volumes, also those that are attached to some node
already; kube-scheduler is less strict there.
"""

from collections import Counter
from collections.abc import Iterable

from afflux.model.implied_resources import attachment_resource
from afflux.model.resources import Resources, resources

# The driver that attaches a volume, and its name for the volume.
Handle = tuple[str, str]


class Attachments:
    """The volumes that the pods of each node use."""

    def __init__(self) -> None:
        self._pods: dict[str, tuple[str, frozenset[Handle]]] = {}
        # The pods that use a volume, by node and handle; the first one counts it.
        self._users: dict[tuple[str, Handle], dict[str, None]] = {}

    def use(self, pod: str, node: str, handles: Iterable[Handle]) -> set[str]:
        """Set the node and volumes of a running pod; returns the pods whose count changed."""
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
        """Remove a pod; returns the pods whose count changed."""
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
        """The attachments that are counted for a running pod."""
        node, handles = self._pods.get(pod, ("", frozenset[Handle]()))
        counted = (handle for handle in handles if next(iter(self._users[node, handle])) == pod)
        return resources(Counter(attachment_resource(driver) for driver, _ in counted))
