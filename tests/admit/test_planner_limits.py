"""How far one pass looks: by the depth of a queue, by kinds of pods and by effort."""

from dataclasses import replace
from unittest.mock import patch

import pytest

from afflux.admit import packing, searching, strategies
from afflux.admit.strategies import easy, fcfs, flow
from afflux.cycle import optimising
from afflux.cycle.events import TaskEnded, TaskRuns
from afflux.cycle.loop import NOT_REACHED
from afflux.model.group import Group
from afflux.model.task import Shape
from oracles.building import by_machine, group, machine, shape, task
from oracles.queued_cluster import Cluster, job, promised


@pytest.fixture
def two_classes_at_once(monkeypatch):
    monkeypatch.setattr(optimising, "CELLS", 0)
    monkeypatch.setattr(optimising, "FEWEST_CLASSES", 2)


def mixed(name: str, *shapes: Shape, run: float) -> Group:
    return replace(group(name, *shapes), run_seconds=run)


def told_that_they_were_not_reached(cluster: Cluster) -> set[str]:
    reasons = cluster.cycle.explain()
    return {name.split(".")[0] for name, why in reasons.items() if why.endswith(NOT_REACHED)}


def test_depth_is_how_far_a_queue_is_looked_through():
    cluster = Cluster(easy, depth=2)
    cluster.run(job("running", 3, run=100))
    waiting = [job("a", 4, run=9), job("b", 4, run=9, ready=1), job("c", 1, run=9, ready=2)]
    assert cluster.starts(*waiting, now=2) == []
    assert Cluster(easy).starts(job("running", 3, run=100), *waiting) == ["c", "running"]


@pytest.mark.parametrize("strategy", [flow, fcfs, easy])
def test_who_can_never_start_does_not_fill_the_depth_of_a_queue(strategy):
    never = [job(f"never{number}", 9, run=5) for number in range(3)]
    cluster = Cluster(strategy, depth=2)
    assert cluster.starts(*never, *(job(name, 1, run=5) for name in "abc")) == ["a", "b"]


def test_who_waits_for_work_without_end_does_not_fill_the_depth_of_a_queue():
    cluster = Cluster(easy, depth=1)
    cluster.run(job("service", 2))
    assert promised(cluster.run(job("head", 4, run=10, ready=1), now=1)) == {"head": None}
    assert cluster.starts(job("small", 2, run=10, ready=2), now=2) == ["small"]


def test_unless_machines_are_held_for_it():
    cluster = Cluster(easy, depth=1, holds_for_endless=True)
    cluster.run(job("service", 2))
    assert promised(cluster.run(job("head", 4, run=10, ready=1), now=1)) == {"head": None}
    assert promised(cluster.run(job("next", 4, run=10, ready=2), now=2)) == {"head": None}


@pytest.mark.parametrize("service", [None, 20])
def test_who_was_told_something_is_told_the_same_however_deep_it_is(service):
    cluster = Cluster(easy, depth=1)
    cluster.run(job("service", 2, run=service))
    assert promised(cluster.run(job("head", 4, run=10, ready=1), now=1)) == {"head": service}
    outcome = cluster.run(job("urgent", 1, run=10, ready=5, priority=9), now=5)
    assert by_machine(outcome.placements) == {"m": ["urgent.0"]}
    assert promised(outcome) == {"head": service}


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


def test_promises_that_were_counted_are_not_dropped_if_they_cannot_all_be_seated(monkeypatch):
    cluster = Cluster(strategies.conservative_compress)
    cluster.run(job("running", 4, run=100))
    cluster.run(job("a", 4, run=10, ready=1), job("b", 4, run=10, ready=2), now=2)
    # Neither on the machines they had, nor on any others: each has to look for itself.
    monkeypatch.setattr(searching.Searching, "_kept", lambda *_: None)
    monkeypatch.setattr(packing.Packing, "rearrange", lambda *_: None)
    outcome = cluster.run(job("other", 3, run=10, ready=3), now=3)
    assert promised(outcome) == {"a": 100, "b": 110, "other": 120}


def test_who_slips_is_promised_another_start_whatever_the_others_cost(monkeypatch):
    cluster = Cluster(strategies.conservative_compress)
    cluster.run(job("running", 4, run=100))
    waiting = [job(f"j{i}", 3 + i % 2, run=10, ready=1) for i in range(40)]
    before = promised(cluster.run(*waiting, now=1))
    assert before == {f"j{i}": 100 + 10 * i for i in range(40)}
    monkeypatch.setattr(searching, "MOST_EFFORT", 10 * searching.OF_EACH_TRY)
    ends_later = TaskRuns(task("running.0", shape(cpu=4)), "m", 495)
    reserve = packing.Packing.reserve
    with patch.object(packing.Packing, "reserve", autospec=True, side_effect=reserve) as tries:
        after = promised(cluster.run(ends_later, job("late", 3, run=10, ready=2), now=2))
    assert after == {f"j{i}": 495 + 10 * i for i in range(40)}
    # In leaps, where nothing is left to spend.
    assert tries.call_count < 10 * len(after)


def test_leaps_from_ending_to_ending_do_not_lead_over_the_last_one(monkeypatch):
    monkeypatch.setattr(searching, "TRIED_IN_TURN", 1)
    cluster = Cluster(easy, machine("m", cpu=20, memory=20))
    cluster.run(*(mixed(f"r{i}", shape(cpu=1, memory=1), run=10 + i) for i in range(20)))
    # Either of them has room from 19 on, both only when everybody has left.
    both = mixed("both", shape(cpu=10, memory=10), shape(cpu=10, memory=9), run=10)
    assert promised(cluster.run(both, now=1)) == {"both": 29}


@pytest.mark.usefixtures("two_classes_at_once")
def test_what_was_promised_below_keeps_nobody_of_a_higher_priority_from_being_looked_at():
    cluster = Cluster(strategies.conservative_compress)
    cluster.run(job("running", 4, run=100))
    waiting = [job(name, size, run=10, ready=1) for name, size in (("a", 4), ("b", 3))]
    assert promised(cluster.run(*waiting, now=1)) == {"a": 100, "b": 110}
    urgent = [job(f"u{size}", size, run=10, ready=2, priority=9) for size in (1, 2)]
    # What was promised is known on top of that, or it could not be kept.
    assert promised(cluster.run(*urgent, now=2)) == {"u1": 100, "u2": 100, "a": 110, "b": 120}
    assert told_that_they_were_not_reached(cluster) == set()


@pytest.mark.usefixtures("two_classes_at_once")
def test_nobody_is_promised_a_start_ahead_of_one_who_is_not_looked_at():
    cluster = Cluster(strategies.conservative_compress)
    cluster.run(job("running", 4, run=100))
    sizes = {"a": 4, "b": 3, "c": 2, "d": 4}
    waiting = [job(name, size, run=10, ready=1) for name, size in sizes.items()]
    assert promised(cluster.run(*waiting, now=1)) == {"a": 100, "b": 110}
    assert told_that_they_were_not_reached(cluster) == {"c", "d"}
    assert cluster.starts(TaskEnded("running.0"), now=5) == ["a"]
    assert promised(cluster.run(TaskEnded("a.0"), now=6)) == {"c": 16}
    assert promised(cluster.run(TaskEnded("b.0"), now=16)) == {"d": 26}


@pytest.mark.usefixtures("two_classes_at_once")
def test_who_can_never_start_does_not_fill_the_classes_of_a_pass():
    cluster = Cluster(strategies.conservative_compress)
    never = [job(f"never{number}", 9 + number, run=10) for number in range(3)]
    waiting = [job(name, size, run=10, ready=1) for name, size in (("a", 4), ("b", 3))]
    outcome = cluster.run(job("running", 4, run=100), *never, *waiting)
    assert outcome.unsatisfiable.keys() == {"never0", "never1", "never2"}
    assert promised(outcome) == {"a": 100, "b": 110}
    assert told_that_they_were_not_reached(cluster) == set()


@pytest.mark.usefixtures("two_classes_at_once")
def test_who_can_never_start_says_so_however_many_are_not_looked_at():
    cluster = Cluster(strategies.conservative_compress)
    cluster.run(job("running", 4, run=100))
    sizes = {"a": 4, "b": 3, "c": 2, "never": 9}
    waiting = [job(name, size, run=10, ready=1) for name, size in sizes.items()]
    assert cluster.run(*waiting, now=1).unsatisfiable.keys() == {"never"}
    assert told_that_they_were_not_reached(cluster) == {"c"}


@pytest.mark.usefixtures("two_classes_at_once")
def test_who_cannot_be_looked_at_in_a_pass_says_so_and_is_when_others_have_left():
    cluster = Cluster(easy)
    cluster.run(job("running", 4, run=100))
    sizes = {"a": 4, "b": 3, "c": 2}
    waiting = [job(name, size, run=10, ready=1) for name, size in sizes.items()]
    cluster.run(*waiting, now=1)
    assert told_that_they_were_not_reached(cluster) == {"c"}
    reason = cluster.cycle.explain()["c.0"]
    assert reason.startswith("0/1 nodes are available: 1 Insufficient cpu.")
    assert cluster.starts(TaskEnded("running.0"), now=5) == ["a"]
    assert promised(cluster.run(job("d", 3, run=10, ready=6), now=6)) == {"b": 15}
    assert told_that_they_were_not_reached(cluster) == set()
