"""Machines of Firmament's clients: topologies, units of amounts, their ways to leave and return."""

import pytest

from afflux.rpc.proto.firmament import resources_pb2 as machines
from afflux.rpc.proto.firmament import scheduler_pb2 as pb
from afflux.rpc.proto.firmament import statistics_pb2 as statistics
from rpc.firmament_client import (
    RESOURCE,
    client_of,
    foreign,
    node,
    part,
    run,
    service,
    service_process,
    task,
    vector,
)


def _uuid(uuid: str) -> pb.ResourceUID:
    return pb.ResourceUID(resource_uid=uuid)


def test_calls_about_unknown_machines_say_so():
    async def story():
        async with service() as client:
            assert (await client.NodeUpdated(node("a"))).type == pb.NODE_NOT_FOUND
            assert (await client.NodeFailed(_uuid("a"))).type == pb.NODE_NOT_FOUND
            assert (await client.NodeRemoved(_uuid("no uuid"))).type == pb.NODE_NOT_FOUND
            sample = statistics.ResourceStats(resource_id="a")
            assert (await client.AddNodeStats(sample)).type == pb.NODE_NOT_FOUND
            told = await client.AddTaskInfo(foreign("x/default", "a"))
            assert told.type == pb.TASKINFO_SUBMIT_FAILED

    run(story())


def test_a_machine_is_known_by_every_uuid_in_it():
    async def story():
        async with service() as client:
            await client.add(node("a"))
            assert (await client.NodeAdded(node("a"))).type == pb.NODE_ALREADY_EXISTS
            other = node("b", children=[part("a-pu")], friendly_name="b", max_pods=1)
            assert (await client.NodeAdded(other)).type == pb.NODE_ALREADY_EXISTS
            assert (await client.NodeRemoved(_uuid("a-pu"))).type == pb.NODE_REMOVED_OK
            assert (await client.NodeAdded(other)).type == pb.NODE_ADDED_OK

    run(story())


@pytest.mark.parametrize("leave", ["NodeFailed", "NodeRemoved"])
def test_tasks_of_a_lost_machine_are_placed_again_or_told_as_unscheduled(leave: str):
    async def story():
        async with service() as client:
            await client.add(node("a", max_pods=2))
            await client.submit(task(1), task(2))
            assert len((await client.schedule())[0]) == 2
            await client.add(node("b", max_pods=1))
            await getattr(client, leave)(_uuid("a"))
            places, waiting = await client.schedule()
            assert list(places.values()) == ["b-pu"]
            assert len(waiting) == 1
            # It comes back with the same uuids.
            await client.add(node("a", max_pods=2))
            assert await client.schedule() == ({waiting[0]: "a-pu"}, [])

    run(story())


def test_foreign_tasks_count_again_when_their_machine_returns():
    async def story():
        async with service() as client:
            await client.add(node("a", max_pods=1))
            await client.AddTaskInfo(foreign("x/default", "a"))
            await client.NodeRemoved(_uuid("a"))
            await client.add(node("a", max_pods=1))
            await client.submit(task(1))
            assert await client.schedule() == ({}, [1])

    run(story())


def test_amounts_are_thousandths_and_those_of_foreign_tasks_are_bytes():
    async def story():
        async with service() as client:
            # A machine of one core and 1000 bytes.
            await client.add(
                part(
                    "a",
                    RESOURCE.RESOURCE_MACHINE,
                    available_resources=machines.ResourceVector(cpu_cores=1000, ram_cap=1_000_000),
                    max_pods=10,
                )
            )
            await client.AddTaskInfo(foreign("x/default", "a", cpu_milli=400, memory_bytes=300))
            await client.submit(task(1, resource_request=vector(601)))
            await client.submit(task(2, resource_request=vector(1, 701)))
            assert await client.schedule() == ({}, [1, 2])
            await client.submit(task(3, resource_request=vector(600, 700)))
            assert await client.schedule() == ({3: "a"}, [1, 2])

    run(story())


def test_without_available_resources_they_are_the_capacity_less_what_is_reserved():
    async def story():
        async with service() as client:
            await client.add(
                part(
                    "a",
                    RESOURCE.RESOURCE_MACHINE,
                    resource_capacity=vector(1000),
                    reserved_resources=vector(200),
                    max_pods=10,
                )
            )
            await client.submit(task(1, cpu_milli=801), task(2, cpu_milli=800))
            assert await client.schedule() == ({2: "a"}, [1])

    run(story())


def test_a_machine_that_states_no_resources_has_those_of_its_parts():
    async def story():
        async with service() as client:
            halves = [
                part(f"a-{n}", RESOURCE.RESOURCE_NUMA_NODE, available_resources=vector(500))
                for n in (1, 2)
            ]
            await client.add(part("a", RESOURCE.RESOURCE_MACHINE, halves, max_pods=10))
            await client.submit(task(1, cpu_milli=1001), task(2, cpu_milli=1000))
            assert await client.schedule() == ({2: "a"}, [1])

    run(story())


def test_a_tree_may_have_several_machines_below_a_coordinator():
    async def story():
        async with service() as client:
            root = part("root", RESOURCE.RESOURCE_COORDINATOR, [node("a"), node("b")])
            await client.add(root)
            await client.submit(task(1, cpu_milli=4000), task(2, cpu_milli=4000))
            assert sorted((await client.schedule())[0].values()) == ["a-pu", "b-pu"]

    run(story())


def test_machines_with_one_name_are_told_apart_by_their_uuids():
    async def story():
        async with service() as client:
            await client.add(node("c", friendly_name="same.b", max_pods=1))
            for uuid in ("a", "b"):
                await client.add(node(uuid, friendly_name="same", max_pods=1))
            await client.submit(task(1), task(2), task(3))
            places, _ = await client.schedule()
            assert sorted(places.values()) == ["a-pu", "b-pu", "c-pu"]
            for uuid in ("a", "b", "c"):
                assert (await client.NodeRemoved(_uuid(uuid))).type == pb.NODE_REMOVED_OK
            assert await client.schedule() == ({}, [1, 2, 3])

    run(story())


def test_an_update_is_judged_by_the_machine_and_keeps_what_it_does_not_state():
    async def story():
        async with service() as client:
            # The part keeps old taints, as an unmodified client sends them.
            taint = {"key": "old", "effect": "NoSchedule"}
            await client.add(node("a", labels={"disk": "hdd"}))
            update = part(
                "a",
                RESOURCE.RESOURCE_MACHINE,
                [part("a-pu", taints=[taint])],
                labels=[{"key": "disk", "value": "ssd"}],
            )
            assert (await client.NodeUpdated(update)).type == pb.NODE_UPDATED_OK
            selector = {"key": "disk", "values": ["ssd"]}
            await client.submit(task(1, cpu_milli=4000, label_selectors=[selector]))
            assert await client.schedule() == ({1: "a-pu"}, [])

    run(story())


def test_a_machine_added_again_is_as_described_last():
    async def story():
        async with service() as client:
            await client.add(node("a", cpu_milli=100))
            await client.submit(task(1, cpu_milli=200))
            assert await client.schedule() == ({}, [1])
            again = await client.NodeAdded(node("a", cpu_milli=200))
            assert again.type == pb.NODE_ALREADY_EXISTS
            assert await client.schedule() == ({1: "a-pu"}, [])

    run(story())


def test_taints_and_a_lost_state_keep_tasks_away():
    async def story():
        async with service() as client:
            taint = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
            await client.add(node("a", max_pods=1, taints=[taint]))
            await client.add(node("b", max_pods=1, state=RESOURCE.RESOURCE_LOST))
            toleration = {"key": "gpu", "operator": "Exists"}
            await client.submit(task(1), task(2, tolerations=[toleration]))
            assert await client.schedule() == ({2: "a-pu"}, [1])

    run(story())


def test_check_says_serving_only_for_the_whole_service():
    async def story():
        async with service() as client:
            assert (await client.Check(pb.HealthCheckRequest())).status == pb.SERVING
            named = pb.HealthCheckRequest(grpc_service="firmament")
            assert (await client.Check(named)).status == pb.UNKNOWN

    run(story())


def test_the_last_samples_of_tasks_and_machines_are_kept():
    async def story():
        async with service_process(samples=3) as process, client_of(process) as client:
            await client.add(node("a"))
            await client.submit(task(1))
            for at in range(5):
                await client.AddTaskStats(statistics.TaskStats(task_id=1, timestamp=at))
                await client.AddNodeStats(statistics.ResourceStats(resource_id="a", timestamp=at))
            tasks = map(statistics.TaskStats.FromString, process.service.task_samples.of("1"))
            assert [each.timestamp for each in tasks] == [2, 3, 4]
            nodes = map(
                statistics.ResourceStats.FromString, process.service.machine_samples.of("a")
            )
            assert [each.timestamp for each in nodes] == [2, 3, 4]
            unknown = statistics.TaskStats(task_id=2)
            assert (await client.AddTaskStats(unknown)).type == pb.TASK_NOT_FOUND

    run(story())
