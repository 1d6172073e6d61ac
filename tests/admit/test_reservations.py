"""Which reservations are kept, what moves them, and which cause is named if one is broken."""

import pytest

from afflux.admit import strategies
from afflux.admit.strategies import easy, fcfs
from afflux.cycle.events import MachineGone, MachineSet, TaskEnded, TaskRuns
from afflux.cycle.reservations import DelayCause
from afflux.queue.rules import QueueRules
from oracles.builders import by_machine, machine, shape, task
from oracles.queued_cluster import Cluster, job, reserved_starts


@pytest.mark.parametrize(
    ("at_5", "at_10", "cause"),
    [
        (MachineGone("n"), TaskEnded("running.0"), DelayCause.MACHINE),
        (TaskRuns(task("foreign", shape(cpu=4)), "n"), TaskEnded("running.0"), DelayCause.FOREIGN),
        (job("urgent", 4, 4, run=40, priority=9), TaskEnded("running.0"), DelayCause.PRIORITY),
        (
            TaskRuns(task("running.0", shape(cpu=4)), "m", 20),
            job("o", 1, ready=10),
            DelayCause.OVERRUN,
        ),
        (job("early", 1, run=1, ready=5), job("late", 1, ready=10), DelayCause.OVERRUN),
        (job("early", 1, run=1, ready=5), MachineSet(machine("n", cpu=4)), DelayCause.OVERRUN),
    ],
)
def test_the_cause_of_a_broken_reservation_is_named(at_5, at_10, cause: DelayCause):
    cluster = Cluster(easy, machine("m", cpu=4), machine("n", cpu=4))
    cluster.run(job("running", 4, run=10))
    assert reserved_starts(cluster.run(job("head", 4, 4, run=10, ready=1), now=1)) == {"head": 10}
    assert cluster.run(at_5, now=5).broken == ()
    assert cluster.run(at_10, now=10).broken == ()
    gone = [TaskEnded(each) for each in ("running.0", "foreign", "urgent.0", "urgent.1", "early.0")]
    outcome = cluster.run(MachineSet(machine("n", cpu=4)), *gone, now=50)
    assert [(each.group, each.cause) for each in outcome.broken] == [("head", cause)]


def test_a_queue_served_first_is_named_as_the_cause():
    queues = [(QueueRules("urgent"), fcfs), (QueueRules("default"), easy)]
    cluster = Cluster(queues)
    cluster.run(job("running", 4, run=10))
    assert reserved_starts(cluster.run(job("head", 4, run=10, ready=1), now=1)) == {"head": 10}
    cluster.run(job("first", 4, run=10, ready=2, queue="urgent"), now=2)
    assert cluster.starts(TaskEnded("running.0"), now=10) == ["first"]
    outcome = cluster.run(TaskEnded("first.0"), now=20)
    assert [(each.group, each.cause) for each in outcome.broken] == [("head", DelayCause.QUEUE)]


def test_a_changed_group_is_named_as_the_cause():
    cluster = Cluster(strategies.conservative_compress)
    cluster.run(job("running", 4, run=10))
    waiting = job("first", 4, run=10, ready=1), job("second", 4, run=10, ready=2)
    assert reserved_starts(cluster.run(*waiting, now=2)) == {"first": 10, "second": 20}
    cluster.run(job("first", 4, run=30, ready=1), now=3)
    cluster.run(TaskEnded("running.0"), now=10)
    outcome = cluster.run(TaskEnded("first.0"), now=40)
    assert [(each.group, each.cause) for each in outcome.broken] == [("second", DelayCause.CHANGED)]


def test_a_change_during_a_restart_is_named_as_the_cause():
    before = Cluster(easy)
    before.run(job("running", 4, run=10))
    head = job("head", 4, run=10, ready=1)
    reservations = before.run(head, now=1).reservations
    again = Cluster(easy)
    again.cycle.restore(reservations)
    assert reserved_starts(again.run(TaskRuns(task("running.0", shape(cpu=4)), "m", 15), head)) == {
        "head": 15
    }
    outcome = again.run(TaskEnded("running.0"), now=15)
    assert [(each.group, each.cause) for each in outcome.broken] == [("head", DelayCause.RESTART)]


@pytest.mark.parametrize(
    ("event", "cause"),
    [
        (MachineSet(machine("n", cpu=1)), DelayCause.OVERRUN),
        (MachineSet(machine("m", cpu=5)), DelayCause.OVERRUN),
        (MachineSet(machine("m", cpu=4, images={"a:1": 5})), DelayCause.OVERRUN),
        (MachineSet(machine("m", cpu=4, labels={"zone": "a"})), DelayCause.MACHINE),
        (TaskRuns(task("running.0", shape(cpu=3)), "m", 10), DelayCause.OVERRUN),
        (TaskRuns(task("running.0", shape(cpu=5)), "m", 10), DelayCause.FOREIGN),
    ],
    ids=str,
)
def test_only_events_that_take_room_are_causes(event, cause: DelayCause):
    cluster = Cluster(easy)
    cluster.run(job("running", 4, run=10))
    cluster.run(job("head", 4, run=10, ready=1), now=1)
    cluster.run(event, now=2)
    (broken,) = cluster.run(TaskEnded("running.0"), now=20).broken
    assert (broken.group, broken.cause) == ("head", cause)


@pytest.mark.parametrize("strategy", [easy, strategies.conservative_compress])
def test_a_late_group_that_goes_ahead_breaks_no_reservation(strategy):
    cluster = Cluster(strategy)
    cluster.run(job("running", 3, run=10))
    assert reserved_starts(cluster.run(job("head", 4, run=10, ready=5), now=5)) == {"head": 10}
    # The late member of a group that became ready long ago.
    assert cluster.starts(job("late", 1, run=10, ready=1), now=6) == []
    assert cluster.starts(TaskEnded("running.0"), now=10) == ["head"]


def test_a_reservation_does_not_move_ahead_at_the_cost_of_a_lower_priority():
    cluster = Cluster(strategies.conservative_compress, machine("m", cpu=4), machine("n", cpu=4))
    cluster.run(job("one", 4, run=100), job("other", 4, run=10))
    first = job("first", 4, 4, run=10, ready=1, priority=5)
    below = job("below", 4, run=90, ready=2)
    assert reserved_starts(cluster.run(first, below, now=2)) == {"first": 100, "below": 10}
    # The first could start at 10, if the other did not run then.
    outcome = cluster.run(TaskEnded("one.0"), now=3)
    assert by_machine(outcome.placements) == {"m": ["below.0"]}
    assert reserved_starts(outcome) == {"first": 100}
    assert reserved_starts(cluster.run(TaskEnded("other.0"), now=10)) == {"first": 93}


@pytest.mark.parametrize("strategy", [easy, strategies.conservative_compress])
def test_a_reservation_moves_with_the_end_it_waits_for(strategy):
    cluster = Cluster(strategy)
    cluster.run(job("running", 4, run=100))
    assert reserved_starts(cluster.run(job("head", 4, run=10, ready=1), now=1)) == {"head": 100}
    for number, end in enumerate((150, 120, 130), 2):
        ends_then = TaskRuns(task("running.0", shape(cpu=4)), "m", end)
        other = job(f"other{number}", 1, run=200, ready=number)
        assert reserved_starts(cluster.run(ends_then, other, now=number))["head"] == end


def test_reservations_survive_a_restart():
    cluster = Cluster(easy)
    cluster.run(job("running", 4, run=100))
    before = cluster.run(job("head", 4, run=10, ready=1), now=1).reservations
    again = Cluster(easy)
    again.cycle.restore(before)
    running = TaskRuns(task("running.0", shape(cpu=4)), "m", 100)
    assert again.run(running, job("head", 4, run=10, ready=1), now=50).reservations == before


def test_tasks_that_ran_before_a_restart_are_no_cause():
    machines = machine("m", cpu=4), machine("n", cpu=4)
    cluster = Cluster(easy, *machines)
    cluster.run(job("running", 4, run=100))
    urgent, head = job("urgent", 4, run=9, priority=5), job("head", 4, 4, run=10, ready=1)
    before = cluster.run(head, now=1).reservations
    again = Cluster(easy, *machines)
    again.cycle.restore(before)
    again.run(TaskRuns(task("running.0", shape(cpu=4)), "m", 100), now=2)
    again.run(head, now=3)
    again.run(urgent, now=4)
    ended = [TaskEnded(f"{name}.0") for name in ("running", "urgent")]
    (broken,) = again.run(*ended, now=200).broken
    assert (broken.group, broken.cause) == ("head", DelayCause.PRIORITY)


def test_a_cycle_wakes_up_when_a_reservation_is_due():
    cluster = Cluster(easy)
    outcome = cluster.run(job("running", 4, run=10))
    assert outcome.wake_up_seconds is None
    assert cluster.run(job("head", 4, run=10, ready=1), now=1).wake_up_seconds == 10
    assert cluster.run(now=9).decision is None
    outcome = cluster.run(now=10)
    assert outcome.decision is not None
    # A task takes longer than it said: no further cycle is asked for.
    assert outcome.wake_up_seconds is None
    assert cluster.run(now=11).decision is None


def test_a_start_within_the_tolerance_is_on_time():
    ends, head = TaskEnded("running.0"), job("head", 4, run=10, ready=1)
    for tolerance, now, late in ((0.0, 10.01, True), (1.0, 10.01, False), (1.0, 11.5, True)):
        cluster = Cluster(easy, tolerance_seconds=tolerance)
        cluster.run(job("running", 4, run=10))
        cluster.run(head, now=1)
        causes = [each.cause for each in cluster.run(ends, now=now).broken]
        assert causes == [DelayCause.OVERRUN] * late


def test_delays_within_the_tolerance_add_up_to_a_broken_reservation():
    cluster = Cluster(easy, tolerance_seconds=1.0)
    cluster.run(job("running", 3, run=10))
    assert reserved_starts(cluster.run(job("head", 4, run=10, ready=1), now=1)) == {"head": 10}
    for number, now in enumerate((10.4, 10.8, 11.2, 11.6)):
        outcome = cluster.run(job(f"o{number}", 4, run=9, ready=2), now=now)
        assert reserved_starts(outcome)["head"] == now
    (broken,) = cluster.run(TaskEnded("running.0"), now=12).broken
    assert (broken.reserved_start_seconds, broken.cause) == (10, DelayCause.OVERRUN)


@pytest.mark.parametrize("late", [0.005, 1.5])
def test_an_end_within_the_tolerance_is_no_cause_of_a_later_plan(late: float):
    cluster = Cluster(strategies.conservative_rebuild, tolerance_seconds=1.0)
    cluster.run(job("short", 1, run=10), job("long", 3, run=100))
    waiting = job("first", 4, run=10, ready=1), job("second", 2, run=200, ready=2)
    assert reserved_starts(cluster.run(*waiting, now=2)) == {"first": 100, "second": 110}
    cluster.run(TaskEnded("short.0"), now=10 + late)
    # A late group ahead of the others goes first, because the plan is made anew.
    assert reserved_starts(cluster.run(job("third", 4, run=20, ready=0), now=20))["second"] == 130
    cluster.run(TaskEnded("long.0"), now=100)
    cluster.run(TaskEnded("third.0"), now=120)
    broken = cluster.run(TaskEnded("first.0"), now=130).broken
    cause = DelayCause.STRATEGY if late < 1 else DelayCause.OVERRUN
    assert [(each.group, each.cause) for each in broken] == [("second", cause)]
