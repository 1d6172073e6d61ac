"""Half-bound circles: pods that require each other, of which only some could be bound.

A circle is placed as a whole, like a group, but bound pod by pod. It is half-bound while some of
its pods are bound and others exist and wait. A circle that was fully bound once is never half-bound
again, and one of whose waiting pods is gone is none any more. Circles are not stored: after a
restart, or a change of the leader, the circles of before are not known.
"""

from collections.abc import Collection, Iterable, Sequence

from afflux.groups.half_bound import HalfBoundGroup, HalfBoundGroups
from afflux.kube import objects
from afflux.kube.reader.cluster_reader import ClusterReader
from afflux.model.placement import Placement


class HalfBoundCircles:
    """The circles that are not fully bound yet; reports the half-bound ones to `half_bound`."""

    def __init__(self, reader: ClusterReader, half_bound: HalfBoundGroups) -> None:
        self._reader = reader
        self._half_bound = half_bound
        # By name, which users do not see: the names of the pods by uid.
        self._circles: dict[str, dict[str, str]] = {}

    def add(self, circles: Iterable[Collection[str]], placements: Sequence[Placement]) -> None:
        """These circles, as sets of task ids, are about to be bound."""
        circles = list(circles)
        if not circles:
            return
        names = {each.task.id: each.task.name for each in placements}
        for circle in circles:
            members = {uid: names[uid] for uid in sorted(circle)}
            # A pod of it may have been in another circle before, which could not be bound.
            self._circles[f"circle {' '.join(members)}"] = members

    def update(self, now_seconds: float) -> None:
        """Look at the pods of all circles."""
        for name, members in list(self._circles.items()):
            pods = [self._pod(uid, pod_name) for uid, pod_name in members.items()]
            there = {pod.metadata.uid or "": pod for pod in pods if pod is not None}
            bound = frozenset(uid for uid, pod in there.items() if pod.spec.node_name)
            in_progress = any(self._reader.is_assumed(each) for each in members.values())
            is_over = len(there) < len(members) or len(bound) == len(members)
            if is_over or not (bound or in_progress):
                del self._circles[name]
                self._half_bound.remove(name)
            elif bound:
                group = HalfBoundGroup(name, name, len(members), bound, in_progress, is_circle=True)
                self._half_bound.set(group, now_seconds)

    def _pod(self, uid: str, name: str) -> objects.Pod | None:
        """The pod, unless it has ended or is being deleted."""
        pod = self._reader.pods.get(name)
        if pod is None or pod.metadata.uid != uid:
            return None
        return None if pod.metadata.deletion_timestamp else pod
