"""What tasks lose to each other on disks, against examples by hand and a slow second reading."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_parser import visible

from afflux.app import simulated_schedulers
from afflux.model.disks import Bandwidth, Disk, DiskReport, DiskRequest, VolumeIO
from afflux.model.machine import Machine
from afflux.model.resources import resources
from afflux.model.task import Shape, Task
from afflux.model.waiting_group import WaitingGroup
from afflux.sim.disk_contention import disk_contention
from afflux.sim.metrics import measure
from afflux.sim.replay import replay
from afflux.sim.report import render
from afflux.sim.result import Result, Run
from afflux.sim.workload import Disks, Submission, Workload
from afflux.sim.workload_loader import load_workload

MACHINE = Machine("m", resources({"cpu": 4000, "pods": 110}))
DISK = Disk("d0", Bandwidth(100, 60, 120), "small-blocks-count-twice")
OTHER = Disk("d1", Bandwidth(100, 60, 120), "plain")


def normalise(model: str, volume: VolumeIO) -> Bandwidth:
    factor = 2 if model == DISK.model and volume.block_bytes < 32768 else 1
    read, write = factor * volume.read, factor * volume.write
    return Bandwidth(read, write, read + write)


def task(name: str, *volumes: VolumeIO) -> Task:
    request = DiskRequest(volumes) if volumes else None
    return Task(name, name, Shape(resources({"cpu": 100, "pods": 1}), disks=request))


def run(
    of: Task, start: float | None, end: float | None, disks: tuple[int, ...] = (), at: str = "m"
) -> Run:
    return Run(of, of.id, 0.0, start, start, end, None if start is None else at, disks)


def result(*runs: Run, disks: tuple[Disk, ...] = (DISK,), ended_at: float = 100.0) -> Result:
    submissions = tuple(Submission(WaitingGroup(each.task.id, (each.task,)), None) for each in runs)
    reports = (DiskReport("m", disks),) if disks else ()
    workload = Workload("tiny", (MACHINE,), submissions, disks=Disks(reports, normalise))
    return Result("toy", workload, runs, (), ended_at)


def test_tasks_that_fit_lose_nothing():
    found = disk_contention(result(run(task("a", VolumeIO(50, 30)), 0.0, 10.0)))
    assert found is not None
    assert (found.wanted_bytes, found.lost_share) == (800.0, 0.0)
    assert (found.tasks, found.slowed_tasks) == (1, 0)


def test_beyond_the_disk_all_tasks_get_the_same_share():
    """For 10 of 20 seconds two tasks want 200 of the 100 bytes that the disk can read."""
    a, b = task("a", VolumeIO(100, 0)), task("b", VolumeIO(100, 0))
    found = disk_contention(result(run(a, 0.0, 20.0), run(b, 10.0, 20.0)))
    assert found is not None
    assert found.wanted_bytes == 3000.0
    assert found.lost_share == pytest.approx(1000 / 3000)
    assert found.slowed_tasks == 2


def test_small_blocks_keep_a_disk_busier():
    large, small = VolumeIO(0, 60, 65536), VolumeIO(0, 60, 4096)
    shares = [
        disk_contention(result(run(task("a", volume), 0.0, 10.0))) for volume in (large, small)
    ]
    assert [each and each.lost_share for each in shares] == [0.0, 0.5]


def test_the_chosen_disk_counts_and_without_one_the_least_busy():
    a, b = (task(name, VolumeIO(80, 0)) for name in "ab")
    disks = (OTHER, OTHER)
    same = disk_contention(result(run(a, 0.0, 9.0, (0,)), run(b, 0.0, 9.0, (0,)), disks=disks))
    apart = disk_contention(result(run(a, 0.0, 9.0), run(b, 0.0, 9.0), disks=disks))
    assert [each and each.slowed_tasks for each in (same, apart)] == [2, 0]


def test_a_task_without_end_counts_until_the_simulation_stopped():
    found = disk_contention(result(run(task("a", VolumeIO(10, 0)), 40.0, None)))
    assert found is not None
    assert found.wanted_bytes == 600.0


def test_a_workload_without_disks_has_no_figures_and_no_section():
    without = result(run(task("a"), 0.0, 10.0), disks=())
    assert measure(without)["disk_io"] is None
    assert "Disk throughput" not in visible(render([without]))


def test_the_report_and_the_metrics_say_what_was_lost():
    a, b = task("a", VolumeIO(100, 0)), task("b", VolumeIO(100, 0))
    crowded = result(run(a, 0.0, 20.0), run(b, 0.0, 20.0))
    assert measure(crowded)["disk_io"] == {
        "tasks": 2,
        "wanted_bytes": 4000.0,
        "lost_share": 0.5,
        "slowed_tasks": 2,
    }
    assert "Disk throughput lost" in visible(render([crowded]))


VOLUMES = st.builds(
    VolumeIO, st.integers(0, 90), st.integers(0, 50), st.sampled_from([4096, 65536])
)
LIVES = st.tuples(
    st.integers(0, 12), st.integers(0, 8), st.lists(VOLUMES, min_size=1, max_size=2), st.data()
)


@given(lives=st.lists(LIVES, max_size=6))
def test_the_figures_equal_those_counted_second_by_second(lives):
    runs = []
    for number, (start, length, volumes, data) in enumerate(lives):
        chosen = tuple(data.draw(st.integers(0, 1)) for _ in volumes)
        of = task(f"t{number}", *volumes)
        runs.append(run(of, float(start), float(start + length), chosen))
    disks = (DISK, OTHER)
    wanted = lost = 0.0
    slowed = set()
    for second in range(25):
        working = [each for each in runs if each.start <= second < each.end]
        for index, disk in enumerate(disks):
            own = [
                (each.task.id, volume)
                for each in working
                for volume, on in zip(each.task.shape.disks.volumes, each.disks, strict=True)
                if on == index
            ]
            taken = [normalise(disk.model, volume) for _, volume in own]
            busy = max(
                sum(each.read for each in taken) / 100,
                sum(each.write for each in taken) / 60,
                sum(each.total for each in taken) / 120,
            )
            rate = sum(volume.read + volume.write for _, volume in own)
            wanted += rate
            if busy > 1 and rate:
                lost += rate * (1 - 1 / busy)
                slowed |= {name for name, _ in own}
    found = disk_contention(result(*runs, disks=disks))
    assert found is not None
    assert found.wanted_bytes == pytest.approx(wanted)
    assert (found.lost_share or 0.0) * wanted == pytest.approx(lost)
    assert found.slowed_tasks == len(slowed)


@pytest.mark.slow
def test_with_the_policy_no_task_is_slowed_and_without_it_some_are():
    workload = load_workload(["synthetic:disk-io,machines=40,tasks=1200"], None)
    found = {
        scheduler.name: disk_contention(replay(workload, scheduler))
        for scheduler in simulated_schedulers(["cpu-memory", "cpu-memory+disk-io", "pod-by-pod"])
    }
    slowed = {name: each and each.slowed_tasks for name, each in found.items()}
    assert slowed["cpu-memory+disk-io"] == 0
    assert slowed["cpu-memory"]
    assert slowed["pod-by-pod"]
