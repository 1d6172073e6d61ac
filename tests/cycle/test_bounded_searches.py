"""Tasks that require each other: a search that reaches a limit is counted, and repeated later."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from afflux.admit.strategies import flow
from afflux.cluster.state import State
from afflux.cycle.events import GroupReady, GroupWithdrawn, MachineSet
from afflux.cycle.loop import Cycle, Outcome
from afflux.cycle.optimiser import Optimiser
from afflux.model.machine import Machine
from afflux.model.relations import AffinityTerm, Relations, TaskLabels
from afflux.model.waiting_group import WaitingGroup
from afflux.plan import related_tasks
from afflux.plan.related_tasks import MAX_FAILED_SETS
from afflux.policies.cpu_memory import CpuMemory
from afflux.policies.policy import Weighted
from afflux.policies.registry import constraints
from afflux.queue.rules import QueueRules
from oracles.builders import machine
from oracles.related_tasks import (
    apart,
    both,
    near,
    related_group,
    related_task,
    spread,
)

HOST = "host"
# On one machine fewer than this, a circle of tasks has 13,700 arrangements that end without room.
CIRCLE = 8


def host(name: str, zone: str = "a", cpu: int = 4) -> Machine:
    return machine(name, cpu=cpu, labels={"zone": zone, HOST: name})


def cycle_on(*machines: Machine) -> Cycle:
    state = State(machines)
    optimiser = Optimiser(state, [(QueueRules(), flow)], constraints(), [Weighted(CpuMemory())])
    return Cycle(state, optimiser)


def run(cycle: Cycle, *groups: WaitingGroup, now: float = 0.0) -> Outcome:
    return cycle.run([GroupReady(group) for group in groups], now)


def one(name: str, app: str, relations: Relations | None = None, **fields: int) -> WaitingGroup:
    return related_group(name, related_task(name, app, relations), **fields)


def circle(size: int) -> Iterator[WaitingGroup]:
    """Each requires the next one in its zone, the last one the first, and a host without others."""
    apps = [f"app{number}" for number in range(size)]
    for number, app in enumerate(apps):
        needs = near(apps[(number + 1) % size])
        others = (apart(other, HOST) for other in apps if other != app)
        yield one(f"c{number}", app, both(needs, *others))


def pair(name: str, *further: Relations, **fields: int) -> tuple[WaitingGroup, WaitingGroup]:
    """Two that require each other in their zone."""
    first, second = f"{name}-first", f"{name}-second"
    return (
        one(first, first, both(near(second), *further), **fields),
        one(second, second, both(near(first), *further), **fields),
    )


def pair_without_room(name: str) -> tuple[WaitingGroup, WaitingGroup]:
    """Two that require each other in their zone, of which one repels the other."""
    first, second = pair(name)
    repels = both(near(f"{name}-second"), apart(f"{name}-second"))
    return one(first.name, first.name, repels), second


def in_namespace(namespace: str, group: WaitingGroup) -> WaitingGroup:
    """The same group, its labels and its affinity, in another namespace."""
    (task,) = group.tasks
    terms = tuple(
        AffinityTerm(replace(term.selector, namespaces=(namespace,)), term.topology_key)
        for term in task.shape.relations.affinity
    )
    shape = replace(task.shape, relations=Relations(affinity=terms))
    return replace(
        group,
        tasks=(replace(task, shape=shape, labels=TaskLabels(namespace, task.labels.labels)),),
    )


def placed(outcome: Outcome) -> dict[str, str]:
    return {each.task.id: each.machine for each in outcome.placements}


def names(*groups: WaitingGroup) -> set[str]:
    return {group.name for group in groups}


# --- A search that needs more steps than it has


@pytest.fixture
def cut() -> tuple[Cycle, Outcome]:
    """A circle has one machine too few; one task waits before it in the queue and one after it."""
    cycle = cycle_on(*(host(f"m{number}") for number in range(CIRCLE - 1)))
    groups = [one("before", "x"), *circle(CIRCLE), one("later", "x")]
    return cycle, run(cycle, *groups)


def test_a_search_that_gives_up_leaves_the_set_waiting_and_places_the_others(cut):
    cycle, outcome = cut
    assert placed(outcome).keys() == {"before", "later"}
    assert {group.name for group in cycle.queue} == names(*circle(CIRCLE))


def test_a_search_that_gives_up_is_counted_once_for_the_set_not_for_each_member(cut):
    _, outcome = cut
    # One search on its level, one in the sweep at the end of the round.
    assert outcome.decision.plan.cut_searches == 2
    assert outcome.decision.plan.untried_sets == 0


def test_the_next_round_follows_at_once_if_others_were_placed(cut):
    cycle, outcome = cut
    assert outcome.wake_up_seconds == 0.0
    # It places nothing, so no further one follows.
    again = cycle.run([], 0.0)
    assert placed(again) == {}
    assert again.decision.plan.cut_searches == 2
    assert again.wake_up_seconds is None


def test_each_task_of_the_set_says_which_task_it_lacks(cut):
    cycle, _ = cut
    reasons = cycle.explain()
    for number in range(CIRCLE):
        lacks = f"app=app{(number + 1) % CIRCLE}"
        assert reasons[f"c{number}"] == (
            "0/7 nodes are available: 7 node(s) didn't match pod affinity rules."
            f" It requires a pod that matches {lacks} in the same zone: none runs, 1 waits."
        )


def test_a_set_is_placed_as_soon_as_its_search_succeeds(cut):
    cycle, _ = cut
    outcome = cycle.run([MachineSet(host("new"))], 1.0)
    assert placed(outcome).keys() == names(*circle(CIRCLE))
    assert len(set(placed(outcome).values())) == CIRCLE
    assert outcome.decision.plan.cut_searches == 0
    assert not cycle.queue
    assert cycle.explain() == {}


def test_a_search_that_ends_within_its_steps_is_not_counted():
    cycle = cycle_on(host("m0"), host("m1"), host("m2"))
    outcome = run(cycle, *circle(4), one("x", "x"))
    assert placed(outcome).keys() == {"x"}
    assert outcome.decision.plan.cut_searches == 0
    assert outcome.wake_up_seconds is None


# --- More sets than a round searches for


def many_without_room(count: int) -> list[WaitingGroup]:
    return [group for number in range(count) for group in pair_without_room(f"bad{number:02}")]


def test_sets_behind_the_limit_of_their_namespace_are_counted_and_wait():
    cycle = cycle_on(host("m"))
    good = pair("good")
    outcome = run(cycle, *many_without_room(MAX_FAILED_SETS + 3), *good, one("x", "x"))
    assert placed(outcome).keys() == {"x"}
    assert outcome.decision.plan.untried_sets == 4
    assert outcome.wake_up_seconds == 0.0
    assert cycle.run([], 0.0).wake_up_seconds is None


def test_a_set_is_placed_once_enough_of_those_before_it_are_gone():
    cycle = cycle_on(host("m"))
    bad, good = many_without_room(MAX_FAILED_SETS), pair("good")
    assert placed(run(cycle, *bad, *good)) == {}
    outcome = cycle.run([GroupWithdrawn(bad[0].key)], 1.0)
    assert placed(outcome).keys() == names(*good)
    assert outcome.decision.plan.untried_sets == 0


def test_as_many_failing_sets_as_the_limit_leave_none_out():
    cycle = cycle_on(host("m"))
    outcome = run(cycle, *many_without_room(MAX_FAILED_SETS))
    assert outcome.decision.plan.untried_sets == 0


def test_sets_of_other_namespaces_are_placed_all_the_same():
    cycle = cycle_on(host("m"))
    others = [in_namespace("other", group) for group in pair("good")]
    outcome = run(cycle, *many_without_room(MAX_FAILED_SETS + 1), *others)
    assert placed(outcome).keys() == names(*others)
    assert outcome.decision.plan.untried_sets == 1


def test_sets_that_were_left_out_start_in_the_next_round_if_this_one_made_them_possible():
    """They may start in zone a only once `filler`, which has a lower priority, is in zone b."""
    cycle = cycle_on(host("a", cpu=999), host("b", "b", cpu=1))
    cycle.state.place(related_task("running", "filler"), "a")
    cycle.state.place(related_task("other", "filler"), "a")
    evenly = spread("filler")
    sets = [
        group
        for number in range(MAX_FAILED_SETS + 1)
        for group in pair(f"p{number}", evenly, priority=1)
    ]
    filler = one("filler", "filler", apart("filler", HOST))
    first = run(cycle, *sets, filler)
    assert placed(first) == {"filler": "b"}
    assert first.decision.plan.untried_sets == 1
    assert first.wake_up_seconds == 0.0
    assert placed(cycle.run([], 0.0)).keys() == names(*sets)


def test_sets_behind_all_that_a_round_looks_at_are_counted(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(related_tasks, "MAX_SETS", 2)
    cycle = cycle_on(*(host(f"m{number}") for number in range(3)))
    lonely = [one(name, "x", near(f"company-of-{name}")) for name in ("alone", "also-alone")]
    outcome = run(cycle, *lonely, *circle(3))
    assert placed(outcome) == {}
    assert outcome.decision.plan.untried_sets == 1
    cycle.run([GroupWithdrawn("alone")], 1.0)
    assert {group.name for group in cycle.queue} == {"also-alone"}


def test_sets_that_lack_a_task_that_does_not_wait_are_not_counted():
    cycle = cycle_on(host("m"))
    lonely = one("lonely", "x", near("nothing"))
    outcome = run(cycle, *many_without_room(MAX_FAILED_SETS), lonely)
    assert outcome.decision.plan.untried_sets == 0
