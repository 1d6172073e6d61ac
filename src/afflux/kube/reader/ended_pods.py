"""The ends of pods: how and when each pod of ours ended, once.

Pods that have ended are not in the store of pods, and the API server keeps them for long: all that
stays of such a pod here is its uid. The last ends are remembered from the start of the process on,
so that a new leader learns how members ended while nothing led.
"""

from collections import OrderedDict, deque
from collections.abc import Callable

from afflux.groups.states import EndReason, TaskEnd
from afflux.kube import objects
from afflux.kube.pod_ends import finished_seconds, how_ended
from afflux.kube.reader.object_store import Departure

# More than the 12,500 ended pods that kube-controller-manager leaves in a cluster by default.
MAX_KEPT = 20_000


class EndedPods:
    """The last `max_kept` ends of pods for which `is_ours` is true."""

    def __init__(self, is_ours: Callable[[objects.Pod], bool], max_kept: int = MAX_KEPT) -> None:
        self._is_ours = is_ours
        self._max_kept = max_kept
        # The uids of pods that have ended, so that later versions of them change nothing.
        self._uids: OrderedDict[str, None] = OrderedDict()
        # Since the last `take`: how each pod ended, and when, if it says so.
        self._departed: deque[tuple[str, EndReason, float | None]] = deque(maxlen=max_kept)

    def departed(self, departure: Departure[objects.Pod]) -> None:
        """A pod has left the store of pods."""
        last = departure.last
        uid = last.metadata.uid or ""
        # The last version of a deleted pod that cannot be decoded is only its identity.
        if uid in self._uids or not self._is_ours(departure.known or last):
            return
        self._uids[uid] = None
        if len(self._uids) > self._max_kept:
            self._uids.popitem(last=False)
        how = how_ended(last, deleted=departure.deleted)
        self._departed.append((uid, how, finished_seconds(last)))

    def take(self, now_seconds: float) -> list[TaskEnd]:
        """The ends since the last call. A pod that does not say when it ended has ended now."""
        departed, self._departed = self._departed, deque(maxlen=self._max_kept)
        return [
            TaskEnd(uid, how, now_seconds if at is None else min(at, now_seconds))
            for uid, how, at in departed
        ]
