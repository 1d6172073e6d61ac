"""Which running tasks are evicted for which waiting groups."""

from dataclasses import replace

import pytest

from afflux.cluster.state import State
from afflux.model.implied_resources import HostPort, port_requests
from afflux.model.relations import AffinityTerm, Relations, TaskLabels, TaskSelector
from afflux.model.selectors import Requirement
from afflux.model.waiting_group import WaitingGroup
from evict.clusters import decide, nominated, run, victims
from oracles.builders import group, machine, shape, task


def full(*priorities: int, cpu: int = 2, machines: int = 1) -> State:
    """Machines that are full of tasks with these priorities."""
    state = State(machine(f"m{n}", cpu=cpu * len(priorities)) for n in range(machines))
    for n in range(machines):
        for number, priority in enumerate(priorities):
            run(state, f"m{n}.{number}", f"m{n}", shape(cpu=cpu), priority)
    return state


def test_a_higher_priority_displaces_a_lower_one():
    found = decide(full(0, 5), group("high", shape(cpu=2), priority=9))
    assert victims(found) == ["m0.0"]
    assert nominated(found) == {"high.0": "m0"}
    (eviction,) = found.evictions
    assert [each.name for each in eviction.needed_by] == ["high.0"]


@pytest.mark.parametrize("priority", [-1, 0])
def test_an_equal_or_higher_priority_is_never_displaced(priority: int):
    assert not decide(full(0), group("waits", shape(cpu=1), priority=priority)).evictions


def test_a_task_without_eviction_terms_is_never_displaced():
    state = State([machine("m", cpu=2)])
    state.place(task("foreign", shape(cpu=2)), "m")
    assert not decide(state, group("high", shape(cpu=1), priority=9)).evictions


def test_a_task_that_fits_evicts_nobody():
    state = full(0, 0)
    state.set_machine(machine("free", cpu=2))
    assert not decide(state, group("high", shape(cpu=2), priority=9)).evictions


def test_one_victim_where_one_is_enough():
    """Ten tasks run and one of them makes enough room."""
    found = decide(full(*[0] * 10), group("high", shape(cpu=2), priority=9))
    assert len(found.evictions) == 1


def test_the_higher_priority_takes_the_free_place():
    state = full(0)
    state.set_machine(machine("free", cpu=2))
    queue = [group("high", shape(cpu=2), priority=9), group("low", shape(cpu=2), priority=5)]
    assert nominated(decide(state, *queue)) == {"low.0": "m0"}


def test_no_victim_leaves_if_that_would_help_nobody():
    assert not decide(full(0, 5), group("high", shape(cpu=5), priority=5)).evictions


def test_lower_tasks_use_what_victims_leave_over():
    state = State([machine("m", cpu=4)])
    run(state, "big", "m", shape(cpu=4), 0)
    queue = [group("high", shape(cpu=2), priority=9), group("low", shape(cpu=2), priority=5)]
    found = decide(state, *queue)
    assert victims(found) == ["big"]
    assert nominated(found) == {"high.0": "m", "low.0": "m"}
    (eviction,) = found.evictions
    assert [each.name for each in eviction.needed_by] == ["high.0"]


def test_a_group_that_may_not_preempt_evicts_nobody():
    never = replace(group("high", shape(cpu=2), priority=9), may_preempt=False)
    assert not decide(full(0), never).evictions


def test_most_tasks_come_before_fewest_victims():
    state = full(0, 0, cpu=1)
    found = decide(state, *(group(f"g{n}", shape(cpu=1), priority=1) for n in range(2)))
    assert len(found.evictions) == 2


def test_victims_within_their_budget_come_first():
    state = State([machine("a", cpu=2), machine("b", cpu=2)])
    run(state, "protected", "a", shape(cpu=2), 0, budgets=["pdb"])
    run(state, "one", "b", shape(cpu=1), 1)
    run(state, "two", "b", shape(cpu=1), 1)
    high = group("high", shape(cpu=2), priority=9)
    found = decide(state, high, allowed={"pdb": 0})
    assert victims(found) == ["one", "two"]
    assert not found.overruns
    assert victims(decide(state, high, allowed={"pdb": 1})) == ["protected"]


def test_a_budget_is_overrun_if_there_is_no_other_way_and_that_is_reported():
    state = State([machine("a", cpu=2)])
    run(state, "protected", "a", shape(cpu=2), 0, budgets=["pdb"])
    found = decide(state, group("high", shape(cpu=2), priority=9), allowed={"pdb": 0})
    assert victims(found) == ["protected"]
    assert found.overruns == {"pdb": 1}


def test_two_lower_victims_are_better_than_one_higher():
    state = State([machine("a", cpu=2), machine("b", cpu=2)])
    run(state, "higher", "a", shape(cpu=2), 5)
    for name in ("one", "two"):
        run(state, name, "b", shape(cpu=1), 4)
    found = decide(state, group("high", shape(cpu=2), priority=9))
    assert victims(found) == ["one", "two"]


def test_negative_priorities_do_not_invite_more_victims():
    state = State([machine("a", cpu=2), machine("b", cpu=2)])
    run(state, "alone", "a", shape(cpu=2), -10)
    for name in ("one", "two"):
        run(state, name, "b", shape(cpu=1), -10)
    assert victims(decide(state, group("high", shape(cpu=2), priority=9))) == ["alone"]


def test_of_equals_those_that_started_last_leave():
    state = State([machine("a", cpu=6)])
    for number, started in enumerate((10.0, 30.0, 20.0)):
        run(state, f"t{number}", "a", shape(cpu=2), 0, started=started)
    assert victims(decide(state, group("high", shape(cpu=2), priority=9))) == ["t1"]


def test_a_gang_preempts_as_a_whole_or_not_at_all():
    state = full(0, 0, machines=2)
    gang = group("gang", *[shape(cpu=2)] * 4, priority=9)
    assert len(decide(state, gang).evictions) == 4
    larger = group("gang", *[shape(cpu=2)] * 5, priority=9)
    assert not decide(state, larger).evictions


def test_a_gang_that_runs_leaves_as_a_whole_or_stays():
    state = State([machine("a", cpu=2), machine("b", cpu=2), machine("c", cpu=2)])
    for name, where in (("g.0", "a"), ("g.1", "b")):
        run(state, name, where, shape(cpu=2), 0, group="g")
    run(state, "alone", "c", shape(cpu=2), 0)
    high = group("high", shape(cpu=2), priority=9)
    assert victims(decide(state, high)) == ["alone"]
    two = group("high", *[shape(cpu=2)] * 2, priority=9)
    assert victims(decide(state, two)) == ["g.0", "g.1"]


def test_a_gang_on_one_machine_leaves_as_a_whole_for_a_single_task():
    state = State([machine("a", cpu=4)])
    for name in ("g.0", "g.1"):
        run(state, name, "a", shape(cpu=2), 0, group="g")
    found = decide(state, group("high", shape(cpu=2), priority=9))
    assert victims(found) == ["g.0", "g.1"]


def test_a_gang_with_a_member_of_higher_priority_stays():
    state = State([machine("a", cpu=2), machine("b", cpu=2)])
    run(state, "g.0", "a", shape(cpu=2), 0, group="g")
    run(state, "g.1", "b", shape(cpu=2), 10, group="g")
    assert not decide(state, group("high", shape(cpu=2), priority=9)).evictions


def test_a_gang_with_free_places_is_nominated_whole():
    state = full(0)
    state.set_machine(machine("free", cpu=2))
    gang = group("gang", *[shape(cpu=2)] * 2, priority=9)
    assert set(nominated(decide(state, gang))) == {"gang.0", "gang.1"}


def labelled(name: str, relations: Relations, priority: int, **labels: str) -> WaitingGroup:
    waiting = task(f"{name}.0", replace(shape(cpu=1), relations=relations))
    return WaitingGroup(
        name, (replace(waiting, labels=TaskLabels("a", tuple(labels.items()))),), priority
    )


def app(name: str) -> AffinityTerm:
    selector = TaskSelector(namespaces=("a",), labels=(Requirement("app", "In", (name,)),))
    return AffinityTerm(selector, "host")


def test_a_task_leaves_that_repels_the_preemptor():
    state = State([machine("a", cpu=9, labels={"host": "a"})])
    run(state, "db", "a", shape(cpu=1), 0, labels={"app": "db"})
    run(state, "other", "a", shape(cpu=1), 0, labels={"app": "other"})
    found = decide(state, labelled("high", Relations(anti_affinity=(app("db"),)), 9))
    assert victims(found) == ["db"]


def test_the_company_that_a_preemptor_requires_stays():
    state = State([machine("a", cpu=2, labels={"host": "a"})])
    run(state, "db", "a", shape(cpu=1), 0, labels={"app": "db"}, started=9.0)
    run(state, "other", "a", shape(cpu=1), 0, labels={"app": "other"})
    found = decide(state, labelled("high", Relations(affinity=(app("db"),)), 9))
    assert victims(found) == ["other"]


def test_devices_of_victims_are_used():
    state = State([machine("a", cpu=9, devices=2)])
    for number in range(2):
        run(state, f"t{number}", "a", shape(cpu=1, count=1), number)
    found = decide(state, group("high", shape(cpu=1, count=1), priority=9))
    assert victims(found) == ["t0"]
    assert [each.devices for each in found.nominations] == [(0,)]


def test_a_cluster_without_lower_tasks_is_not_searched():
    found = decide(full(5, 5), *(group(f"g{n}", shape(cpu=2), priority=5) for n in range(3)))
    assert found.evictions == found.nominations == ()


def test_a_resource_that_is_new_to_the_cluster_is_counted():
    state = full(0)
    port = port_requests([HostPort("TCP", 80)])
    assert victims(decide(state, group("high", shape(cpu=2, **port), priority=9))) == ["m0.0"]
