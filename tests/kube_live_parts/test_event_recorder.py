"""Event recorder: events in the words of kube-scheduler, at limited rates."""

import asyncio
import re
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_api import Fault, SmallApi, run, serving, until

from afflux.kube.live.event_recorder import (
    CHANGE_INTERVAL_SECONDS,
    LEADER_ELECTION,
    REPEAT_INTERVAL_SECONDS,
    EventRecorder,
    event_name,
)
from afflux.kube.live.object_refs import ObjectRef, PodRef
from afflux.web.scheduler_metrics import Metrics

pytestmark = pytest.mark.slow

POD = PodRef("prod", "web-0", "uid-web-0", "41")
OTHER = PodRef("prod", "db-0", "uid-db-0", "42")
WHY = "0/3 nodes are available: 3 Insufficient cpu."
DNS = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


@dataclass
class Clock:
    """A clock that stands still until it is set."""

    now: float = 100.0

    def __call__(self) -> float:
        return self.now


@asynccontextmanager
async def recording(server: SmallApi, **options: Any) -> AsyncIterator[EventRecorder]:
    api = server.api()
    recorder = EventRecorder(api, options.pop("metrics", Metrics()), **options)
    try:
        yield recorder
    finally:
        await recorder.close()
        await api.close()


def events(server: SmallApi) -> list[dict[str, Any]]:
    return [kept for path, kept in server.objects.items() if "/events/" in path]


def count(metrics: Metrics, result: str) -> float:
    return metrics.registry.get_sample_value("afflux_events_total", {"result": result}) or 0


# --- Contents


def test_a_bound_pod_is_scheduled() -> None:
    async def test() -> None:
        async with serving() as server:
            async with recording(server) as recorder:
                recorder.scheduled(POD, "node-7")
            (event,) = events(server)
            assert server.requests[0].path == "/apis/events.k8s.io/v1/namespaces/prod/events"
            metadata = event.pop("metadata")
            assert re.fullmatch(r"web-0\.[0-9a-f]{16}", metadata["name"])
            assert metadata["namespace"] == "prod"
            assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", event.pop("eventTime"))
            assert event == {
                "apiVersion": "events.k8s.io/v1",
                "kind": "Event",
                "type": "Normal",
                "reason": "Scheduled",
                "action": "Binding",
                "note": "Successfully assigned prod/web-0 to node-7",
                "reportingController": "afflux",
                "reportingInstance": f"afflux-{socket.gethostname()}"[:128],
                "regarding": {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "namespace": "prod",
                    "name": "web-0",
                    "uid": "uid-web-0",
                    "resourceVersion": "41",
                },
            }

    run(test)


def test_a_waiting_pod_gets_a_warning_with_the_reason() -> None:
    async def test() -> None:
        async with serving() as server:
            async with recording(server, scheduler="default-scheduler") as recorder:
                recorder.failed(POD, WHY)
            (event,) = events(server)
            said = [event[key] for key in ("type", "reason", "action", "note")]
            assert said == ["Warning", "FailedScheduling", "Scheduling", WHY]
            assert event["reportingController"] == "default-scheduler"

    run(test)


def test_events_can_be_about_any_object() -> None:
    async def test() -> None:
        async with serving() as server:
            async with recording(server) as recorder:
                lease = ObjectRef("coordination.k8s.io/v1", "Lease", "kube-system", "afflux")
                recorder.event(LEADER_ELECTION, lease, "one became leader")
                recorder.event(LEADER_ELECTION, ObjectRef("v1", "Node", name="n"), "no namespace")
            first, second = events(server)
            assert first["regarding"]["kind"] == "Lease"
            assert second["metadata"]["namespace"] == "default"

    run(test)


def test_a_note_is_cut_to_the_servers_limit() -> None:
    async def test() -> None:
        async with serving() as server:
            async with recording(server) as recorder:
                recorder.failed(POD, "é" * 1000)
            note = events(server)[0]["note"]
            assert len(note.encode()) <= 1024
            assert note.startswith("é" * 500)
            assert note.endswith(" ...")

    run(test)


LABELS = st.text("ab0-", min_size=1, max_size=63).map(lambda text: f"x{text}x")


@given(
    st.lists(LABELS, min_size=1, max_size=12).map(lambda parts: ".".join(parts)[:253].rstrip("-."))
)
def test_event_names_are_valid(name: str) -> None:
    made = event_name(name, 0x18A1B2C3D4E5F607)
    assert DNS.fullmatch(made)
    assert len(made) <= 253
    assert made.startswith(name[:236].rstrip("-."))
    assert made.endswith(".18a1b2c3d4e5f607")


@pytest.mark.parametrize("name", ["system:admin", "", "A", "-a"])
def test_invalid_object_names_give_a_uuid(name: str) -> None:
    assert re.fullmatch(r"[0-9a-f-]{36}", event_name(name, 1))


# --- Rates


def test_an_unchanged_event_is_sent_once() -> None:
    async def test() -> None:
        metrics = Metrics()
        async with serving() as server:
            async with recording(server, metrics=metrics) as recorder:
                for _ in range(5):
                    recorder.failed(POD, WHY)
                await until(lambda: len(server.requests) == 1)
                for _ in range(5):
                    recorder.failed(POD, WHY)
            assert len(server.requests) == 1
            assert (count(metrics, "written"), count(metrics, "unchanged")) == (1, 9)

    run(test)


def test_after_the_interval_a_repeated_event_increases_the_count_of_the_first() -> None:
    async def test() -> None:
        clock = Clock()
        async with serving() as server:
            async with recording(server, clock=clock) as recorder:
                recorder.failed(POD, WHY)
                await until(lambda: len(events(server)) == 1)
                clock.now += REPEAT_INTERVAL_SECONDS - 1
                recorder.failed(POD, WHY)
                recorder.failed(POD, WHY)
                clock.now += 1
                recorder.failed(POD, WHY)
            assert len(server.requests) == 2
            patch = server.requests[1]
            assert patch.method == "PATCH"
            assert patch.content_type == "application/merge-patch+json"
            assert set(patch.body) == {"series"}
            (event,) = events(server)
            assert event["series"]["count"] == 4
            assert event["series"]["lastObservedTime"] > event["eventTime"]

    run(test)


def test_a_repeated_event_whose_first_one_has_expired_is_created_again() -> None:
    async def test() -> None:
        clock = Clock()
        async with serving() as server:
            async with recording(server, clock=clock) as recorder:
                recorder.failed(POD, WHY)
                await until(lambda: len(server.objects) == 1)
                server.objects.clear()
                clock.now += REPEAT_INTERVAL_SECONDS
                recorder.failed(POD, WHY)
            (event,) = events(server)
            assert (event["note"], event["series"]["count"]) == (WHY, 2)
            assert [request.method for request in server.requests] == ["POST", "PATCH", "POST"]

    run(test)


def test_a_changed_note_is_sent_once_per_interval() -> None:
    async def test() -> None:
        clock = Clock()
        async with serving() as server:
            async with recording(server, clock=clock) as recorder:
                recorder.failed(POD, "first")
                await until(lambda: len(events(server)) == 1)
                # The write queue waits for the rest of the interval.
                clock.now += CHANGE_INTERVAL_SECONDS - 0.2
                for number in range(50):
                    recorder.failed(POD, f"then {number}")
                assert len(recorder._write_queue) == 1
                await until(lambda: len(events(server)) == 2)
                recorder.failed(POD, "then 49")
            assert [event["note"] for event in events(server)] == ["first", "then 49"]

    run(test)


def test_a_note_that_changes_back_is_not_sent() -> None:
    async def test() -> None:
        async with serving() as server:
            async with recording(server) as recorder:
                recorder.failed(POD, "first")
                await until(lambda: len(server.requests) == 1)
                recorder.failed(POD, "second")
                recorder.failed(POD, "first")
            assert [event["note"] for event in events(server)] == ["first"]

    run(test)


def test_waiting_events_of_a_scheduled_pod_are_dropped() -> None:
    async def test() -> None:
        async with serving() as server:
            async with recording(server) as recorder:
                recorder.failed(POD, "first")
                await until(lambda: len(server.requests) == 1)
                recorder.failed(POD, "second")
                recorder.scheduled(POD, "n")
                recorder.failed(OTHER, "gone before it was sent")
                recorder.forget(OTHER)
            said = [event["reason"] for event in events(server)]
            assert said == ["FailedScheduling", "Scheduled"]

    run(test)


def test_the_interval_holds_for_each_pod_separately() -> None:
    async def test() -> None:
        async with serving() as server:
            async with recording(server) as recorder:
                recorder.failed(POD, WHY)
                recorder.failed(OTHER, WHY)
                recorder.failed(PodRef("prod", "web-0", "another uid"), WHY)
            assert len(events(server)) == 3

    run(test)


# --- When the server is slow or fails


def test_a_burst_is_sent_by_few_workers_and_no_event_is_lost() -> None:
    async def test() -> None:
        metrics = Metrics()
        async with serving() as server:
            server.fault = lambda _: Fault(before_seconds=0.001)
            async with recording(server, metrics=metrics, workers=4) as recorder:
                for number in range(500):
                    recorder.scheduled(PodRef("prod", f"p{number}", f"u{number}"), "n")
                await until(lambda: count(metrics, "written") == 500)
            assert len(events(server)) == 500
            assert server.most_in_flight <= 4

    run(test)


def test_writes_without_room_are_dropped_and_counted() -> None:
    async def test() -> None:
        metrics = Metrics()
        async with serving() as server:
            server.fault = lambda _: Fault(until=asyncio.Event())
            api = server.api()
            recorder = EventRecorder(api, metrics, workers=2, max_waiting=10)
            for number in range(100):
                recorder.failed(PodRef("prod", f"p{number}", f"u{number}"), WHY)
            dropped = metrics.registry.get_sample_value("afflux_events_dropped_total")
            assert dropped == 90
            # Closing does not wait longer than its timeout, although no request is answered.
            await recorder.close(0.1)
            assert metrics.registry.get_sample_value("afflux_events_dropped_total") == 100
            await api.close()

    run(test)


def test_a_dropped_event_is_sent_the_next_time() -> None:
    async def test() -> None:
        async with serving() as server:
            server.fault = lambda _: Fault(before_seconds=0.2)
            async with recording(server, workers=1, max_waiting=1) as recorder:
                recorder.failed(OTHER, WHY)
                recorder.failed(POD, WHY)
                await until(lambda: len(events(server)) == 1)
                recorder.failed(POD, WHY)
            assert {event["regarding"]["name"] for event in events(server)} == {"web-0", "db-0"}

    run(test)


@pytest.mark.parametrize(
    "fault",
    [Fault(hang_up_before=True), Fault(hang_up_after=True), Fault(status=500), Fault(status=429)],
    ids=["no answer", "written, no answer", "error", "busy"],
)
def test_an_event_is_created_once_after_a_bad_answer(fault: Fault) -> None:
    async def test() -> None:
        metrics = Metrics()
        async with serving() as server:
            faults = [fault]
            server.fault = lambda _: faults.pop() if faults else Fault()
            async with recording(server, metrics=metrics) as recorder:
                recorder.scheduled(POD, "n")
                await until(lambda: count(metrics, "written") == 1)
            assert len(events(server)) == 1

    run(test)


@pytest.mark.parametrize("status", [403, 404, 422])
def test_a_refusal_is_counted_and_the_next_write_is_tried(status: int) -> None:
    async def test() -> None:
        metrics = Metrics()
        async with serving() as server:
            server.fault = lambda _: Fault(status=status)
            async with recording(server, metrics=metrics) as recorder:
                recorder.failed(POD, WHY)
                await until(lambda: count(metrics, "failed") == 1)
                # The refused event does not count as sent.
                server.fault = lambda _: Fault()
                recorder.failed(POD, WHY)
            assert len(events(server)) == 1

    run(test)
