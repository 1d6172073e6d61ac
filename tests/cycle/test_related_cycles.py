"""Cycles with constraints between tasks: sets over queues, parts of a decision, further rounds."""

from dataclasses import replace

import pytest

from afflux.admit.strategies import BUILT_IN
from afflux.cluster.state import State
from afflux.cycle import optimiser
from afflux.cycle.events import (
    GroupReady,
    GroupWithdrawn,
    MachineGone,
    MachineSet,
    NamespaceSet,
    TaskEnded,
    TaskRuns,
)
from afflux.cycle.loop import Cycle
from afflux.cycle.optimiser import Optimiser
from afflux.cycle.reservations import DelayCause
from afflux.model.relations import (
    AffinityTerm,
    Relations,
    SpreadConstraint,
    TaskLabels,
    TaskSelector,
)
from afflux.model.selectors import Requirement
from afflux.policies.cpu_memory import CpuMemory
from afflux.policies.policy import Weighted
from afflux.policies.registry import constraints
from afflux.queue.rules import QueueRules
from oracles.builders import machine
from oracles.related_tasks import (
    NAMESPACE,
    apart,
    near,
    related_group,
    related_task,
    selects,
    spread,
)


def cycle_of(*strategies: str, cpu: int = 4) -> Cycle:
    state = State([machine(zone, cpu=cpu, labels={"zone": zone}) for zone in "ab"])
    queues = [(QueueRules(f"q{n}"), BUILT_IN[name]) for n, name in enumerate(strategies)]
    return Cycle(state, Optimiser(state, queues, constraints(), [Weighted(CpuMemory())]))


def one(name: str, app: str, relations=None, *, queue: int = 0, **fields):
    group = {"priority": fields.pop("priority", 0), "run_seconds": fields.pop("run", 10.0)}
    task = related_task(name, app, relations, **fields)
    return related_group(name, task, queue=f"q{queue}", **group)


def spread_without_ending(app: str) -> Relations:
    """As Kubernetes spreads: a task that is being deleted does not count."""
    selector = replace(selects(app), includes_ending=False)
    return Relations(spread=(SpreadConstraint(selector, "zone", 1),))


def placed(outcome) -> dict[str, str]:
    return {each.task.id: each.machine for each in outcome.placements}


def run(cycle: Cycle, *groups, now: float = 0.0):
    return cycle.run([GroupReady(group) for group in groups], now)


@pytest.mark.parametrize("strategy", ["fcfs", "easy", "hybrid", "conservative", "flow"])
def test_groups_of_one_queue_that_need_each_other_start_together(strategy: str):
    cycle = cycle_of(strategy)
    outcome = run(cycle, one("a", "web", near("db")), one("b", "db", near("web")))
    assert len(set(placed(outcome).values())) == 1
    assert placed(outcome).keys() == {"a", "b"}
    assert {group.name for group in outcome.decision.plan.placed} == {"a", "b"}


@pytest.mark.parametrize("first", ["fcfs", "easy", "conservative", "flow"])
@pytest.mark.parametrize("second", ["fcfs", "easy", "flow"])
def test_groups_of_two_queues_that_need_each_other_start_together(first: str, second: str):
    cycle = cycle_of(first, second)
    outcome = run(cycle, one("a", "web", near("db")), one("b", "db", near("web"), queue=1))
    assert placed(outcome).keys() == {"a", "b"}
    assert outcome.reservations == ()


def test_a_set_waits_until_the_queues_of_all_members_admit_it():
    cycle = cycle_of("fcfs", "fcfs")
    # The head of the second queue does not fit: fcfs does not reach the group behind it.
    head = one("head", "x", queue=1, cpu=4)
    for zone in "ab":
        cycle.state.place(related_task(f"r{zone}", "x", cpu=2), zone)
    waits = run(cycle, head, one("a", "web", near("db")), one("b", "db", near("web"), queue=1))
    assert placed(waits) == {}
    outcome = cycle.run([GroupWithdrawn("head")], 1.0)
    assert placed(outcome).keys() == {"a", "b"}


def test_a_set_has_the_lowest_priority_of_its_members():
    cycle = cycle_of("fcfs", cpu=1)
    groups = [
        one("a", "web", near("db"), priority=9, cpu=1),
        one("x", "x", priority=5, cpu=1),
        one("y", "x", priority=5, cpu=1),
        one("b", "db", near("web"), priority=1, cpu=0),
    ]
    assert placed(run(cycle, *groups)).keys() == {"x", "y"}


def test_a_group_behind_the_one_it_needs_starts_in_the_same_cycle():
    cycle = cycle_of("fcfs")
    assert placed(run(cycle, one("a", "web", near("db")), one("b", "db"))).keys() == {"a", "b"}


def test_a_group_that_needs_one_of_a_later_queue_starts_in_the_next_cycle():
    cycle = cycle_of("easy", "easy")
    first = run(cycle, one("a", "web", near("db")), one("b", "db", queue=1))
    assert placed(first).keys() == {"b"}
    assert first.wake_up_seconds == 0.0
    assert placed(cycle.run([], 0.0)).keys() == {"a"}


def test_members_of_a_set_have_a_reservation_each():
    cycle = cycle_of("conservative", cpu=2)
    run(cycle, one("p", "x", cpu=2), one("q", "x", cpu=2, run=20.0))
    found = run(cycle, one("a", "web", near("db")), one("b", "db", near("web")), now=1.0)
    reserved = {each.group: each for each in found.reservations}
    assert {name: each.start_seconds for name, each in reserved.items()} == {"a": 10.0, "b": 10.0}
    assert [task for task, _ in reserved["a"].machines] == ["a"]
    again = run(cycle, one("z", "x", cpu=2), now=2.0)
    assert {e.group: e.start_seconds for e in again.reservations}["a"] == 10.0
    outcome = cycle.run([TaskEnded("p")], 10.0)
    assert placed(outcome).keys() == {"a", "b"}
    assert outcome.broken == ()


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A decision is made in parts of two classes."""
    monkeypatch.setattr(optimiser, "MAX_PAIRS_PER_ROUND", 0)
    monkeypatch.setattr(optimiser, "MIN_CLASSES_PER_ROUND", 2)


@pytest.mark.usefixtures("small_parts")
def test_a_set_is_never_split_over_the_parts_of_a_decision():
    cycle = cycle_of("flow", cpu=16)
    others = [one(f"x{n}", "x", cpu=1 + n) for n in range(5)]
    outcome = run(cycle, one("a", "web", near("db")), *others, one("b", "db", near("web")))
    assert placed(outcome).keys() >= {"a", "b"}


@pytest.mark.usefixtures("small_parts")
def test_a_part_does_not_break_the_constraints_of_an_earlier_one():
    cycle = cycle_of("flow", cpu=2)
    # Only a has room for another web task, which would break the spread of the first one.
    cycle.state.place(related_task("r", "x", cpu=1), "b")
    groups = [
        one("s", "web", spread("web"), cpu=1),
        one("x", "x", cpu=0),
        one("t", "web", cpu=0, memory=0),
        one("u", "web", cpu=0),
        one("v", "web", spread("x"), cpu=0),
    ]
    found = run(cycle, *groups)
    while found.placements:
        found = cycle.run([], found.wake_up_seconds or 1.0)
    assert len(cycle.queue) == 0


def test_company_that_leaves_early_is_a_cause_of_a_broken_reservation():
    cycle = cycle_of("conservative", cpu=2)
    run(cycle, one("db", "db", run=100.0, cpu=1), one("p", "x", cpu=2, run=20.0))
    where = cycle.state.machine_of("db")
    cycle.state.place(related_task("fill", "x", cpu=1), where, until_seconds=20.0)
    found = run(cycle, one("w", "web", near("db"), cpu=1), now=1.0)
    assert [each.start_seconds for each in found.reservations] == [20.0]
    cycle.run([TaskEnded("db")], 5.0)
    cycle.run([TaskEnded("fill"), TaskEnded("p")], 20.0)
    outcome = run(cycle, one("db2", "db", run=100.0, cpu=1), now=30.0)
    broken = [*outcome.broken]
    while outcome.wake_up_seconds is not None:
        outcome = cycle.run([], outcome.wake_up_seconds)
        broken += outcome.broken
    assert [(each.group, each.cause) for each in broken] == [("w", DelayCause.COMPANY)]


def test_a_task_that_loses_a_label_unblocks_what_it_repelled():
    cycle = cycle_of("flow")
    running = [related_task(name, "db") for name in ("d", "e")]
    cycle.run([TaskRuns(each, zone) for each, zone in zip(running, "ab", strict=True)])
    assert placed(run(cycle, one("w", "web", apart("db")))) == {}
    renamed = replace(running[1], labels=TaskLabels(NAMESPACE, (("app", "other"),)))
    assert placed(cycle.run([TaskRuns(renamed, "b")])) == {"w": "b"}


def test_a_task_that_is_being_deleted_counts_for_no_spread_from_then_on():
    cycle = cycle_of("flow", cpu=1)
    running = related_task("r", "web")
    cycle.run([TaskRuns(running, "a"), TaskRuns(related_task("full", "x"), "b")])
    cycle.run([MachineSet(machine("c", cpu=4, labels={"zone": "a"}))])
    assert placed(run(cycle, one("w", "web", spread_without_ending("web")))) == {}
    ending = replace(running, labels=replace(running.labels, ending=True))
    assert placed(cycle.run([TaskRuns(ending, "a")])) == {"w": "c"}


def test_a_machine_that_is_gone_takes_along_what_its_tasks_repelled():
    cycle = cycle_of("flow")
    cycle.run([MachineGone("b"), MachineSet(machine("c", cpu=4, labels={"zone": "a"}))])
    cycle.run([TaskRuns(related_task("r", "db"), "a")])
    assert placed(run(cycle, one("w", "web", apart("db")))) == {}
    assert placed(cycle.run([MachineGone("a")])) == {"w": "c"}


def test_the_domain_of_a_machine_that_is_gone_does_not_hold_up_a_spread():
    cycle = cycle_of("flow", cpu=1)
    cycle.run([MachineSet(machine("c", cpu=4, labels={"zone": "a"}))])
    cycle.run([TaskRuns(related_task("r", "web"), "a"), TaskRuns(related_task("x", "x"), "b")])
    assert placed(run(cycle, one("w", "web", spread("web")))) == {}
    assert placed(cycle.run([MachineGone("b")])) == {"w": "c"}


def test_a_namespace_with_other_labels_causes_a_decision_if_constraints_are_in_use():
    cycle = cycle_of("flow")
    cycle.run([NamespaceSet(NAMESPACE, {"team": "blue"})])
    cycle.run([TaskRuns(related_task("r", "db"), "a")])
    of_red = TaskSelector(namespace_labels=(Requirement("team", "In", ("red",)),))
    near_red = Relations(affinity=(AffinityTerm(of_red, "zone"),))
    assert placed(run(cycle, one("w", "web", near_red))) == {}
    assert cycle.run([NamespaceSet(NAMESPACE, {"team": "blue"})]).decision is None
    assert placed(cycle.run([NamespaceSet(NAMESPACE, {"team": "red"})])) == {"w": "a"}


@pytest.mark.parametrize("strategy", ["easy", "conservative"])
def test_reserved_room_is_no_company(strategy: str):
    """The reservation of one queue is entered into the state while another queue is planned."""
    cycle = cycle_of(strategy, "flow")
    cycle.run([MachineSet(machine("b", cpu=6, labels={"zone": "b"}))])
    cycle.run([TaskRuns(related_task("r", "x", cpu=4), "a", until_seconds=10.0)])
    members = [related_task(name, "h", cpu=4) for name in ("h0", "h1")]
    gang = related_group("h", *members, queue="q0", run_seconds=10.0)
    everything = TaskSelector(namespace_labels=())
    near_any = Relations(affinity=(AffinityTerm(everything, "zone"),))
    outcome = run(cycle, gang, one("p", "p", near_any, queue=1), now=1.0)
    assert [each.group for each in outcome.reservations] == ["h"]
    assert placed(outcome) == {}
