"""Replays of batch logs, start by start against an independent simulator."""

from random import Random

import pytest

from afflux.app import simulated_scheduler
from afflux.config import parse_scheduler_spec
from afflux.sim.metrics import measure
from afflux.sim.replay import replay
from afflux.sim.swf import read_swf
from oracles.batch_simulator import BatchSimulator, Job

pytestmark = pytest.mark.slow

STRATEGIES = ["fcfs", "easy", "hybrid", "conservative-compress", "conservative-rebuild"]


def random_jobs(rng: Random, size: int) -> list[Job]:
    jobs: list[Job] = []
    submit = 0.0
    for number in range(1, rng.randint(2, 60)):
        # Coarse times, so that many events coincide.
        submit += rng.choice([0, 0, 1, 5, 10, 30])
        estimate = rng.choice([1, 5, 10, 20, 50, 100])
        run = rng.choice([estimate, estimate, max(1, estimate // 2), 1])
        jobs.append(Job(number, submit, run, estimate, rng.randint(1, size)))
    return jobs


def swf(jobs: list[Job]) -> str:
    lines = [
        f"{j.number} {j.submit:g} -1 {j.run:g} {j.processors} -1 -1 {j.processors} {j.estimate:g}"
        " -1 1 1 1 1 1 1 -1 -1"
        for j in jobs
    ]
    return "\n".join(lines) + "\n"


def simulate(text: str, size: int, strategy: str):
    workload = read_swf(text, "random.swf", size)
    return replay(workload, simulated_scheduler(parse_scheduler_spec(f"cpu-memory@{strategy}")))


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("seed", range(40))
def test_every_start_is_that_of_an_independent_simulator(strategy: str, seed: int):
    rng = Random(f"batch {seed}")
    size = rng.choice([1, 3, 8, 20])
    jobs = random_jobs(rng, size)
    expected = BatchSimulator(jobs, size, strategy).run()
    result = simulate(swf(jobs), size, strategy)
    assert {int(run.group): run.start for run in result.runs} == expected


@pytest.mark.parametrize("strategy", ["easy", "conservative-compress"])
@pytest.mark.parametrize("seed", range(40))
def test_with_exact_estimates_no_reservation_is_broken(strategy: str, seed: int):
    rng = Random(f"promises {seed}")
    jobs = random_jobs(rng, 12)
    reservations = measure(simulate(swf(jobs), 12, strategy))["promises"]
    assert reservations["broken"] == 0
    if strategy != "easy" and len(jobs) > 30:
        assert reservations["made"] > 0
