"""Pod evictor: carries out evictions, and writes nominations to the pods that wait for them.

As kube-scheduler does it: the victim gets the condition DisruptionTarget, is deleted with its own
grace period and its uid as a precondition, and gets an event. The preemptor's
`status.nominatedNodeName` is written before, so that the scheduler that leads next, and others,
know what the victim leaves for; it is removed when the pod waits on without a place. The API
server removes it itself from a pod that is bound.

An eviction that fails is reported, after a pause, so that the decision is made anew.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial

from afflux.kube.api.client import STRATEGIC_MERGE_PATCH, Api
from afflux.kube.api.errors import ApiError, UnreachableError
from afflux.kube.live.deletion import Deletion
from afflux.kube.live.event_recorder import PREEMPTED, EventRecorder
from afflux.kube.live.object_refs import PodRef, pod_object_ref, pod_ref
from afflux.kube.live.write_queue import Retries, send_with_retries
from afflux.kube.pods import scheduler_of
from afflux.kube.reader.cluster_reader import ClusterReader
from afflux.model.eviction import Eviction
from afflux.model.placement import Placement
from afflux.model.task import Task

# Evictions at once.
PARALLELISM = 32
FAILURE_PAUSE_SECONDS = 5.0
# About ten seconds: a decision that waits for a victim that stays helps no pod.
_RETRIES = Retries(max_tries=4)

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Batch:
    """What one decision orders: the node of each nominated pod, empty if it is nominated no more;
    then the evictions."""

    nominations: list[tuple[PodRef, str]] = field(default_factory=list[tuple[PodRef, str]])
    evictions: Sequence[Eviction] = ()


class PodEvictor:
    """`remaining_seconds` says how long this replica may act as leader."""

    def __init__(
        self,
        api: Api,
        reader: ClusterReader,
        recorder: EventRecorder,
        *,
        remaining_seconds: Callable[[], float | None],
        on_evicted: Callable[[int], None],
    ) -> None:
        self._api = api
        self._reader = reader
        self._recorder = recorder
        self._deletion = Deletion(api, remaining_seconds, _RETRIES)
        self._remaining_seconds = remaining_seconds
        self._on_evicted = on_evicted
        self._batches: asyncio.Queue[_Batch] = asyncio.Queue()
        self._in_flight = asyncio.Semaphore(PARALLELISM)
        # The nominations that were written, by the id of the task.
        self._nominated: dict[str, tuple[Task, str]] = {}

    def submit(self, evictions: Sequence[Eviction], nominations: Sequence[Placement]) -> None:
        """Evict these pods; these are all nominations that stand."""
        now = {each.task.id: (each.task, each.machine) for each in nominations}
        before, self._nominated = self._nominated, now
        batch = _Batch(evictions=evictions)
        for task_id, (task, node) in (before | now).items():
            wanted = node if task_id in now else ""
            pod = self._reader.pending_pod(task)
            is_same = task_id in before and task_id in now and before[task_id] == now[task_id]
            if pod is not None and not is_same and not self._reader.is_assumed(task.name):
                batch.nominations.append((pod_ref(pod), wanted))
        if batch.nominations or batch.evictions:
            self._batches.put_nowait(batch)
        if evictions:
            self._on_evicted(len(evictions))

    def give_up(self, evictions: Sequence[Eviction]) -> None:
        """These evictions are not carried out."""
        for each in evictions:
            self._reader.eviction_failed(each.task.id)

    async def run(self) -> None:
        """Carry out orders until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                tasks.create_task(self._carry_out(await self._batches.get()))

    async def _carry_out(self, batch: _Batch) -> None:
        await asyncio.gather(*(self._nominate(pod, node) for pod, node in batch.nominations))
        await asyncio.gather(*map(self._evict, batch.evictions))

    async def _evict(self, eviction: Eviction) -> None:
        async with self._in_flight:
            try:
                why = await self._try_to_evict(eviction)
            except (ApiError, UnreachableError) as error:
                why = str(error)
        if why is not None:
            _log.warning("pod %s cannot be evicted: %s", eviction.task.name, why)
            report = partial(self._reader.eviction_failed, eviction.task.id)
            asyncio.get_running_loop().call_later(FAILURE_PAUSE_SECONDS, report)

    async def _try_to_evict(self, eviction: Eviction) -> str | None:
        """Returns why the pod stays, None if it ends."""
        pod = self._reader.pods.get(eviction.task.name)
        if pod is None or pod.metadata.uid != eviction.task.id:
            return None
        ref, scheduler = pod_ref(pod), scheduler_of(pod)
        if not await self._mark(ref, scheduler):
            return None
        why = await self._deletion.delete(ref.path, ref.uid)
        if why is None:
            preemptors = ", ".join(each.id for each in eviction.needed_by[:3])
            note = f"Preempted by pod {preemptors} on node {eviction.machine}"
            self._recorder.event(PREEMPTED, pod_object_ref(ref), note, scheduler=scheduler)
        return why

    async def _mark(self, pod: PodRef, scheduler: str) -> bool:
        """The condition that says why the pod is deleted. False if the pod is gone."""
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": f"{scheduler}: preempting to accommodate a higher priority pod",
            "lastTransitionTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        return await self._patch(pod, {"conditions": [condition]})

    async def _nominate(self, pod: PodRef, node: str) -> None:
        async with self._in_flight:
            try:
                await self._patch(pod, {"nominatedNodeName": node or None})
            except (ApiError, UnreachableError) as error:
                # Only others miss it: this scheduler holds the place.
                _log.warning("%s/%s: nominatedNodeName: %s", pod.namespace, pod.name, error)

    async def _patch(self, pod: PodRef, status: dict[str, object]) -> bool:
        remaining = self._remaining_seconds()
        if remaining is not None and remaining <= 0:
            return True
        body = {"metadata": {"uid": pod.uid}, "status": status}
        send = partial(
            self._api.send,
            "PATCH",
            f"{pod.path}/status",
            body,
            content_type=STRATEGIC_MERGE_PATCH,
        )
        try:
            await send_with_retries(send, _RETRIES)
        except ApiError as error:
            # The pod is gone, or another one has its name.
            if error.status in {404, 409, 422}:
                return False
            raise
        return True
