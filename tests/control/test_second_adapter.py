"""A second adapter needs only control's protocol: the control loop, and a dry run, over machines in
memory."""

import asyncio

from memory_adapter import MemoryAdapter, at_work, memory_cycle, until

from afflux.control.dry_run import DryRun
from afflux.groups.group_id import GroupKey


def test_groups_start_whole_and_the_others_are_told_why_they_wait() -> None:
    async def test() -> None:
        adapter = MemoryAdapter()
        async with at_work(adapter) as notices:
            adapter.add_machine("m", cpu=4)
            adapter.add_group("pair", 2, cpu=2)
            await until(lambda: len(adapter.places) == 2)
            adapter.add_group("next", 1, cpu=1)
            await until(lambda: bool(notices.statuses))
            assert set(adapter.places.values()) == {"m"}
            ((told, why),) = notices.statuses.items()
            assert told.startswith("next")
            assert "Insufficient cpu" in why
            assert notices.events == [(told, "waits", why)]

    asyncio.run(test())


def test_a_task_for_which_the_cluster_does_not_agree_is_decided_again() -> None:
    async def test() -> None:
        adapter = MemoryAdapter()
        adapter.add_machine("m", cpu=1)
        adapter.add_group("g", 1, cpu=1)
        adapter.not_reserved = {"g.0"}
        async with at_work(adapter):
            await until(lambda: bool(adapter.places))
            assert not adapter.not_reserved

    asyncio.run(test())


def test_no_place_is_kept_after_an_error_of_the_adapter() -> None:
    async def test() -> None:
        adapter = MemoryAdapter()
        adapter.add_machine("m", cpu=1)
        adapter.add_group("g", 1, cpu=1)
        adapter.fails_to_reserve = True
        async with at_work(adapter):
            await until(lambda: bool(adapter.places))
            assert not adapter.fails_to_reserve

    asyncio.run(test())


def test_a_held_task_is_told_why() -> None:
    async def test() -> None:
        adapter = MemoryAdapter()
        adapter.add_machine("m", cpu=1)
        async with at_work(adapter) as notices:
            adapter.hold("odd", "its field is not supported")
            await until(lambda: bool(notices.statuses))
            assert notices.statuses["odd"].endswith("its field is not supported.")

    asyncio.run(test())


def test_a_dry_run_needs_no_event_loop() -> None:
    adapter = MemoryAdapter()
    adapter.add_machine("m", cpu=3)
    adapter.add_group("pair", 2, cpu=1)
    adapter.add_group("wide", 2, cpu=1)
    found = DryRun(adapter, memory_cycle(), now_seconds=0.0).run()
    assert [each.task.name for each in found.placements] == ["pair.0", "pair.1"]
    assert {each.task.name for each in found.waiting} == {"wide.0", "wide.1"}


def test_without_a_ledger_nothing_is_kept_of_groups_that_have_ended() -> None:
    async def test() -> None:
        adapter = MemoryAdapter()
        adapter.add_machine("m", cpu=1)
        async with at_work(adapter):
            for number in range(3):
                adapter.add_group(f"g{number}", 1, cpu=1)
                await until(lambda number=number: f"g{number}.0" in adapter.places)
                adapter.register.note(only_group(adapter), "Corrected", "a difference")
                adapter.end(f"g{number}.0")
            adapter.add_group("last", 1, cpu=1)
            await until(lambda: "last.0" in adapter.places)
            _, ended, events = adapter.register.changes.take(0.0)
            assert (ended, events) == ([], [])

    asyncio.run(test())


def only_group(adapter: MemoryAdapter) -> GroupKey:
    (task_id,) = adapter.cluster.tasks
    group = adapter.register.group_of(task_id)
    assert group is not None
    return group.key
