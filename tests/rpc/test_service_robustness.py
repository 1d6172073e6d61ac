"""No message can crash or wedge the service, and every bad one gets a status with its field."""

import asyncio
import math
from random import Random
from typing import Any

import grpc
import grpc.aio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from afflux.rpc.call_rate import CallRate
from afflux.rpc.cluster_entries import ClusterLimits
from afflux.rpc.proto.firmament import scheduler_pb2 as pb
from afflux.rpc.server import ServerLimits
from rpc.firmament_client import (
    RESOURCE,
    FirmamentClient,
    foreign,
    gang_task,
    node,
    part,
    run,
    service,
    task,
)
from rpc.message_mutations import METHODS, mutated_messages

_MUTATIONS = 10_000
# Calls under way at once.
_AT_ONCE = 64


async def _error(call: Any) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value.code(), caught.value.details() or ""


@pytest.mark.parametrize(
    ("method", "message", "complaint"),
    [
        ("TaskSubmitted", pb.TaskDescription(), "task_descriptor: missing"),
        ("TaskUpdated", pb.TaskDescription(), "task_descriptor: missing"),
        (
            "TaskSubmitted",
            pb.TaskDescription(task_descriptor={"uid": 1}),
            "task_descriptor.name: missing",
        ),
        ("TaskSubmitted", task(1, "a\nb"), "task_descriptor.name: 'a\\nb', expected printable"),
        ("TaskSubmitted", task(1, "x" * 1025), "task_descriptor.name: 1025 characters"),
        (
            "TaskSubmitted",
            task(1, cpu_milli=math.nan),
            "task_descriptor.resource_request.cpu_cores: nan, expected a number from 0",
        ),
        (
            "TaskSubmitted",
            task(1, cpu_milli=-1),
            "task_descriptor.resource_request.cpu_cores: -1",
        ),
        (
            "TaskSubmitted",
            task(1, priority=2**32 - 1),
            "task_descriptor.priority: 4294967295, expected at most 2147483647",
        ),
        ("TaskSubmitted", gang_task(1, "", 2), "job_descriptor.uuid: missing"),
        (
            "NodeAdded",
            part("", RESOURCE.RESOURCE_MACHINE),
            "resource_desc.uuid: missing",
        ),
        ("NodeAdded", part("pu"), "resource_desc.type: no RESOURCE_MACHINE"),
        (
            "NodeAdded",
            node("a", children=[node("b")]),
            "children[0].resource_desc.type: RESOURCE_MACHINE inside a machine",
        ),
        (
            "NodeAdded",
            node("a", children=[part("a")]),
            "children[0].resource_desc.uuid: 'a' is given twice",
        ),
        (
            "NodeAdded",
            node("a", taints=[{"key": "x", "effect": "Never"}]),
            "resource_desc.taints[0].effect: 'Never', expected one of NoSchedule",
        ),
        (
            "NodeAdded",
            node("a", cpu_milli=math.inf),
            "resource_desc.available_resources.cpu_cores: inf",
        ),
        (
            "NodeAdded",
            node("a", children=[part(f"p{n}") for n in range(4096)]),
            "children: too many parts of one tree, expected 4096 at most",
        ),
        ("AddTaskInfo", pb.TaskInfo(), "task_name: missing"),
        ("AddTaskInfo", pb.TaskInfo(task_name="x", type=7), "type: 7, expected TASKINFO_ADD"),
        ("AddTaskInfo", foreign("x", "a", cpu_milli=-5), "cpu_utilization: -5"),
    ],
)
def test_a_bad_message_gets_a_status_that_names_the_field(
    method: str, message: Any, complaint: str
):
    async def story():
        async with service() as client:
            code, details = await _error(getattr(client, method)(message))
            assert code == grpc.StatusCode.INVALID_ARGUMENT
            assert details.startswith(complaint)
            assert await client.schedule() == ({}, [])

    run(story())


def test_what_is_no_message_of_the_call_gets_a_status_that_says_so():
    async def story():
        async with service() as client:
            code, details = await _error(client.send("TaskSubmitted", b"\xff\xff\xff"))
            assert code == grpc.StatusCode.INVALID_ARGUMENT
            assert details == "the request is not a firmament.TaskDescription"

    run(story())


def test_unknown_fields_are_skipped():
    async def story():
        async with service() as client:
            await client.add(node("a"))
            later = b"\xfa\x7f\x03new"  # field 2047, of a later version
            await client.send("TaskSubmitted", task(1).SerializeToString() + later)
            assert await client.schedule() == ({1: "a-pu"}, [])

    run(story())


def test_messages_beyond_a_limit_are_refused():
    async def story():
        limits = ClusterLimits(machines=1, tasks=1, foreign_tasks=1)
        async with service(
            cluster_limits=limits, limits=ServerLimits(message_bytes=1 << 20)
        ) as client:
            await client.add(node("a"))
            await client.submit(task(1))
            await client.AddTaskInfo(foreign("x/default", "a"))
            refused = (
                client.NodeAdded(node("b")),
                client.TaskSubmitted(task(2)),
                client.AddTaskInfo(foreign("y/default", "a")),
                client.TaskSubmitted(task(1, binary="x" * (1 << 19))),
                client.TaskSubmitted(task(1, binary="x" * (1 << 20))),
            )
            for call in refused:
                code, details = await _error(call)
                assert code == grpc.StatusCode.RESOURCE_EXHAUSTED
                assert details
            # What is known may be said again.
            await client.submit(task(1))
            assert (await client.AddTaskInfo(foreign("x/default", "a"))).type == (
                pb.TASKINFO_SUBMITTED_OK
            )
            assert await client.schedule() == ({1: "a-pu"}, [])

    run(story())


def test_calls_beyond_the_rate_of_a_client_are_delayed_and_never_refused():
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    async def story():
        rate = CallRate(10.0, clock=lambda: 5.0, sleep=sleep)
        for _ in range(11):
            await rate.wait("a")
        assert not slept
        for _ in range(2):
            await rate.wait("a")
        await rate.wait("b")
        assert slept == pytest.approx([0.1, 0.2])

    run(story())


async def _works(client: FirmamentClient) -> None:
    """A new task on a new machine is placed, and both leave."""
    uid = 2**63 + 1
    # With room for every other task that waits.
    await client.add(node("mine", 1e9, max_pods=100_000, labels={"mark": "mine"}))
    selector = {"key": "mark", "values": ["mine"]}
    await client.submit(task(uid, "mine/mine", cpu_milli=1, label_selectors=[selector]))
    places, _ = await client.schedule()
    assert places[uid] == "mine-pu"
    assert (await client.TaskRemoved(pb.TaskUID(task_uid=uid))).type == pb.TASK_REMOVED_OK
    gone = await client.NodeRemoved(pb.ResourceUID(resource_uid="mine"))
    assert gone.type == pb.NODE_REMOVED_OK


_REFUSALS = (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.RESOURCE_EXHAUSTED)


async def _send(client: FirmamentClient, method: str, request: bytes) -> None:
    refused: grpc.aio.AioRpcError | None = None
    try:
        await client.send(method, request)
    except grpc.aio.AioRpcError as error:
        refused = error
    if refused is not None:
        assert refused.code() in _REFUSALS, (method, request, refused.details())
        assert refused.details()


async def _survives(random: Random, messages: int) -> None:
    """A service answers so many mutated messages, and then works as before."""
    async with service() as client:
        calls = [_send(client, *each) for each in mutated_messages(random, messages)]
        for first in range(0, messages, _AT_ONCE):
            await asyncio.gather(*calls[first : first + _AT_ONCE])
        await _works(client)


@pytest.mark.slow
def test_no_message_crashes_or_wedges_the_service():
    services = pb.DESCRIPTOR.services_by_name
    assert set(METHODS) == set(services["FirmamentScheduler"].methods_by_name)
    run(_survives(Random(1), _MUTATIONS))


@pytest.mark.slow
@settings(max_examples=10)
@given(st.integers(0, 2**63))
def test_no_further_messages_do_either(seed: int):
    run(_survives(Random(seed), 1000))
