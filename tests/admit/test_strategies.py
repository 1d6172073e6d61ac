"""Strategies: which groups start, and which get a reservation."""

import pytest

from afflux.admit import strategies
from afflux.admit.strategies import easy, fcfs, find_strategy, flow
from afflux.cluster.state import State
from afflux.cycle.events import MachineSet, TaskEnded
from afflux.model.errors import InputError
from afflux.model.reachability import Reachability
from afflux.model.selectors import Requirement, Term
from afflux.queue.rules import QueueRules
from oracles.builders import by_machine, decide, group, machine, shape
from oracles.queued_cluster import Cluster, job, reserved_starts


def test_flow_admits_all_groups_and_makes_no_reservations():
    outcome = Cluster(flow).run(job("big", 9), job("small", 1))
    assert by_machine(outcome.placements) == {"m": ["small.0"]}
    assert outcome.reservations == ()


@pytest.mark.parametrize("strategy", [fcfs, easy, strategies.conservative_compress])
@pytest.mark.parametrize("run", [0.0, 1e-9])
def test_a_run_without_duration_takes_room(strategy, run):
    # In Unix seconds the end would equal the start, and both groups would seem to fit.
    waiting = [job(name, 3, run=run) for name in "ab"]
    assert Cluster(strategy).starts(*waiting, now=1.8e9) == ["a"]


def test_fcfs_stops_at_the_first_group_without_room():
    waiting = [job(name, size) for name, size in zip("abcd", (2, 1, 3, 1), strict=True)]
    assert by_machine(decide(State([machine("m", cpu=4)]), *waiting, strategy=fcfs).placements) == {
        "m": ["a.0", "b.0"]
    }


def test_infeasible_groups_are_skipped_with_a_reason():
    cluster = Cluster(fcfs)
    outcome = cluster.run(job("huge", 9), job("gang", 3, 3), job("small", 1))
    assert by_machine(outcome.placements) == {"m": ["small.0"]}
    assert outcome.unsatisfiable == {
        "huge": "needs room for it at once; the empty cluster has it nowhere",
        "gang": "needs room for 2 of its members at once; the empty cluster has it for 1 of them",
    }
    # The groups are examined again when the cluster changes, and never dropped.
    assert cluster.starts(MachineSet(machine("n", cpu=12))) == ["gang", "huge"]


def test_members_that_fit_one_by_one_but_never_together_are_unsatisfiable():
    outcome = Cluster(easy).run(job("pair", 3, 2))
    assert outcome.unsatisfiable == {
        "pair": "its members do not fit together, even on the empty cluster"
    }


def test_an_empty_queue_or_cluster_starts_nothing():
    assert decide(State([machine("m", cpu=3)]), strategy=fcfs).placements == ()
    assert decide(State(), group("a", shape()), strategy=fcfs).placements == ()


@pytest.mark.parametrize("several", [False, True])
def test_easy_backfills_groups_that_do_not_delay_the_head(several: bool):
    cluster = Cluster(easy)
    assert cluster.starts(job("running", 1, 1, 1, run=100)) == ["running"]
    # One class or several: counting and searching give the same result.
    head = job("head", 4, ready=1, run=50) if several else job("head", 1, 1, 1, 1, ready=1, run=50)
    outcome = cluster.run(head, now=1)
    assert reserved_starts(outcome) == {"head": 100}
    assert {place for _, place in outcome.reservations[0].machines} == {"m"}
    assert cluster.starts(job("long", 1, ready=2, run=99), now=2) == []
    assert cluster.starts(job("short", 1, ready=3, run=97), now=3) == ["short"]
    # It ends early: the head starts before its reservation, and no group passes it.
    ended = [TaskEnded(f"running.{i}") for i in range(3)]
    assert cluster.starts(*ended, now=10) == []
    assert cluster.starts(TaskEnded("short.0"), now=20) == ["head"]


def test_conservative_reserves_a_start_for_every_group_that_does_not_fit():
    cluster = Cluster(strategies.conservative_compress)
    cluster.run(job("running", 4, run=100))
    outcome = cluster.run(
        job("a", 4, ready=1, run=10), job("b", 3, ready=2, run=10), job("c", 1, ready=3, run=5),
        now=3,
    )  # fmt: skip
    assert reserved_starts(outcome) == {"a": 100, "b": 110, "c": 110}


def test_hybrid_makes_as_many_reservations_as_its_queue_says():
    cluster = Cluster(strategies.hybrid, max_reservations=2)
    cluster.run(job("running", 4, run=100))
    outcome = cluster.run(*(job(name, 4, run=10, ready=1) for name in "abc"), now=1)
    assert reserved_starts(outcome) == {"a": 100, "b": 110}


def test_a_head_that_waits_for_work_without_end_blocks_no_group():
    cluster = Cluster(easy)
    cluster.run(job("service", 2))
    outcome = cluster.run(job("head", 4, ready=1, run=10), job("small", 2, ready=2), now=2)
    assert reserved_starts(outcome) == {"head": None}
    assert by_machine(outcome.placements) == {"m": ["small.0"]}


def test_a_head_that_waits_for_work_without_end_blocks_if_its_queue_says_so():
    cluster = Cluster(easy, hold_for_endless=True)
    cluster.run(job("service", 2))
    outcome = cluster.run(job("head", 4, ready=1, run=10), job("small", 2, ready=2), now=2)
    assert reserved_starts(outcome) == {"head": None}
    assert outcome.placements == ()


def test_a_blocking_head_also_blocks_lower_priorities():
    cluster = Cluster(strategies.conservative_compress, hold_for_endless=True)
    cluster.run(job("service", 2))
    outcome = cluster.run(
        job("head", 4, ready=1, run=10, priority=5), job("small", 2, ready=2, run=5), now=2
    )
    assert reserved_starts(outcome) == {"head": None}
    assert outcome.placements == ()


def test_the_number_of_reservations_counts_all_priorities():
    cluster = Cluster(strategies.conservative_compress, max_reservations=2)
    cluster.run(job("running", 4, run=100))
    waiting = [job(name, 4, run=10, ready=1, priority=9 - i) for i, name in enumerate("abc")]
    assert reserved_starts(cluster.run(*waiting, now=1)) == {"a": 100, "b": 110}


def test_queues_are_served_in_the_order_of_the_configuration():
    queues = [(QueueRules("urgent", depth=1), fcfs), (QueueRules("default"), easy)]
    cluster = Cluster(queues)
    outcome = cluster.run(
        job("a", 3, run=10), job("b", 3, run=10, ready=1, queue="urgent"), job("c", 1, run=5)
    )
    assert by_machine(outcome.placements) == {"m": ["b.0", "c.0"]}
    assert reserved_starts(outcome) == {"a": 10}


def test_flow_leaves_the_room_reserved_by_another_queue():
    queues = [(QueueRules("batch"), easy), (QueueRules("default"), flow)]
    cluster = Cluster(queues, machine("m", cpu=4), machine("n", cpu=4))
    cluster.run(job("running", 4, run=100, queue="batch"))
    outcome = cluster.run(
        job("head", 4, 4, run=10, ready=1, queue="batch"), job("service", 1, ready=2), now=2
    )
    assert reserved_starts(outcome) == {"head": 100}
    assert outcome.placements == ()


def test_an_unknown_strategy_names_the_place_and_the_known_ones():
    with pytest.raises(
        InputError, match="here: unknown strategy 'lifo'; expected one of flow, fcfs, easy"
    ):
        find_strategy("lifo", "here")
    assert find_strategy("fcfs", "here") is fcfs


def test_a_strategy_is_not_called_for_an_empty_queue():
    def broken(queue, planner, rules):
        raise RuntimeError("a defect")

    queues = [(QueueRules("default"), fcfs), (QueueRules("theirs"), broken)]
    cluster = Cluster(queues)
    assert cluster.starts(job("a", 1)) == ["a"]
    with pytest.raises(RuntimeError):
        cluster.run(job("b", 1, queue="theirs"))


def test_a_group_whose_volume_no_machine_reaches_is_unsatisfiable():
    nowhere = Reachability("node(s) are taken", (Term((Requirement("zone", "NotIn", ("a",)),)),))
    cluster = Cluster(flow, machine("m", cpu=4, labels={"zone": "a"}))
    outcome = cluster.run(group("g", shape(cpu=1, reachability=(nowhere,))))
    assert outcome.unsatisfiable.keys() == {"g"}


def test_a_blocking_head_does_not_block_groups_with_reservations():
    cluster = Cluster(strategies.conservative_compress, hold_for_endless=True)
    cluster.run(job("running", 4, run=10))
    # It runs without end, so a group that comes ahead of it waits for it.
    assert reserved_starts(cluster.run(job("service", 4, ready=5), now=5)) == {"service": 10}
    assert reserved_starts(cluster.run(job("late", 4, run=5, ready=1), now=6))["late"] is None
    assert cluster.starts(TaskEnded("running.0"), now=10) == ["service"]


@pytest.mark.parametrize("members", [(9,), (4, 4)], ids=["several classes", "one class"])
@pytest.mark.parametrize("strategy", [fcfs, easy, strategies.hybrid])
def test_infeasible_groups_are_reported_behind_other_groups(strategy, members: tuple[int, ...]):
    cluster = Cluster(strategy, max_reservations=1)
    running, never = job("running", 4, run=100), job("never", *members, run=10, ready=5)
    assert cluster.run(running, never).unsatisfiable.keys() == {"never"}
    # It takes the only reservation, or blocks the queue.
    outcome = cluster.run(job("ahead", 4, run=10, ready=1), now=5)
    assert outcome.unsatisfiable.keys() == {"never"}
    assert cluster.starts(TaskEnded("running.0"), now=6) == ["ahead"]


@pytest.mark.parametrize("strategy", [flow, fcfs, easy])
def test_infeasible_groups_are_reported_behind_the_depth(strategy):
    cluster = Cluster(strategy, depth=1)
    running, never = job("running", 4, run=100), job("never", 9, run=10, ready=5)
    assert cluster.run(running, never).unsatisfiable.keys() == {"never"}
    ahead = [job(f"ahead{number}", 4, run=10, ready=1) for number in range(3)]
    assert cluster.run(*ahead, now=5).unsatisfiable.keys() == {"never"}
