"""Metrics of a simulation, against examples by hand and a slow second implementation."""

import json
import math
import statistics
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from afflux.model.devices import DeviceRequest
from afflux.model.machine import Machine
from afflux.model.resources import resources
from afflux.model.task import Shape, Task
from afflux.model.waiting_group import WaitingGroup
from afflux.sim.metrics import measure
from afflux.sim.result import CycleTiming, ReservationRecord, Result, Run
from afflux.sim.workload import Submission, Workload

SMALL = Shape(resources({"cpu": 1000, "memory": 100}))
WIDE = Shape(resources({"cpu": 3000, "memory": 100}))
ON_DEVICES = Shape(resources({"cpu": 500}), devices=DeviceRequest(count=2, milli=250))


def machine(name: str, devices: int = 0) -> Machine:
    return Machine(name, resources({"cpu": 4000, "memory": 1000, "pods": 110}), devices=devices)


def group(name: str, *shapes: Shape, submit: float = 0.0, run: float | None = 10.0) -> Submission:
    tasks = tuple(Task(f"{name}-{i}", f"{name}-{i}", shape) for i, shape in enumerate(shapes))
    return Submission(WaitingGroup(name, tasks, ready_seconds=submit, run_seconds=run), run)


def result(
    submissions: list[Submission],
    lives: dict[str, tuple[float | None, float | None, float | None, str | None]],
    machines: tuple[Machine, ...] = (machine("m"),),
    ended_at: float = 100.0,
    cycles: tuple[CycleTiming, ...] = (),
) -> Result:
    """`lives` has bound, start, end and machine by task; other tasks were never placed."""
    runs = tuple(
        Run(task, s.group.name, s.group.ready_seconds, *lives.get(task.name, (None,) * 4))
        for s in submissions
        for task in s.group.tasks
    )
    workload = Workload("tiny", machines, tuple(submissions))
    return Result("toy", workload, runs, cycles, ended_at)


def test_two_tasks_one_after_the_other():
    figures = measure(
        result(
            [group("a", WIDE), group("b", WIDE, submit=2.0)],
            {"a-0": (0.0, 0.0, 10.0, "m"), "b-0": (10.0, 10.0, 40.0, "m")},
            cycles=(CycleTiming(0.0, 0.001, 1, 1), CycleTiming(10.0, 0.003, 1, 1)),
        )
    )
    assert figures == {
        "version": 1,
        "scheduler": "toy",
        "workload": "tiny",
        "machines": 1,
        "tasks": 2,
        "groups": 2,
        "wait_seconds": {"mean": 4.0, "p50": 4.0, "p95": pytest.approx(7.6), "max": 8.0},
        "bounded_slowdown": {
            "mean": pytest.approx((1 + 38 / 30) / 2),
            "p95": pytest.approx(1 + 0.95 * 8 / 30),
            "max": pytest.approx(38 / 30),
        },
        "utilisation": pytest.approx(0.75),
        "utilisation_by_resource": {"cpu": pytest.approx(0.75), "memory": pytest.approx(0.1)},
        "stranded_share": 0.0,
        "disk_io": None,
        "makespan_seconds": 40.0,
        "unplaced": 0,
        "backfilled": 0.0,
        "promises": {"made": 0, "unknown": 0, "broken": 0, "broken_by": {}},
        "preemptions": 0,
        "work_lost_seconds": 0.0,
        "migrations": 0,
        "cycle_seconds": {
            "p50": pytest.approx(0.002),
            "p99": pytest.approx(0.00298),
            "max": 0.003,
            "total": pytest.approx(0.004),
        },
        "cycles": 2,
    }


def test_a_group_waits_until_its_last_member_starts_and_strands_resources_meanwhile():
    figures = measure(
        result(
            [group("gang", WIDE, WIDE)],
            {"gang-0": (0.0, 6.0, 16.0, "m"), "gang-1": (6.0, 6.0, 16.0, "n")},
            machines=(machine("m"), machine("n")),
        )
    )
    assert figures["groups"] == 1
    assert figures["wait_seconds"] == {"mean": 6.0, "p50": 6.0, "p95": 6.0, "max": 6.0}
    # 3 of 8 cores for 16 s and for 10 s, over 16 s; the first 6 s of the first one did nothing.
    assert figures["utilisation"] == pytest.approx(3 * (16 + 10) / (8 * 16))
    assert figures["stranded_share"] == pytest.approx(3 * 6 / (8 * 16))


def test_a_group_that_is_never_complete_strands_all_its_resources():
    figures = measure(
        result([group("gang", WIDE, WIDE)], {"gang-0": (20.0, None, None, "m")}, ended_at=60.0)
    )
    assert figures["unplaced"] == 2
    assert figures["makespan_seconds"] == 60.0
    assert figures["stranded_share"] == figures["utilisation"] == pytest.approx(0.75 * 40 / 60)
    assert figures["wait_seconds"] == {"mean": None, "p50": None, "p95": None, "max": None}


def test_a_task_without_end_counts_until_the_simulation_stops_and_has_no_slowdown():
    figures = measure(
        result(
            [group("service", WIDE, run=None), group("job", SMALL)],
            {"service-0": (0.0, 0.0, None, "m"), "job-0": (5.0, 5.0, 15.0, "m")},
            ended_at=50.0,
        )
    )
    assert figures["makespan_seconds"] == 50.0
    assert figures["utilisation"] == pytest.approx((3 * 50 + 1 * 10) / (4 * 50))
    assert figures["bounded_slowdown"] == {"mean": 1.5, "p95": 1.5, "max": 1.5}
    assert figures["wait_seconds"]["mean"] == 2.5


def test_the_slowdown_of_short_jobs_is_bounded():
    figures = measure(result([group("blink", SMALL)], {"blink-0": (19.0, 19.0, 20.0, "m")}))
    assert figures["bounded_slowdown"]["max"] == 2.0


def test_devices_count_in_thousandths():
    figures = measure(
        result(
            [group("a", ON_DEVICES)],
            {"a-0": (0.0, 0.0, 10.0, "m")},
            machines=(machine("m", devices=4),),
        )
    )
    assert figures["utilisation_by_resource"] == {
        "cpu": pytest.approx(0.125),
        "memory": 0.0,
        "devices": pytest.approx(500 / 4000),
    }


@pytest.mark.parametrize(
    "empty",
    [
        result([], {}),
        result([], {}, machines=()),
        result([group("a", WIDE)], {}),
        result([group("a", WIDE)], {"a-0": (0.0, 0.0, 0.0, "m")}, ended_at=0.0),
    ],
    ids=["no tasks", "no machines", "nothing placed", "no time"],
)
def test_a_metric_that_does_not_exist_is_null(empty: Result):
    figures = measure(empty)
    assert figures["utilisation"] is None
    assert figures["stranded_share"] is None
    assert set(figures["utilisation_by_resource"].values()) <= {None}
    assert figures["cycle_seconds"] == {"p50": None, "p99": None, "max": None, "total": 0.0}
    json.dumps(figures, allow_nan=False)


def test_the_order_of_runs_does_not_matter():
    one = result(
        [group("a", WIDE, SMALL), group("b", SMALL, submit=1.0)],
        {"a-0": (0.0, 3.0, 9.0, "m"), "a-1": (3.0, 3.0, 9.0, "m"), "b-0": (2.0, 2.0, 8.0, "m")},
    )
    assert measure(replace(one, runs=one.runs[::-1])) == measure(one)


# A second implementation, slow and plain: its clock takes steps of half a second.

MACHINES = (machine("m", devices=2), machine("n"), machine("o", devices=3))
TICKS = st.integers(0, 40).map(lambda half_seconds: half_seconds / 2)


@st.composite
def results(draw: st.DrawFn) -> Result:
    submissions: list[Submission] = []
    lives: dict[str, tuple[float | None, float | None, float | None, str | None]] = {}
    for index in range(draw(st.integers(0, 6))):
        shapes = draw(st.lists(st.sampled_from([SMALL, WIDE, ON_DEVICES]), min_size=1, max_size=3))
        submitted = group(f"g{index}", *shapes, submit=draw(TICKS))
        submissions.append(submitted)
        start = submitted.group.ready_seconds + draw(TICKS)
        end = draw(st.none() | TICKS.map(lambda run, start=start: start + run))
        for member in submitted.group.tasks:
            where = draw(st.sampled_from([m.name for m in MACHINES]))
            bound = draw(st.sampled_from([submitted.group.ready_seconds, start]))
            match draw(st.sampled_from(["ran", "ran", "ran", "stranded", "never"])):
                case "ran":
                    lives[member.name] = (bound, start, end, where)
                case "stranded":
                    lives[member.name] = (bound, None, None, where)
                case _:
                    pass
    cycles = tuple(
        CycleTiming(0.0, seconds / 1000, 0, 0)
        for seconds in draw(st.lists(st.integers(0, 50), max_size=5))
    )
    return result(submissions, lives, MACHINES, ended_at=100.0, cycles=cycles)


def amount(task: Task, name: str) -> int:
    if name == "devices":
        asked = task.shape.devices
        return asked.count * asked.milli if asked else 0
    return dict(task.shape.requests).get(name, 0)


def integrate(runs: tuple[Run, ...], name: str, *, until_start: bool) -> float:
    total = 0.0
    for tick in range(200):
        middle = tick / 2 + 0.25
        for run in runs:
            if run.bound is None:
                continue
            let_go = 100.0 if run.end is None else run.end
            if until_start and run.start is not None:
                let_go = run.start
            if run.bound < middle < let_go:
                total += 0.5 * amount(run.task, name)
    return total


@given(results())
def test_shares_equal_the_second_implementation(drawn: Result):
    figures = measure(drawn)
    ends = [100.0 if r.end is None else r.end for r in drawn.runs if r.bound is not None]
    if not ends:
        assert figures["makespan_seconds"] is None
        return
    makespan = max(ends) - min(run.submit for run in drawn.runs)
    assert figures["makespan_seconds"] == makespan
    if makespan == 0:
        assert figures["utilisation"] is None
        return
    capacity = {"cpu": 12000, "memory": 3000, "devices": 5000}
    expected = {
        name: integrate(drawn.runs, name, until_start=False) / (total * makespan)
        for name, total in capacity.items()
    }
    assert figures["utilisation_by_resource"] == pytest.approx(expected)
    assert figures["utilisation"] == pytest.approx(max(expected.values()))
    dominant = max(figures["utilisation_by_resource"], key=figures["utilisation_by_resource"].get)
    stranded = integrate(drawn.runs, dominant, until_start=True) / (capacity[dominant] * makespan)
    assert figures["stranded_share"] == pytest.approx(stranded)


@given(results())
def test_waits_and_slowdowns_equal_those_computed_group_by_group(drawn: Result):
    figures = measure(drawn)
    waits: list[float] = []
    slowdowns: list[float] = []
    for submission in drawn.workload.submissions:
        members = [run for run in drawn.runs if run.group == submission.group.name]
        if any(run.start is None for run in members):
            continue
        start = max(run.start for run in members)
        wait = start - submission.group.ready_seconds
        waits.append(wait)
        if all(run.end is not None for run in members):
            run_seconds = max(run.end for run in members) - start
            slowdowns.append(max(1.0, (wait + run_seconds) / max(run_seconds, 10.0)))
    for values, named in ((waits, "wait_seconds"), (slowdowns, "bounded_slowdown")):
        if not values:
            assert set(figures[named].values()) == {None}
            continue
        assert figures[named]["mean"] == pytest.approx(statistics.fmean(values))
        assert figures[named]["max"] == max(values)
        assert figures[named]["p95"] == pytest.approx(interpolated(values, 0.95))
    assert figures["unplaced"] == sum(run.start is None for run in drawn.runs)


def interpolated(values: list[float], share: float) -> float:
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


@given(results())
def test_every_value_is_json_and_no_share_exceeds_its_whole(drawn: Result):
    figures = measure(drawn)
    assert json.loads(json.dumps(figures, allow_nan=False)) == figures
    if figures["utilisation"] is not None:
        assert figures["stranded_share"] <= figures["utilisation"] + 1e-12
        assert all(isinstance(v, float) for v in figures["utilisation_by_resource"].values())
    assert not any(isinstance(value, np.generic) for value in figures.values())


def test_reservations_are_counted_with_their_causes():
    one = result([group("a", SMALL)], {"a-0": (9.0, 9.0, 10.0, "m")})
    reservations = (
        ReservationRecord("a", 0.0, 8.0, 7.0, "higher priority"),
        ReservationRecord("b", 0.0, 8.0, 8.0),
        ReservationRecord("c", 0.0, 5.0, 5.0, "foreign pod"),
    )
    start_unknown = frozenset({"d"})
    assert measure(replace(one, reservations=reservations, start_unknown=start_unknown))[
        "promises"
    ] == {
        "made": 3,
        "unknown": 1,
        "broken": 2,
        "broken_by": {"foreign pod": 1, "higher priority": 1},
    }
