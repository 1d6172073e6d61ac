"""Reservations of groups with constraints between tasks: judged when the group starts, and kept."""

from dataclasses import replace

import pytest

from afflux.admit.strategies import BUILT_IN
from afflux.cluster.state import State
from afflux.cycle.events import GroupReady, TaskEnded, TaskRuns
from afflux.cycle.loop import Cycle
from afflux.cycle.optimiser import Optimiser
from afflux.policies.cpu_memory import CpuMemory
from afflux.policies.policy import Weighted
from afflux.policies.registry import constraints
from afflux.queue.rules import QueueRules
from oracles.builders import machine
from oracles.related_tasks import apart, both, near, related_group, related_task, spread

ZONES = ("a", "b")


def cluster(cpu: int = 4, *, hosts: int = 1, strategy: str = "conservative") -> Cycle:
    machines = [
        machine(f"{zone}{n}", cpu=cpu, labels={"zone": zone, "host": f"{zone}{n}"})
        for zone in ZONES
        for n in range(hosts)
    ]
    state = State(machines)
    queues = [(QueueRules(), BUILT_IN[strategy])]
    return Cycle(state, Optimiser(state, queues, constraints(), [Weighted(CpuMemory())]))


def lone(name, app, relations=None, *, run=10.0, ready=0.0, **requests):
    task = related_task(name, app, relations, **requests)
    return related_group(name, task, run_seconds=run, ready_seconds=ready)


def starts(outcome) -> dict[str, float | None]:
    return {each.group: each.start_seconds for each in outcome.reservations}


def placed(outcome) -> dict[str, str]:
    return {each.task.id: each.machine for each in outcome.placements}


def run(cycle: Cycle, *groups, now: float = 0.0):
    return cycle.run([GroupReady(group) for group in groups], now)


def end(cycle: Cycle, *tasks: str, now: float):
    return cycle.run([TaskEnded(task) for task in tasks], now)


def test_a_group_that_others_repel_is_reserved_the_time_when_they_have_ended():
    cycle = cluster()
    first = run(cycle, *(lone(f"web{n}", "web", run=10.0 + n, cpu=1) for n in range(2)))
    assert len(placed(first)) == 2
    ends = {zone[0]: 10.0 + int(task[-1]) for task, zone in placed(first).items()}
    second = run(cycle, lone("w", "db", apart("web"), cpu=1), now=1.0)
    # One of the two may have left a zone free of web tasks.
    expected = {"w": min(ends.values())} if len(ends) == 2 else {}
    assert starts(second) == expected


def test_a_group_needs_company_that_still_runs_when_it_starts():
    cycle = cluster(cpu=2)
    run(cycle, lone("db", "db", run=100.0, cpu=1), lone("long", "x", run=20.0, cpu=1))
    where = cycle.state.machine_of("db")
    other = {"a0": "b0", "b0": "a0"}[where]
    # Fill the machine of the database for a while.
    fill = lone("fill", "x", near("db"), run=30.0, cpu=1)
    found = run(cycle, fill, now=0.0)
    if cycle.state.machine_of("fill") is None:
        assert starts(found) == {"fill": 20.0}
    waits = run(cycle, lone("w", "web", near("db"), cpu=1), now=1.0)
    assert starts(waits)["w"] is not None
    assert starts(waits)["w"] < 100.0
    assert other != where


def test_a_group_without_company_gets_no_reservation_and_blocks_no_other():
    cycle = cluster(cpu=2)
    found = run(cycle, lone("w", "web", near("db"), cpu=1), lone("x", "x", cpu=1))
    assert placed(found).keys() == {"x"}
    assert starts(found) == {}
    later = run(cycle, lone("db", "db", cpu=1), now=1.0)
    assert "db" in placed(later)
    again = cycle.run([], later.wake_up_seconds or 2.0) if "w" not in placed(later) else later
    assert "w" in placed(again)


@pytest.mark.parametrize("strategy", ["easy", "conservative"])
def test_a_group_that_starts_leaves_a_reserved_spread_in_place(strategy: str):
    cycle = cluster(cpu=2, strategy=strategy)
    # Both zones are full until 10; then w is to start.
    run(cycle, lone("p", "x", cpu=2, run=10.0), lone("q", "x", cpu=2, run=20.0))
    reserved = run(cycle, lone("w", "web", spread("web"), cpu=2, run=10.0), now=1.0)
    assert starts(reserved) == {"w": 10.0}
    end(cycle, "p", now=10.0)
    assert cycle.state.machine_of("w") is not None


def test_members_of_a_gang_that_need_each_other_are_reserved_together():
    cycle = cluster(cpu=2)
    run(cycle, lone("p", "x", cpu=2, run=10.0), lone("q", "x", cpu=2, run=20.0))
    gang = related_group(
        "gang",
        related_task("g0", "web", near("db"), cpu=1),
        related_task("g1", "db", near("web"), cpu=1),
        run_seconds=10.0,
    )
    found = run(cycle, gang, now=1.0)
    assert starts(found) == {"gang": 10.0}
    (reservation,) = found.reservations
    assert len({machine for _, machine in reservation.machines}) == 1
    outcome = end(cycle, "p", now=10.0)
    assert placed(outcome).keys() == {"g0", "g1"}
    assert outcome.broken == ()


def test_a_gang_whose_members_repel_each_other_waits_for_as_many_domains():
    cycle = cluster(cpu=2)
    run(cycle, lone("p", "x", cpu=2, run=10.0), lone("q", "x", cpu=2, run=20.0))
    gang = related_group(
        "gang",
        *(related_task(f"g{n}", "web", both(apart("web"))) for n in range(2)),
        run_seconds=10.0,
    )
    assert starts(run(cycle, gang, now=1.0)) == {"gang": 20.0}
    end(cycle, "p", now=10.0)
    outcome = end(cycle, "q", now=20.0)
    assert placed(outcome).keys() == {"g0", "g1"}
    assert outcome.broken == ()


def test_labels_that_changed_before_any_constraint_was_in_use_count_at_a_later_start():
    cycle = cluster(cpu=2)
    running = [related_task(name, "x", cpu=2) for name in ("r0", "r1")]
    cycle.run([TaskRuns(each, f"{z}0", 10.0) for each, z in zip(running, ZONES, strict=True)])
    # Two classes: the search reads the expected ends of the running tasks.
    waiting = [lone("two", "y", cpu=2), lone("one", "y", cpu=1)]
    assert starts(run(cycle, *waiting, now=1.0)) == {"two": 10.0, "one": 10.0}
    renamed = [replace(each, labels=related_task("", "web").labels) for each in running]
    cycle.run([TaskRuns(each, f"{z}0", 10.0) for each, z in zip(renamed, ZONES, strict=True)], 2.0)
    later = run(cycle, lone("w", "db", apart("web"), ready=3.0, cpu=2), now=3.0)
    assert starts(later)["w"] == 20.0
