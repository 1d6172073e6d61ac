"""The PodScheduled condition of pods that wait: what autoscalers and `kubectl describe` read.

Written as kube-scheduler does, by a strategic merge patch of the status, which leaves the other
conditions alone; and only if status, reason or message are others than the pod has. The patch names
the pod's uid and resource version: a condition that was decided before a bind must not be written
after it, where it would say that a bound pod is unschedulable.
"""

import logging
import time
from collections import OrderedDict
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial

import msgspec

from afflux.kube.api.client import STRATEGIC_MERGE_PATCH, Api
from afflux.kube.api.errors import ApiError, UnreachableError
from afflux.kube.live.delivering import Deliveries, insist, shortened
from afflux.kube.live.references import PodRef
from afflux.web.metrics import Metrics, WriteResult

LONGEST_MESSAGE = 4096

_TYPE = "PodScheduled"

# A message that changes in every cycle is written so often, the latest; a reason at once.
CALM_SECONDS = 10.0

# Of so many pods we remember what we wrote until the watch has brought it back.
_MOST_REMEMBERED = 100_000

# Somebody else changes the pod at the same time: read it and try again, so often.
_MOST_CONFLICTS = 5

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Condition:
    """PodScheduled: whether, and why not."""

    status: str
    reason: str = ""
    message: str = ""


def unschedulable(message: str) -> Condition:
    """It does not fit now. Autoscalers look for this reason."""
    return Condition("False", "Unschedulable", message)


def gated() -> Condition:
    """It has scheduling gates; in the words of the API server, which says so at creation."""
    message = "Scheduling is blocked due to non-empty scheduling gates"
    return Condition("False", "SchedulingGated", message)


def scheduler_error(message: str) -> Condition:
    """Not the pod's fault, nor the cluster's."""
    return Condition("False", "SchedulerError", message)


@dataclass(frozen=True, slots=True)
class _Job:
    """What is to be written, and what the pod had when that was decided."""

    pod: PodRef
    wanted: Condition
    seen: Condition | None
    generation: int
    # None: as it is; empty: cleared.
    nominated_node: str | None


@dataclass(frozen=True, slots=True)
class _Written:
    condition: Condition
    resource_version: str
    written_at: float


class _Metadata(msgspec.Struct, frozen=True, rename="camel", gc=False):
    uid: str = ""
    resource_version: str = ""


class _Spec(msgspec.Struct, frozen=True, rename="camel", gc=False):
    node_name: str = ""


class _Condition(msgspec.Struct, frozen=True, gc=False):
    type: str
    status: str
    reason: str = ""
    message: str = ""


class _Status(msgspec.Struct, frozen=True):
    conditions: tuple[_Condition, ...] = ()


class _Pod(msgspec.Struct, frozen=True):
    metadata: _Metadata
    spec: _Spec = _Spec()
    status: _Status = _Status()


class _Answer(msgspec.Struct, frozen=True, gc=False):
    metadata: _Metadata


class Conditions:
    """Writes conditions in the background, of each pod the latest, `workers` at once at most."""

    def __init__(
        self,
        api: Api,
        metrics: Metrics,
        *,
        workers: int = 8,
        room: int = 50_000,
        calm_seconds: float = CALM_SECONDS,
    ) -> None:
        self._api = api
        self._metrics = metrics
        self._calm_seconds = calm_seconds
        self._written: OrderedDict[str, _Written] = OrderedDict()
        self._deliveries = Deliveries[_Job](
            self._deliver, workers=workers, room=room, dropped=metrics.condition_dropped
        )

    def write(
        self,
        pod: PodRef,
        wanted: Condition,
        seen: Condition | None,
        *,
        generation: int = 0,
        nominated_node: str | None = None,
    ) -> None:
        """The pod should have this condition; `seen` is the one it has, as far as we know.

        `generation` is the pod's, which the condition then says it is about. `nominated_node` is
        written too if it is given; the empty string clears it.
        """
        message = shortened(wanted.message, LONGEST_MESSAGE)
        if message is not wanted.message:
            wanted = replace(wanted, message=message)
        before = self._deliveries.waiting(pod.uid)
        if before is not None and nominated_node is None:
            nominated_node = before.nominated_node
        current = self._current(pod, seen)
        is_new = current != wanted or nominated_node is not None
        if not is_new and not self._deliveries.is_busy(pod.uid):
            self._deliveries.discard(pod.uid)
            self._metrics.condition("unchanged")
            return
        job = _Job(pod, wanted, seen, generation, nominated_node)
        self._deliveries.put(pod.uid, job, self._wait_seconds(job, current))

    def forget(self, pod: PodRef) -> None:
        """The pod is being bound, or is gone: what waits to be said about it is not true."""
        self._deliveries.discard(pod.uid)
        self._written.pop(pod.uid, None)

    async def close(self, seconds: float = 5.0) -> None:
        """Take no more, and write what is there within so much time."""
        await self._deliveries.close(seconds)

    def _current(self, pod: PodRef, seen: Condition | None) -> Condition | None:
        """What the pod has: what we wrote last, unless the watch has brought something newer."""
        written = self._written.get(pod.uid)
        if written is None:
            return seen
        if _is_older(pod.resource_version, written.resource_version):
            return written.condition
        return seen

    def _wait_seconds(self, job: _Job, current: Condition | None) -> float:
        written = self._written.get(job.pod.uid)
        if written is None or current is None or job.nominated_node is not None:
            return 0.0
        if (current.status, current.reason) != (job.wanted.status, job.wanted.reason):
            return 0.0
        return self._calm_seconds - (time.monotonic() - written.written_at)

    async def _deliver(self, _key: str, job: _Job) -> None:
        try:
            result = await self._write(job)
        except (ApiError, UnreachableError) as error:
            result = "failed"
            _log.info("condition of %s/%s: %s", job.pod.namespace, job.pod.name, error)
        self._metrics.condition(result)

    async def _write(self, job: _Job) -> WriteResult:
        current = self._current(job.pod, job.seen)
        version = job.pod.resource_version
        written = self._written.get(job.pod.uid)
        if written is not None and _is_older(version, written.resource_version):
            version = written.resource_version
        for _ in range(_MOST_CONFLICTS):
            if current == job.wanted and job.nominated_node is None:
                return "unchanged"
            try:
                await insist(partial(self._patch, job, current, version))
            except ApiError as error:
                # Changed meanwhile, or another pod of this name, or gone.
                if error.status not in {404, 409, 422}:
                    raise
                refusal = error
            else:
                return "written"
            pod = await self._read(job.pod)
            if pod is None or pod.metadata.uid != job.pod.uid or pod.spec.node_name:
                return "gone"
            if not refusal.is_conflict:
                raise refusal
            current = next(
                (
                    Condition(condition.status, condition.reason, condition.message)
                    for condition in pod.status.conditions
                    if condition.type == _TYPE
                ),
                None,
            )
            version = pod.metadata.resource_version
        return "failed"

    async def _patch(self, job: _Job, current: Condition | None, version: str) -> None:
        wanted = job.wanted
        condition: dict[str, object] = {
            "type": _TYPE,
            "status": wanted.status,
            "reason": wanted.reason,
            "message": wanted.message,
        }
        if job.generation:
            condition["observedGeneration"] = job.generation
        if current is None or current.status != wanted.status:
            now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            condition["lastTransitionTime"] = now
        status: dict[str, object] = {"conditions": [condition]}
        if job.nominated_node is not None:
            status["nominatedNodeName"] = job.nominated_node or None
        metadata = {"uid": job.pod.uid}
        if version:
            metadata["resourceVersion"] = version
        answer = await self._api.send(
            "PATCH",
            f"{_path(job.pod)}/status",
            {"metadata": metadata, "status": status},
            answer=_Answer,
            content_type=STRATEGIC_MERGE_PATCH,
        )
        uid = job.pod.uid
        self._written[uid] = _Written(wanted, answer.metadata.resource_version, time.monotonic())
        self._written.move_to_end(uid)
        if len(self._written) > _MOST_REMEMBERED:
            self._written.popitem(last=False)

    async def _read(self, pod: PodRef) -> _Pod | None:
        try:
            return await insist(partial(self._api.get, _path(pod), _Pod))
        except ApiError as error:
            if error.is_missing:
                return None
            raise


def _path(pod: PodRef) -> str:
    return f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"


def _is_older(version: str, than: str) -> bool:
    """Whether a resource version, the empty one included, comes before another."""
    if version.isdecimal() and than.isdecimal():
        return int(version) < int(than)
    return version != than
