"""Events: what people see in `kubectl describe pod`, in the words of kube-scheduler.

Recording never blocks, never fails and costs little: an event is put into a bounded queue from
which a few workers send. It is kept brief: as in client-go the same event again is a count on the
first one, not another event; and beyond that, what is repeated without news is told once in five
minutes, and news about one pod once in ten seconds, the latest.
"""

import logging
import re
import socket
import time
import uuid
from collections import OrderedDict
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Literal

import msgspec

from afflux.kube.api.client import MERGE_PATCH, Api
from afflux.kube.api.errors import ApiError, UnreachableError
from afflux.kube.live.delivering import Deliveries, insist, shortened
from afflux.kube.live.references import ObjectRef, PodRef, of_pod
from afflux.web.metrics import Metrics


@dataclass(frozen=True, slots=True)
class What:
    """What an event is about; the API server wants all three."""

    type: Literal["Normal", "Warning"]
    reason: str
    action: str


SCHEDULED = What("Normal", "Scheduled", "Binding")
FAILED = What("Warning", "FailedScheduling", "Scheduling")
# What a pod says about its group cannot be, or its queue does not take it.
REFUSED = What("Warning", "GroupRefused", "Scheduling")
# The group would not fit on the empty cluster either.
UNSATISFIABLE = What("Warning", "Unsatisfiable", "Scheduling")
# When a waiting group will start.
PROMISED = What("Normal", "StartPromised", "Scheduling")
DEADLINE = What("Warning", "DeadlineOver", "Cleaning")
# Of its group only a part could be bound.
TAKEN_BACK = What("Warning", "TakenBack", "TakingBack")
PREEMPTED = What("Normal", "Preempted", "Preempting")
LEADER_ELECTION = What("Normal", "LeaderElection", "LeaderElection")

# The API server's limits, in bytes.
LONGEST_NOTE = 1024
LONGEST_INSTANCE = 128
LONGEST_NAME = 253

QUIET_SECONDS = 300.0
CALM_SECONDS = 10.0

# Of so many events we remember that we have sent them; older ones may be sent again.
_MOST_REMEMBERED = 100_000

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
    related: ObjectRef | None = None
    series: _Series | None = None


class _Told(msgspec.Struct):
    """An event that was sent: when, and how often it has happened."""

    event: _Event
    sent_at: float
    count: int = 1


class Recorder:
    """Sends events in the name of a scheduler; `scheduler` of a method names another profile.

    `workers` requests at most are under way, and `room` events wait for them at most.
    """

    def __init__(
        self,
        api: Api,
        metrics: Metrics,
        scheduler: str = "afflux",
        *,
        workers: int = 8,
        room: int = 20_000,
        quiet_seconds: float = QUIET_SECONDS,
        calm_seconds: float = CALM_SECONDS,
    ) -> None:
        self._api = api
        self._metrics = metrics
        self._scheduler = scheduler
        self._quiet_seconds = quiet_seconds
        self._calm_seconds = calm_seconds
        self._instances: dict[str, str] = {}
        self._told: OrderedDict[str, _Told] = OrderedDict()
        self._last_nanoseconds = 0
        self._deliveries = Deliveries[_Event](
            self._deliver, workers=workers, room=room, dropped=metrics.event_dropped
        )

    def scheduled(self, pod: PodRef, node: str, scheduler: str | None = None) -> None:
        """The pod was bound to the node."""
        self.forget(pod)
        note = f"Successfully assigned {pod.namespace}/{pod.name} to {node}"
        event = self._event(SCHEDULED, of_pod(pod), note, None, scheduler)
        # Its name is a key that nobody else has: this is told once and not again.
        self._deliveries.put(event.metadata.name, event)

    def failed(
        self, pod: PodRef, why: str, scheduler: str | None = None, what: What = FAILED
    ) -> None:
        """The pod could not be scheduled; or something else about one that waits."""
        self.event(what, of_pod(pod), why, scheduler=scheduler)

    def preempted(
        self, victim: PodRef, by: PodRef, node: str, scheduler: str | None = None
    ) -> None:
        """The victim had to leave the node for another pod."""
        note = f"Preempted by pod {by.uid} on node {node}"
        self.event(PREEMPTED, of_pod(victim), note, related=of_pod(by), scheduler=scheduler)

    def event(
        self,
        what: What,
        regarding: ObjectRef,
        note: str,
        *,
        related: ObjectRef | None = None,
        scheduler: str | None = None,
    ) -> None:
        """Something happened to an object."""
        key = _key(regarding.uid or regarding.name, what, related.uid if related else "")
        note = shortened(note, LONGEST_NOTE)
        waiting = self._deliveries.waiting(key)
        if waiting is not None and waiting.note == note:
            self._metrics.event("unchanged")
            return
        told = self._told.get(key)
        if told is not None and told.event.note == note:
            if waiting is not None:
                self._deliveries.discard(key)  # it is again as it was before
            self._repeat(key, told)
            return
        since_seconds = self._calm_seconds if told is None else time.monotonic() - told.sent_at
        self._deliveries.put(
            key,
            self._event(what, regarding, note, related, scheduler),
            self._calm_seconds - since_seconds,
        )

    def forget(self, pod: PodRef) -> None:
        """The pod waits no longer: nothing more is to be said about why it does."""
        for what in (FAILED, REFUSED, UNSATISFIABLE, PROMISED):
            key = _key(pod.uid, what)
            self._told.pop(key, None)
            self._deliveries.discard(key)

    async def close(self, seconds: float = 5.0) -> None:
        """Take no more events, and send what is there within so much time."""
        await self._deliveries.close(seconds)

    def _repeat(self, key: str, told: _Told) -> None:
        told.count += 1
        now = time.monotonic()
        if now - told.sent_at < self._quiet_seconds:
            self._metrics.event("unchanged")
            return
        told.sent_at = now
        series = _Series(told.count, micro_time())
        self._deliveries.put(key, msgspec.structs.replace(told.event, series=series))

    def _event(
        self,
        what: What,
        regarding: ObjectRef,
        note: str,
        related: ObjectRef | None,
        scheduler: str | None,
    ) -> _Event:
        controller = self._scheduler if scheduler is None else scheduler
        instance = self._instances.get(controller)
        if instance is None:
            instance = f"{controller}-{socket.gethostname()}"[:LONGEST_INSTANCE]
            self._instances[controller] = instance
        # Two events of one moment have different names too.
        nanoseconds = max(time.time_ns(), self._last_nanoseconds + 1)
        self._last_nanoseconds = nanoseconds
        return _Event(
            "events.k8s.io/v1",
            "Event",
            _Metadata(event_name(regarding.name, nanoseconds), regarding.namespace or "default"),
            micro_time(),
            controller,
            instance,
            what.type,
            what.reason,
            what.action,
            note,
            regarding,
            related,
        )

    async def _deliver(self, key: str, event: _Event) -> None:
        once = key == event.metadata.name
        if event.series is None and not once:
            self._told[key] = _Told(event, time.monotonic())
            self._told.move_to_end(key)
            if len(self._told) > _MOST_REMEMBERED:
                self._told.popitem(last=False)
        try:
            await insist(partial(self._send, event))
        except (ApiError, UnreachableError) as error:
            # Another try would end the same way; but the next one to say it may try.
            self._told.pop(key, None)
            self._metrics.event("failed")
            _log.info("event %s: %s", event.metadata.name, error)
        else:
            self._metrics.event("written")

    async def _send(self, event: _Event) -> None:
        path = f"/apis/events.k8s.io/v1/namespaces/{event.metadata.namespace}/events"
        if event.series is not None:
            body = {"series": event.series}
            try:
                await self._api.send(
                    "PATCH", f"{path}/{event.metadata.name}", body, content_type=MERGE_PATCH
                )
            except ApiError as error:
                if not error.is_missing:
                    raise
                # Events do not live long. It is told anew, with its count.
            else:
                return
        try:
            await self._api.send("POST", path, event)
        except ApiError as error:
            # There already: an earlier try came through and its answer did not.
            if not error.is_conflict:
                raise


def event_name(object_name: str, nanoseconds: int) -> str:
    """A name that starts with the object's and that no other event has, as client-go makes them.

    Where that would be too long, the object's name is cut; where it would be no name for an event,
    as of a role with a colon, it is something else altogether.
    """
    suffix = f".{nanoseconds:x}"
    if len(object_name) + len(suffix) > LONGEST_NAME:
        object_name = object_name[: LONGEST_NAME - len(suffix)].rstrip("-.")
    if _SUBDOMAIN.fullmatch(object_name):
        return object_name + suffix
    return str(uuid.uuid4())


def micro_time() -> str:
    """Now, as Kubernetes writes it where seconds are not enough."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _key(uid: str, what: What, related_uid: str = "") -> str:
    return f"{uid} {what.reason} {related_uid}"
