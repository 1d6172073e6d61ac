"""Simulations in which running tasks are evicted for others of a higher priority."""

from dataclasses import replace
from random import Random

import pytest

from afflux.app import make_scheduler
from afflux.config.configuration import parse_scheduler_spec
from afflux.model.waiting_group import WaitingGroup
from afflux.sim.metrics import measure
from afflux.sim.replay import SimulatedScheduler, replay
from afflux.sim.result import Result
from afflux.sim.workload import Submission, Workload
from oracles.builders import group, machine, shape


def simulate(*groups: WaitingGroup, machines: int = 1, strategy: str = "flow") -> Result:
    settings = parse_scheduler_spec(f"cpu-memory@{strategy}")
    scheduler = SimulatedScheduler(
        "preempting", lambda state: make_scheduler(settings, state, preempts=True), preempts=True
    )
    workload = Workload(
        "small",
        tuple(machine(f"m{n}", cpu=2) for n in range(machines)),
        tuple(Submission(each, each.run_seconds) for each in groups),
    )
    return replay(workload, scheduler)


def job(name: str, at: float, run: float, priority: int = 0, members: int = 1) -> WaitingGroup:
    waiting = group(name, *[shape(cpu=2)] * members, priority=priority, ready=at)
    return replace(waiting, run_seconds=run)


@pytest.mark.parametrize("strategy", ["flow", "fcfs", "easy", "conservative"])
def test_an_evicted_job_loses_its_work_and_runs_again(strategy: str):
    result = simulate(job("low", 0, 100), job("high", 30, 50, priority=9), strategy=strategy)
    runs = {run.group: (run.start, run.end) for run in result.runs}
    assert runs == {"high": (30.0, 80.0), "low": (80.0, 180.0)}
    metrics = measure(result)
    assert (metrics["preemptions"], metrics["work_lost_seconds"]) == (1, 30.0)
    assert metrics["unplaced"] == 0


def test_a_gang_that_is_evicted_starts_again_as_a_whole():
    low = job("low", 0, 100, members=2)
    result = simulate(low, job("high", 10, 20, priority=9), machines=2)
    assert result.preemptions == 2
    assert {run.start for run in result.runs if run.group == "low"} == {30.0}


@pytest.mark.parametrize("strategy", ["flow", "easy", "conservative"])
@pytest.mark.parametrize("seed", range(5))
def test_no_job_is_lost_and_higher_ones_run_as_if_they_were_alone(seed: int, strategy: str):
    rng = Random(seed)
    at, jobs = 0.0, list[WaitingGroup]()
    for number in range(40):
        at += rng.randint(0, 30)
        jobs.append(job(f"j{number}", at, rng.randint(1, 90), rng.choice([0, 5])))
    result = simulate(*jobs, machines=3, strategy=strategy)
    assert all(run.end is not None for run in result.runs)
    higher = [each for each in jobs if each.priority]
    alone = simulate(*higher, machines=3, strategy=strategy)
    starts = {run.group: run.start for run in result.runs}
    assert {run.group: run.start for run in alone.runs} == {j.key: starts[j.key] for j in higher}
