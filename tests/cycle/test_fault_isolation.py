"""An error that concerns one group or machine does not stop the others."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

import pytest

from afflux.admit.strategies import conservative_compress, easy, flow
from afflux.cluster.state import State
from afflux.cycle.decision import Decision
from afflux.cycle.events import GroupReady, MachineSet, TaskEnded, TaskRuns
from afflux.cycle.fault_isolation import MAX_ATTEMPTS, MAX_BACKOFF_SECONDS, decide_isolating_faults
from afflux.cycle.loop import Cycle
from afflux.cycle.optimiser import Optimiser
from afflux.cycle.reservations import DelayCause
from afflux.model.placement import Placement
from afflux.model.task import Shape
from afflux.model.waiting_group import WaitingGroup
from afflux.plan.check import PlanError
from afflux.plan.plan import Plan
from afflux.policies.policy import Policy
from oracles.builders import by_machine, group, machine, scheduler, shape, task
from oracles.queued_cluster import job, reserved_starts


class FailingPolicy(Policy):
    """Raises for tasks that ask for a certain amount of memory."""

    def __init__(self) -> None:
        self.breaks_at = 13
        self.asked = 0

    def admits(self, shape, machines):
        self.asked += 1
        if dict(shape.requests).get("memory") == self.breaks_at:
            raise ZeroDivisionError("about default/secret")
        return machines.present


class OverfillingScheduler:
    """Places groups whose name begins with `bad` where there is no room, the others correctly."""

    def __init__(self, state: State) -> None:
        self._right = scheduler(state)

    def policies_of(self, shape: Shape) -> Sequence[Policy]:
        return ()

    def decide(self, state, queue, *when):
        good = [each for each in queue if not each.name.startswith("bad")]
        bad = [each for each in queue if each.name.startswith("bad")]
        plan = self._right.decide(state, good).plan
        placements = [Placement(each, "full") for one in bad for each in one.tasks]
        return Decision(Plan((*plan.placements, *placements), (*plan.placed, *bad)))


def _with(state: State, policy: Policy) -> Optimiser:
    return scheduler(state, flow, policy)


def isolating_cycle(state: State, by) -> Cycle:
    return Cycle(state, by, isolates_faults=True)


def ready(*groups: WaitingGroup) -> list[GroupReady]:
    return [GroupReady(each) for each in groups]


def plain(count: int) -> list[WaitingGroup]:
    return [group(f"g{number:03}", shape(cpu=1)) for number in range(count)]


def test_a_refused_plan_quarantines_only_the_faulty_group():
    state = State([machine("m", cpu=9), machine("full", cpu=0)])
    cycle = isolating_cycle(state, OverfillingScheduler(state))
    groups = plain(5)
    groups.insert(2, group("bad", shape(cpu=1)))
    outcome = cycle.run(ready(*groups))
    assert len(by_machine(outcome.placements)["m"]) == 5
    assert set(outcome.quarantined) == {"bad"}
    assert isinstance(outcome.quarantined["bad"], PlanError)
    assert [each.name for each in cycle.queue] == ["bad"]
    assert state.machine_of("bad.0") is None


def test_a_policy_error_quarantines_only_the_groups_of_that_class():
    policy = FailingPolicy()
    state = State([machine("m", cpu=90, memory=900)])
    cycle = isolating_cycle(state, _with(state, policy))
    odd = [group(f"odd{number}", shape(cpu=1, memory=13)) for number in range(30)]
    mixed = [each for pair in zip(plain(30), odd, strict=True) for each in pair]
    outcome = cycle.run(ready(*mixed))
    assert len(outcome.placements) == 30
    assert set(outcome.quarantined) == {each.name for each in odd}


def test_the_reason_of_a_quarantined_group_does_not_quote_the_error():
    policy = FailingPolicy()
    state = State([machine("m", cpu=1, memory=99)])
    cycle = isolating_cycle(state, _with(state, policy))
    cycle.run(ready(group("odd", shape(memory=13)), group("big", shape(cpu=5))))
    reasons = cycle.explain()
    assert "ZeroDivisionError" in reasons["odd.0"]
    assert "tried again after 5 s" in reasons["odd.0"]
    assert "secret" not in reasons["odd.0"]
    assert "Insufficient cpu" in reasons["big.0"]


def test_the_backoff_of_a_quarantined_group_doubles_up_to_a_maximum():
    policy = FailingPolicy()
    state = State([machine("m", cpu=9, memory=99)])
    cycle = isolating_cycle(state, _with(state, policy))
    now, pauses = 1000.0, []
    again = cycle.run(ready(group("odd", shape(memory=13))), now).wake_up_seconds
    while len(pauses) < 12:
        assert again is not None
        assert cycle.run([], again - 0.1).decision is None
        pauses.append(again - now)
        now = again
        outcome = cycle.run([], now)
        assert set(outcome.quarantined) == {"odd"}
        again = outcome.wake_up_seconds
    assert pauses[:4] == [5.0, 10.0, 20.0, 40.0]
    assert pauses[-1] == MAX_BACKOFF_SECONDS
    policy.breaks_at = 0
    assert again is not None
    outcome = cycle.run([], again)
    assert by_machine(outcome.placements) == {"m": ["odd.0"]}
    assert cycle.run([], again + 1).wake_up_seconds is None


def test_a_changed_group_leaves_the_quarantine_and_keeps_its_place():
    policy = FailingPolicy()
    state = State([machine("m", cpu=1, memory=99)])
    cycle = isolating_cycle(state, _with(state, policy))
    cycle.run([TaskRuns(task("x", shape(cpu=1)), "m")])
    late = group("late", shape(cpu=1, memory=14))
    cycle.run(ready(group("odd", shape(cpu=1, memory=13)), late))
    fixed = ready(group("odd", shape(cpu=1, memory=14)))
    assert by_machine(cycle.run([TaskEnded("x"), *fixed]).placements) == {"m": ["odd.0"]}
    assert cycle.run([]).wake_up_seconds is None


def odd_job(name: str, **fields) -> WaitingGroup:
    """A group that needs all processors, and memory that makes the policy fail."""
    return replace(group(name, shape(cpu=4, memory=13)), **fields)


def test_quarantine_is_named_as_the_cause_of_a_broken_reservation():
    policy, state = FailingPolicy(), State([machine("m", cpu=4, memory=99)])
    policy.breaks_at = 0
    cycle = isolating_cycle(state, scheduler(state, easy, policy))
    cycle.run(ready(job("running", 4, run=10)))
    assert reserved_starts(cycle.run(ready(odd_job("odd", run_seconds=5)), 1)) == {"odd": 10}
    policy.breaks_at = 13
    outcome = cycle.run([TaskEnded("running.0")], 10)
    assert set(outcome.quarantined) == {"odd"}
    assert reserved_starts(outcome) == {}
    policy.breaks_at = 0
    (broken,) = cycle.run([], 15).broken
    assert (broken.group, broken.reserved_start_seconds, broken.cause) == (
        "odd",
        10,
        DelayCause.ERROR,
    )


def test_a_released_group_goes_before_lower_priorities_and_is_their_delay_cause():
    policy, state = FailingPolicy(), State([machine("m", cpu=4, memory=99)])
    policy.breaks_at = 0
    cycle = isolating_cycle(state, scheduler(state, conservative_compress, policy))
    cycle.run(ready(job("running", 4, run=100)))
    odd = odd_job("odd", priority=5, run_seconds=20)
    assert reserved_starts(cycle.run(ready(odd, job("a", 4, run=5)), 1)) == {"odd": 100, "a": 120}
    policy.breaks_at = 13
    assert reserved_starts(cycle.run([MachineSet(machine("m", cpu=5, memory=99))], 5)) == {"a": 100}
    # Other groups take its room meanwhile.
    assert reserved_starts(cycle.run(ready(job("b", 4, run=5, ready=6)), 6)) == {"a": 100, "b": 105}
    policy.breaks_at = 0
    assert reserved_starts(cycle.run([], 10)) == {"odd": 100, "a": 120, "b": 125}
    cycle.run([TaskEnded("running.0")], 100)
    cycle.run([TaskEnded("odd.0")], 120)
    (broken,) = cycle.run([TaskEnded("a.0")], 125).broken
    assert (broken.group, broken.reserved_start_seconds, broken.cause) == (
        "b",
        105,
        DelayCause.PRIORITY,
    )


def test_without_isolation_the_error_is_raised():
    state = State([machine("m", memory=99)])
    cycle = Cycle(state, _with(state, FailingPolicy()))
    with pytest.raises(ZeroDivisionError):
        cycle.run(ready(group("odd", shape(memory=13))))


# --- The search


class ConditionalDecision:
    """Fails for certain sets of groups, and counts the calls."""

    def __init__(self, fails: Callable[[set[str]], bool]) -> None:
        self._fails = fails
        self.calls = 0

    def __call__(self, groups: Sequence[WaitingGroup]) -> Decision:
        self.calls += 1
        if self._fails({each.name for each in groups}):
            raise ValueError("together")
        return Decision(Plan((), tuple(groups)))


@pytest.mark.parametrize("seed", range(20))
def test_exactly_the_groups_that_fail_alone_are_found(seed: int):
    rng = Random(seed)
    groups = [group(f"g{number}", shape(cpu=1 + number)) for number in range(rng.randint(1, 200))]
    bad = {each.name for each in groups if rng.random() < rng.choice([0.01, 0.1, 0.9])}
    decide = ConditionalDecision(lambda names: bool(names & bad))
    decided, faulty = decide_isolating_faults(decide, groups)
    assert set(faulty) == bad
    assert [each.name for each in decided.plan.placed] == [
        each.name for each in groups if each.name not in bad
    ]


def test_of_two_groups_that_fail_together_the_later_one_is_left_out():
    groups = plain(50)
    decide = ConditionalDecision(lambda names: {"g003", "g040"} <= names)
    decided, faulty = decide_isolating_faults(decide, groups)
    assert set(faulty) == {"g040"}
    assert len(decided.plan.placed) == 49


def test_a_class_that_fails_needs_few_attempts():
    decide = ConditionalDecision(bool)
    decided, faulty = decide_isolating_faults(decide, plain(4096))
    assert len(faulty) == 4096
    assert decided.plan.placed == ()
    assert decide.calls < 40


def test_the_search_is_bounded_if_all_groups_fail():
    groups = [group(f"g{number}", shape(cpu=1 + number)) for number in range(3000)]
    decide = ConditionalDecision(bool)
    _, faulty = decide_isolating_faults(decide, groups)
    assert len(faulty) == 3000
    assert decide.calls < 2 * MAX_ATTEMPTS


def test_the_search_is_bounded_if_few_groups_pass_together():
    decide = ConditionalDecision(lambda names: len(names) > 3)
    decided, faulty = decide_isolating_faults(decide, plain(500))
    assert len(decided.plan.placed) == 3
    assert len(faulty) == 497
    assert decide.calls < 2 * MAX_ATTEMPTS


# --- Events


def test_a_failing_event_does_not_affect_other_events(monkeypatch):
    state = State([machine("m", cpu=9)])
    cycle = isolating_cycle(state, scheduler(state))
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
    assert [(each.kind, each.name) for each in outcome.resync_requests] == [("machine", "odd")]
    assert "odd" not in state.rows


def test_a_machine_with_unknown_tasks_is_not_used(monkeypatch):
    state = State([machine("m", cpu=9)])
    cycle = isolating_cycle(state, scheduler(state))
    place = State.place

    def fails(self: State, found, *args, **more):
        if found.name == "odd":
            raise OverflowError("too much")
        place(self, found, *args, **more)

    monkeypatch.setattr(State, "place", fails)
    running = TaskRuns(task("odd", shape(cpu=9)), "m")
    outcome = cycle.run([running, *ready(group("g", shape(cpu=1)))])
    assert outcome.placements == ()
    assert [each.name for each in outcome.resync_requests] == ["m"]
    monkeypatch.setattr(State, "place", place)
    assert cycle.run([MachineSet(machine("m", cpu=9)), running]).placements == ()


def test_a_machine_lost_to_an_error_moves_reservations_on_it(monkeypatch):
    state = State([machine("m", cpu=4), machine("n", cpu=4)])
    cycle = isolating_cycle(state, scheduler(state, easy))
    cycle.run(ready(job("one", 4, run=10), job("other", 4, run=20)))
    assert reserved_starts(cycle.run(ready(job("head", 4, run=9, ready=1)), 1)) == {"head": 10}
    first = state.machine_of("one.0")

    def fails(self: State, *args, **more):
        raise OverflowError("too much")

    monkeypatch.setattr(State, "place", fails)
    outcome = cycle.run([TaskRuns(task("one.0", shape(cpu=4)), first or "", 10)], 2)
    assert [each.name for each in outcome.resync_requests] == [first]
    assert reserved_starts(outcome) == {"head": 20}


def test_a_commit_that_fails_is_undone(monkeypatch):
    state = State([machine("m", cpu=9)])
    cycle = isolating_cycle(state, scheduler(state))
    place = State.place

    def fails(self: State, found, *args, **more):
        if found.name == "b.0":
            raise OverflowError("too much")
        place(self, found, *args, **more)

    monkeypatch.setattr(State, "place", fails)
    with pytest.raises(OverflowError):
        cycle.run(ready(group("a", shape(cpu=1)), group("b", shape(cpu=1))))
    assert state.machine_of("a.0") is None
    monkeypatch.setattr(State, "place", place)
    assert by_machine(cycle.run([]).placements) == {"m": ["a.0", "b.0"]}
