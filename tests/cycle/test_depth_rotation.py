"""A cycle examines a bounded number of groups, and in the end all groups are examined."""

from collections.abc import Sequence

import pytest

from afflux.admit import strategies
from afflux.admit.capacity_planner import Planner
from afflux.cycle.events import TaskEnded
from afflux.cycle.loop import ROTATION_INTERVAL_SECONDS, Outcome
from afflux.model.waiting_group import WaitingGroup
from afflux.queue.rules import QueueRules
from oracles.queued_cluster import Cluster, job, reserved_starts


class RecordingStrategy:
    """Records the groups that a strategy gets in every cycle."""

    def __init__(self, strategy: strategies.Strategy) -> None:
        self.examined: list[list[str]] = []
        self._strategy = strategy

    def __call__(self, queue: Sequence[WaitingGroup], planner: Planner, rules: QueueRules) -> None:
        self.examined.append([group.name for group in queue])
        self._strategy(queue, planner, rules)


def large_groups(count: int, ready: float = 1) -> list[WaitingGroup]:
    """Groups that need all processors."""
    return [job(f"large{ready}.{number:03}", 4, run=10, ready=ready) for number in range(count)]


def run_until_idle(cluster: Cluster, outcome: Outcome, now: float) -> tuple[float, list[str]]:
    """Runs cycles until none is asked for: the time of the last one, and the tasks that started."""
    started: list[str] = []
    while outcome.wake_up_seconds is not None:
        assert now <= outcome.wake_up_seconds <= now + ROTATION_INTERVAL_SECONDS
        now = outcome.wake_up_seconds
        outcome = cluster.run(now=now)
        started += [placement.task.id for placement in outcome.placements]
    return now, started


ENDLESS = [strategies.easy, strategies.hybrid, strategies.conservative_compress]


@pytest.mark.parametrize("strategy", ENDLESS)
def test_a_cycle_examines_at_most_twice_the_depth_if_starts_are_unknown(strategy):
    recorder = RecordingStrategy(strategy)
    cluster = Cluster(recorder, depth=10)
    cluster.run(job("service", 1))
    waiting = large_groups(200)
    cluster.run(*waiting, now=1)
    for now in range(2, 52):
        outcome = cluster.run(job(f"new{now}", 4, run=10, ready=now), now=now)
    assert max(map(len, recorder.examined)) == 20
    # In the end all groups have an unknown start, and a group that is not examined keeps it.
    _, started = run_until_idle(cluster, outcome, 51)
    assert started == []
    outcome = cluster.run(job("last", 4, run=10, ready=100), now=100)
    assert set(reserved_starts(outcome).values()) == {None}
    assert len(reserved_starts(outcome)) == 251


@pytest.mark.parametrize("strategy", ENDLESS)
@pytest.mark.parametrize("depth", [1, 2, 5])
def test_every_group_is_examined_in_the_end_without_further_events(strategy, depth):
    cluster = Cluster(strategy, depth=depth)
    cluster.run(job("service", 1), job("other", 3))
    waiting = [*large_groups(30), job("small", 2, run=10, ready=2), *large_groups(30, ready=3)]
    run_until_idle(cluster, cluster.run(*waiting, now=3), 3)
    ended = cluster.run(TaskEnded("other.0"), now=200)
    assert ended.placements == ()
    now, started = run_until_idle(cluster, ended, 200)
    assert started == ["small.0"]
    # Now all groups have been examined: no further cycle is asked for.
    assert now <= 200 + 70 * ROTATION_INTERVAL_SECONDS
    assert cluster.run(now=now + 1000).decision is None


@pytest.mark.parametrize("strategy", ENDLESS)
def test_every_group_is_examined_in_the_end_despite_events_in_every_cycle(strategy):
    cluster = Cluster(strategy, depth=4)
    cluster.run(job("service", 1), job("other", 3))
    waiting = [*large_groups(30), job("small", 2, run=10, ready=2), *large_groups(30, ready=3)]
    run_until_idle(cluster, cluster.run(*waiting, now=3), 3)
    started = cluster.starts(TaskEnded("other.0"), now=200)
    for now in range(201, 240):
        started += cluster.starts(job(f"new{now}", 4, run=10, ready=now), now=now)
    assert started == ["small"]


@pytest.mark.parametrize("strategy", ENDLESS)
def test_the_first_group_keeps_the_first_choice(strategy):
    cluster = Cluster(strategy, depth=2)
    cluster.run(job("service", 4))
    waiting = large_groups(20)
    run_until_idle(cluster, cluster.run(*waiting, now=1), 1)
    (placement,) = cluster.run(TaskEnded("service.0"), now=100).placements
    assert placement.task.id == "large1.000.0"


@pytest.mark.parametrize("strategy", [strategies.flow, strategies.fcfs, strategies.easy])
def test_after_starts_the_groups_behind_are_examined_at_once(strategy):
    cluster = Cluster(strategy, depth=1)
    outcome = cluster.run(*(job(name, 1, run=10) for name in "abc"))
    assert outcome.wake_up_seconds == 0.0
    assert run_until_idle(cluster, outcome, 0.0) == (0.0, ["b.0", "c.0"])


def test_groups_behind_the_depth_are_not_examined():
    recorder = RecordingStrategy(strategies.easy)
    cluster = Cluster(recorder, depth=2)
    cluster.run(job("running", 3, run=100))
    outcome = cluster.run(*large_groups(3), job("small", 1, run=10, ready=2), now=2)
    assert recorder.examined[-1] == ["large1.000", "large1.001"]
    # The next cycle is for the reservation.
    assert outcome.wake_up_seconds == 100
