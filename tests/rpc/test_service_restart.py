"""The service is restarted: with a state file, machines and tasks are there as before."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afflux.model.errors import InputError
from afflux.rpc.proto.firmament import scheduler_pb2 as pb
from afflux.rpc.state_file import (
    AnyRecord,
    EndedRecord,
    ForeignRecord,
    GoneRecord,
    PlaceRecord,
    StateFile,
    TaskRecord,
    latest_records,
)
from rpc.firmament_client import (
    client_of,
    foreign,
    gang_task,
    node,
    run,
    service_process,
    task,
)


def test_running_tasks_keep_their_room_over_a_restart(tmp_path: Path):
    path = str(tmp_path / "state")

    async def story():
        async with service_process(state_path=path) as process, client_of(process) as client:
            await client.add(node("a", max_pods=3), node("b", max_pods=9))
            await client.AddTaskInfo(foreign("x/default", "a"))
            await client.NodeRemoved(pb.ResourceUID(resource_uid="b"))
            await client.submit(task(1), task(2), task(3), task(4))
            first, waiting = await client.schedule()
            assert (len(first), len(waiting)) == (2, 2)
            done = pb.TaskUID(task_uid=waiting[0])
            await client.TaskFailed(done)
        async with service_process(state_path=path) as process, client_of(process) as client:
            # The client tells only its waiting tasks again.
            assert (await client.NodeAdded(node("a", max_pods=3))).type == pb.NODE_ALREADY_EXISTS
            await client.submit(task(waiting[1]))
            assert await client.schedule() == ({}, waiting[1:])
            # A placement that was lost is told again.
            lost = min(first)
            await client.submit(task(lost))
            assert await client.schedule() == ({lost: first[lost]}, waiting[1:])
            assert (await client.TaskRemoved(done)).type == pb.TASK_REMOVED_OK
            assert (await client.TaskRemoved(done)).type == pb.TASK_NOT_FOUND
            await client.TaskCompleted(pb.TaskUID(task_uid=lost))
            assert await client.schedule() == ({waiting[1]: "a-pu"}, [])

    run(story())


def test_both_tasks_of_a_uid_and_gangs_are_there_after_a_restart(tmp_path: Path):
    path = str(tmp_path / "state")

    async def story():
        async with service_process(state_path=path) as process, client_of(process) as client:
            await client.add(node("a", max_pods=3))
            for name in ("default/old", "default/new"):
                await client.submit(task(1, name))
                await client.schedule()
            await client.submit(gang_task(5, "job", 2))
        async with service_process(state_path=path) as process, client_of(process) as client:
            known = process.cluster.newest(1)
            assert known is not None
            assert known.task.name == "default/new"
            await client.submit(gang_task(6, "job", 2))
            assert await client.schedule() == ({}, [5, 6])
            await client.TaskCompleted(pb.TaskUID(task_uid=1))
            assert sorted((await client.schedule())[0]) == [5, 6]

    run(story())


def test_without_a_state_file_a_client_describes_everything_anew():
    async def story():
        for _ in range(2):
            async with service_process() as process, client_of(process) as client:
                await client.add(node("a"))
                await client.submit(task(1))
                assert await client.schedule() == ({1: "a-pu"}, [])

    run(story())


# --- The file


def _task(number: int, machine: str = "") -> TaskRecord:
    unit = machine and f"{machine}-pu"
    return TaskRecord(f"t{number}", 1.0, b"message", machine, unit)


_RECORDS: list[AnyRecord] = [
    _task(1),
    PlaceRecord("t1", "a", "a-pu"),
    _task(2),
    ForeignRecord("x", "a", "a-pu", (("cpu", 100),)),
    EndedRecord(7, 2),
]


def _written(path: Path, records: list[AnyRecord]) -> None:
    file = StateFile(str(path))
    assert list(file.read()) == []
    file.rewrite()
    for each in records:
        file.append(each)
    file.close()


def test_records_are_read_in_order(tmp_path: Path):
    path = tmp_path / "state"
    _written(path, _RECORDS)
    assert list(StateFile(str(path)).read()) == _RECORDS


def test_a_record_that_was_cut_off_is_dropped(tmp_path: Path):
    path = tmp_path / "state"
    _written(path, _RECORDS)
    content = path.read_bytes()
    for size in range(len(content)):
        path.write_bytes(content[:size])
        file = StateFile(str(path))
        found = list(file.read())
        assert found == _RECORDS[: len(found)]
        file.close()


def test_a_file_is_used_by_one_process_at_a_time(tmp_path: Path):
    path = str(tmp_path / "state")
    file = StateFile(path)
    with pytest.raises(InputError, match=r"^--state: .* expected a file that no other service"):
        StateFile(path)
    file.rewrite()
    with pytest.raises(InputError, match=r"^--state: "):
        StateFile(path)
    file.close()
    StateFile(path).close()


def test_other_files_are_refused(tmp_path: Path):
    path = tmp_path / "state"
    path.write_text("precious")
    with pytest.raises(InputError, match=r"^--state: .* expected a state file of afflux"):
        list(StateFile(str(path)).read())
    assert path.read_text() == "precious"


_CHANGES = st.lists(
    st.sampled_from(
        [
            _task(1),
            _task(2, "b"),
            ForeignRecord("x", "a", "a", ()),
            EndedRecord(7, 2),
            EndedRecord(7, 0),
            GoneRecord("task", "t1"),
            GoneRecord("foreign", "x"),
        ]
    )
)


@given(_CHANGES, _CHANGES)
def test_a_file_written_anew_says_the_same(before: list[AnyRecord], after: list[AnyRecord]):
    assert latest_records([*latest_records(before), *after]) == latest_records([*before, *after])
