"""A machine's slots: how many tasks it takes."""

from hypothesis import given
from hypothesis import strategies as st

from afflux.rpc.proto.firmament import scheduler_pb2 as pb
from afflux.rpc.slot_tree import Part, SlotTree
from rpc.firmament_client import (
    RESOURCE,
    FirmamentClient,
    client_of,
    foreign,
    node,
    part,
    run,
    service,
    service_process,
    task,
)


async def _placed(client: FirmamentClient, tasks: int = 12) -> dict[int, str]:
    """Where so many small tasks start; all others wait."""
    await client.submit(*(task(uid) for uid in range(1, tasks + 1)))
    places, waiting = await client.schedule()
    assert sorted([*places, *waiting]) == list(range(1, tasks + 1))
    return places


def test_of_max_pods_exactly_that_many_are_placed():
    async def story():
        async with service() as client:
            await client.add(node("a", max_pods=5))
            assert len(await _placed(client)) == 5

    run(story())


def test_of_num_slots_below_exactly_that_many_are_placed():
    async def story():
        async with service() as client:
            await client.add(node("a", num_slots_below=7))
            assert len(await _placed(client)) == 7

    run(story())


def test_where_both_are_set_the_smaller_one_holds():
    async def story():
        async with service() as client:
            await client.add(
                node("a", num_slots_below=4, max_pods=9), node("b", num_slots_below=9, max_pods=3)
            )
            places = await _placed(client)
            found = list(places.values())
            assert (found.count("a-pu"), found.count("b-pu")) == (4, 3)

    run(story())


def test_a_machine_that_states_neither_has_no_slots_and_the_task_says_so():
    async def story():
        async with service_process() as process, client_of(process) as client:
            await client.add(node("a", num_slots_below=0))
            assert await _placed(client, tasks=1) == {}
            (waiting,) = process.cluster.tasks.values()
            assert waiting.status == "0/1 nodes are available: 1 Too many pods."

    run(story())


def test_an_updated_limit_holds_from_the_next_round():
    async def story():
        async with service() as client:
            await client.add(node("a", max_pods=2))
            assert len(await _placed(client, tasks=12)) == 2
            await client.NodeUpdated(node("a", max_pods=5))
            places, waiting = await client.schedule()
            assert (len(places), len(waiting)) == (3, 7)
            # Fewer than run there: these stay, and no other starts.
            await client.NodeUpdated(node("a", max_pods=1))
            assert await client.schedule() == ({}, waiting)

    run(story())


def test_slots_are_free_again_when_tasks_end():
    async def story():
        async with service() as client:
            await client.add(node("a", max_pods=2))
            first = await _placed(client, tasks=4)
            await client.TaskCompleted(pb.TaskUID(task_uid=min(first)))
            places, waiting = await client.schedule()
            assert (len(places), len(waiting)) == (1, 1)

    run(story())


def test_tasks_told_by_add_task_info_take_slots_and_resources():
    async def story():
        async with service() as client:
            await client.add(node("a", max_pods=3), node("b", cpu_milli=1000))
            await client.AddTaskInfo(foreign("other/default", "a"))
            await client.AddTaskInfo(foreign("big/default", "b", cpu_milli=900))
            places = await _placed(client)
            found = list(places.values())
            assert (found.count("a-pu"), found.count("b-pu")) == (2, 1)

    run(story())


def test_a_task_told_by_add_task_info_counts_on_a_full_machine_too():
    async def story():
        async with service() as client:
            await client.add(node("a", max_pods=2))
            first = await _placed(client, tasks=3)
            assert len(first) == 2
            await client.AddTaskInfo(foreign("other/default", "a"))
            await client.TaskCompleted(pb.TaskUID(task_uid=min(first)))
            places, _ = await client.schedule()
            assert places == {}

    run(story())


def test_a_removed_foreign_task_gives_its_slot_back_and_may_come_again():
    async def story():
        async with service() as client:
            await client.add(node("a", max_pods=1))
            told = foreign("other/default", "a")
            gone = pb.TaskInfo(task_name="other/default", type=pb.TASKINFO_REMOVE)
            for _ in range(2):
                assert (await client.AddTaskInfo(told)).type == pb.TASKINFO_SUBMITTED_OK
                assert (await client.AddTaskInfo(gone)).type == pb.TASKINFO_REMOVED_OK
            assert (await client.AddTaskInfo(gone)).type == pb.TASKINFO_REMOVE_FAILED
            assert len(await _placed(client)) == 1

    run(story())


def test_the_slots_of_several_units_are_their_sum_and_no_unit_gets_more_than_its_own():
    async def story():
        async with service() as client:
            units = [part("a-1", num_slots_below=2), part("a-2", max_pods=1)]
            await client.add(node("a", children=units, friendly_name="a"))
            places = await _placed(client)
            assert sorted(places.values()) == ["a-1", "a-1", "a-2"]

    run(story())


def test_the_machine_limits_the_sum_of_its_units():
    async def story():
        async with service() as client:
            units = [part("a-1", num_slots_below=4), part("a-2", num_slots_below=4)]
            await client.add(node("a", children=units, max_pods=5))
            places = await _placed(client)
            found = list(places.values())
            assert len(found) == 5
            assert max(found.count("a-1"), found.count("a-2")) <= 4

    run(story())


def test_parts_between_the_machine_and_its_units_have_limits_too():
    async def story():
        async with service() as client:
            sockets = [
                part(
                    f"numa-{n}",
                    RESOURCE.RESOURCE_NUMA_NODE,
                    [
                        part(
                            f"socket-{n}",
                            RESOURCE.RESOURCE_SOCKET,
                            [
                                part(
                                    f"cache-{n}",
                                    RESOURCE.RESOURCE_CACHE,
                                    [
                                        part(
                                            f"core-{n}",
                                            RESOURCE.RESOURCE_CORE,
                                            [part(f"pu-{n}", num_slots_below=6)],
                                        )
                                    ],
                                )
                            ],
                            num_slots_below=2 + n,
                        )
                    ],
                )
                for n in (0, 1)
            ]
            nic = part("nic", RESOURCE.RESOURCE_NIC)
            await client.add(node("a", children=[*sockets, nic], friendly_name="a"))
            places = await _placed(client)
            assert sorted(places.values()) == ["pu-0"] * 2 + ["pu-1"] * 3

    run(story())


def test_a_placement_on_a_machine_without_units_names_the_machine():
    async def story():
        async with service() as client:
            await client.add(node("a", children=[], max_pods=3))
            assert set((await _placed(client)).values()) == {"a"}

    run(story())


# --- Any tree of limits


@st.composite
def _trees(draw: st.DrawFn) -> tuple[Part, ...]:
    size = draw(st.integers(1, 8))
    parents = [-1, *(draw(st.integers(0, index - 1)) for index in range(1, size))]
    return tuple(
        Part(
            f"part-{index}",
            parent,
            draw(st.none() | st.integers(0, 5)) if index in parents else draw(st.integers(0, 5)),
            index not in parents,
        )
        for index, parent in enumerate(parents)
    )


def _within(parts: tuple[Part, ...], inside: dict[int, int]) -> bool:
    """Whether every part has at most as many tasks as its limit, counted part by part."""
    for index, each in enumerate(parts):
        count = 0
        for unit, tasks in inside.items():
            around = unit
            while around not in {index, -1}:
                around = parts[around].parent
            count += tasks if around == index else 0
        if each.limit is not None and count > each.limit:
            return False
    return True


def _most(parts: tuple[Part, ...], units: list[int], inside: dict[int, int]) -> int:
    """The largest number of tasks within all limits, by trying every number for every unit."""
    if not units:
        return sum(inside.values()) if _within(parts, inside) else 0
    limit = parts[units[0]].limit or 0
    return max(_most(parts, units[1:], {**inside, units[0]: n}) for n in range(limit + 1))


@given(_trees())
def test_units_are_filled_to_the_most_that_all_limits_allow(parts: tuple[Part, ...]):
    tree = SlotTree(parts)
    inside: dict[int, int] = {}
    names = {part.uuid: index for index, part in enumerate(parts)}
    while (unit := tree.free_unit()) is not None:
        tree.take(unit)
        inside[names[unit]] = inside.get(names[unit], 0) + 1
        assert _within(parts, inside)
    units = [index for index, part in enumerate(parts) if part.is_unit]
    assert sum(inside.values()) == tree.slots()
    if len(units) <= 4:
        assert tree.slots() == _most(parts, units, {})
