"""The CSV of starts: exact bytes, written completely or not at all."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from afflux.atomic_write import atomic_write
from afflux.model.machine import Machine
from afflux.model.resources import resources
from afflux.model.task import Shape, Task
from afflux.model.waiting_group import WaitingGroup
from afflux.sim.result import Result, Run
from afflux.sim.starts_csv import write_starts
from afflux.sim.workload import Submission, Workload

SHAPE = Shape(resources({"cpu": 1000}))


def small_result() -> Result:
    names = ("a", "b,c", 'd"e', "f")
    tasks = [Task(f"uid-{name}", name, SHAPE) for name in names]
    submissions = (
        Submission(WaitingGroup("first", (tasks[0], tasks[1])), 10.0),
        Submission(WaitingGroup("später", (tasks[2],), ready_seconds=0.1), None),
        Submission(WaitingGroup("last", (tasks[3],), ready_seconds=1e6), 1.0),
    )
    runs = (
        Run(tasks[3], "last", 1e6, None, None, None, None),
        Run(tasks[0], "first", 0.0, 0.0, 2.5, 12.5, "m1"),
        Run(tasks[1], "first", 0.0, 2.5, 2.5, 12.5, "m2"),
        Run(tasks[2], "später", 0.1, 0.30000000000000004, 0.30000000000000004, None, "m1"),
    )
    machines = (Machine("m1", resources({"cpu": 4000})), Machine("m2", resources({"cpu": 4000})))
    return Result("toy", Workload("tiny", machines, submissions), runs, (), 1e6)


EXPECTED = """\
task,group,submit,start,end,machine
a,first,0,2.5,12.5,m1
"b,c",first,0,2.5,12.5,m2
"d""e",später,0.1,0.30000000000000004,,m1
f,last,1000000,,,
"""


def test_one_line_per_task_in_submission_order(tmp_path: Path):
    write_starts(small_result(), tmp_path / "starts.csv")
    assert (tmp_path / "starts.csv").read_bytes() == EXPECTED.encode()
    assert [p.name for p in tmp_path.iterdir()] == ["starts.csv"]


def test_no_tasks_leave_the_header(tmp_path: Path):
    empty = replace(small_result(), runs=())
    write_starts(empty, tmp_path / "starts.csv")
    assert (tmp_path / "starts.csv").read_text() == "task,group,submit,start,end,machine\n"


@pytest.mark.parametrize("failure", [OSError("disk full"), KeyboardInterrupt(), SystemExit(1)])
def test_a_failure_in_the_middle_leaves_nothing_behind(tmp_path: Path, failure: BaseException):
    def fail() -> None:
        with atomic_write(tmp_path / "out.csv") as file:
            file.write("half a")
            file.flush()
            raise failure

    with pytest.raises(type(failure)):
        fail()
    assert list(tmp_path.iterdir()) == []


def test_a_failure_leaves_the_old_file_as_it_was(tmp_path: Path):
    path = tmp_path / "starts.csv"
    path.write_text("old")
    broken = small_result()
    unreadable = replace(broken.runs[1], submit="soon")
    with pytest.raises(ValueError, match="soon"):
        write_starts(replace(broken, runs=(broken.runs[0], unreadable)), path)
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["starts.csv"]


def test_a_failing_move_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(PermissionError):
        write_starts(small_result(), tmp_path / "starts.csv")
    assert list(tmp_path.iterdir()) == []


def test_a_symbolic_link_stays_and_its_target_is_written(tmp_path: Path):
    (tmp_path / "real.csv").write_text("old")
    (tmp_path / "link.csv").symlink_to("real.csv")
    write_starts(small_result(), tmp_path / "link.csv")
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "real.csv").read_text() == EXPECTED


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_starts(small_result(), pipe)
        assert os.read(reader, 10_000) == EXPECTED.encode()
    finally:
        os.close(reader)
    assert pipe.is_fifo()


def test_a_missing_folder_is_named(tmp_path: Path):
    with pytest.raises(FileNotFoundError, match="absent"):
        write_starts(small_result(), tmp_path / "absent" / "starts.csv")


def test_a_private_file_stays_private(tmp_path: Path) -> None:
    file = tmp_path / "starts.csv"
    file.touch(mode=0o600)
    with atomic_write(file) as out:
        out.write("x")
    assert file.read_text() == "x"
    assert file.stat().st_mode & 0o777 == 0o600
