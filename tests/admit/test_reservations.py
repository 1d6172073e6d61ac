"""Which promises are kept, what moves them, and what is named when one is broken."""

import pytest

from afflux.admit import strategies
from afflux.admit.strategies import easy, fcfs
from afflux.cycle.events import MachineGone, MachineSet, TaskEnded, TaskRuns
from afflux.cycle.promises import Cause
from afflux.queue.rules import QueueRules
from oracles.building import by_machine, machine, shape, task
from oracles.queued_cluster import Cluster, job, promised


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


@pytest.mark.parametrize("strategy", [easy, strategies.conservative_compress])
def test_a_promise_moves_with_the_end_of_what_it_waits_for(strategy):
    cluster = Cluster(strategy)
    cluster.run(job("running", 4, run=100))
    assert promised(cluster.run(job("head", 4, run=10, ready=1), now=1)) == {"head": 100}
    for number, end in enumerate((150, 120, 130), 2):
        ends_then = TaskRuns(task("running.0", shape(cpu=4)), "m", end)
        other = job(f"other{number}", 1, run=200, ready=number)
        assert promised(cluster.run(ends_then, other, now=number))["head"] == end


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


def test_on_real_clocks_a_start_is_on_time_if_it_is_hardly_late():
    ends, head = TaskEnded("running.0"), job("head", 4, run=10, ready=1)
    for tolerance, now, late in ((0.0, 10.01, True), (1.0, 10.01, False), (1.0, 11.5, True)):
        cluster = Cluster(easy, tolerance_seconds=tolerance)
        cluster.run(job("running", 4, run=10))
        cluster.run(head, now=1)
        causes = [each.cause for each in cluster.run(ends, now=now).broken]
        assert causes == [Cause.OVERRUN] * late


def test_who_is_hardly_late_in_every_pass_is_late_in_the_end_and_by_what_is_known():
    cluster = Cluster(easy, tolerance_seconds=1.0)
    cluster.run(job("running", 3, run=10))
    assert promised(cluster.run(job("head", 4, run=10, ready=1), now=1)) == {"head": 10}
    for number, now in enumerate((10.4, 10.8, 11.2, 11.6)):
        outcome = cluster.run(job(f"o{number}", 4, run=9, ready=2), now=now)
        assert promised(outcome)["head"] == now
    (broken,) = cluster.run(TaskEnded("running.0"), now=12).broken
    assert (broken.promised_seconds, broken.cause) == (10, Cause.OVERRUN)


@pytest.mark.parametrize("late", [0.005, 1.5])
def test_who_ends_hardly_late_is_no_cause_of_what_the_strategy_does_later(late: float):
    cluster = Cluster(strategies.conservative_rebuild, tolerance_seconds=1.0)
    cluster.run(job("short", 1, run=10), job("long", 3, run=100))
    waiting = job("first", 4, run=10, ready=1), job("second", 2, run=200, ready=2)
    assert promised(cluster.run(*waiting, now=2)) == {"first": 100, "second": 110}
    cluster.run(TaskEnded("short.0"), now=10 + late)
    # One who comes late but ahead goes first, because the plan is made anew.
    assert promised(cluster.run(job("third", 4, run=20, ready=0), now=20))["second"] == 130
    cluster.run(TaskEnded("long.0"), now=100)
    cluster.run(TaskEnded("third.0"), now=120)
    broken = cluster.run(TaskEnded("first.0"), now=130).broken
    cause = Cause.STRATEGY if late < 1 else Cause.OVERRUN
    assert [(each.group, each.cause) for each in broken] == [("second", cause)]
