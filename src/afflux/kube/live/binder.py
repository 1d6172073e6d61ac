"""Binder: sends the bindings that the cycle decided, several at once, until each has an outcome.

A binding names the pod's uid, so a pod that was created again under the same name is never bound by
mistake, and the API server refuses a second binding of a pod. A binding whose answer was lost can
therefore be sent again, to the same node, until there is an answer; meanwhile the pod keeps its
place. A binding is given up only when it did not happen and cannot happen any more: a refusal of
the second request says nothing about the first, which the API server may still carry out.

A placement that rests on others by required affinity is held back until these are bound. It fails
if one of them is not bound; meanwhile other bindings are sent.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from time import monotonic
from typing import Literal

from afflux.control.adapter import OrderListener, RestsOn
from afflux.control.backoff import MAX_RETRY_AFTER_SECONDS, Backoff
from afflux.kube.api.client import Api
from afflux.kube.api.errors import ApiError, UnreachableError
from afflux.kube.live.bind_confirmation import BindConfirmation
from afflux.kube.live.bind_steps import PreBinder
from afflux.kube.live.held_bindings import HeldBindings, LostAnchor
from afflux.kube.live.object_refs import pod_path
from afflux.kube.live.pod_locator import LOCATOR_TIMES, LocatorTimes, PodLocator
from afflux.kube.nodes import rejects_pod
from afflux.kube.reader.cluster_reader import ClusterReader
from afflux.kube.rejection import Rejection
from afflux.model.placement import Placement
from afflux.web.rate_limited_log import RateLimitedLog
from afflux.web.scheduler_metrics import Metrics

# The binding of one pod is given up after so many errors of the server (5xx).
MAX_SERVER_ERRORS = 6
# Bindings that failed once and are retried at the same time. A request that hangs keeps its
# connection for long; retries must not take all connections.
MAX_CONCURRENT_RETRIES = 16
# How many pods are remembered that have failed with a pod on which they rest.
MAX_REMEMBERED = 10_000

_NO_LIMIT = nullcontext()
_OVERTAKEN = "overtaken by events"
_NO_ORDER: RestsOn = {}

_log = RateLimitedLog(logging.getLogger(__name__))


@dataclass(frozen=True, slots=True)
class BinderTimes:
    initial_backoff_seconds: float = 0.1
    max_backoff_seconds: float = 5.0
    # A longer Retry-After of the server is cut to this.
    max_retry_after_seconds: float = MAX_RETRY_AFTER_SECONDS
    # The API server may carry out an unanswered request for so long; then it gives the request up.
    request_lifetime_seconds: float = 60.0
    # How long a pod waits after its binding was refused; the wait doubles with every refusal.
    initial_refusal_backoff_seconds: float = 1.0
    max_refusal_backoff_seconds: float = 60.0
    # How long the binder waits, when it stops, for the answers to the requests in flight.
    shutdown_timeout_seconds: float = 3.0
    locator: LocatorTimes = LOCATOR_TIMES


BINDER_TIMES = BinderTimes()


def no_annotations(_: Placement) -> Mapping[str, str]:
    return {}


@dataclass(frozen=True, slots=True)
class _Reply:
    verdict: Literal["bound", "refused", "conflict", "busy", "failed", "lost"]
    why: str = ""
    retry_after_seconds: float = 0.0
    # The API server may still carry the request out.
    may_still_happen: bool = False


@dataclass(frozen=True, slots=True)
class _Result:
    """The outcome of one binding; `overtaken` if the pod or its node has changed meanwhile."""

    verdict: Literal["bound", "refused", "overtaken"]
    why: str = ""


@dataclass(slots=True)
class _Worker:
    """One of the `parallelism` workers; it is no longer counted once its binding takes long."""

    is_counted: bool = True


class Binder:
    """Sends bindings, `parallelism` at once.

    `remaining_seconds` returns how long this process may still write, None for no limit. No request
    outlives that time: a process that was suspended must not send one when it resumes.
    `annotations` returns what the binding of a placement writes into its pod.
    """

    def __init__(
        self,
        api: Api,
        reader: ClusterReader,
        listener: OrderListener,
        *,
        metrics: Metrics,
        remaining_seconds: Callable[[], float | None],
        parallelism: int,
        timeout_seconds: float,
        pre_binder: PreBinder,
        annotations: Callable[[Placement], Mapping[str, str]] = no_annotations,
        times: BinderTimes = BINDER_TIMES,
    ) -> None:
        self._api = api
        self._reader = reader
        self._listener = listener
        self._metrics = metrics
        self._remaining_seconds = remaining_seconds
        self._timeout_seconds = timeout_seconds
        self._pre_binder = pre_binder
        self._annotations = annotations
        self._times = times
        locator = PodLocator(api, reader, times.locator)
        self._bind_confirmation = BindConfirmation(locator, metrics, listener.in_doubt)
        # Ids of tasks whose binding was sent and may have happened, without an answer.
        self._uncertain: set[str] = set()
        self._parallelism = parallelism
        self._waiting: deque[Placement] = deque()
        self._held = HeldBindings()
        # Ids of tasks whose last placement failed with one on which it rested.
        self._lost_before: set[str] = set()
        self._task_group: asyncio.TaskGroup | None = None
        self._busy_workers = 0
        self._retry_slots = asyncio.Semaphore(MAX_CONCURRENT_RETRIES)
        self._in_flight = 0
        self._all_sent = asyncio.Event()
        self._all_sent.set()

    async def run(self) -> None:
        """Send bindings until cancelled."""
        async with asyncio.TaskGroup() as task_group:
            self._task_group = task_group
            self._enqueue(())
            try:
                await asyncio.Event().wait()
            finally:
                await self._finish()

    async def _finish(self) -> None:
        """Send nothing more; wait for answers, which the ledger keeps for the next leader."""
        unsent = {each.task.id: each for each in (*self._waiting, *self._held.clear())}
        self._waiting.clear()
        self._metrics.binds_held_back(0)
        for placement in unsent.values():
            self._reader.register.not_bound(placement.task.id, "not sent before the end")
        deadline = monotonic() + self._times.shutdown_timeout_seconds
        while self._in_flight and monotonic() < deadline:
            await asyncio.sleep(0.01)

    def begin_cycle(self) -> frozenset[str]:
        """A cycle begins that decides the next placements, which may rest on those without an
        outcome. Returns the ids of their tasks."""
        return self._held.begin_cycle()

    def submit(self, placements: Sequence[Placement], rests_on: RestsOn = _NO_ORDER) -> None:
        """Queue these placements; they are bound in this order as workers become free.

        `rests_on` has, by task id, the ids of the tasks that have to be bound before.
        """
        # The pods of a gang prepare together, before the first of them is bound.
        joint = [p for p in placements if p.task.id in rests_on and self._pre_binder.is_joint(p)]
        preparing = {each.task.id for each in joint}
        free, lost = self._held.add(placements, rests_on, preparing)
        self._enqueue((*joint, *free))
        self._lose(lost)

    def _enqueue(self, placements: Iterable[Placement]) -> None:
        self._metrics.binds_held_back(len(self._held))
        self._waiting.extend(placements)
        if self._waiting:
            self._all_sent.clear()
        if self._task_group is not None:
            free = self._parallelism - self._busy_workers
            for _ in range(min(free, len(self._waiting))):
                self._busy_workers += 1
                self._task_group.create_task(self._work(self._task_group))

    @property
    def held(self) -> int:
        """The number of placements that are held back until others are bound."""
        return len(self._held)

    async def all_sent(self) -> None:
        """Wait until no placement waits for a free worker."""
        await self._all_sent.wait()

    async def _work(self, task_group: asyncio.TaskGroup) -> None:
        """Bind one placement after the other until none is left or one takes long."""
        worker = _Worker()
        while self._waiting and worker.is_counted:
            placement = self._waiting.popleft()
            if not self._waiting:
                self._all_sent.set()
            if not self._held.is_open(placement):
                # It has failed meanwhile, with a placement on which it rests.
                continue
            if self._pre_binder.concerns(placement):
                # Creating volumes may take minutes; other placements do not wait for it.
                task_group.create_task(self._prepare_and_bind(placement))
            else:
                await self._bind_one(placement, worker)
        if worker.is_counted:
            self._busy_workers -= 1

    def _release_worker(self, worker: _Worker) -> None:
        """This binding may take long: another worker takes its place."""
        if worker.is_counted:
            worker.is_counted = False
            self._busy_workers -= 1
            self._enqueue(())

    async def _prepare_and_bind(self, placement: Placement) -> None:
        began = monotonic()
        rejection = await self._pre_binder.prepare(placement)
        if not self._held.is_open(placement):
            return
        if rejection is not None:
            self.reject(placement, rejection, monotonic() - began)
        elif self._held.prepared(placement):
            await self._bind_one(placement, _Worker(is_counted=False))

    def reject(self, placement: Placement, rejection: Rejection, seconds: float = 0.0) -> None:
        """The placement failed before it was sent."""
        self._pre_binder.cancel(placement, rejection)
        if rejection.reason and not rejection.decide_again:
            self._refused(placement, rejection.reason, seconds)
        else:
            self._overtaken(placement, rejection.reason or _OVERTAKEN)

    def _lose(self, lost: Sequence[LostAnchor]) -> None:
        """These placements fail because others, on which they rest, were not bound.

        A pod for which this is new is decided again at once: it may do with another pod. After
        that it waits as if it had been refused, so that refusals do not keep the cycle busy.
        """
        for each in lost:
            task_id = each.placement.task.id
            is_new = task_id not in self._lost_before
            if len(self._lost_before) >= MAX_REMEMBERED:
                # Most of these pods were bound or deleted meanwhile.
                self._lost_before.clear()
            self._lost_before.add(task_id)
            self.reject(each.placement, Rejection(each.reason, decide_again=is_new))
        if lost:
            self._metrics.binds_held_back(len(self._held))
            text = "%s was not bound: %s pods that depend on it by required affinity wait again"
            _log.warning(text, lost[0].anchor.name, len(lost))

    async def _bind_one(self, placement: Placement, worker: _Worker) -> None:
        self._metrics.bind_sent()
        began = monotonic()
        result = await self._outcome(placement, worker)
        seconds = monotonic() - began
        self._metrics.bind_answered(result.verdict, seconds)
        if result.verdict == "bound":
            self._reader.register.bound(placement.task.id, placement.machine)
            self._listener.bound(placement, seconds)
            self._lost_before.discard(placement.task.id)
            self._enqueue(self._held.bound(placement))
        elif result.verdict == "refused":
            self._refused(placement, result.why, seconds)
        else:
            # The pod was deleted or bound by another scheduler; its node was deleted or cordoned.
            self._overtaken(placement)
        self._uncertain.discard(placement.task.id)

    async def _outcome(self, placement: Placement, worker: _Worker) -> _Result:
        """Send the binding until its outcome is known."""
        bound, overtaken = _Result("bound"), _Result("overtaken")
        backoff = Backoff(self._times.initial_backoff_seconds, self._times.max_backoff_seconds)
        uncertain, server_errors, may_happen_until = False, 0, 0.0
        while True:
            async with self._retry_slots if uncertain else _NO_LIMIT:
                if self._reader.node_of(placement.task) == placement.machine:
                    return bound
                remaining = self._remaining_seconds()
                over = remaining is not None and remaining <= 0
                if over or not (uncertain or self._is_still_valid(placement)):
                    return overtaken
                reply = await self._send(placement, remaining)
            if reply.verdict == "bound":
                return bound
            if reply.verdict == "refused" and not uncertain:
                return _Result("refused", reply.why)
            if reply.may_still_happen:
                may_happen_until = monotonic() + self._times.request_lifetime_seconds
            server_errors += reply.verdict == "failed"
            if server_errors >= MAX_SERVER_ERRORS:
                await self._wait_until(may_happen_until, placement)
            is_no = reply.verdict in {"conflict", "refused"} or server_errors >= MAX_SERVER_ERRORS
            may_happen = monotonic() < may_happen_until
            if reply.verdict == "conflict" or (is_no and not may_happen):
                pod = await self._bind_confirmation.read(placement)
                if not pod.is_pending or not may_happen:
                    self._uncertain.discard(placement.task.id)
                    if pod.is_pending and reply.why:
                        return _Result("refused", reply.why)
                    return bound if pod.machine == placement.machine else overtaken
            if reply.verdict in {"lost", "failed"}:
                # A lost answer or an error of the server (5xx) may hide a success. The error may
                # also concern this pod alone and come again.
                if not uncertain:
                    self._uncertain.add(placement.task.id)
                    self._reader.register.doubtful(placement.task.id, reply.why or "no answer")
                uncertain = True
                self._release_worker(worker)
            await asyncio.sleep(backoff.wait_seconds(reply.retry_after_seconds))

    async def _wait_until(self, moment: float, placement: Placement) -> None:
        """Wait until this moment, or until the pod has a node."""
        longest = self._times.max_backoff_seconds
        while monotonic() < moment and self._reader.node_of(placement.task) is None:
            await asyncio.sleep(min(longest, max(moment - monotonic(), 0.0)))

    async def _send(self, placement: Placement, remaining_seconds: float | None) -> _Reply:
        path = f"{pod_path(placement.task.name)}/binding"
        body = _binding(placement, self._annotations(placement))
        timeout_seconds = self._timeout_seconds
        self._in_flight += 1
        try:
            async with asyncio.timeout(remaining_seconds):
                await self._api.send("POST", path, body, timeout_seconds=timeout_seconds)
        except TimeoutError:
            return _Reply("lost", may_still_happen=True)
        except UnreachableError as error:
            return _Reply("lost", may_still_happen=True) if error.sent else _Reply("busy")
        except ApiError as error:
            why = f"binding to {placement.machine} was refused: {error.message}"
            if error.is_conflict or error.is_not_found:
                return _Reply("conflict", why)
            if error.is_busy:
                lost = error.may_have_happened
                wait = min(error.retry_after_seconds or 0.0, self._times.max_retry_after_seconds)
                return _Reply("lost" if lost else "busy", why, wait, may_still_happen=lost)
            failed = error.status >= 500 or error.may_have_happened
            verdict = "failed" if failed else "refused"
            return _Reply(verdict, why, may_still_happen=error.may_be_under_way)
        finally:
            self._in_flight -= 1
        return _Reply("bound")

    def _is_still_valid(self, placement: Placement) -> bool:
        """Whether the pod still waits, and its node exists and still admits the pod."""
        node = self._reader.nodes.get(placement.machine)
        return (
            self._reader.pending_pod(placement.task) is not None
            and node is not None
            and not rejects_pod(node, placement.task.shape.tolerations)
        )

    def _overtaken(self, placement: Placement, why: str = _OVERTAKEN) -> None:
        """The placement is void, and the pod can be decided again at once; unless the term is over
        before it is known whether the pod was bound: then the next leader finds out."""
        if placement.task.id not in self._uncertain:
            self._reader.forget_assumed(placement, why)
        self._lose(self._held.failed(placement))

    def _refused(self, placement: Placement, why: str, seconds: float) -> None:
        self._listener.not_bound(placement, seconds)
        doublings = min(self._reader.bind_refusals(placement.task.name), 20)
        pause = min(
            self._times.max_refusal_backoff_seconds,
            self._times.initial_refusal_backoff_seconds * 2**doublings,
        )
        refusal = f"{why}; trying again after {pause:.0f} s"
        self._reader.forget_assumed(placement, why, refusal=refusal)
        loop = asyncio.get_running_loop()
        loop.call_later(pause, self._reader.retry, placement.task.name)
        self._lose(self._held.failed(placement))


def _binding(placement: Placement, annotations: Mapping[str, str]) -> dict[str, object]:
    _, _, name = placement.task.name.partition("/")
    noted = {"annotations": annotations} if annotations else {}
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, "uid": placement.task.id, **noted},
        "target": {"apiVersion": "v1", "kind": "Node", "name": placement.machine},
    }
