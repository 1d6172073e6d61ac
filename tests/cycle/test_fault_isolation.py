"""A defect that one group or machine brings to light does not stop the others."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

import pytest

from afflux.admit.strategies import conservative_compress, easy, flow
from afflux.cluster.state import State
from afflux.cycle.events import GroupReady, MachineSet, TaskEnded, TaskRuns
from afflux.cycle.loop import Cycle
from afflux.cycle.optimising import Optimising
from afflux.cycle.promises import Cause
from afflux.cycle.sparing import LONGEST_PAUSE_SECONDS, MOST_ATTEMPTS, decide_sparing
from afflux.model.group import Group
from afflux.model.placement import Placement
from afflux.model.task import Shape
from afflux.plan.check import PlanError
from afflux.plan.rounds import Round
from afflux.policies.policy import Policy
from oracles.building import by_machine, group, machine, scheduler, shape, task
from oracles.queued_cluster import job, promised


class Fragile(Policy):
    """Raises when it is asked about those who want a certain amount of memory."""

    def __init__(self) -> None:
        self.breaks_at = 13
        self.asked = 0

    def admits(self, shape, machines):
        self.asked += 1
        if dict(shape.requests).get("memory") == self.breaks_at:
            raise ZeroDivisionError("about default/secret")
        return machines.present


class Wrong:
    """Puts everybody whose name begins with `bad` where there is no room; obeys otherwise."""

    def __init__(self, state: State) -> None:
        self._right = scheduler(state)

    def policies_of(self, shape: Shape) -> Sequence[Policy]:
        return ()

    def decide(self, state, queue, *when):
        good = [each for each in queue if not each.name.startswith("bad")]
        bad = [each for each in queue if each.name.startswith("bad")]
        decided = self._right.decide(state, good)
        placements = [Placement(each, "full") for one in bad for each in one.tasks]
        return Round((*decided.placements, *placements), (*decided.placed, *bad))


def _with(state: State, policy: Policy) -> Optimising:
    return scheduler(state, flow, policy)


def sparing(state: State, by) -> Cycle:
    return Cycle(state, by, spares_others=True)


def ready(*groups: Group) -> list[GroupReady]:
    return [GroupReady(each) for each in groups]


def plain(count: int) -> list[Group]:
    return [group(f"g{number:03}", shape(cpu=1)) for number in range(count)]


def test_a_plan_that_the_checker_refuses_stops_only_those_it_is_about():
    state = State([machine("m", cpu=9), machine("full", cpu=0)])
    cycle = sparing(state, Wrong(state))
    groups = plain(5)
    groups.insert(2, group("bad", shape(cpu=1)))
    outcome = cycle.run(ready(*groups))
    assert len(by_machine(outcome.placements)["m"]) == 5
    assert set(outcome.set_aside) == {"bad"}
    assert isinstance(outcome.set_aside["bad"], PlanError)
    assert [each.name for each in cycle.queue] == ["bad"]
    assert state.where("bad.0") is None


def test_a_policy_that_raises_for_one_class_stops_only_that_class():
    policy = Fragile()
    state = State([machine("m", cpu=90, memory=900)])
    cycle = sparing(state, _with(state, policy))
    odd = [group(f"odd{number}", shape(cpu=1, memory=13)) for number in range(30)]
    mixed = [each for pair in zip(plain(30), odd, strict=True) for each in pair]
    outcome = cycle.run(ready(*mixed))
    assert len(outcome.placements) == 30
    assert set(outcome.set_aside) == {each.name for each in odd}


def test_who_is_set_aside_is_told_why_without_what_the_error_says_of_others():
    policy = Fragile()
    state = State([machine("m", cpu=1, memory=99)])
    cycle = sparing(state, _with(state, policy))
    cycle.run(ready(group("odd", shape(memory=13)), group("big", shape(cpu=5))))
    reasons = cycle.explain()
    assert "ZeroDivisionError" in reasons["odd.0"]
    assert "tried again after 5 s" in reasons["odd.0"]
    assert "secret" not in reasons["odd.0"]
    assert "Insufficient cpu" in reasons["big.0"]


def test_who_is_set_aside_is_tried_again_less_and_less_often():
    policy = Fragile()
    state = State([machine("m", cpu=9, memory=99)])
    cycle = sparing(state, _with(state, policy))
    now, pauses = 1000.0, []
    again = cycle.run(ready(group("odd", shape(memory=13))), now).again_seconds
    while len(pauses) < 12:
        assert again is not None
        assert cycle.run([], again - 0.1).round is None
        pauses.append(again - now)
        now = again
        outcome = cycle.run([], now)
        assert set(outcome.set_aside) == {"odd"}
        again = outcome.again_seconds
    assert pauses[:4] == [5.0, 10.0, 20.0, 40.0]
    assert pauses[-1] == LONGEST_PAUSE_SECONDS
    policy.breaks_at = 0
    assert again is not None
    outcome = cycle.run([], again)
    assert by_machine(outcome.placements) == {"m": ["odd.0"]}
    assert cycle.run([], again + 1).again_seconds is None


def test_who_was_changed_is_tried_at_once_and_keeps_its_place():
    policy = Fragile()
    state = State([machine("m", cpu=1, memory=99)])
    cycle = sparing(state, _with(state, policy))
    cycle.run([TaskRuns(task("x", shape(cpu=1)), "m")])
    late = group("late", shape(cpu=1, memory=14))
    cycle.run(ready(group("odd", shape(cpu=1, memory=13)), late))
    fixed = ready(group("odd", shape(cpu=1, memory=14)))
    assert by_machine(cycle.run([TaskEnded("x"), *fixed]).placements) == {"m": ["odd.0"]}
    assert cycle.run([]).again_seconds is None


def odd_job(name: str, **fields) -> Group:
    """All processors, and as much memory as makes the policy fail."""
    return replace(group(name, shape(cpu=4, memory=13)), **fields)


def test_who_starts_late_because_it_was_set_aside_has_that_for_a_cause():
    policy, state = Fragile(), State([machine("m", cpu=4, memory=99)])
    policy.breaks_at = 0
    cycle = sparing(state, scheduler(state, easy, policy))
    cycle.run(ready(job("running", 4, run=10)))
    assert promised(cycle.run(ready(odd_job("odd", run_seconds=5)), 1)) == {"odd": 10}
    policy.breaks_at = 13
    outcome = cycle.run([TaskEnded("running.0")], 10)
    assert set(outcome.set_aside) == {"odd"}
    assert promised(outcome) == {}
    policy.breaks_at = 0
    (broken,) = cycle.run([], 15).broken
    assert (broken.group, broken.promised_seconds, broken.cause) == ("odd", 10, Cause.ERROR)


def test_who_comes_back_goes_before_those_of_a_lower_priority_who_hear_of_it():
    policy, state = Fragile(), State([machine("m", cpu=4, memory=99)])
    policy.breaks_at = 0
    cycle = sparing(state, scheduler(state, conservative_compress, policy))
    cycle.run(ready(job("running", 4, run=100)))
    odd = odd_job("odd", priority=5, run_seconds=20)
    assert promised(cycle.run(ready(odd, job("a", 4, run=5)), 1)) == {"odd": 100, "a": 120}
    policy.breaks_at = 13
    assert promised(cycle.run([MachineSet(machine("m", cpu=5, memory=99))], 5)) == {"a": 100}
    # Others take its place meanwhile.
    assert promised(cycle.run(ready(job("b", 4, run=5, ready=6)), 6)) == {"a": 100, "b": 105}
    policy.breaks_at = 0
    assert promised(cycle.run([], 10)) == {"odd": 100, "a": 120, "b": 125}
    cycle.run([TaskEnded("running.0")], 100)
    cycle.run([TaskEnded("odd.0")], 120)
    (broken,) = cycle.run([TaskEnded("a.0")], 125).broken
    assert (broken.group, broken.promised_seconds, broken.cause) == ("b", 105, Cause.PRIORITY)


def test_simulations_hear_of_defects_at_once():
    state = State([machine("m", memory=99)])
    cycle = Cycle(state, _with(state, Fragile()))
    with pytest.raises(ZeroDivisionError):
        cycle.run(ready(group("odd", shape(memory=13))))


# --- The search


class Judge:
    """Fails if it is asked about certain groups, or about certain pairs at once."""

    def __init__(self, fails: Callable[[set[str]], bool]) -> None:
        self._fails = fails
        self.calls = 0

    def __call__(self, groups: Sequence[Group]) -> Round:
        self.calls += 1
        if self._fails({each.name for each in groups}):
            raise ValueError("together")
        return Round((), tuple(groups))


@pytest.mark.parametrize("seed", range(20))
def test_exactly_those_who_fail_alone_are_found(seed: int):
    rng = Random(seed)
    groups = [group(f"g{number}", shape(cpu=1 + number)) for number in range(rng.randint(1, 200))]
    bad = {each.name for each in groups if rng.random() < rng.choice([0.01, 0.1, 0.9])}
    judge = Judge(lambda names: bool(names & bad))
    decided, culprits = decide_sparing(judge, groups)
    assert set(culprits) == bad
    assert [each.name for each in decided.placed] == [
        each.name for each in groups if each.name not in bad
    ]


def test_of_two_who_do_not_go_together_the_later_one_waits():
    groups = plain(50)
    judge = Judge(lambda names: {"g003", "g040"} <= names)
    decided, culprits = decide_sparing(judge, groups)
    assert set(culprits) == {"g040"}
    assert len(decided.placed) == 49


def test_if_everybody_of_one_class_fails_few_are_asked():
    judge = Judge(bool)
    decided, culprits = decide_sparing(judge, plain(4096))
    assert len(culprits) == 4096
    assert decided.placed == ()
    assert judge.calls < 40


def test_the_search_ends_however_many_fail():
    groups = [group(f"g{number}", shape(cpu=1 + number)) for number in range(3000)]
    judge = Judge(bool)
    _, culprits = decide_sparing(judge, groups)
    assert len(culprits) == 3000
    assert judge.calls < 2 * MOST_ATTEMPTS


def test_the_search_ends_however_few_go_together():
    judge = Judge(lambda names: len(names) > 3)
    decided, culprits = decide_sparing(judge, plain(500))
    assert len(decided.placed) == 3
    assert len(culprits) == 497
    assert judge.calls < 2 * MOST_ATTEMPTS


# --- Observing


def test_an_event_that_fails_loses_no_other(monkeypatch):
    state = State([machine("m", cpu=9)])
    cycle = sparing(state, scheduler(state))
    set_machine = State.set_machine

    def fails(self: State, found):
        if found.name == "odd":
            raise OverflowError("too much")
        return set_machine(self, found)

    monkeypatch.setattr(State, "set_machine", fails)
    events = [
        MachineSet(machine("odd", cpu=9)),
        TaskRuns(task("x", shape(cpu=1)), "odd"),
        MachineSet(machine("n", cpu=9)),
        TaskRuns(task("y", shape(cpu=9)), "m"),
        *ready(group("g", shape(cpu=9))),
    ]
    outcome = cycle.run(events)
    assert by_machine(outcome.placements) == {"n": ["g.0"]}
    assert [(each.what, each.name) for each in outcome.unheard] == [("machine", "odd")]
    assert "odd" not in state.rows


def test_nobody_is_placed_where_it_is_not_known_what_runs(monkeypatch):
    state = State([machine("m", cpu=9)])
    cycle = sparing(state, scheduler(state))
    place = State.place

    def fails(self: State, found, *args, **more):
        if found.name == "odd":
            raise OverflowError("too much")
        place(self, found, *args, **more)

    monkeypatch.setattr(State, "place", fails)
    running = TaskRuns(task("odd", shape(cpu=9)), "m")
    outcome = cycle.run([running, *ready(group("g", shape(cpu=1)))])
    assert outcome.placements == ()
    assert [each.name for each in outcome.unheard] == ["m"]
    monkeypatch.setattr(State, "place", place)
    assert cycle.run([MachineSet(machine("m", cpu=9)), running]).placements == ()


def test_that_a_machine_was_given_up_is_news_to_those_who_were_promised_it(monkeypatch):
    state = State([machine("m", cpu=4), machine("n", cpu=4)])
    cycle = sparing(state, scheduler(state, easy))
    cycle.run(ready(job("one", 4, run=10), job("other", 4, run=20)))
    assert promised(cycle.run(ready(job("head", 4, run=9, ready=1)), 1)) == {"head": 10}
    first = state.where("one.0")

    def fails(self: State, *args, **more):
        raise OverflowError("too much")

    monkeypatch.setattr(State, "place", fails)
    outcome = cycle.run([TaskRuns(task("one.0", shape(cpu=4)), first or "", 10)], 2)
    assert [each.name for each in outcome.unheard] == [first]
    assert promised(outcome) == {"head": 20}


def test_a_commit_that_fails_half_way_leaves_nobody_in_a_place(monkeypatch):
    state = State([machine("m", cpu=9)])
    cycle = sparing(state, scheduler(state))
    place = State.place

    def fails(self: State, found, *args, **more):
        if found.name == "b.0":
            raise OverflowError("too much")
        place(self, found, *args, **more)

    monkeypatch.setattr(State, "place", fails)
    with pytest.raises(OverflowError):
        cycle.run(ready(group("a", shape(cpu=1)), group("b", shape(cpu=1))))
    assert state.where("a.0") is None
    monkeypatch.setattr(State, "place", place)
    assert by_machine(cycle.run([]).placements) == {"m": ["a.0", "b.0"]}
