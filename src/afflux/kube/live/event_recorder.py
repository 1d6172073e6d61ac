"""Event recorder: events as `kubectl describe pod` shows them, in the words of kube-scheduler.

Recording never blocks or fails: an event goes into a bounded queue from which a few workers send.
As in client-go, a repeated event is a count on the first one, not another event. Beyond client-go,
an unchanged event is repeated at most once in five minutes, and of events with a new note about one
pod only the latest is sent, at most once in ten seconds.
"""

import logging
import re
import socket
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Literal

import msgspec

from afflux.kube.api.client import MERGE_PATCH, Api
from afflux.kube.api.errors import ApiError, UnreachableError
from afflux.kube.live.object_refs import ObjectRef, PodRef, pod_object_ref
from afflux.kube.live.write_queue import WriteQueue, send_with_retries, shortened
from afflux.web.scheduler_metrics import Metrics


@dataclass(frozen=True, slots=True)
class EventReason:
    """The type, reason and action of an event; the API server requires all three."""

    type: Literal["Normal", "Warning"]
    name: str
    action: str


SCHEDULED = EventReason("Normal", "Scheduled", "Binding")
FAILED_SCHEDULING = EventReason("Warning", "FailedScheduling", "Scheduling")
# The pod's labels for its group are wrong, or its queue does not accept the group.
GROUP_REFUSED = EventReason("Warning", "GroupRefused", "Scheduling")
# The group would not fit on the empty cluster either.
UNSATISFIABLE = EventReason("Warning", "Unsatisfiable", "Scheduling")
# When a waiting group will start.
START_PROMISED = EventReason("Normal", "StartPromised", "Scheduling")
# A running pod asks that its requirements hold while it runs, and its node does not meet them.
REQUIREMENT_VIOLATED = EventReason("Warning", "RequirementViolated", "Checking")
DEADLINE_OVER = EventReason("Warning", "DeadlineOver", "Cleaning")
# All members of the pod's group have succeeded, and the group is deleted.
GROUP_FINISHED = EventReason("Normal", "GroupFinished", "Cleaning")
# Only a part of the pod's group could be bound, so the pod was deleted.
TAKEN_BACK = EventReason("Warning", "TakenBack", "TakingBack")
# The pod leaves for pods of a higher priority.
PREEMPTED = EventReason("Normal", "Preempted", "Preempting")
LEADER_ELECTION = EventReason("Normal", "LeaderElection", "LeaderElection")

# The API server's limits, in bytes.
MAX_NOTE_BYTES = 1024
MAX_INSTANCE_BYTES = 128
MAX_NAME_BYTES = 253

REPEAT_INTERVAL_SECONDS = 300.0
CHANGE_INTERVAL_SECONDS = 10.0

# How many sent events are remembered; older ones may be sent again.
_MAX_REMEMBERED = 100_000

_SUBDOMAIN = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")

_log = logging.getLogger(__name__)


class _Metadata(msgspec.Struct, gc=False):
    name: str
    namespace: str


class _Series(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    count: int
    last_observed_time: str


class _Event(msgspec.Struct, rename="camel", omit_defaults=True):
    api_version: str
    kind: str
    metadata: _Metadata
    event_time: str
    reporting_controller: str
    reporting_instance: str
    type: str
    reason: str
    action: str
    note: str
    regarding: ObjectRef
    series: _Series | None = None


class _Sent(msgspec.Struct):
    """A sent event: when it was sent, and how often it has happened."""

    event: _Event
    sent_at: float
    count: int = 1


class EventRecorder:
    """Sends events in the name of a scheduler; a method's `scheduler` names another profile.

    At most `workers` requests are in flight, and at most `max_waiting` events wait.
    """

    def __init__(
        self,
        api: Api,
        metrics: Metrics,
        scheduler: str = "afflux",
        *,
        workers: int = 8,
        max_waiting: int = 20_000,
        repeat_interval_seconds: float = REPEAT_INTERVAL_SECONDS,
        change_interval_seconds: float = CHANGE_INTERVAL_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._metrics = metrics
        self._scheduler = scheduler
        self._repeat_interval_seconds = repeat_interval_seconds
        self._change_interval_seconds = change_interval_seconds
        self._clock = clock
        self._instances: dict[str, str] = {}
        self._sent: OrderedDict[str, _Sent] = OrderedDict()
        self._last_nanoseconds = 0
        self._write_queue = WriteQueue[_Event](
            self._write, workers=workers, max_waiting=max_waiting, on_drop=metrics.event_dropped
        )

    def scheduled(self, pod: PodRef, node: str, scheduler: str | None = None) -> None:
        self.forget(pod)
        note = f"Successfully assigned {pod.namespace}/{pod.name} to {node}"
        event = self._event(SCHEDULED, pod_object_ref(pod), note, scheduler)
        # The event's own name as the key: this event is sent once and never repeated.
        self._write_queue.put(event.metadata.name, event)

    def failed(
        self,
        pod: PodRef,
        why: str,
        scheduler: str | None = None,
        reason: EventReason = FAILED_SCHEDULING,
    ) -> None:
        """The pod could not be scheduled, or there is another message about a pod."""
        self.event(reason, pod_object_ref(pod), why, scheduler=scheduler)

    def event(
        self, reason: EventReason, regarding: ObjectRef, note: str, *, scheduler: str | None = None
    ) -> None:
        key = _key(regarding.uid or regarding.name, reason)
        note = shortened(note, MAX_NOTE_BYTES)
        waiting = self._write_queue.waiting(key)
        if waiting is not None and waiting.note == note:
            self._metrics.event("unchanged")
            return
        sent = self._sent.get(key)
        if sent is not None and sent.event.note == note:
            if waiting is not None:
                self._write_queue.discard(key)  # the note is again what it was before
            self._repeat(key, sent)
            return
        wait_seconds = 0.0
        if sent is not None:
            wait_seconds = sent.sent_at + self._change_interval_seconds - self._clock()
        event = self._event(reason, regarding, note, scheduler)
        self._write_queue.put(key, event, wait_seconds)

    def forget(self, pod: PodRef) -> None:
        """The pod no longer waits: drop the waiting events about why it waits."""
        for reason in (FAILED_SCHEDULING, GROUP_REFUSED, UNSATISFIABLE, START_PROMISED):
            key = _key(pod.uid, reason)
            self._sent.pop(key, None)
            self._write_queue.discard(key)

    async def close(self, seconds: float = 5.0) -> None:
        """Take no more events; send the waiting ones within this time."""
        await self._write_queue.close(seconds)

    def _repeat(self, key: str, sent: _Sent) -> None:
        sent.count += 1
        now = self._clock()
        if now - sent.sent_at < self._repeat_interval_seconds:
            self._metrics.event("unchanged")
            return
        sent.sent_at = now
        series = _Series(sent.count, micro_time())
        self._write_queue.put(key, msgspec.structs.replace(sent.event, series=series))

    def _event(
        self, reason: EventReason, regarding: ObjectRef, note: str, scheduler: str | None
    ) -> _Event:
        controller = self._scheduler if scheduler is None else scheduler
        instance = self._instances.get(controller)
        if instance is None:
            instance = f"{controller}-{socket.gethostname()}"[:MAX_INSTANCE_BYTES]
            self._instances[controller] = instance
        # Two events of the same nanosecond need different names.
        nanoseconds = max(time.time_ns(), self._last_nanoseconds + 1)
        self._last_nanoseconds = nanoseconds
        return _Event(
            "events.k8s.io/v1",
            "Event",
            _Metadata(event_name(regarding.name, nanoseconds), regarding.namespace or "default"),
            micro_time(),
            controller,
            instance,
            reason.type,
            reason.name,
            reason.action,
            note,
            regarding,
        )

    async def _write(self, key: str, event: _Event) -> None:
        once = key == event.metadata.name
        if event.series is None and not once:
            self._sent[key] = _Sent(event, self._clock())
            self._sent.move_to_end(key)
            if len(self._sent) > _MAX_REMEMBERED:
                self._sent.popitem(last=False)
        try:
            await send_with_retries(partial(self._send, event))
        except (ApiError, UnreachableError) as error:
            # Another try would fail too; the next event with this key is sent again.
            self._sent.pop(key, None)
            self._metrics.event("failed")
            _log.info("event %s: %s", event.metadata.name, error)
        else:
            self._metrics.event("written")

    async def _send(self, event: _Event) -> None:
        path = f"/apis/events.k8s.io/v1/namespaces/{event.metadata.namespace}/events"
        if event.series is not None:
            body = {"series": event.series}
            try:
                event_path = f"{path}/{event.metadata.name}"
                await self._api.send("PATCH", event_path, body, content_type=MERGE_PATCH)
            except ApiError as error:
                if not error.is_not_found:
                    raise
                # The first event has expired: create the event again, with its count.
            else:
                return
        try:
            await self._api.send("POST", path, event)
        except ApiError as error:
            # An earlier try succeeded, but its answer was lost.
            if not error.is_conflict:
                raise


def event_name(object_name: str, nanoseconds: int) -> str:
    """A unique name for an event that starts with the object's name, as client-go makes them.

    An object name that is too long is cut; for one that is not valid in the name of an event, such
    as a role's with a colon, the event is named by a UUID.
    """
    suffix = f".{nanoseconds:x}"
    if len(object_name) + len(suffix) > MAX_NAME_BYTES:
        object_name = object_name[: MAX_NAME_BYTES - len(suffix)].rstrip("-.")
    if _SUBDOMAIN.fullmatch(object_name):
        return object_name + suffix
    return str(uuid.uuid4())


def micro_time() -> str:
    """The current time as a Kubernetes MicroTime."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _key(uid: str, reason: EventReason) -> str:
    return f"{uid} {reason.name}"
