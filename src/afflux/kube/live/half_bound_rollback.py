"""Rolls back groups that stay half-bound: deletes their bound pods.

The controllers recreate the pods, and the whole group starts together later. Off by default. A
group is rolled back only if each of its bound pods is ours and its controller confirms it with its
own pod template: a pod that no controller recreates is never deleted, and rolling back only some of
the bound pods would not help.
Pods that require each other, of which only some could be bound, are rolled back in the same way.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from time import time

from afflux.groups.half_bound import HalfBoundGroup, HalfBoundGroups
from afflux.kube import objects
from afflux.kube.api.client import Api
from afflux.kube.api.errors import UnreachableError
from afflux.kube.live.deletion import Deletion
from afflux.kube.live.due_times import sleep_until_due
from afflux.kube.live.event_recorder import TAKEN_BACK, EventRecorder
from afflux.kube.live.object_refs import PodRef, pod_object_ref
from afflux.kube.live.owner_chain import OwnerReader, UnknownOwner
from afflux.kube.pod_claims import controller_of, pod_claims
from afflux.kube.pods import namespace, scheduler_of
from afflux.kube.reader.cluster_reader import ClusterReader

_log = logging.getLogger(__name__)


class HalfBoundRollback:
    """Deletes the bound pods of groups that have been half-bound for too long.

    `remaining_seconds` says how long this replica may act as leader.
    """

    def __init__(
        self,
        api: Api,
        reader: ClusterReader,
        half_bound: HalfBoundGroups,
        recorder: EventRecorder,
        *,
        remaining_seconds: Callable[[], float | None] = lambda: None,
        clock: Callable[[], float] = time,
    ) -> None:
        self._api = api
        self._remaining_seconds = remaining_seconds
        self._reader = reader
        self._half_bound = half_bound
        self._recorder = recorder
        self._clock = clock
        # The next due time may have changed.
        self.changed = asyncio.Event()
        half_bound.on_change = self._wake

    async def run(self) -> None:
        """Roll back one group after the other until cancelled: there are never many."""
        while True:
            await sleep_until_due(self._half_bound, self._clock, self.changed)
            for group in self._half_bound.take(self._clock()):
                await self._roll_back(group)

    def _wake(self) -> None:
        self.changed.set()

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
        unconfirmed = await self._unconfirmed(pods)
        if unconfirmed is not None:
            _log.info("half-bound group %s stays: %s", group.name, unconfirmed.reason)
            return not unconfirmed.read_failed
        # Pods that require each other may be of several namespaces: none of them is named.
        named = (
            "pods that require each other" if group.is_circle else f"members of group {group.name}"
        )
        reason = (
            f"Only {len(pods)} of {group.size} {named} were bound, and the rest could not be for "
            f"{self._half_bound.after_seconds:g} s"
        )
        _log.info("rolled back: %s", reason)
        # Before the deletion, which the watch may report before it is answered.
        self._reader.register.roll_back([pod.metadata.uid or "" for pod in pods], reason)
        deletion = Deletion(self._api, self._remaining_seconds)
        whole = "all of them start" if group.is_circle else "the whole group starts"
        staying = [
            pod.metadata.uid or ""
            for pod in pods
            if not await self._delete(deletion, pod, reason, whole)
        ]
        self._reader.register.not_rolled_back(staying)
        return not staying

    async def _unconfirmed(self, pods: Sequence[objects.Pod]) -> UnknownOwner | None:
        """Why the controller of one of these pods would not recreate it; None if all would."""
        readers: dict[str, OwnerReader] = {}
        for pod in pods:
            space, claims = namespace(pod), pod_claims(pod)
            owners = readers.setdefault(space, OwnerReader(self._api, space))
            unconfirmed = await owners.unconfirmed(claims)
            if unconfirmed is not None:
                return unconfirmed
        return None

    def _bound_pods(self, group: HalfBoundGroup) -> list[objects.Pod]:
        """The bound members as the watch knows them, which may be ahead of the register."""
        concerned = group.bound | frozenset(self._reader.register.members_of(group.key))
        return [
            pod
            for pod in self._reader.pods
            if pod.spec.node_name
            and pod.metadata.uid in concerned
            and not pod.metadata.deletion_timestamp
        ]

    async def _delete(self, deletion: Deletion, pod: objects.Pod, reason: str, whole: str) -> bool:
        ref = PodRef(namespace(pod), pod.metadata.name or "", pod.metadata.uid or "")
        error = await deletion.delete(ref.path, ref.uid)
        if error is None:
            note = f"{reason}; its controller recreates it, and {whole} together"
        else:
            note = f"{reason}, but it could not be deleted: {error}"
        self._recorder.event(TAKEN_BACK, pod_object_ref(ref), note, scheduler=scheduler_of(pod))
        return error is None
