"""Preemption from cycle to cycle: nominations, grace periods, and what ends them."""

from dataclasses import replace

import pytest

from afflux.admit.strategies import Strategy, easy, fcfs, flow
from afflux.cluster.state import State
from afflux.cycle.events import (
    BudgetSet,
    EvictionFailed,
    GroupReady,
    GroupWithdrawn,
    MachineGone,
    MachineSet,
    TaskEnded,
    TaskRuns,
)
from afflux.cycle.loop import Cycle, Outcome
from afflux.cycle.preempting_scheduler import PreemptingScheduler
from afflux.model.eviction_terms import EvictionTerms
from afflux.model.task import Shape
from afflux.model.waiting_group import WaitingGroup
from oracles.builders import by_machine, group, machine, scheduler, shape, task

GRACE = 30.0


class Cluster:
    """A cycle that preempts, driven by events."""

    def __init__(self, *machines: str, cpu: int = 2, strategy: Strategy = flow) -> None:
        state = State()
        self.cycle = Cycle(state, PreemptingScheduler(state, scheduler(state, strategy), [""]))
        self.cycle.run([MachineSet(machine(name, cpu=cpu)) for name in machines])

    def runs(self, name: str, where: str, priority: int = 0, cpu: int = 2) -> TaskRuns:
        terms = EvictionTerms(name, priority, grace_seconds=GRACE)
        return TaskRuns(task(name, shape(cpu=cpu)), where, terms=terms)

    def run(self, *events: object, now: float = 0.0) -> Outcome:
        return self.cycle.run(events, now)


def waits(name: str, priority: int, *shapes: Shape) -> GroupReady:
    return GroupReady(group(name, *(shapes or (shape(cpu=2),)), priority=priority))


def evicted(outcome: Outcome) -> list[str]:
    return sorted(each.task.name for each in outcome.evictions)


def nominated(outcome: Outcome) -> dict[str, str]:
    return {each.task.name: each.machine for each in outcome.nominations}


@pytest.mark.parametrize("strategy", [flow, fcfs, easy])
def test_a_preemptor_waits_for_its_victim_and_then_starts(strategy: Strategy):
    cluster = Cluster("m", strategy=strategy)
    first = cluster.run(cluster.runs("low", "m"), waits("high", 9))
    assert evicted(first) == ["low"]
    assert nominated(first) == {"high.0": "m"}
    assert not first.placements
    (reservation,) = first.reservations
    assert (reservation.group, reservation.start_seconds) == ("high", GRACE)
    assert dict(reservation.machines) == {"high.0": "m"}
    second = cluster.run(waits("other", 9), now=3.0)
    assert not second.evictions
    assert nominated(second) == {"high.0": "m"}
    third = cluster.run(TaskEnded("low"), now=5.0)
    assert by_machine(third.placements) == {"m": ["high.0"]}
    assert not third.nominations


def test_the_place_is_held_against_equals_and_lower_ones():
    cluster = Cluster("m", cpu=4)
    cluster.run(cluster.runs("low", "m", cpu=4), waits("high", 9, shape(cpu=3)))
    outcome = cluster.run(
        TaskEnded("low"), waits("equal", 9, shape(cpu=2)), waits("lower", 5, shape(cpu=1)), now=9.0
    )
    assert by_machine(outcome.placements) == {"m": ["high.0", "lower.0"]}


def test_a_higher_priority_takes_the_place_that_is_held():
    cluster = Cluster("m")
    cluster.run(cluster.runs("low", "m"), waits("high", 9))
    outcome = cluster.run(waits("higher", 99), now=1.0)
    assert not outcome.evictions
    assert nominated(outcome) == {"higher.0": "m"}
    last = cluster.run(TaskEnded("low"), now=2.0)
    assert by_machine(last.placements) == {"m": ["higher.0"]}


def test_nothing_more_is_evicted_while_the_victims_end():
    cluster = Cluster("m", "n")
    first = cluster.run(cluster.runs("a", "m"), cluster.runs("b", "n"), waits("high", 9))
    assert len(first.evictions) == 1
    for now in (1.0, 40.0, 80.0):
        again = cluster.run(waits("late", -1), GroupWithdrawn("late"), now=now)
        assert not again.evictions
        assert nominated(again) == nominated(first)


def test_the_room_of_victims_whose_preemptor_has_gone_is_for_everybody():
    cluster = Cluster("m")
    cluster.run(cluster.runs("low", "m"), waits("high", 9))
    outcome = cluster.run(GroupWithdrawn("high"), waits("next", 5), now=1.0)
    assert not outcome.evictions
    assert nominated(outcome) == {"next.0": "m"}
    last = cluster.run(TaskEnded("low"), now=2.0)
    assert by_machine(last.placements) == {"m": ["next.0"]}


def test_a_preemptor_whose_node_is_lost_preempts_elsewhere():
    cluster = Cluster("m", "n")
    events = cluster.runs("a", "m", priority=1), cluster.runs("b", "n", priority=0)
    first = cluster.run(*events, waits("high", 9))
    assert evicted(first) == ["b"]
    second = cluster.run(MachineGone("n"), now=1.0)
    assert evicted(second) == ["a"]
    assert nominated(second) == {"high.0": "m"}


def test_a_preemptor_starts_elsewhere_if_its_victim_stays():
    cluster = Cluster("m", "n")
    events = cluster.runs("a", "m", priority=1), cluster.runs("b", "n", priority=0)
    cluster.run(*events, waits("high", 9))
    outcome = cluster.run(EvictionFailed("b"), TaskEnded("a"), now=1.0)
    assert by_machine(outcome.placements) == {"m": ["high.0"]}
    assert not outcome.nominations


def test_budgets_are_those_of_the_last_report():
    cluster = Cluster("m", "n")
    terms = EvictionTerms("a", 0, budgets=("pdb",))
    protected = TaskRuns(task("a", shape(cpu=2)), "m", terms=terms)
    other = cluster.runs("b", "n", priority=1)
    outcome = cluster.run(BudgetSet("pdb", 0), protected, other, waits("high", 9))
    assert evicted(outcome) == ["b"]
    again = Cluster("m", "n")
    assert evicted(again.run(BudgetSet("pdb", 1), protected, other, waits("high", 9))) == ["a"]


def test_victims_that_end_and_places_that_are_held_make_room_in_thought():
    """Once they are being deleted, victims have no eviction terms any more."""
    cluster = Cluster("m", "n", cpu=10)
    lower = [cluster.runs(f"low{n}", "mn"[n % 2], cpu=1) for n in range(20)]
    cluster.run(*lower)
    gone: set[str] = set()
    for number in range(20):
        outcome = cluster.run(waits(f"mid{number}", 50, shape(cpu=1)), now=number)
        assert len(outcome.evictions) == 1
        gone |= {each.task.id for each in outcome.evictions}
        ending = (each for each in lower if each.task.id in gone)
        cluster.run(*(replace(each, until_seconds=90.0, terms=None) for each in ending))
    assert len(gone) == 20
    outcome = cluster.run(*(waits(f"top{n}", 99, shape(cpu=1)) for n in range(10)), now=30.0)
    assert not outcome.evictions
    assert {f"top{n}.0" for n in range(10)} <= nominated(outcome).keys()


def test_a_gang_displaces_two_smaller_gangs():
    cluster = Cluster("m", "n", "o", "p")
    runs = []
    for number, where in enumerate("mnop"):
        terms = EvictionTerms(f"g{number // 2}", 0, whole_group=True)
        runs.append(TaskRuns(task(f"t{number}", shape(cpu=2)), where, terms=terms))
    gang = waits("gang", 9, *[shape(cpu=2)] * 3)
    outcome = cluster.run(*runs, gang)
    assert evicted(outcome) == ["t0", "t1", "t2", "t3"]
    assert len(outcome.nominations) == 3
    partly = cluster.run(TaskEnded("t0"), TaskEnded("t1"), now=1.0)
    assert not partly.placements
    last = cluster.run(TaskEnded("t2"), TaskEnded("t3"), now=2.0)
    assert len(last.placements) == 3


def test_a_reservation_of_a_lower_priority_moves_and_counts_as_broken_by_preemption():
    cluster = Cluster("m", strategy=easy)
    running = TaskRuns(task("old", shape(cpu=2)), "m", 100.0, terms=EvictionTerms("old", 0))
    first = cluster.run(running, waits("head", 0))
    assert [each.start_seconds for each in first.reservations] == [100.0]
    high = WaitingGroup("high", (task("high.0", shape(cpu=2)),), 9, run_seconds=500.0)
    cluster.run(GroupReady(high), now=10.0)
    cluster.run(TaskEnded("old"), now=11.0)
    last = cluster.run(TaskEnded("high.0"), now=511.0)
    assert by_machine(last.placements) == {"m": ["head.0"]}
    assert [str(each.cause) for each in last.broken] == ["preemption"]


def test_without_contention_no_victim_is_sought(monkeypatch: pytest.MonkeyPatch):
    cluster = Cluster("m", "n")
    monkeypatch.setattr("afflux.cycle.preempting_scheduler.preempt", pytest.fail)
    outcome = cluster.run(cluster.runs("low", "m"), waits("high", 9))
    assert by_machine(outcome.placements) == {"n": ["high.0"]}
