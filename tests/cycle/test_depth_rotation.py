"""Where a queue has a depth, a cycle looks at so many, and in the end all who may start are."""

from collections.abc import Sequence

import pytest

from afflux.admit import strategies
from afflux.admit.planner import Planner
from afflux.cycle.events import TaskEnded
from afflux.cycle.loop import TURN_SECONDS, Outcome
from afflux.model.group import Group
from afflux.queue.rules import QueueRules
from oracles.queued_cluster import Cluster, job, promised


class Watched:
    """A strategy, and whom it was asked about in every cycle."""

    def __init__(self, strategy: strategies.Strategy) -> None:
        self.asked: list[list[str]] = []
        self._strategy = strategy

    def __call__(self, queue: Sequence[Group], planner: Planner, rules: QueueRules) -> None:
        self.asked.append([group.name for group in queue])
        self._strategy(queue, planner, rules)


def large(count: int, ready: float = 1) -> list[Group]:
    """They wait until all processors are free."""
    return [job(f"large{ready}.{number:03}", 4, run=10, ready=ready) for number in range(count)]


def until_it_rests(cluster: Cluster, outcome: Outcome, now: float) -> tuple[float, list[str]]:
    """Cycles, as often as one asks for the next; when the last one was, and who started."""
    started: list[str] = []
    while outcome.again_seconds is not None:
        assert now <= outcome.again_seconds <= now + TURN_SECONDS
        now = outcome.again_seconds
        outcome = cluster.run(now=now)
        started += [placement.task.id for placement in outcome.placements]
    return now, started


ENDLESS = [strategies.easy, strategies.hybrid, strategies.conservative_compress]


@pytest.mark.parametrize("strategy", ENDLESS)
def test_a_cycle_looks_at_no_more_than_twice_the_depth_whoever_waits_for_work_without_end(strategy):
    watched = Watched(strategy)
    cluster = Cluster(watched, depth=10)
    cluster.run(job("service", 1))
    waiting = large(200)
    cluster.run(*waiting, now=1)
    for now in range(2, 52):
        outcome = cluster.run(job(f"new{now}", 4, run=10, ready=now), now=now)
    assert max(map(len, watched.asked)) == 20
    # All are told in the end, and nobody who is not looked at in one cycle is told anything else.
    _, started = until_it_rests(cluster, outcome, 51)
    assert started == []
    outcome = cluster.run(job("last", 4, run=10, ready=100), now=100)
    assert set(promised(outcome).values()) == {None}
    assert len(promised(outcome)) == 251


@pytest.mark.parametrize("strategy", ENDLESS)
@pytest.mark.parametrize("depth", [1, 2, 5])
def test_who_can_start_is_looked_at_wherever_it_waits_even_if_nothing_else_happens(strategy, depth):
    cluster = Cluster(strategy, depth=depth)
    cluster.run(job("service", 1), job("other", 3))
    waiting = [*large(30), job("small", 2, run=10, ready=2), *large(30, ready=3)]
    until_it_rests(cluster, cluster.run(*waiting, now=3), 3)
    ended = cluster.run(TaskEnded("other.0"), now=200)
    assert ended.placements == ()
    now, started = until_it_rests(cluster, ended, 200)
    assert started == ["small.0"]
    # Then everybody has been looked at: nobody asks for a cycle again and again.
    assert now <= 200 + 70 * TURN_SECONDS
    assert cluster.run(now=now + 1000).round is None


@pytest.mark.parametrize("strategy", ENDLESS)
def test_even_if_something_happens_all_the_time(strategy):
    cluster = Cluster(strategy, depth=4)
    cluster.run(job("service", 1), job("other", 3))
    waiting = [*large(30), job("small", 2, run=10, ready=2), *large(30, ready=3)]
    until_it_rests(cluster, cluster.run(*waiting, now=3), 3)
    started = cluster.starts(TaskEnded("other.0"), now=200)
    for now in range(201, 240):
        started += cluster.starts(job(f"new{now}", 4, run=10, ready=now), now=now)
    assert started == ["small"]


@pytest.mark.parametrize("strategy", ENDLESS)
def test_who_came_first_has_the_first_choice_all_the_same(strategy):
    cluster = Cluster(strategy, depth=2)
    cluster.run(job("service", 4))
    waiting = large(20)
    until_it_rests(cluster, cluster.run(*waiting, now=1), 1)
    (placement,) = cluster.run(TaskEnded("service.0"), now=100).placements
    assert placement.task.id == "large1.000.0"


@pytest.mark.parametrize("strategy", [strategies.flow, strategies.fcfs, strategies.easy])
def test_when_some_have_started_those_behind_them_are_looked_at_at_once(strategy):
    cluster = Cluster(strategy, depth=1)
    outcome = cluster.run(*(job(name, 1, run=10) for name in "abc"))
    assert outcome.again_seconds == 0.0
    assert until_it_rests(cluster, outcome, 0.0) == (0.0, ["b.0", "c.0"])


def test_who_is_blocked_by_as_many_ahead_as_the_queue_is_deep_waits_until_they_have_left():
    watched = Watched(strategies.easy)
    cluster = Cluster(watched, depth=2)
    cluster.run(job("running", 3, run=100))
    outcome = cluster.run(*large(3), job("small", 1, run=10, ready=2), now=2)
    assert watched.asked[-1] == ["large1.000", "large1.001"]
    # The next cycle is for the promise.
    assert outcome.again_seconds == 100
