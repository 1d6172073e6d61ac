"""Bind confirmation: reads a pod back to find out whether a binding without an answer happened.

The pod keeps its place until that is known, so the API server is asked for as long as it takes, and
the log and an event say so. An account that may not get a single pod may still list pods, as the
watch does; and the watch itself may bring the answer meanwhile.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

import msgspec

from afflux.kube import objects
from afflux.kube.api.backoff import Backoff
from afflux.kube.api.client import Api
from afflux.kube.api.errors import ApiError, UnreachableError
from afflux.kube.live.cluster_reader import ClusterReader
from afflux.kube.live.object_refs import pod_path
from afflux.model.placement import Placement
from afflux.model.task import Task
from afflux.web.scheduler_metrics import Metrics

# After so many failed attempts an event says so, and again each time the number has doubled.
ATTEMPTS_BEFORE_EVENT = 4
LOG_INTERVAL_SECONDS = 60.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ConfirmationTimes:
    """The pauses between attempts; a refused account is retried more and more rarely."""

    initial_backoff_seconds: float = 0.1
    max_backoff_seconds: float = 5.0
    max_refused_backoff_seconds: float = 60.0


CONFIRMATION_TIMES = ConfirmationTimes()


@dataclass(frozen=True, slots=True)
class PodState:
    """What the API server says about a pod: whether it exists, and its node if it has one."""

    exists: bool
    node: str | None = None

    @property
    def is_pending(self) -> bool:
        return self.exists and self.node is None


_GONE = PodState(exists=False)


class _Pods(msgspec.Struct, frozen=True):
    items: list[objects.Pod] | None = None


class BindConfirmation:
    """Reads pods until there is an answer; calls `in_doubt` for placements that take long."""

    def __init__(
        self,
        api: Api,
        reader: ClusterReader,
        metrics: Metrics,
        in_doubt: Callable[[Placement, str], None],
        times: ConfirmationTimes = CONFIRMATION_TIMES,
    ) -> None:
        self._api = api
        self._reader = reader
        self._metrics = metrics
        self._in_doubt = in_doubt
        self._times = times
        self._logged_at = -LOG_INTERVAL_SECONDS

    async def read(self, placement: Placement) -> PodState:
        """The state of the pod, once the API server or the watch has said it."""
        task, times = placement.task, self._times
        after_error = Backoff(times.initial_backoff_seconds, times.max_backoff_seconds)
        after_refusal = Backoff(times.initial_backoff_seconds, times.max_refused_backoff_seconds)
        attempts, by_list = 0, False
        while True:
            try:
                pod = await (self._list(task) if by_list else self._get(task))
            except (ApiError, UnreachableError) as error:
                refused = isinstance(error, ApiError) and error.is_refused
                by_list = by_list or refused
                attempts += 1
                self._failed(placement, error, attempts, refused=refused)
            else:
                self._reader.set_observed(task, pod)
                if pod is None or pod.metadata.uid != task.id:
                    return _GONE
                return PodState(exists=True, node=pod.spec.node_name)
            await asyncio.sleep((after_refusal if refused else after_error).wait_seconds())
            known = self._reader.pods.get(task.name)
            if known is None or known.metadata.uid != task.id:
                return _GONE
            if known.spec.node_name:
                return PodState(exists=True, node=known.spec.node_name)

    async def _get(self, task: Task) -> objects.Pod | None:
        return await self._api.find(pod_path(task.name), objects.Pod)

    async def _list(self, task: Task) -> objects.Pod | None:
        """The same as `_get`, with the right to list pods, which the watch needs as well."""
        space, _, name = task.name.partition("/")
        chosen = {"fieldSelector": f"metadata.namespace={space},metadata.name={name}"}
        found = await self._api.get("/api/v1/pods", _Pods, chosen)
        return next(iter(found.items or ()), None)

    def _failed(self, placement: Placement, error: Exception, attempts: int, refused: bool) -> None:
        self._metrics.read_back_failed()
        advice = "; the scheduler's account needs the right to get and list pods" if refused else ""
        if monotonic() - self._logged_at >= LOG_INTERVAL_SECONDS:
            self._logged_at = monotonic()
            _log.warning("%s cannot be read back: %s%s", placement.task.name, error, advice)
        if attempts >= ATTEMPTS_BEFORE_EVENT and attempts & (attempts - 1) == 0:
            why = (
                f"whether it was bound to {placement.machine} is not known, and cannot be found "
                f"out: {error}{advice}; it keeps its place there, and the scheduler goes on asking"
            )
            self._in_doubt(placement, why)
