"""The PodScheduled condition of waiting pods, which autoscalers and `kubectl describe` read.

It is written as kube-scheduler does, by a strategic merge patch of the status, which leaves other
conditions alone, and only if status, reason or message differ from what the pod has. The patch
names the pod's uid and resource version: a condition that was decided before a binding must not be
written after it and say that a bound pod is unschedulable.
"""

import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial

import msgspec

from afflux.kube.api.client import STRATEGIC_MERGE_PATCH, Api
from afflux.kube.api.errors import ApiError, UnreachableError
from afflux.kube.live.object_refs import PodRef
from afflux.kube.live.write_queue import WriteQueue, send_with_retries, shortened
from afflux.web.scheduler_metrics import Metrics, WriteResult

MAX_MESSAGE_BYTES = 4096

_TYPE = "PodScheduled"

# If only the message changes, the latest is written at most once per interval; a changed reason is
# written at once.
CHANGE_INTERVAL_SECONDS = 10.0

# For how many pods the last written condition is remembered until the watch brings it back.
_MAX_REMEMBERED = 100_000

# How often a write is tried when other clients change the pod at the same time.
_MAX_CONFLICTS = 5

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Condition:
    """The status, reason and message of a PodScheduled condition."""

    status: str
    reason: str = ""
    message: str = ""


def unschedulable(message: str) -> Condition:
    """The pod does not fit now. Autoscalers look for this reason."""
    return Condition("False", "Unschedulable", message)


def scheduler_error(message: str) -> Condition:
    """The scheduler failed, not the pod or the cluster."""
    return Condition("False", "SchedulerError", message)


@dataclass(frozen=True, slots=True)
class _Job:
    """The condition to be written, and the one that the pod had when that was decided."""

    pod: PodRef
    wanted: Condition
    seen: Condition | None
    generation: int


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


class PodConditions:
    """Writes conditions in the background, the latest per pod, `workers` at once."""

    def __init__(
        self,
        api: Api,
        metrics: Metrics,
        *,
        workers: int = 8,
        max_waiting: int = 50_000,
        change_interval_seconds: float = CHANGE_INTERVAL_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._metrics = metrics
        self._change_interval_seconds = change_interval_seconds
        self._clock = clock
        self._written: OrderedDict[str, _Written] = OrderedDict()
        self._write_queue = WriteQueue[_Job](
            self._run_job,
            workers=workers,
            max_waiting=max_waiting,
            on_drop=metrics.condition_dropped,
        )

    def write(
        self, pod: PodRef, wanted: Condition, seen: Condition | None, *, generation: int = 0
    ) -> None:
        """Give the pod this condition; `seen` is the condition that the watch last saw.
        `generation` is the pod's and becomes the condition's observedGeneration."""
        message = shortened(wanted.message, MAX_MESSAGE_BYTES)
        if message is not wanted.message:
            wanted = replace(wanted, message=message)
        current = self._current(pod, seen)
        if current == wanted and not self._write_queue.is_busy(pod.uid):
            self._write_queue.discard(pod.uid)
            self._metrics.condition("unchanged")
            return
        job = _Job(pod, wanted, seen, generation)
        self._write_queue.put(pod.uid, job, self._wait_seconds(job, current))

    def forget(self, pod: PodRef) -> None:
        """The pod is being bound or is gone: drop its waiting condition."""
        self._write_queue.discard(pod.uid)
        self._written.pop(pod.uid, None)

    async def close(self, seconds: float = 5.0) -> None:
        """Take no more conditions; write the waiting ones within this time."""
        await self._write_queue.close(seconds)

    def _current(self, pod: PodRef, seen: Condition | None) -> Condition | None:
        """The condition last written, unless the watch has seen a newer one."""
        written = self._written.get(pod.uid)
        if written is None:
            return seen
        if _is_older(pod.resource_version, written.resource_version):
            return written.condition
        return seen

    def _wait_seconds(self, job: _Job, current: Condition | None) -> float:
        written = self._written.get(job.pod.uid)
        if written is None or current is None:
            return 0.0
        if (current.status, current.reason) != (job.wanted.status, job.wanted.reason):
            return 0.0
        return self._change_interval_seconds - (self._clock() - written.written_at)

    async def _run_job(self, _key: str, job: _Job) -> None:
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
        for _ in range(_MAX_CONFLICTS):
            if current == job.wanted:
                return "unchanged"
            try:
                await send_with_retries(partial(self._patch, job, current, version))
            except ApiError as error:
                # The pod was changed, deleted, or replaced by another one of the same name.
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
        metadata = {"uid": job.pod.uid}
        if version:
            metadata["resourceVersion"] = version
        answer = await self._api.send(
            "PATCH",
            f"{job.pod.path}/status",
            {"metadata": metadata, "status": {"conditions": [condition]}},
            answer=_Answer,
            content_type=STRATEGIC_MERGE_PATCH,
        )
        uid = job.pod.uid
        self._written[uid] = _Written(wanted, answer.metadata.resource_version, self._clock())
        self._written.move_to_end(uid)
        if len(self._written) > _MAX_REMEMBERED:
            self._written.popitem(last=False)

    async def _read(self, pod: PodRef) -> _Pod | None:
        return await send_with_retries(partial(self._api.find, pod.path, _Pod))


def _is_older(version: str, than: str) -> bool:
    """Whether one resource version, which may be empty, is older than another."""
    if version.isdecimal() and than.isdecimal():
        return int(version) < int(than)
    return version != than
