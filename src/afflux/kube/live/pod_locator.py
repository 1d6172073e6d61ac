"""Pod locator: says where a pod is, and reads it from the API server if its bind got no answer.

Nothing is decided about such a pod until that is known, so the API server is asked for as long as
it takes. An account that may not get a single pod may still list pods, as the watch does; and the
watch itself may bring the answer meanwhile.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import msgspec

from afflux.control.adapter import NOWHERE, TaskLocation
from afflux.control.backoff import Backoff
from afflux.kube import objects
from afflux.kube.api.client import Api
from afflux.kube.api.errors import ApiError, UnreachableError
from afflux.kube.live.object_refs import pod_path
from afflux.kube.reader.cluster_reader import ClusterReader
from afflux.web.rate_limited_log import RateLimitedLog

RIGHTS = "; the scheduler's account needs the right to get and list pods"


@dataclass(frozen=True, slots=True)
class LocatorTimes:
    """The pauses between attempts; a refused account is retried more and more rarely, as its rights
    change only when an administrator acts."""

    initial_backoff_seconds: float = 0.1
    max_backoff_seconds: float = 5.0
    max_refused_backoff_seconds: float = 60.0


LOCATOR_TIMES = LocatorTimes()

OnFailure = Callable[[str, int], None]
"""Is called after every failed attempt: why it failed, and how many have failed."""


class _Pods(msgspec.Struct, frozen=True):
    items: list[objects.Pod] | None = None


class PodLocator:
    """The locations of pods, by uid and namespace/name."""

    def __init__(
        self,
        api: Api,
        reader: ClusterReader,
        times: LocatorTimes = LOCATOR_TIMES,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._api = api
        self._reader = reader
        self._times = times
        self._sleep = sleep
        self._log = RateLimitedLog(logging.getLogger(__name__), interval_seconds=60.0)

    def observed(self, task_id: str, name: str) -> TaskLocation:
        return _location(task_id, self._reader.pods.get(name))

    async def locate(
        self, task_id: str, name: str, on_failure: OnFailure | None = None
    ) -> TaskLocation:
        """Where the pod is, once the API server or the watch has said it."""
        times = self._times
        after_error = Backoff(times.initial_backoff_seconds, times.max_backoff_seconds)
        after_refusal = Backoff(times.initial_backoff_seconds, times.max_refused_backoff_seconds)
        attempts, by_list = 0, False
        while True:
            try:
                pod = await (self._list(name) if by_list else self._get(name))
            except (ApiError, UnreachableError) as error:
                refused = isinstance(error, ApiError) and error.is_refused
                # The account may have one of the two rights, and may be given either.
                by_list = refused and not by_list
                attempts += 1
                why = f"{error}{RIGHTS if refused else ''}"
                self._log.warning("%s cannot be read back: %s", name, why)
                if on_failure is not None:
                    on_failure(why, attempts)
            else:
                self._reader.set_observed(task_id, name, pod)
                return _location(task_id, pod)
            await self._sleep((after_refusal if refused else after_error).wait_seconds())
            seen = self.observed(task_id, name)
            if not seen.is_pending:
                return seen

    async def _get(self, name: str) -> objects.Pod | None:
        return await self._api.find(pod_path(name), objects.Pod)

    async def _list(self, name: str) -> objects.Pod | None:
        """The same as `_get`, with the right to list pods, which the watch needs as well."""
        space, _, alone = name.partition("/")
        chosen = {"fieldSelector": f"metadata.namespace={space},metadata.name={alone}"}
        found = await self._api.get("/api/v1/pods", _Pods, chosen)
        return next(iter(found.items or ()), None)


def _location(task_id: str, pod: objects.Pod | None) -> TaskLocation:
    if pod is None or pod.metadata.uid != task_id:
        return NOWHERE
    return TaskLocation(exists=True, machine=pod.spec.node_name or None)
