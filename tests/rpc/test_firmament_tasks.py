"""Tasks of Firmament's clients: submission, ends, updates, and what either side says again."""

import pytest

from afflux.rpc.process import ServiceProcess
from afflux.rpc.proto.firmament import scheduler_pb2 as pb
from afflux.rpc.proto.firmament import tasks_pb2 as tasks
from rpc.firmament_client import (
    client_of,
    gang_task,
    node,
    run,
    service,
    service_process,
    task,
)


def _uid(uid: int) -> pb.TaskUID:
    return pb.TaskUID(task_uid=uid)


def _reason(process: ServiceProcess, uid: int) -> str:
    known = process.cluster.newest(uid)
    assert known is not None
    return known.status


def test_a_task_is_placed_completed_and_removed():
    async def story():
        async with service() as client:
            await client.add(node("a", cpu_milli=100))
            await client.submit(task(1), task(2))
            places, waiting = await client.schedule()
            assert list(places.values()) == ["a-pu"]
            (placed,) = places
            assert (await client.TaskCompleted(_uid(placed))).type == pb.TASK_COMPLETED_OK
            assert await client.schedule() == ({waiting[0]: "a-pu"}, [])
            # The client removes a completed task when its pod is deleted.
            assert (await client.TaskRemoved(_uid(placed))).type == pb.TASK_REMOVED_OK
            assert (await client.TaskRemoved(_uid(placed))).type == pb.TASK_NOT_FOUND

    run(story())


def test_calls_about_unknown_tasks_say_so():
    async def story():
        async with service() as client:
            assert (await client.TaskCompleted(_uid(9))).type == pb.TASK_NOT_FOUND
            assert (await client.TaskFailed(_uid(9))).type == pb.TASK_NOT_FOUND
            assert (await client.TaskRemoved(_uid(9))).type == pb.TASK_NOT_FOUND
            assert (await client.TaskUpdated(task(9))).type == pb.TASK_NOT_FOUND

    run(story())


def test_a_waiting_task_may_fail_and_be_removed():
    async def story():
        async with service() as client:
            await client.submit(task(1))
            assert await client.schedule() == ({}, [1])
            assert (await client.TaskFailed(_uid(1))).type == pb.TASK_FAILED_OK
            assert await client.schedule() == ({}, [])
            assert (await client.TaskRemoved(_uid(1))).type == pb.TASK_REMOVED_OK

    run(story())


def test_only_created_tasks_can_be_submitted():
    async def story():
        async with service() as client:
            for state in tasks.TaskDescriptor.TaskState.values()[1:]:
                reply = await client.TaskSubmitted(task(1, state=state))
                assert reply.type == pb.TASK_STATE_NOT_CREATED
            assert await client.schedule() == ({}, [])

    run(story())


def test_every_decision_is_told_once_and_all_waiting_tasks_every_time():
    async def story():
        async with service() as client:
            await client.add(node("a", max_pods=1))
            await client.submit(task(1, cpu_milli=1), task(2, cpu_milli=1))
            places, waiting = await client.schedule()
            assert (len(places), len(waiting)) == (1, 1)
            assert await client.schedule() == ({}, waiting)

    run(story())


def test_an_identical_submission_is_ok_on_any_connection_and_tells_the_place_again():
    async def story():
        async with service_process() as process:
            async with client_of(process) as client:
                await client.add(node("a"), node("b"))
                await client.submit(task(1), task(1))
                places, _ = await client.schedule()
                await client.submit(task(1))
                assert await client.schedule() == (places, [])
            async with client_of(process) as restarted:
                await restarted.submit(task(1))
                assert await restarted.schedule() == (places, [])
                assert len(process.cluster.tasks) == 1

    run(story())


def test_a_waiting_task_submitted_again_is_one_task():
    async def story():
        async with service() as client:
            await client.submit(task(1), task(1))
            assert await client.schedule() == ({}, [1])
            await client.TaskRemoved(_uid(1))
            assert await client.schedule() == ({}, [])

    run(story())


def test_a_known_uid_with_another_name_is_another_task_and_the_older_keeps_its_place():
    async def story():
        async with service() as client:
            await client.add(node("a", max_pods=2))
            await client.submit(task(1, "default/old"))
            assert (await client.schedule())[0] == {1: "a-pu"}
            await client.submit(task(1, "default/new"), task(2), task(3))
            places, waiting = await client.schedule()
            # The old task, and one of the three, fill the machine.
            assert (len(places), len(waiting)) == (1, 2)

    run(story())


def test_both_tasks_of_a_uid_are_completed_and_removed():
    async def story():
        async with service_process() as process, client_of(process) as client:
            await client.add(node("a"))
            for name in ("default/old", "default/new"):
                await client.submit(task(1, name))
                assert (await client.schedule())[0] == {1: "a-pu"}
            for _ in range(2):
                assert (await client.TaskCompleted(_uid(1))).type == pb.TASK_COMPLETED_OK
            assert not process.cluster.tasks
            for _ in range(2):
                assert (await client.TaskRemoved(_uid(1))).type == pb.TASK_REMOVED_OK
            assert (await client.TaskRemoved(_uid(1))).type == pb.TASK_NOT_FOUND

    run(story())


def test_a_completion_while_the_newer_task_waits_is_that_of_the_older():
    async def story():
        async with service() as client:
            await client.add(node("a", max_pods=1))
            await client.submit(task(1, "default/old"))
            assert (await client.schedule())[0] == {1: "a-pu"}
            await client.submit(task(1, "default/new"))
            assert await client.schedule() == ({}, [1])
            await client.TaskCompleted(_uid(1))
            assert await client.schedule() == ({1: "a-pu"}, [])

    run(story())


def test_an_older_task_ends_when_its_machine_is_added_again():
    async def story():
        async with service_process() as process, client_of(process) as client:
            await client.add(node("a", max_pods=1))
            await client.submit(task(1, "default/old"))
            await client.schedule()
            await client.submit(task(1, "default/new"))
            assert await client.schedule() == ({}, [1])
            # The client has restarted.
            assert (await client.NodeAdded(node("a", max_pods=1))).type == pb.NODE_ALREADY_EXISTS
            assert await client.schedule() == ({1: "a-pu"}, [])

    run(story())


def test_a_name_has_one_task_at_a_time():
    async def story():
        async with service_process() as process, client_of(process) as client:
            await client.add(node("a"))
            await client.submit(task(1, "default/web-0"))
            await client.schedule()
            # The pod was made anew, with another request, while the client was away.
            await client.submit(task(1, "default/web-0", cpu_milli=200))
            assert (await client.schedule())[0] == {1: "a-pu"}
            assert len(process.cluster.tasks) == 1

    run(story())


def test_an_update_changes_requests_priority_labels_and_selectors():
    async def story():
        async with service() as client:
            await client.add(node("a", cpu_milli=1000, labels={"disk": "ssd"}))
            await client.submit(task(1, cpu_milli=2000))
            assert await client.schedule() == ({}, [1])
            selector = {"key": "disk", "values": ["hdd"]}
            update = task(1, cpu_milli=500, label_selectors=[selector])
            assert (await client.TaskUpdated(update)).type == pb.TASK_UPDATED_OK
            assert await client.schedule() == ({}, [1])
            await client.TaskUpdated(task(1, cpu_milli=500))
            assert await client.schedule() == ({1: "a-pu"}, [])

    run(story())


def test_a_running_task_that_shrinks_makes_room():
    async def story():
        async with service() as client:
            await client.add(node("a", cpu_milli=1000))
            await client.submit(task(1, cpu_milli=900))
            await client.schedule()
            await client.submit(task(2, cpu_milli=800))
            assert await client.schedule() == ({}, [2])
            await client.TaskUpdated(task(1, cpu_milli=100))
            assert await client.schedule() == ({2: "a-pu"}, [])

    run(story())


def test_a_larger_priority_is_placed_first():
    async def story():
        async with service() as client:
            await client.add(node("a", max_pods=1))
            await client.submit(task(1), task(2, priority=5), task(3, priority=4))
            places, waiting = await client.schedule()
            assert (places, waiting) == ({2: "a-pu"}, [1, 3])

    run(story())


def test_a_gang_starts_with_as_many_tasks_as_it_needs_or_not_at_all():
    async def story():
        async with service_process() as process, client_of(process) as client:
            await client.add(node("a", max_pods=3))
            await client.submit(gang_task(1, "job", 3), gang_task(2, "job", 3))
            assert await client.schedule() == ({}, [1, 2])
            assert "2 of 3 members" in _reason(process, 1)
            await client.submit(gang_task(3, "job", 3))
            places, waiting = await client.schedule()
            assert (sorted(places), waiting) == ([1, 2, 3], [])
            await client.submit(*(gang_task(uid, "other", 2) for uid in (4, 5)))
            assert await client.schedule() == ({}, [4, 5])
            await client.TaskCompleted(_uid(1))
            assert await client.schedule() == ({}, [4, 5])
            await client.TaskCompleted(_uid(2))
            assert sorted((await client.schedule())[0]) == [4, 5]

    run(story())


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("dependencies", [{"id": b"input"}]),
        ("relative_deadline", 60),
        ("absolute_deadline", 1_800_000_000),
    ],
)
def test_what_cannot_be_enforced_makes_the_task_wait_with_a_reason(field: str, value: object):
    async def story():
        async with service_process() as process, client_of(process) as client:
            await client.add(node("a"))
            await client.submit(task(1, **{field: value}), task(2))
            assert await client.schedule() == ({2: "a-pu"}, [1])
            assert f"task_descriptor.{field}: " in _reason(process, 1)

    run(story())


def test_a_task_asks_for_bandwidth_that_no_machine_has():
    async def story():
        async with service_process() as process, client_of(process) as client:
            await client.add(node("a"))
            await client.submit(task(1, resource_request={"net_rx_bw": 100}))
            assert await client.schedule() == ({}, [1])
            assert _reason(process, 1) == "0/1 nodes are available: 1 Insufficient net_rx_bw."

    run(story())


def test_a_task_of_a_higher_priority_preempts_and_starts_when_the_other_has_ended():
    async def story():
        async with service(preempts=True) as client:
            await client.add(node("a", max_pods=2))
            await client.submit(task(1), task(2))
            assert len((await client.schedule())[0]) == 2
            await client.submit(task(3, priority=5))
            reply = await client.Schedule(pb.ScheduleRequest())
            (preempted,) = reply.deltas
            assert preempted.type == pb.SchedulingDelta.PREEMPT
            assert preempted.resource_id == "a-pu"
            assert preempted.task_id in {1, 2}
            # Its place is held until it has ended, and not told again.
            assert await client.schedule() == ({}, [3])
            await client.submit(task(4))
            assert (await client.TaskRemoved(_uid(preempted.task_id))).type == pb.TASK_REMOVED_OK
            assert await client.schedule() == ({3: "a-pu"}, [4])

    run(story())


def test_preemptions_come_before_placements():
    async def story():
        async with service(preempts=True) as client:
            await client.add(node("a", max_pods=1))
            await client.submit(task(1))
            await client.schedule()
            await client.add(node("b", cpu_milli=50))
            await client.submit(task(2, cpu_milli=50), task(3, priority=5))
            reply = await client.Schedule(pb.ScheduleRequest())
            found = [(each.type, each.task_id) for each in reply.deltas]
            assert found == [(pb.SchedulingDelta.PREEMPT, 1), (pb.SchedulingDelta.PLACE, 2)]

    run(story())


def test_a_service_without_preemption_lets_the_task_wait():
    async def story():
        async with service() as client:
            await client.add(node("a", max_pods=1))
            await client.submit(task(1))
            await client.schedule()
            await client.submit(task(2, priority=5))
            assert await client.schedule() == ({}, [2])

    run(story())
