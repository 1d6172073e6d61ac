"""The limits of one pass: the depth of the queue, the number of classes, and the effort."""

from dataclasses import replace
from unittest.mock import patch

import pytest

from afflux.admit import multi_class_pass, room_at_instant, strategies
from afflux.admit.strategies import easy, fcfs, flow
from afflux.cycle import optimiser
from afflux.cycle.events import TaskEnded, TaskRuns
from afflux.cycle.loop import NOT_EXAMINED
from afflux.model.task import Shape
from afflux.model.waiting_group import WaitingGroup
from oracles.builders import by_machine, group, machine, shape, task
from oracles.queued_cluster import Cluster, job, reserved_starts


@pytest.fixture
def two_classes_per_pass(monkeypatch):
    monkeypatch.setattr(optimiser, "MAX_PAIRS_PER_ROUND", 0)
    monkeypatch.setattr(optimiser, "MIN_CLASSES_PER_ROUND", 2)


def mixed(name: str, *shapes: Shape, run: float) -> WaitingGroup:
    return replace(group(name, *shapes), run_seconds=run)


def not_examined(cluster: Cluster) -> set[str]:
    reasons = cluster.cycle.explain()
    return {name.split(".")[0] for name, why in reasons.items() if why.endswith(NOT_EXAMINED)}


def test_a_cycle_examines_the_queue_up_to_its_depth():
    cluster = Cluster(easy, depth=2)
    cluster.run(job("running", 3, run=100))
    waiting = [job("a", 4, run=9), job("b", 4, run=9, ready=1), job("c", 1, run=9, ready=2)]
    assert cluster.starts(*waiting, now=2) == []
    assert Cluster(easy).starts(job("running", 3, run=100), *waiting) == ["c", "running"]


@pytest.mark.parametrize("strategy", [flow, fcfs, easy])
def test_infeasible_groups_do_not_count_towards_the_depth(strategy):
    never = [job(f"never{number}", 9, run=5) for number in range(3)]
    cluster = Cluster(strategy, depth=2)
    assert cluster.starts(*never, *(job(name, 1, run=5) for name in "abc")) == ["a", "b"]


def test_groups_of_unknown_start_do_not_count_towards_the_depth():
    cluster = Cluster(easy, depth=1)
    cluster.run(job("service", 2))
    assert reserved_starts(cluster.run(job("head", 4, run=10, ready=1), now=1)) == {"head": None}
    assert cluster.starts(job("small", 2, run=10, ready=2), now=2) == ["small"]


def test_groups_of_unknown_start_count_if_machines_are_held_for_them():
    cluster = Cluster(easy, depth=1, hold_for_endless=True)
    cluster.run(job("service", 2))
    assert reserved_starts(cluster.run(job("head", 4, run=10, ready=1), now=1)) == {"head": None}
    assert reserved_starts(cluster.run(job("next", 4, run=10, ready=2), now=2)) == {"head": None}


@pytest.mark.parametrize("service", [None, 20])
def test_a_group_pushed_behind_the_depth_keeps_its_reservation(service):
    cluster = Cluster(easy, depth=1)
    cluster.run(job("service", 2, run=service))
    assert reserved_starts(cluster.run(job("head", 4, run=10, ready=1), now=1)) == {"head": service}
    outcome = cluster.run(job("urgent", 1, run=10, ready=5, priority=9), now=5)
    assert by_machine(outcome.placements) == {"m": ["urgent.0"]}
    assert reserved_starts(outcome) == {"head": service}


def test_the_effort_of_a_pass_is_bounded_and_reservations_are_kept(monkeypatch):
    monkeypatch.setattr(multi_class_pass, "MAX_EFFORT", 10 * multi_class_pass.EFFORT_PER_TRY)
    cluster = Cluster(strategies.conservative_compress)
    cluster.run(job("running", 4, run=100))
    waiting = [job(f"j{i}", 3 + i % 2, run=10, ready=1) for i in range(40)]
    first = reserved_starts(cluster.run(*waiting, now=1))
    assert 0 < len(first) < len(waiting)
    assert None not in first.values()
    again = reserved_starts(cluster.run(job("late", 4, run=10, ready=2), now=2))
    assert first.items() <= again.items()
    assert len(again) > len(first)


def test_counted_reservations_survive_the_change_to_a_search(monkeypatch):
    cluster = Cluster(strategies.conservative_compress)
    cluster.run(job("running", 4, run=100))
    cluster.run(job("a", 4, run=10, ready=1), job("b", 4, run=10, ready=2), now=2)
    # All reservations together fit neither on their machines nor on others: each is made anew.
    monkeypatch.setattr(multi_class_pass.MultiClassPass, "_on_same_machines", lambda *_: None)
    monkeypatch.setattr(room_at_instant.RoomAtInstant, "rearrange", lambda *_: None)
    outcome = cluster.run(job("other", 3, run=10, ready=3), now=3)
    assert reserved_starts(outcome) == {"a": 100, "b": 110, "other": 120}


def test_delayed_groups_get_another_start_without_effort_left(monkeypatch):
    cluster = Cluster(strategies.conservative_compress)
    cluster.run(job("running", 4, run=100))
    waiting = [job(f"j{i}", 3 + i % 2, run=10, ready=1) for i in range(40)]
    before = reserved_starts(cluster.run(*waiting, now=1))
    assert before == {f"j{i}": 100 + 10 * i for i in range(40)}
    monkeypatch.setattr(multi_class_pass, "MAX_EFFORT", 10 * multi_class_pass.EFFORT_PER_TRY)
    ends_later = TaskRuns(task("running.0", shape(cpu=4)), "m", 495)
    reserve = room_at_instant.RoomAtInstant.reserve
    with patch.object(
        room_at_instant.RoomAtInstant, "reserve", autospec=True, side_effect=reserve
    ) as tries:
        after = reserved_starts(cluster.run(ends_later, job("late", 3, run=10, ready=2), now=2))
    assert after == {f"j{i}": 495 + 10 * i for i in range(40)}
    # Without effort left, the tries are made in growing strides.
    assert tries.call_count < 10 * len(after)


def test_growing_strides_still_try_the_last_end(monkeypatch):
    monkeypatch.setattr(multi_class_pass, "MAX_CONSECUTIVE_TRIES", 1)
    cluster = Cluster(easy, machine("m", cpu=20, memory=20))
    cluster.run(*(mixed(f"r{i}", shape(cpu=1, memory=1), run=10 + i) for i in range(20)))
    # Each member alone has room from 19 on, both only when all tasks have ended.
    both = mixed("both", shape(cpu=10, memory=10), shape(cpu=10, memory=9), run=10)
    assert reserved_starts(cluster.run(both, now=1)) == {"both": 29}


@pytest.mark.usefixtures("two_classes_per_pass")
def test_reservations_of_lower_priorities_do_not_use_up_the_classes():
    cluster = Cluster(strategies.conservative_compress)
    cluster.run(job("running", 4, run=100))
    waiting = [job(name, size, run=10, ready=1) for name, size in (("a", 4), ("b", 3))]
    assert reserved_starts(cluster.run(*waiting, now=1)) == {"a": 100, "b": 110}
    urgent = [job(f"u{size}", size, run=10, ready=2, priority=9) for size in (1, 2)]
    # The classes of reservations come on top, or the reservations could not be kept.
    assert reserved_starts(cluster.run(*urgent, now=2)) == {
        "u1": 100,
        "u2": 100,
        "a": 110,
        "b": 120,
    }
    assert not_examined(cluster) == set()


@pytest.mark.usefixtures("two_classes_per_pass")
def test_no_group_gets_a_reservation_behind_one_that_is_not_examined():
    cluster = Cluster(strategies.conservative_compress)
    cluster.run(job("running", 4, run=100))
    sizes = {"a": 4, "b": 3, "c": 2, "d": 4}
    waiting = [job(name, size, run=10, ready=1) for name, size in sizes.items()]
    assert reserved_starts(cluster.run(*waiting, now=1)) == {"a": 100, "b": 110}
    assert not_examined(cluster) == {"c", "d"}
    assert cluster.starts(TaskEnded("running.0"), now=5) == ["a"]
    assert reserved_starts(cluster.run(TaskEnded("a.0"), now=6)) == {"c": 16}
    assert reserved_starts(cluster.run(TaskEnded("b.0"), now=16)) == {"d": 26}


@pytest.mark.usefixtures("two_classes_per_pass")
def test_infeasible_groups_do_not_use_up_the_classes():
    cluster = Cluster(strategies.conservative_compress)
    never = [job(f"never{number}", 9 + number, run=10) for number in range(3)]
    waiting = [job(name, size, run=10, ready=1) for name, size in (("a", 4), ("b", 3))]
    outcome = cluster.run(job("running", 4, run=100), *never, *waiting)
    assert outcome.unsatisfiable.keys() == {"never0", "never1", "never2"}
    assert reserved_starts(outcome) == {"a": 100, "b": 110}
    assert not_examined(cluster) == set()


@pytest.mark.usefixtures("two_classes_per_pass")
def test_infeasible_groups_are_reported_even_if_groups_are_not_examined():
    cluster = Cluster(strategies.conservative_compress)
    cluster.run(job("running", 4, run=100))
    sizes = {"a": 4, "b": 3, "c": 2, "never": 9}
    waiting = [job(name, size, run=10, ready=1) for name, size in sizes.items()]
    assert cluster.run(*waiting, now=1).unsatisfiable.keys() == {"never"}
    assert not_examined(cluster) == {"c"}


@pytest.mark.usefixtures("two_classes_per_pass")
def test_a_group_that_is_not_examined_says_so_until_it_is():
    cluster = Cluster(easy)
    cluster.run(job("running", 4, run=100))
    sizes = {"a": 4, "b": 3, "c": 2}
    waiting = [job(name, size, run=10, ready=1) for name, size in sizes.items()]
    cluster.run(*waiting, now=1)
    assert not_examined(cluster) == {"c"}
    reason = cluster.cycle.explain()["c.0"]
    assert reason.startswith("0/1 nodes are available: 1 Insufficient cpu.")
    assert cluster.starts(TaskEnded("running.0"), now=5) == ["a"]
    assert reserved_starts(cluster.run(job("d", 3, run=10, ready=6), now=6)) == {"b": 15}
    assert not_examined(cluster) == set()
