"""Rolls back groups that stay half-bound: deletes their bound pods.

The controllers recreate the pods, and the whole group starts together later. Off by default. A
group is rolled back only if each of its bound pods is ours and has a controller: a pod that no
controller recreates is never deleted, and rolling back only some of the bound pods would not help.
"""

import logging
from collections.abc import Callable, Collection
from time import time

from afflux.kube import objects
from afflux.kube.api.client import Api
from afflux.kube.api.errors import UnreachableError
from afflux.kube.group_claims import claimed_group
from afflux.kube.live.cluster_reader import ClusterReader
from afflux.kube.live.deletion import Deletion
from afflux.kube.live.due_times import sleep_until_due
from afflux.kube.live.event_recorder import TAKEN_BACK, EventRecorder
from afflux.kube.live.group_deadlines import controller_of
from afflux.kube.live.half_bound import HalfBoundGroup, HalfBoundGroups
from afflux.kube.live.object_refs import PodRef, pod_object_ref
from afflux.kube.pods import is_finished, namespace, scheduler_of

_log = logging.getLogger(__name__)


class HalfBoundRollback:
    """Deletes the bound pods of groups that have been half-bound for too long.

    `remaining_seconds` says how long this replica may act as leader. `announce` is called with the
    name of the group, the uids of its bound pods and the reason, before any of them is deleted.
    """

    def __init__(
        self,
        api: Api,
        reader: ClusterReader,
        half_bound: HalfBoundGroups,
        recorder: EventRecorder,
        *,
        remaining_seconds: Callable[[], float | None] = lambda: None,
        announce: Callable[[str, Collection[str], str], None] = lambda _group, _pods, _reason: None,
        clock: Callable[[], float] = time,
    ) -> None:
        self._api = api
        self._remaining_seconds = remaining_seconds
        self._reader = reader
        self._half_bound = half_bound
        self._recorder = recorder
        self._announce = announce
        self._clock = clock

    async def run(self) -> None:
        """Roll back one group after the other until cancelled: there are never many."""
        while True:
            await sleep_until_due(self._half_bound, self._clock)
            for group in self._half_bound.take(self._clock()):
                await self._roll_back(group)

    async def _roll_back(self, group: HalfBoundGroup) -> None:
        """A failed rollback is tried again after the time for which a group must be half-bound."""
        try:
            done = await self._try_once(group)
        except UnreachableError as error:
            _log.warning("rolling back group %s: %s", group.name, error)
            done = False
        except Exception:
            _log.exception("rolling back group %s failed", group.name)
            done = True
        if not done:
            self._half_bound.retry(group, self._clock())

    async def _try_once(self, group: HalfBoundGroup) -> bool:
        """Returns whether there is nothing left to do for the group as it is."""
        pods = self._bound_pods(group)
        if frozenset(pod.metadata.uid or "" for pod in pods) != group.bound:
            # The watch has seen changes that the groups have not: they are evaluated first.
            return False
        if not all(self._reader.is_ours(pod) and controller_of(pod) is not None for pod in pods):
            _log.info("half-bound group %s stays: a bound pod would not be recreated", group.name)
            return True
        reason = (
            f"Only {len(pods)} of {group.size} members of group {group.name} were bound, and the "
            f"rest could not be for {self._half_bound.after_seconds:g} s"
        )
        _log.info("rolled back: %s", reason)
        self._announce(group.name, group.bound, reason)
        deletion = Deletion(self._api, self._remaining_seconds)
        return all([await self._delete(deletion, pod, reason) for pod in pods])

    def _bound_pods(self, group: HalfBoundGroup) -> list[objects.Pod]:
        return [
            pod
            for pod in self._reader.pods
            if pod.spec.node_name
            and namespace(pod) == group.namespace
            and claimed_group(pod) == group.name
            and not is_finished(pod)
            and not pod.metadata.deletion_timestamp
        ]

    async def _delete(self, deletion: Deletion, pod: objects.Pod, reason: str) -> bool:
        ref = PodRef(namespace(pod), pod.metadata.name or "", pod.metadata.uid or "")
        error = await deletion.delete(ref.path, ref.uid)
        if error is None:
            note = f"{reason}; its controller recreates it, and the whole group starts together"
        else:
            note = f"{reason}, but it could not be deleted: {error}"
        self._recorder.event(TAKEN_BACK, pod_object_ref(ref), note, scheduler=scheduler_of(pod))
        return error is None
