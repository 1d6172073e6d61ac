"""Who may start, and who is promised a start."""

import pytest

from afflux.admit import packing, searching, strategies
from afflux.admit.strategies import easy, fcfs, find_strategy, flow
from afflux.cluster.state import State
from afflux.cycle import optimising
from afflux.cycle.events import GroupReady, MachineGone, MachineSet, TaskEnded, TaskRuns
from afflux.cycle.loop import NOT_REACHED, Cycle
from afflux.cycle.optimising import Optimising
from afflux.cycle.promises import Cause
from afflux.model.errors import InputError
from afflux.model.group import Group
from afflux.model.places import Places
from afflux.model.selectors import Requirement, Term
from afflux.policies.cpu_memory import CpuMemory
from afflux.policies.policy import Weighted
from afflux.policies.registry import constraints
from afflux.queue.rules import QueueRules
from oracles.building import by_machine, decide, group, machine, shape, task


def job(name: str, *cpus: int, run: float | None = None, ready: float = 0.0, **more) -> Group:
    members = tuple(task(f"{name}.{i}", shape(cpu=cpu)) for i, cpu in enumerate(cpus))
    return Group(name, members, ready_seconds=ready, run_seconds=run, **more)


class Cluster:
    """One machine unless said otherwise, of four processors."""

    def __init__(self, strategy, *machines, **rules) -> None:
        self.state = State(machines or [machine("m", cpu=4)])
        queues = strategy if isinstance(strategy, list) else [(QueueRules(**rules), strategy)]
        policies = [Weighted(CpuMemory())]
        scheduler = Optimising(self.state, queues, constraints(), policies)
        self.cycle = Cycle(self.state, scheduler)

    def run(self, *events, now: float = 0.0):
        return self.cycle.run(
            [GroupReady(event) if isinstance(event, Group) else event for event in events], now
        )

    def starts(self, *events, now: float = 0.0) -> list[str]:
        return sorted({p.task.id.split(".")[0] for p in self.run(*events, now=now).placements})


def promised(outcome) -> dict[str, float | None]:
    return {promise.group: promise.start_seconds for promise in outcome.promises}


def test_flow_lets_everybody_in_and_promises_nothing():
    outcome = Cluster(flow).run(job("big", 9), job("small", 1))
    assert by_machine(outcome.placements) == {"m": ["small.0"]}
    assert outcome.promises == ()


@pytest.mark.parametrize("strategy", [fcfs, easy, strategies.conservative_compress])
@pytest.mark.parametrize("run", [0.0, 1e-9])
def test_who_expects_to_run_for_no_time_at_all_takes_a_place_all_the_same(strategy, run):
    # In Unix seconds the end is the start: both were thought to fit, and nothing could be decided.
    waiting = [job(name, 3, run=run) for name in "ab"]
    assert Cluster(strategy).starts(*waiting, now=1.8e9) == ["a"]


def test_first_come_first_served_stops_at_the_first_who_has_no_room():
    waiting = [job(name, size) for name, size in zip("abcd", (2, 1, 3, 1), strict=True)]
    assert by_machine(decide(State([machine("m", cpu=4)]), *waiting, strategy=fcfs).placements) == {
        "m": ["a.0", "b.0"]
    }


def test_who_can_never_start_is_in_nobodys_way_and_says_why():
    cluster = Cluster(fcfs)
    outcome = cluster.run(job("huge", 9), job("gang", 3, 3), job("small", 1))
    assert by_machine(outcome.placements) == {"m": ["small.0"]}
    assert outcome.unsatisfiable == {
        "huge": "needs room for it at once; the empty cluster has it nowhere",
        "gang": "needs room for 2 of its members at once; the empty cluster has it for 1 of them",
    }
    # It is looked at again when the cluster changes, and never thrown away.
    assert cluster.starts(MachineSet(machine("n", cpu=12))) == ["gang", "huge"]


def test_members_that_fit_one_by_one_but_never_together_are_unsatisfiable():
    outcome = Cluster(easy).run(job("pair", 3, 2))
    assert outcome.unsatisfiable == {
        "pair": "its members do not fit together, even on the empty cluster"
    }


def test_nobody_waits_nobody_starts():
    assert decide(State([machine("m", cpu=3)]), strategy=fcfs).placements == ()
    assert decide(State(), group("a", shape()), strategy=fcfs).placements == ()


@pytest.mark.parametrize("several", [False, True])
def test_easy_lets_others_pass_as_long_as_the_head_loses_nothing(several: bool):
    cluster = Cluster(easy)
    assert cluster.starts(job("running", 1, 1, 1, run=100)) == ["running"]
    # The same request for everybody, or several classes: both ways to plan say the same.
    head = job("head", 4, ready=1, run=50) if several else job("head", 1, 1, 1, 1, ready=1, run=50)
    outcome = cluster.run(head, now=1)
    assert promised(outcome) == {"head": 100}
    assert {place for _, place in outcome.promises[0].machines} == {"m"}
    assert cluster.starts(job("long", 1, ready=2, run=99), now=2) == []
    assert cluster.starts(job("short", 1, ready=3, run=97), now=3) == ["short"]
    # It ends early: the head starts earlier than promised, nobody passes.
    ended = [TaskEnded(f"running.{i}") for i in range(3)]
    assert cluster.starts(*ended, now=10) == []
    assert cluster.starts(TaskEnded("short.0"), now=20) == ["head"]


def test_every_group_that_does_not_fit_is_promised_a_start_by_conservative():
    cluster = Cluster(strategies.conservative_compress)
    cluster.run(job("running", 4, run=100))
    outcome = cluster.run(
        job("a", 4, ready=1, run=10), job("b", 3, ready=2, run=10), job("c", 1, ready=3, run=5),
        now=3,
    )  # fmt: skip
    assert promised(outcome) == {"a": 100, "b": 110, "c": 110}


def test_hybrid_promises_as_many_as_its_queue_says():
    cluster = Cluster(strategies.hybrid, reservations=2)
    cluster.run(job("running", 4, run=100))
    outcome = cluster.run(*(job(name, 4, run=10, ready=1) for name in "abc"), now=1)
    assert promised(outcome) == {"a": 100, "b": 110}


def test_a_head_that_waits_for_work_without_end_blocks_nobody():
    cluster = Cluster(easy)
    cluster.run(job("service", 2))
    outcome = cluster.run(job("head", 4, ready=1, run=10), job("small", 2, ready=2), now=2)
    assert promised(outcome) == {"head": None}
    assert by_machine(outcome.placements) == {"m": ["small.0"]}


def test_unless_its_queue_holds_machines_for_it():
    cluster = Cluster(easy, holds_for_endless=True)
    cluster.run(job("service", 2))
    outcome = cluster.run(job("head", 4, ready=1, run=10), job("small", 2, ready=2), now=2)
    assert promised(outcome) == {"head": None}
    assert outcome.placements == ()


def test_whatever_their_priorities():
    cluster = Cluster(strategies.conservative_compress, holds_for_endless=True)
    cluster.run(job("service", 2))
    outcome = cluster.run(
        job("head", 4, ready=1, run=10, priority=5), job("small", 2, ready=2, run=5), now=2
    )
    assert promised(outcome) == {"head": None}
    assert outcome.placements == ()


def test_as_many_promises_as_its_queue_says_whatever_their_priorities():
    cluster = Cluster(strategies.conservative_compress, reservations=2)
    cluster.run(job("running", 4, run=100))
    waiting = [job(name, 4, run=10, ready=1, priority=9 - i) for i, name in enumerate("abc")]
    assert promised(cluster.run(*waiting, now=1)) == {"a": 100, "b": 110}


def test_depth_is_how_far_a_queue_is_looked_through():
    cluster = Cluster(easy, depth=2)
    cluster.run(job("running", 3, run=100))
    waiting = [job("a", 4, run=9), job("b", 4, run=9, ready=1), job("c", 1, run=9, ready=2)]
    assert cluster.starts(*waiting, now=2) == []
    assert Cluster(easy).starts(job("running", 3, run=100), *waiting) == ["c", "running"]


def test_queues_are_served_in_the_order_of_the_configuration():
    queues = [(QueueRules("urgent", depth=1), fcfs), (QueueRules("default"), easy)]
    cluster = Cluster(queues)
    outcome = cluster.run(
        job("a", 3, run=10), job("b", 3, run=10, ready=1, queue="urgent"), job("c", 1, run=5)
    )
    assert by_machine(outcome.placements) == {"m": ["b.0", "c.0"]}
    assert promised(outcome) == {"a": 10}


def test_who_is_let_in_keeps_off_what_is_promised_in_another_queue():
    queues = [(QueueRules("batch"), easy), (QueueRules("default"), flow)]
    cluster = Cluster(queues, machine("m", cpu=4), machine("n", cpu=4))
    cluster.run(job("running", 4, run=100, queue="batch"))
    outcome = cluster.run(
        job("head", 4, 4, run=10, ready=1, queue="batch"), job("service", 1, ready=2), now=2
    )
    assert promised(outcome) == {"head": 100}
    assert outcome.placements == ()


@pytest.mark.parametrize(
    ("at_5", "at_10", "cause"),
    [
        (MachineGone("n"), TaskEnded("running.0"), Cause.MACHINE),
        (TaskRuns(task("foreign", shape(cpu=4)), "n"), TaskEnded("running.0"), Cause.FOREIGN),
        (job("urgent", 4, 4, run=40, priority=9), TaskEnded("running.0"), Cause.PRIORITY),
        (TaskRuns(task("running.0", shape(cpu=4)), "m", 20), job("o", 1, ready=10), Cause.OVERRUN),
        (job("early", 1, run=1, ready=5), job("late", 1, ready=10), Cause.OVERRUN),
        (job("early", 1, run=1, ready=5), MachineSet(machine("n", cpu=4)), Cause.OVERRUN),
    ],
)
def test_what_breaks_a_promise_is_named(at_5, at_10, cause: Cause):
    cluster = Cluster(easy, machine("m", cpu=4), machine("n", cpu=4))
    cluster.run(job("running", 4, run=10))
    assert promised(cluster.run(job("head", 4, 4, run=10, ready=1), now=1)) == {"head": 10}
    assert cluster.run(at_5, now=5).broken == ()
    assert cluster.run(at_10, now=10).broken == ()
    gone = [TaskEnded(each) for each in ("running.0", "foreign", "urgent.0", "urgent.1", "early.0")]
    outcome = cluster.run(MachineSet(machine("n", cpu=4)), *gone, now=50)
    assert [(each.group, each.cause) for each in outcome.broken] == [("head", cause)]


def test_a_queue_that_is_served_first_may_break_a_promise_and_is_named():
    queues = [(QueueRules("urgent"), fcfs), (QueueRules("default"), easy)]
    cluster = Cluster(queues)
    cluster.run(job("running", 4, run=10))
    assert promised(cluster.run(job("head", 4, run=10, ready=1), now=1)) == {"head": 10}
    cluster.run(job("first", 4, run=10, ready=2, queue="urgent"), now=2)
    assert cluster.starts(TaskEnded("running.0"), now=10) == ["first"]
    outcome = cluster.run(TaskEnded("first.0"), now=20)
    assert [(each.group, each.cause) for each in outcome.broken] == [("head", Cause.QUEUE)]


@pytest.mark.parametrize("strategy", [easy, strategies.conservative_compress])
def test_who_comes_late_but_ahead_breaks_no_promise(strategy):
    cluster = Cluster(strategy)
    cluster.run(job("running", 3, run=10))
    assert promised(cluster.run(job("head", 4, run=10, ready=5), now=5)) == {"head": 10}
    # The late member of a group that became ready long ago.
    assert cluster.starts(job("late", 1, run=10, ready=1), now=6) == []
    assert cluster.starts(TaskEnded("running.0"), now=10) == ["head"]


def test_who_has_a_promise_does_not_break_one_of_a_lower_priority_to_start_earlier():
    cluster = Cluster(strategies.conservative_compress, machine("m", cpu=4), machine("n", cpu=4))
    cluster.run(job("one", 4, run=100), job("other", 4, run=10))
    first = job("first", 4, 4, run=10, ready=1, priority=5)
    below = job("below", 4, run=90, ready=2)
    assert promised(cluster.run(first, below, now=2)) == {"first": 100, "below": 10}
    # The first could start at 10, if the other did not run then.
    outcome = cluster.run(TaskEnded("one.0"), now=3)
    assert by_machine(outcome.placements) == {"m": ["below.0"]}
    assert promised(outcome) == {"first": 100}
    assert promised(cluster.run(TaskEnded("other.0"), now=10)) == {"first": 93}


def test_a_group_that_changes_may_break_promises_and_is_named():
    cluster = Cluster(strategies.conservative_compress)
    cluster.run(job("running", 4, run=10))
    waiting = job("first", 4, run=10, ready=1), job("second", 4, run=10, ready=2)
    assert promised(cluster.run(*waiting, now=2)) == {"first": 10, "second": 20}
    cluster.run(job("first", 4, run=30, ready=1), now=3)
    cluster.run(TaskEnded("running.0"), now=10)
    outcome = cluster.run(TaskEnded("first.0"), now=40)
    assert [(each.group, each.cause) for each in outcome.broken] == [("second", Cause.CHANGED)]


def test_what_changed_during_a_restart_is_named():
    before = Cluster(easy)
    before.run(job("running", 4, run=10))
    head = job("head", 4, run=10, ready=1)
    promises = before.run(head, now=1).promises
    again = Cluster(easy)
    again.cycle.restore(promises)
    assert promised(again.run(TaskRuns(task("running.0", shape(cpu=4)), "m", 15), head)) == {
        "head": 15
    }
    outcome = again.run(TaskEnded("running.0"), now=15)
    assert [(each.group, each.cause) for each in outcome.broken] == [("head", Cause.RESTART)]


@pytest.mark.parametrize(
    ("event", "cause"),
    [
        (MachineSet(machine("n", cpu=1)), Cause.OVERRUN),
        (MachineSet(machine("m", cpu=5)), Cause.OVERRUN),
        (MachineSet(machine("m", cpu=4, images={"a:1": 5})), Cause.OVERRUN),
        (MachineSet(machine("m", cpu=4, labels={"zone": "a"})), Cause.MACHINE),
        (TaskRuns(task("running.0", shape(cpu=3)), "m", 10), Cause.OVERRUN),
        (TaskRuns(task("running.0", shape(cpu=5)), "m", 10), Cause.FOREIGN),
    ],
    ids=str,
)
def test_only_what_takes_room_away_is_a_cause(event, cause: Cause):
    cluster = Cluster(easy)
    cluster.run(job("running", 4, run=10))
    cluster.run(job("head", 4, run=10, ready=1), now=1)
    cluster.run(event, now=2)
    (broken,) = cluster.run(TaskEnded("running.0"), now=20).broken
    assert (broken.group, broken.cause) == ("head", cause)


@pytest.mark.parametrize("strategy", [easy, strategies.conservative_compress])
def test_a_promise_moves_with_the_end_of_what_it_waits_for(strategy):
    cluster = Cluster(strategy)
    cluster.run(job("running", 4, run=100))
    assert promised(cluster.run(job("head", 4, run=10, ready=1), now=1)) == {"head": 100}
    for number, end in enumerate((150, 120, 130), 2):
        ends_then = TaskRuns(task("running.0", shape(cpu=4)), "m", end)
        other = job(f"other{number}", 1, run=200, ready=number)
        assert promised(cluster.run(ends_then, other, now=number))["head"] == end


def test_a_pass_ends_however_many_wait_and_promises_are_kept_meanwhile(monkeypatch):
    monkeypatch.setattr(searching, "MOST_EFFORT", 10 * searching.OF_EACH_TRY)
    cluster = Cluster(strategies.conservative_compress)
    cluster.run(job("running", 4, run=100))
    waiting = [job(f"j{i}", 3 + i % 2, run=10, ready=1) for i in range(40)]
    first = promised(cluster.run(*waiting, now=1))
    assert 0 < len(first) < len(waiting)
    assert None not in first.values()
    again = promised(cluster.run(job("late", 4, run=10, ready=2), now=2))
    assert first.items() <= again.items()
    assert len(again) > len(first)


def test_promises_survive_a_restart():
    cluster = Cluster(easy)
    cluster.run(job("running", 4, run=100))
    before = cluster.run(job("head", 4, run=10, ready=1), now=1).promises
    again = Cluster(easy)
    again.cycle.restore(before)
    running = TaskRuns(task("running.0", shape(cpu=4)), "m", 100)
    assert again.run(running, job("head", 4, run=10, ready=1), now=50).promises == before


def test_after_a_restart_what_was_there_before_is_not_what_broke_a_promise():
    machines = machine("m", cpu=4), machine("n", cpu=4)
    cluster = Cluster(easy, *machines)
    cluster.run(job("running", 4, run=100))
    urgent, head = job("urgent", 4, run=9, priority=5), job("head", 4, 4, run=10, ready=1)
    before = cluster.run(head, now=1).promises
    again = Cluster(easy, *machines)
    again.cycle.restore(before)
    again.run(TaskRuns(task("running.0", shape(cpu=4)), "m", 100), now=2)
    again.run(head, now=3)
    again.run(urgent, now=4)
    ended = [TaskEnded(f"{name}.0") for name in ("running", "urgent")]
    (broken,) = again.run(*ended, now=200).broken
    assert (broken.group, broken.cause) == ("head", Cause.PRIORITY)


def test_promises_that_were_counted_are_not_dropped_if_they_cannot_all_be_seated(monkeypatch):
    cluster = Cluster(strategies.conservative_compress)
    cluster.run(job("running", 4, run=100))
    cluster.run(job("a", 4, run=10, ready=1), job("b", 4, run=10, ready=2), now=2)
    # Neither on the machines they had, nor on any others: each has to look for itself.
    monkeypatch.setattr(searching.Searching, "_kept", lambda *_: None)
    monkeypatch.setattr(packing.Packing, "rearrange", lambda *_: None)
    outcome = cluster.run(job("other", 3, run=10, ready=3), now=3)
    assert promised(outcome) == {"a": 100, "b": 110, "other": 120}


def test_an_unknown_strategy_names_the_place_and_the_known_ones():
    with pytest.raises(
        InputError, match="here: unknown strategy 'lifo'; expected one of flow, fcfs, easy"
    ):
        find_strategy("lifo", "here")
    assert find_strategy("fcfs", "here") is fcfs


@pytest.mark.parametrize("strategy", [flow, fcfs, easy])
def test_who_can_never_start_does_not_fill_the_depth_of_a_queue(strategy):
    never = [job(f"never{number}", 9, run=5) for number in range(3)]
    cluster = Cluster(strategy, depth=2)
    assert cluster.starts(*never, *(job(name, 1, run=5) for name in "abc")) == ["a", "b"]
    assert cluster.starts(now=1.0) == []


def test_a_strategy_that_fails_is_not_asked_about_an_empty_queue():
    def broken(queue, planner, rules):
        raise RuntimeError("a defect")

    queues = [(QueueRules("default"), fcfs), (QueueRules("theirs"), broken)]
    cluster = Cluster(queues)
    assert cluster.starts(job("a", 1)) == ["a"]
    with pytest.raises(RuntimeError):
        cluster.run(job("b", 1, queue="theirs"))


def test_what_keeps_a_group_away_only_for_now_does_not_make_it_unsatisfiable():
    nowhere = Places("node(s) are taken", (Term((Requirement("zone", "NotIn", ("a",)),)),), True)
    cluster = Cluster(flow, machine("m", cpu=4, labels={"zone": "a"}))
    assert cluster.run(group("g", shape(cpu=1, places=(nowhere,)))).unsatisfiable == {}
    for_ever = Places(nowhere.reason, nowhere.terms)
    assert set(cluster.run(group("h", shape(cpu=1, places=(for_ever,)))).unsatisfiable) == {"h"}


def test_who_cannot_be_looked_at_in_a_pass_says_so_and_is_when_others_have_left(monkeypatch):
    monkeypatch.setattr(optimising, "CELLS", 0)
    monkeypatch.setattr(optimising, "FEWEST_CLASSES", 2)
    cluster = Cluster(easy)
    cluster.run(job("running", 4, run=100))
    sizes = {"a": 4, "b": 3, "c": 2}
    waiting = [job(name, size, run=10, ready=1) for name, size in sizes.items()]
    cluster.run(*waiting, now=1)
    reasons = cluster.cycle.explain()
    told = {name for name, why in reasons.items() if why.endswith(NOT_REACHED)}
    assert told == {"c.0"}
    assert reasons["c.0"].startswith("0/1 nodes are available: 1 Insufficient cpu.")
    assert cluster.starts(TaskEnded("running.0"), now=5) == ["a"]
    assert promised(cluster.run(job("d", 3, run=10, ready=6), now=6)) == {"b": 15}
    assert not any(why.endswith(NOT_REACHED) for why in cluster.cycle.explain().values())


def test_a_head_for_which_machines_are_held_does_not_keep_those_waiting_for_whom_it_waits():
    cluster = Cluster(strategies.conservative_compress, holds_for_endless=True)
    cluster.run(job("running", 4, run=10))
    # It runs without end, so that whoever comes ahead of it waits for it, and it for nobody.
    assert promised(cluster.run(job("service", 4, ready=5), now=5)) == {"service": 10}
    assert promised(cluster.run(job("late", 4, run=5, ready=1), now=6))["late"] is None
    assert cluster.starts(TaskEnded("running.0"), now=10) == ["service"]


def test_a_cycle_is_due_when_a_promise_is_even_if_nothing_happens():
    cluster = Cluster(easy)
    outcome = cluster.run(job("running", 4, run=10))
    assert outcome.again_seconds is None
    assert cluster.run(job("head", 4, run=10, ready=1), now=1).again_seconds == 10
    assert cluster.run(now=9).round is None
    outcome = cluster.run(now=10)
    assert outcome.round is not None
    # Something takes longer than it said: nobody asks again and again for that.
    assert outcome.again_seconds is None
    assert cluster.run(now=11).round is None
