"""Taking back: the bound pods of a group that stays half-bound are deleted.

Their controllers make them anew, and the whole group starts together later. Off unless it is asked
for. A group is left alone unless every one of its bound pods is ours and has a controller: what
nobody makes anew is never deleted, and to take back a part of a half would not make it whole.
"""

import logging
from collections.abc import Callable, Collection
from time import time

from afflux.kube import objects
from afflux.kube.api.client import Api
from afflux.kube.api.errors import UnreachableError
from afflux.kube.decoding import is_finished, namespace, scheduler_of
from afflux.kube.grouping import claimed_group
from afflux.kube.live.deadlines import controller
from afflux.kube.live.deleting import Deleting, sleep_until_due
from afflux.kube.live.halves import Half, Halves
from afflux.kube.live.mirror import Mirror
from afflux.kube.live.recording import TAKEN_BACK, Recorder
from afflux.kube.live.references import PodRef, of_pod

_log = logging.getLogger(__name__)


class TakingBack:
    """Deletes what is half-bound for too long; `remaining_seconds` says how long we may act.

    `announce` is told the name of each group, the uids of its bound pods, and why, before any of
    them is deleted.
    """

    def __init__(
        self,
        api: Api,
        mirror: Mirror,
        halves: Halves,
        recorder: Recorder,
        *,
        remaining_seconds: Callable[[], float | None] = lambda: None,
        announce: Callable[[str, Collection[str], str], None] = lambda _group, _pods, _why: None,
        clock: Callable[[], float] = time,
    ) -> None:
        self._api = api
        self._remaining_seconds = remaining_seconds
        self._mirror = mirror
        self._halves = halves
        self._recorder = recorder
        self._announce = announce
        self._clock = clock

    async def run(self) -> None:
        """Work until cancelled, on one group after the other: there are never many."""
        while True:
            await sleep_until_due(self._halves, self._clock)
            for half in self._halves.take(self._clock()):
                await self._take_back(half)

    async def _take_back(self, half: Half) -> None:
        """If it fails, it is tried again after as long as the group had to wait for this."""
        try:
            done = await self._once(half)
        except UnreachableError as error:
            _log.warning("taking back group %s: %s", half.group, error)
            done = False
        except Exception:
            _log.exception("taking back group %s failed", half.group)
            done = True
        if not done:
            self._halves.again(half, self._clock())

    async def _once(self, half: Half) -> bool:
        """Whether nothing is left to do about the group as it is."""
        pods = self._bound(half)
        if frozenset(pod.metadata.uid or "" for pod in pods) != half.bound:
            # The watch knows more than we were told: that is looked at first.
            return False
        if not all(self._mirror.is_ours(pod) and controller(pod) is not None for pod in pods):
            _log.info("half-bound group %s stays: not all of it would be made anew", half.group)
            return True
        why = (
            f"Only {len(pods)} of {half.size} members of group {half.group} were bound, and the "
            f"rest could not be for {self._halves.after_seconds:g} s"
        )
        _log.info("taken back: %s", why)
        self._announce(half.group, half.bound, why)
        deleting = Deleting(self._api, self._remaining_seconds)
        return all([await self._delete(deleting, pod, why) for pod in pods])

    def _bound(self, half: Half) -> list[objects.Pod]:
        return [
            pod
            for pod in self._mirror.pods
            if pod.spec.node_name
            and namespace(pod) == half.namespace
            and claimed_group(pod) == half.group
            and not is_finished(pod)
            and not pod.metadata.deletion_timestamp
        ]

    async def _delete(self, deleting: Deleting, pod: objects.Pod, why: str) -> bool:
        ref = PodRef(namespace(pod), pod.metadata.name or "", pod.metadata.uid or "")
        path = f"/api/v1/namespaces/{ref.namespace}/pods/{ref.name}"
        refused = await deleting.delete(path, ref.uid)
        if refused is None:
            note = f"{why}; it is made anew, and all of them start together"
        else:
            note = f"{why}, but it could not be deleted: {refused}"
        self._recorder.event(TAKEN_BACK, of_pod(ref), note, scheduler=scheduler_of(pod))
        return refused is None
