"""Who may start, and who is promised a start."""

import pytest

from afflux.admit import strategies
from afflux.admit.strategies import easy, fcfs, find_strategy, flow
from afflux.cluster.state import State
from afflux.cycle.events import MachineSet, TaskEnded
from afflux.model.errors import InputError
from afflux.model.places import Places
from afflux.model.selectors import Requirement, Term
from afflux.queue.rules import QueueRules
from oracles.building import by_machine, decide, group, machine, shape
from oracles.queued_cluster import Cluster, job, promised


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


def test_an_unknown_strategy_names_the_place_and_the_known_ones():
    with pytest.raises(
        InputError, match="here: unknown strategy 'lifo'; expected one of flow, fcfs, easy"
    ):
        find_strategy("lifo", "here")
    assert find_strategy("fcfs", "here") is fcfs


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


def test_a_head_for_which_machines_are_held_does_not_keep_those_waiting_for_whom_it_waits():
    cluster = Cluster(strategies.conservative_compress, holds_for_endless=True)
    cluster.run(job("running", 4, run=10))
    # It runs without end, so that whoever comes ahead of it waits for it, and it for nobody.
    assert promised(cluster.run(job("service", 4, ready=5), now=5)) == {"service": 10}
    assert promised(cluster.run(job("late", 4, run=5, ready=1), now=6))["late"] is None
    assert cluster.starts(TaskEnded("running.0"), now=10) == ["service"]


@pytest.mark.parametrize("members", [(9,), (4, 4)], ids=["several classes", "one class"])
@pytest.mark.parametrize("strategy", [fcfs, easy, strategies.hybrid])
def test_who_can_never_start_says_so_whoever_waits_ahead(strategy, members: tuple[int, ...]):
    cluster = Cluster(strategy, reservations=1)
    running, never = job("running", 4, run=100), job("never", *members, run=10, ready=5)
    assert cluster.run(running, never).unsatisfiable.keys() == {"never"}
    # It takes the one promise there is, or holds up everybody.
    outcome = cluster.run(job("ahead", 4, run=10, ready=1), now=5)
    assert outcome.unsatisfiable.keys() == {"never"}
    assert cluster.starts(TaskEnded("running.0"), now=6) == ["ahead"]


@pytest.mark.parametrize("strategy", [flow, fcfs, easy])
def test_who_can_never_start_says_so_however_deep_it_waits(strategy):
    cluster = Cluster(strategy, depth=1)
    running, never = job("running", 4, run=100), job("never", 9, run=10, ready=5)
    assert cluster.run(running, never).unsatisfiable.keys() == {"never"}
    ahead = [job(f"ahead{number}", 4, run=10, ready=1) for number in range(3)]
    assert cluster.run(*ahead, now=5).unsatisfiable.keys() == {"never"}
