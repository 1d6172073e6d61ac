"""PodScheduled conditions: correct, written once, and never written to a bound pod."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from small_api import Fault, Request, SmallApi, run, serving, until

from afflux.kube.live.object_refs import PodRef
from afflux.kube.live.pod_conditions import Condition, PodConditions, scheduler_error, unschedulable
from afflux.web.scheduler_metrics import Metrics

PATH = "/api/v1/namespaces/prod/pods/web-0"
READY = {"type": "Ready", "status": "False"}
WHY = "0/3 nodes are available: 3 Insufficient cpu."


def pod(server: SmallApi, uid: str = "u1", **status: Any) -> PodRef:
    """A pod on the server, and a reference to it."""
    kept = server.put(
        PATH,
        {
            "metadata": {"name": "web-0", "namespace": "prod", "uid": uid, "generation": 3},
            "spec": {},
            "status": {"conditions": [READY], **status},
        },
    )
    return PodRef("prod", "web-0", uid, kept["metadata"]["resourceVersion"])


def again(server: SmallApi, ref: PodRef) -> PodRef:
    """The same pod, as the watch would bring it now."""
    version = server.objects[PATH]["metadata"]["resourceVersion"]
    return PodRef(ref.namespace, ref.name, ref.uid, version)


def condition(server: SmallApi) -> dict[str, Any] | None:
    kept = server.objects[PATH]["status"]["conditions"]
    return next((each for each in kept if each["type"] == "PodScheduled"), None)


def patches(server: SmallApi) -> list[Request]:
    return [request for request in server.requests if request.method == "PATCH"]


def messages(server: SmallApi) -> list[str]:
    return [patch.body["status"]["conditions"][0]["message"] for patch in patches(server)]


@asynccontextmanager
async def writing(server: SmallApi, **options: Any) -> AsyncIterator[PodConditions]:
    api = server.api()
    conditions = PodConditions(api, options.pop("metrics", Metrics()), **options)
    try:
        yield conditions
    finally:
        await conditions.close()
        await api.close()


def count(metrics: Metrics, result: str) -> float:
    return metrics.registry.get_sample_value("afflux_conditions_total", {"result": result}) or 0


# --- What is written


def test_a_waiting_pod_gets_the_condition_and_keeps_its_others() -> None:
    async def test() -> None:
        async with serving() as server:
            ref = pod(server)
            async with writing(server) as conditions:
                conditions.write(ref, unschedulable(WHY), None, generation=3)
            (patch,) = patches(server)
            assert patch.path == f"{PATH}/status"
            assert patch.content_type == "application/strategic-merge-patch+json"
            assert patch.body["metadata"] == {"uid": "u1", "resourceVersion": ref.resource_version}
            written = condition(server)
            assert written is not None
            when = written.pop("lastTransitionTime")
            assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", when)
            assert written == {
                "type": "PodScheduled",
                "status": "False",
                "reason": "Unschedulable",
                "message": WHY,
                "observedGeneration": 3,
            }
            assert READY in server.objects[PATH]["status"]["conditions"]

    run(test)


def test_reasons_are_those_of_kube_scheduler() -> None:
    assert unschedulable("m") == Condition("False", "Unschedulable", "m")
    assert scheduler_error("m") == Condition("False", "SchedulerError", "m")


def test_the_transition_time_changes_only_with_the_status() -> None:
    async def test() -> None:
        async with serving() as server:
            ref = pod(server)
            async with writing(server) as conditions:
                conditions.write(ref, scheduler_error(WHY), None)
                await until(lambda: condition(server) is not None)
                first = condition(server)
                conditions.write(ref, unschedulable(WHY), None)
                await until(lambda: len(patches(server)) == 2)
            second = condition(server)
            assert first is not None
            assert second is not None
            assert "lastTransitionTime" not in patches(server)[1].body["status"]["conditions"][0]
            assert second["lastTransitionTime"] == first["lastTransitionTime"]
            assert second["reason"] == "Unschedulable"

    run(test)


def test_a_message_of_any_length_is_cut() -> None:
    async def test() -> None:
        async with serving() as server:
            async with writing(server) as conditions:
                conditions.write(pod(server), unschedulable("ü" * 10_000), None)
            written = condition(server)
            assert written is not None
            assert len(written["message"].encode()) <= 4096

    run(test)


# --- When nothing is written


def test_an_unchanged_condition_is_not_written() -> None:
    async def test() -> None:
        metrics = Metrics()
        async with serving() as server:
            ref = pod(server)
            async with writing(server, metrics=metrics) as conditions:
                conditions.write(ref, unschedulable(WHY), unschedulable(WHY))
            assert not server.requests
            assert count(metrics, "unchanged") == 1

    run(test)


def test_a_written_condition_is_not_written_again_while_the_watch_lags() -> None:
    async def test() -> None:
        metrics = Metrics()
        async with serving() as server:
            ref = pod(server)
            async with writing(server, metrics=metrics) as conditions:
                conditions.write(ref, unschedulable(WHY), None)
                await until(lambda: count(metrics, "written") == 1)
                conditions.write(ref, unschedulable(WHY), None)
            assert len(patches(server)) == 1

    run(test)


def test_a_condition_that_another_client_removed_is_written_again() -> None:
    async def test() -> None:
        metrics = Metrics()
        async with serving() as server:
            ref = pod(server)
            async with writing(server, metrics=metrics, change_interval_seconds=0) as conditions:
                conditions.write(ref, unschedulable(WHY), None)
                await until(lambda: count(metrics, "written") == 1)
                pod(server)  # without the condition, and newer
                conditions.write(again(server, ref), unschedulable(WHY), None)
            written = condition(server)
            assert written is not None
            assert "lastTransitionTime" in written

    run(test)


def test_of_many_conditions_of_a_pod_the_latest_is_written() -> None:
    async def test() -> None:
        async with serving() as server:
            ref = pod(server)
            release = asyncio.Event()
            server.fault = lambda _: Fault(until=release)
            async with writing(server, change_interval_seconds=0) as conditions:
                conditions.write(ref, unschedulable("m0"), None)
                await until(lambda: len(patches(server)) == 1)
                for number in range(1, 100):
                    conditions.write(ref, unschedulable(f"m{number}"), None)
                    await asyncio.sleep(0)
                release.set()
            assert messages(server) == ["m0", "m99"]
            assert server.most_in_flight == 1

    run(test)


def test_a_changed_message_waits_and_a_changed_reason_is_written_at_once() -> None:
    async def test() -> None:
        metrics = Metrics()
        async with serving() as server:
            ref = pod(server)
            async with writing(server, metrics=metrics, change_interval_seconds=60) as conditions:
                conditions.write(ref, unschedulable("one"), None)
                await until(lambda: count(metrics, "written") == 1)
                conditions.write(ref, unschedulable("two"), None)
                # A worker would have started by now.
                for _ in range(20):
                    await asyncio.sleep(0)
                assert conditions._write_queue.waiting(ref.uid) is not None
                conditions.write(ref, scheduler_error("three"), None)
                await until(lambda: len(patches(server)) == 2)
                # The waiting message was replaced.
                await conditions.close()
            assert messages(server) == ["one", "three"]

    run(test)


def test_a_message_that_changes_back_is_not_written() -> None:
    async def test() -> None:
        metrics = Metrics()
        async with serving() as server:
            ref = pod(server)
            async with writing(server, metrics=metrics, change_interval_seconds=60) as conditions:
                conditions.write(ref, unschedulable("one"), None)
                await until(lambda: count(metrics, "written") == 1)
                conditions.write(ref, unschedulable("two"), None)
                conditions.write(ref, unschedulable("one"), None)
            assert len(patches(server)) == 1

    run(test)


# --- What happens meanwhile


def test_a_pod_that_was_bound_meanwhile_does_not_become_unschedulable() -> None:
    async def test() -> None:
        metrics = Metrics()
        async with serving() as server:
            ref = pod(server)
            bound = server.objects[PATH]
            bound["spec"]["nodeName"] = "n1"
            bound["status"]["conditions"].append({"type": "PodScheduled", "status": "True"})
            server.put(PATH, bound)
            async with writing(server, metrics=metrics) as conditions:
                conditions.write(ref, unschedulable(WHY), None)
                await until(lambda: count(metrics, "gone") == 1)
            assert condition(server) == {"type": "PodScheduled", "status": "True"}

    run(test)


def test_a_pod_that_changed_in_other_fields_gets_its_condition() -> None:
    async def test() -> None:
        async with serving() as server:
            ref = pod(server)
            changed = server.objects[PATH]
            changed["metadata"]["annotations"] = {"a": "b"}
            server.put(PATH, changed)
            async with writing(server) as conditions:
                conditions.write(ref, unschedulable(WHY), None)
            written = condition(server)
            assert written is not None
            assert written["reason"] == "Unschedulable"
            assert server.objects[PATH]["metadata"]["annotations"] == {"a": "b"}

    run(test)


def test_another_pod_of_the_same_name_is_left_alone() -> None:
    async def test() -> None:
        metrics = Metrics()
        async with serving() as server:
            ref = pod(server, "u1")
            pod(server, "u2")
            async with writing(server, metrics=metrics) as conditions:
                conditions.write(ref, unschedulable(WHY), None)
                unversioned = PodRef("prod", "web-0", "u3")
                conditions.write(unversioned, unschedulable(WHY), None)
                await until(lambda: count(metrics, "gone") == 2)
            assert condition(server) is None
            assert count(metrics, "failed") == 0

    run(test)


def test_a_pod_that_is_gone_is_no_error() -> None:
    async def test() -> None:
        metrics = Metrics()
        async with serving() as server:
            ref = pod(server)
            server.delete(PATH)
            async with writing(server, metrics=metrics) as conditions:
                conditions.write(ref, unschedulable(WHY), None)
                await until(lambda: count(metrics, "gone") == 1)
            assert count(metrics, "failed") == 0

    run(test)


def test_the_waiting_condition_of_a_pod_that_is_being_bound_is_dropped() -> None:
    async def test() -> None:
        async with serving() as server:
            ref = pod(server)
            async with writing(server, workers=1) as conditions:
                conditions.write(ref, unschedulable(WHY), None)
                conditions.forget(ref)
            assert not patches(server)

    run(test)


@pytest.mark.parametrize(
    "fault",
    [Fault(hang_up_before=True), Fault(hang_up_after=True), Fault(status=500), Fault(status=429)],
    ids=["no answer", "written, no answer", "error", "busy"],
)
def test_a_condition_is_written_after_a_bad_answer(fault: Fault) -> None:
    async def test() -> None:
        metrics = Metrics()
        async with serving() as server:
            ref = pod(server)
            faults = [fault]
            server.fault = lambda _: faults.pop() if faults else Fault()
            async with writing(server, metrics=metrics) as conditions:
                conditions.write(ref, unschedulable(WHY), None)
                await until(lambda: count(metrics, "written") + count(metrics, "unchanged") == 1)
            assert condition(server) is not None

    run(test)


def test_a_refusal_is_counted_and_the_next_write_is_tried() -> None:
    async def test() -> None:
        metrics = Metrics()
        async with serving() as server:
            ref = pod(server)
            server.fault = lambda _: Fault(status=403)
            async with writing(server, metrics=metrics) as conditions:
                conditions.write(ref, unschedulable(WHY), None)
                await until(lambda: count(metrics, "failed") == 1)
                server.fault = lambda _: Fault()
                conditions.write(ref, unschedulable(WHY), None)
            assert condition(server) is not None

    run(test)


def test_writes_without_room_are_dropped_and_counted() -> None:
    async def test() -> None:
        metrics = Metrics()
        async with serving() as server:
            server.fault = lambda _: Fault(until=asyncio.Event())
            api = server.api()
            conditions = PodConditions(api, metrics, workers=2, max_waiting=3)
            for number in range(10):
                conditions.write(PodRef("prod", "web-0", f"u{number}"), unschedulable(WHY), None)
            # Closing does not wait longer than its timeout, although no request is answered.
            await conditions.close(0.05)
            assert metrics.registry.get_sample_value("afflux_conditions_dropped_total") == 10
            await api.close()

    run(test)
