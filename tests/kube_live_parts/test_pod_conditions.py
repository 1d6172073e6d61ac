"""The PodScheduled condition: true, not written twice, and never on a pod that was bound since."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from small_api import Fault, Request, SmallApi, run, serving, until

from afflux.kube.live.conditions import (
    Condition,
    Conditions,
    gated,
    scheduler_error,
    unschedulable,
)
from afflux.kube.live.references import PodRef
from afflux.web.metrics import Metrics

PATH = "/api/v1/namespaces/prod/pods/web-0"
READY = {"type": "Ready", "status": "False"}
WHY = "0/3 nodes are available: 3 Insufficient cpu."


def pod(server: SmallApi, uid: str = "u1", **status: Any) -> PodRef:
    """A pod on the server, and how we speak about it."""
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


@asynccontextmanager
async def writing(server: SmallApi, **options: Any) -> AsyncIterator[Conditions]:
    api = server.api()
    conditions = Conditions(api, options.pop("metrics", Metrics()), **options)
    try:
        yield conditions
    finally:
        await conditions.close()
        await api.close()


def count(metrics: Metrics, result: str) -> float:
    return metrics.registry.get_sample_value("afflux_conditions_total", {"result": result}) or 0


# --- What is written


def test_a_pod_that_waits_says_so_and_keeps_its_other_conditions() -> None:
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


def test_reasons_are_those_that_others_look_for() -> None:
    assert unschedulable("m") == Condition("False", "Unschedulable", "m")
    assert scheduler_error("m") == Condition("False", "SchedulerError", "m")
    assert gated() == Condition(
        "False", "SchedulingGated", "Scheduling is blocked due to non-empty scheduling gates"
    )


def test_the_time_of_transition_is_that_of_the_status_only() -> None:
    async def test() -> None:
        async with serving() as server:
            ref = pod(server)
            async with writing(server) as conditions:
                conditions.write(ref, gated(), None)
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


def test_a_nomination_can_be_cleared_and_set() -> None:
    async def test() -> None:
        async with serving() as server:
            ref = pod(server, nominatedNodeName="n1")
            async with writing(server) as conditions:
                conditions.write(ref, unschedulable(WHY), None, nominated_node="")
                await until(lambda: bool(patches(server)))
                assert "nominatedNodeName" not in server.objects[PATH]["status"]
                conditions.write(ref, unschedulable(WHY), None, nominated_node="n2")
            assert server.objects[PATH]["status"]["nominatedNodeName"] == "n2"

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


def test_what_the_pod_has_already_is_not_written() -> None:
    async def test() -> None:
        metrics = Metrics()
        async with serving() as server:
            ref = pod(server)
            async with writing(server, metrics=metrics) as conditions:
                conditions.write(ref, unschedulable(WHY), unschedulable(WHY))
            assert not server.requests
            assert count(metrics, "unchanged") == 1

    run(test)


def test_what_was_just_written_is_not_written_again_while_the_watch_lags() -> None:
    async def test() -> None:
        async with serving() as server:
            ref = pod(server)
            async with writing(server) as conditions:
                conditions.write(ref, unschedulable(WHY), None)
                await until(lambda: condition(server) is not None)
                await until(lambda: server.in_flight == 0)
                await asyncio.sleep(0.05)
                conditions.write(ref, unschedulable(WHY), None)
            assert len(patches(server)) == 1

    run(test)


def test_what_somebody_else_changed_since_is_written_again() -> None:
    async def test() -> None:
        metrics = Metrics()
        async with serving() as server:
            ref = pod(server)
            async with writing(server, metrics=metrics, calm_seconds=0) as conditions:
                conditions.write(ref, unschedulable(WHY), None)
                await until(lambda: count(metrics, "written") == 1)
                pod(server)  # without the condition, and newer
                conditions.write(again(server, ref), unschedulable(WHY), None)
            written = condition(server)
            assert written is not None
            assert "lastTransitionTime" in written

    run(test)


def test_of_many_decisions_about_a_pod_the_last_is_written() -> None:
    async def test() -> None:
        async with serving() as server:
            ref = pod(server)
            server.fault = lambda _: Fault(before_seconds=0.05)
            async with writing(server, calm_seconds=0) as conditions:
                for number in range(100):
                    conditions.write(ref, unschedulable(f"m{number}"), None)
                    await asyncio.sleep(0.001)
            written = condition(server)
            assert written is not None
            assert written["message"] == "m99"
            assert len(patches(server)) < 20
            assert server.most_in_flight == 1

    run(test)


def test_a_message_that_flickers_is_written_now_and_then_a_reason_at_once() -> None:
    async def test() -> None:
        async with serving() as server:
            ref = pod(server)
            async with writing(server, calm_seconds=60) as conditions:
                conditions.write(ref, unschedulable("one"), None)
                await until(lambda: len(patches(server)) == 1 and server.in_flight == 0)
                await asyncio.sleep(0.05)
                conditions.write(ref, unschedulable("two"), None)
                await asyncio.sleep(0.1)
                assert len(patches(server)) == 1
                conditions.write(ref, scheduler_error("three"), None)
                await until(lambda: len(patches(server)) == 2)
                # What was held is not written any more.
                await conditions.close()
            assert len(patches(server)) == 2

    run(test)


def test_a_message_that_is_again_as_it_was_is_no_news() -> None:
    async def test() -> None:
        async with serving() as server:
            ref = pod(server)
            async with writing(server, calm_seconds=60) as conditions:
                conditions.write(ref, unschedulable("one"), None)
                await until(lambda: len(patches(server)) == 1 and server.in_flight == 0)
                await asyncio.sleep(0.05)
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


def test_a_pod_that_changed_otherwise_gets_its_condition_all_the_same() -> None:
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


def test_a_pod_that_is_being_bound_is_forgotten() -> None:
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
def test_a_bad_answer_is_survived(fault: Fault) -> None:
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


def test_a_refusal_is_counted_and_nobody_is_bothered() -> None:
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


def test_what_has_no_room_is_dropped_and_counted() -> None:
    async def test() -> None:
        metrics = Metrics()
        async with serving() as server:
            server.fault = lambda _: Fault(before_seconds=30)
            api = server.api()
            conditions = Conditions(api, metrics, workers=2, room=3)
            for number in range(10):
                conditions.write(PodRef("prod", "web-0", f"u{number}"), unschedulable(WHY), None)
            await asyncio.wait_for(conditions.close(0.05), 10)
            assert metrics.registry.get_sample_value("afflux_conditions_dropped_total") == 10
            await api.close()

    run(test)
