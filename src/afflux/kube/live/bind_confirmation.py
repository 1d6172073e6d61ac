"""Reading back: where a pod is after a bind of which nobody knows how it ended.

Until that is known the pod keeps its place, since it may be there. So this goes on for as long as
it has to; but not in silence. Whoever may not read one pod may still list them, as our watch does;
and the watch itself may bring the answer meanwhile.
"""

import asyncio
import logging
import random
from collections.abc import Callable
from time import monotonic

import msgspec

from afflux.kube import objects
from afflux.kube.api.client import Api
from afflux.kube.api.errors import ApiError, UnreachableError
from afflux.kube.live.mirror import Mirror
from afflux.model.placement import Placement
from afflux.model.task import Task
from afflux.web.metrics import Metrics

FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 5.0
# Where we are not let in, asking more often than this is of no use.
LONGEST_REFUSED_SECONDS = 60.0
# After so many attempts in vain people hear of it, and again whenever there were twice as many.
PATIENCE = 4
# The log has a line so often, however many pods it is about.
LOG_EVERY_SECONDS = 60.0

_log = logging.getLogger(__name__)


class _Pods(msgspec.Struct, frozen=True):
    items: list[objects.Pod] | None = None


class ReadingBack:
    """Asks the API server again and again; `in_doubt` hears which placements take long, and why."""

    def __init__(
        self,
        api: Api,
        mirror: Mirror,
        metrics: Metrics,
        in_doubt: Callable[[Placement, str], None],
    ) -> None:
        self._api = api
        self._mirror = mirror
        self._metrics = metrics
        self._in_doubt = in_doubt
        self._logged_at = -LOG_EVERY_SECONDS

    async def node_of(self, placement: Placement) -> str | None:
        """The node on which the pod is, None if it has none, empty if the pod is gone."""
        task = placement.task
        pause, attempts, by_list = FIRST_PAUSE_SECONDS, 0, False
        while True:
            try:
                pod = await (self._list(task) if by_list else self._get(task))
            except (ApiError, UnreachableError) as error:
                refused = isinstance(error, ApiError) and error.is_refused
                by_list = by_list or refused
                attempts += 1
                self._failed(placement, error, attempts, refused=refused)
                most = LONGEST_REFUSED_SECONDS if refused else LONGEST_PAUSE_SECONDS
            else:
                self._mirror.read_back(task, pod)
                same = pod is not None and pod.metadata.uid == task.id
                return pod.spec.node_name if pod is not None and same else ""
            await asyncio.sleep(pause * random.uniform(0.8, 1.2))
            pause = min(2 * pause, most)
            known = self._mirror.pods.get(task.name)
            if known is None or known.metadata.uid != task.id:
                return ""
            if known.spec.node_name:
                return known.spec.node_name

    async def _get(self, task: Task) -> objects.Pod | None:
        space, _, name = task.name.partition("/")
        try:
            return await self._api.get(f"/api/v1/namespaces/{space}/pods/{name}", objects.Pod)
        except ApiError as error:
            if error.is_missing:
                return None
            raise

    async def _list(self, task: Task) -> objects.Pod | None:
        """The same with the right that the watch of all pods needs."""
        space, _, name = task.name.partition("/")
        chosen = {"fieldSelector": f"metadata.namespace={space},metadata.name={name}"}
        found = await self._api.get("/api/v1/pods", _Pods, chosen)
        return next(iter(found.items or ()), None)

    def _failed(
        self, placement: Placement, error: Exception, attempts: int, *, refused: bool
    ) -> None:
        self._metrics.read_back_failed()
        advice = "; the scheduler's account needs the right to get and list pods" if refused else ""
        if monotonic() - self._logged_at >= LOG_EVERY_SECONDS:
            self._logged_at = monotonic()
            _log.warning("%s cannot be read back: %s%s", placement.task.name, error, advice)
        if attempts >= PATIENCE and attempts & (attempts - 1) == 0:
            why = (
                f"whether it was bound to {placement.machine} is not known, and cannot be found "
                f"out: {error}{advice}; it keeps its place there, and the scheduler goes on asking"
            )
            self._in_doubt(placement, why)
