"""The scheduling cycle: events go in, placements come out, failed placements wait again."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from afflux.cluster.state import State
from afflux.cycle import optimiser
from afflux.cycle.decision import Decision
from afflux.cycle.events import (
    Event,
    GroupReady,
    GroupWithdrawn,
    MachineGone,
    MachineSet,
    TaskEnded,
    TaskRuns,
)
from afflux.cycle.loop import Cycle
from afflux.model.placement import Placement
from afflux.model.relations import AffinityTerm, Relations, TaskLabels, TaskSelector
from afflux.model.selectors import Requirement
from afflux.model.waiting_group import WaitingGroup
from afflux.plan.check import PlanError
from afflux.plan.plan import Plan
from afflux.policies.policy import Policy
from oracles.builders import by_machine, group, machine, scheduler, shape, task


class FixedAnswer:
    """A scheduler that always gives the same answer."""

    policies: Sequence[Policy] = ()

    def __init__(self, answer: Decision) -> None:
        self._answer = answer

    def decide(self, state: State, queue: Sequence[WaitingGroup], *when: object) -> Decision:
        return self._answer


def cycle_of(*machines) -> Cycle:
    state = State(machines)
    return Cycle(state, scheduler(state))


def ready(*groups: WaitingGroup) -> list[GroupReady]:
    return [GroupReady(waiting) for waiting in groups]


def test_a_placed_task_takes_room_until_it_ends():
    cycle = cycle_of(machine("m", cpu=1))
    outcome = cycle.run(ready(group("a", shape(cpu=1)), group("b", shape(cpu=1))))
    assert by_machine(outcome.placements) == {"m": ["a.0"]}
    assert cycle.state.machine_of("a.0") == "m"
    assert cycle.run([]).placements == ()
    assert by_machine(cycle.run([TaskEnded("a.0")]).placements) == {"m": ["b.0"]}
    assert len(cycle.queue) == 0


def test_machines_can_join_change_and_leave():
    cycle = cycle_of()
    assert cycle.run(ready(group("a", shape(cpu=2)))).placements == ()
    assert cycle.run([MachineSet(machine("m", cpu=1))]).placements == ()
    assert by_machine(cycle.run([MachineSet(machine("m", cpu=2))]).placements) == {"m": ["a.0"]}
    cycle.run([MachineGone("m")])
    assert cycle.state.machine_of("a.0") is None
    assert cycle.run(ready(group("b", shape(cpu=1)))).placements == ()


def test_tasks_of_other_schedulers_take_room():
    cycle = cycle_of(machine("m", cpu=2))
    foreign = task("foreign", shape(cpu=2))
    assert cycle.run([TaskRuns(foreign, "m"), *ready(group("a", shape(cpu=1)))]).placements == ()


def test_events_about_unknown_machines_are_ignored():
    cycle = cycle_of(machine("m", cpu=1))
    gone = [MachineGone("n"), TaskRuns(task("t", shape(cpu=1)), "n"), TaskEnded("t")]
    assert by_machine(cycle.run([*gone, *ready(group("a", shape(cpu=1)))]).placements) == {
        "m": ["a.0"]
    }


def test_a_withdrawn_group_is_not_placed():
    cycle = cycle_of(machine("m", cpu=2))
    assert cycle.run([*ready(group("a", shape(cpu=1))), GroupWithdrawn("a")]).placements == ()
    assert len(cycle.queue) == 0


def test_the_last_report_of_a_group_replaces_earlier_ones():
    cycle = cycle_of(machine("m", cpu=9))
    outcome = cycle.run(ready(group("a", shape(cpu=1)), group("a", shape(cpu=2))))
    assert [dict(p.task.shape.requests)["cpu"] for p in outcome.placements] == [2]


def test_a_confirmed_placement_keeps_its_devices():
    cycle = cycle_of(machine("m", devices=3))
    cycle.run([TaskRuns(task("x", shape(count=1, milli=500)), "m")])
    outcome = cycle.run(ready(group("a", shape(count=2, milli=400))))
    before = cycle.state.free_devices[0]
    cycle.run([TaskRuns(p.task, p.machine) for p in outcome.placements])
    assert cycle.state.free_devices[0] == before


def test_a_group_whose_binding_failed_is_placed_again():
    cycle = cycle_of(machine("m", cpu=1, devices=1))
    waiting = group("a", shape(cpu=1, count=1, milli=300))
    cycle.run(ready(waiting))
    outcome = cycle.run([TaskEnded("a.0"), GroupReady(waiting)])
    assert by_machine(outcome.placements) == {"m": ["a.0"]}
    assert cycle.state.view().free[0, 0] == 0
    assert cycle.state.free_devices[0] == (700,)


def test_the_rest_of_a_half_bound_gang_is_placed():
    cycle = cycle_of(*(machine(f"m{i}", cpu=1) for i in range(3)))
    gang = group("gang", *[shape(cpu=1)] * 3)
    other = group("other", shape(cpu=1))
    cycle.run(ready(gang, other))
    rest = replace(gang, tasks=gang.tasks[1:])
    outcome = cycle.run([TaskEnded("gang.1"), TaskEnded("gang.2"), GroupReady(rest)])
    assert len(outcome.placements) == 2
    assert cycle.state.machine_of("gang.0") is not None


def test_a_running_task_that_shrinks_makes_room():
    cycle = cycle_of(machine("m", cpu=4))
    cycle.run([TaskRuns(task("t", shape(cpu=4)), "m"), *ready(group("a", shape(cpu=2)))])
    assert cycle.run([TaskRuns(task("t", shape(cpu=3)), "m")]).placements == ()
    outcome = cycle.run([TaskRuns(task("t", shape(cpu=2)), "m")])
    assert by_machine(outcome.placements) == {"m": ["a.0"]}


def test_a_running_task_that_grows_causes_no_decision():
    cycle = cycle_of(machine("m", cpu=4))
    cycle.run([TaskRuns(task("t", shape(cpu=3)), "m"), *ready(group("a", shape(cpu=2)))])
    assert cycle.run([TaskRuns(task("t", shape(cpu=4)), "m")]).decision is None


@pytest.mark.parametrize(
    ("event", "decides"),
    [
        (TaskEnded("unknown"), False),
        (TaskRuns(task("foreign", shape(cpu=1)), "m"), False),
        (MachineGone("m"), False),
        (MachineSet(machine("m", cpu=1)), False),
        (GroupWithdrawn("unknown"), False),
        (MachineSet(machine("m", cpu=2)), True),
        (GroupWithdrawn("big"), True),
        (GroupReady(group("new", shape(cpu=9))), True),
    ],
    ids=str,
)
def test_only_unblocking_events_cause_a_decision(event: Event, decides: bool):
    cycle = cycle_of(machine("m", cpu=1))
    assert cycle.run(ready(group("big", shape(cpu=5)))).decision is not None
    assert cycle.run([]).decision is None
    assert (cycle.run([event]).decision is not None) == decides


def test_a_running_task_for_which_another_waits_causes_a_decision():
    with_db = TaskSelector(("",), None, (Requirement("app", "In", ("db",)),))
    near = Relations(affinity=(AffinityTerm(with_db, "zone"),))
    cycle = cycle_of(machine("m", cpu=4, labels={"zone": "a"}))
    waiting = WaitingGroup("web", (task("web.0", replace(shape(cpu=1), relations=near)),))
    assert cycle.run(ready(waiting)).placements == ()
    db = task("db", shape(cpu=1))
    assert cycle.run([TaskRuns(db, "m")]).decision is None
    labelled = replace(db, labels=TaskLabels("", (("app", "db"),)))
    assert by_machine(cycle.run([TaskRuns(labelled, "m")]).placements) == {"m": ["web.0"]}


def test_a_plan_that_fails_the_check_is_not_carried_out():
    state = State([machine("m", cpu=1)])
    waiting = group("a", shape(cpu=2))
    answer = Decision(Plan((Placement(waiting.tasks[0], "m"),), (waiting,), 0, 0, 0))
    cycle = Cycle(state, FixedAnswer(answer))
    with pytest.raises(PlanError, match="Insufficient cpu"):
        cycle.run(ready(waiting))
    assert state.machine_of("a.0") is None
    assert [w.name for w in cycle.queue] == ["a"]


def test_a_group_reported_as_placed_without_a_placement_stays_in_the_queue():
    waiting = group("a", shape(cpu=1))
    cycle = Cycle(
        State([machine("m", cpu=1)]), FixedAnswer(Decision(Plan((), (waiting,), 0, 0, 0)))
    )
    with pytest.raises(PlanError, match="group a"):
        cycle.run(ready(waiting))
    assert [w.name for w in cycle.queue] == ["a"]


def test_every_waiting_task_has_a_reason():
    cycle = cycle_of(machine("m", cpu=1), machine("n", cpu=3, pods=0))
    blocked = WaitingGroup("held", (task("held.0", shape(), "spec.volumes: not supported yet"),))
    cycle.run(
        [
            *ready(group("big", shape(cpu=2)), group("gang", *[shape(cpu=1)] * 2)),
            GroupReady(blocked),
        ]
    )
    assert cycle.explain() == {
        "big.0": "0/2 nodes are available: 1 Insufficient cpu, 1 Too many pods.",
        "gang.0": "0/2 nodes are available: group gang needs room for all 2 members at once, "
        "1 node(s) have room for this one.",
        "gang.1": "0/2 nodes are available: group gang needs room for all 2 members at once, "
        "1 node(s) have room for this one.",
        "held.0": "spec.volumes: not supported yet",
    }


def test_a_blocked_group_waits_until_it_is_reported_unblocked():
    cycle = cycle_of(machine("m", cpu=1))
    held = WaitingGroup("g", (task("g.0", shape(cpu=1), "spec.x: not supported"),))
    assert cycle.run([GroupReady(held)]).placements == ()
    assert by_machine(cycle.run(ready(group("g", shape(cpu=1)))).placements) == {"m": ["g.0"]}


def test_thousands_of_different_tasks_are_placed_in_several_rounds(monkeypatch):
    machines = [machine(f"m{i}", cpu=40, memory=9999, pods=100) for i in range(5)]
    groups = [group(f"g{i:03}", shape(cpu=1, memory=i)) for i in range(60)]
    groups += [group("gang", *(shape(cpu=1, memory=i) for i in range(70, 90)))]
    at_once = cycle_of(*machines).run(ready(*groups))
    monkeypatch.setattr(optimiser, "MAX_PAIRS_PER_ROUND", 0)
    monkeypatch.setattr(optimiser, "MIN_CLASSES_PER_ROUND", 7)
    cycle = cycle_of(*machines)
    in_parts = cycle.run(ready(*groups))
    assert len(in_parts.placements) == len(at_once.placements) == 80
    assert in_parts.decision.plan.solves > at_once.decision.plan.solves
    assert sum(cycle.state.view().running) == 80
    assert cycle.run([]).placements == ()


def test_rounds_in_parts_keep_the_order_of_the_queue(monkeypatch):
    monkeypatch.setattr(optimiser, "MAX_PAIRS_PER_ROUND", 0)
    monkeypatch.setattr(optimiser, "MIN_CLASSES_PER_ROUND", 1)
    cycle = cycle_of(machine("m", cpu=3, memory=99))
    outcome = cycle.run(ready(*(group(f"g{i}", shape(cpu=1, memory=i)) for i in range(9))))
    assert sorted(p.task.name for p in outcome.placements) == ["g0.0", "g1.0", "g2.0"]
