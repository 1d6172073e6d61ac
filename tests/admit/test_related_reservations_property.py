"""Random clusters of tasks with constraints between them, over time: reservations hold, and are
kept when every task ends as expected."""

import heapq
import math
from collections import Counter
from random import Random

import pytest

from afflux.admit.strategies import BUILT_IN
from afflux.cluster.state import State
from afflux.cycle.events import GroupReady, TaskEnded
from afflux.cycle.loop import Cycle
from afflux.cycle.optimiser import Optimiser
from afflux.model.machine import Machine
from afflux.model.placement import Placement
from afflux.model.relations import Relations
from afflux.model.waiting_group import WaitingGroup
from afflux.plan.check_relations import find_refused
from afflux.policies.cpu_memory import CpuMemory
from afflux.policies.policy import Weighted
from afflux.policies.registry import constraints
from afflux.queue.rules import QueueRules
from oracles.builders import machine
from oracles.related_tasks import apart, both, near, related_group, related_task, spread

pytestmark = pytest.mark.slow

APPS = ("web", "db", "batch")
KEEP_RESERVATIONS = ("easy", "conservative-compress")


def random_machines(rng: Random) -> list[Machine]:
    found = []
    for number in range(rng.randint(2, 5)):
        labels = {"host": f"m{number}"}
        if rng.random() < 0.9:
            labels["zone"] = rng.choice("ab")
        found.append(machine(f"m{number}", cpu=rng.randint(2, 4), labels=labels))
    return found


def random_relations(rng: Random) -> Relations:
    def one() -> Relations:
        app, key = rng.choice(APPS), rng.choice(("zone", "host"))
        kind = rng.choice((near, apart, spread))
        return kind(app, key)

    if rng.random() < 0.4:
        return Relations()
    return both(*(one() for _ in range(rng.choice((1, 1, 2)))))


def random_groups(rng: Random, queues: int) -> list[WaitingGroup]:
    """Groups of a few kinds, in the order of their arrival."""
    kinds = [(rng.choice(APPS), random_relations(rng), rng.randint(1, 2)) for _ in range(5)]
    found, at = [], 0.0
    for number in range(25):
        at += rng.choice((0.0, 0.0, 1.0, 4.0))
        tasks = [
            related_task(f"g{number}.{member}", app, relations, cpu=cpu)
            for member, (app, relations, cpu) in enumerate(
                rng.choices(kinds, k=rng.choice((1, 1, 2, 3)))
            )
        ]
        queue = f"q{rng.randrange(queues)}"
        run = rng.choice((5.0, 10.0, 20.0, 40.0))
        fields = {"ready_seconds": at, "run_seconds": run, "queue": queue}
        found.append(related_group(f"g{number}", *tasks, **fields))
    return found


class History:
    """Groups arrive, start, and end exactly when expected."""

    def __init__(self, seed: str, *strategies: str) -> None:
        rng = Random(seed)
        self.machines = random_machines(rng)
        self.groups = {g.name: g for g in random_groups(rng, len(strategies))}
        state = State(self.machines)
        queues = [
            (QueueRules(f"q{number}"), BUILT_IN[name]) for number, name in enumerate(strategies)
        ]
        scheduler = Optimiser(state, queues, constraints(), [Weighted(CpuMemory())])
        self.cycle = Cycle(state, scheduler)
        # By task: the placement, when it began, and when it ends.
        self.running: dict[str, tuple[Placement, float, float]] = {}
        self.broken: list = []
        self.moved_later: list = []
        self.related_reservations = 0
        self.latest: dict[str, float] = {}

    def run(self) -> "History":
        arrivals = list(self.groups.values())
        ends: list[tuple[float, str]] = []
        wake_up = math.inf
        while arrivals or ends:
            now = min(
                arrivals[0].ready_seconds if arrivals else math.inf,
                ends[0][0] if ends else math.inf,
                wake_up,
            )
            events = []
            while ends and ends[0][0] <= now:
                _, name = heapq.heappop(ends)
                for task in self.groups[name].tasks:
                    del self.running[task.id]
                    events.append(TaskEnded(task.id))
            while arrivals and arrivals[0].ready_seconds <= now:
                events.append(GroupReady(arrivals.pop(0)))
            outcome = self.cycle.run(events, now)
            wake_up = math.inf if outcome.wake_up_seconds is None else outcome.wake_up_seconds
            for placement in outcome.placements:
                group = self.groups[placement.task.id.partition(".")[0]]
                self.running[placement.task.id] = placement, now, now + group.run_seconds
            started = {p.task.id.partition(".")[0] for p in outcome.placements}
            for name in started:
                heapq.heappush(ends, (now + self.groups[name].run_seconds, name))
            self.broken += outcome.broken
            if outcome.decision is not None:
                self.check(outcome.reservations, now)
        return self

    def check(self, reservations, now: float) -> None:
        """Each reservation can start on its machines, if everything goes as expected."""
        known = [each for each in reservations if each.start_seconds is not None]
        plans = [(each.start_seconds, self.placements_of(each)) for each in known]
        for each in known:
            group = self.groups[each.group]
            self.moved_later += [each] * (
                each.start_seconds > self.latest.get(each.group, math.inf)
            )
            self.related_reservations += any(s.relations.is_required for s, _ in group.shapes)
        self.latest = {each.group: each.start_seconds for each in known}
        for at in {start for start, _ in plans}:
            state = State(self.machines)
            for placement, _, end in self.running.values():
                if end > at:
                    state.place(placement.task, placement.machine)
            for start, placements in plans:
                for placement in placements:
                    run = self.groups[placement.task.id.partition(".")[0]].run_seconds
                    if start < at < start + run:
                        state.place(placement.task, placement.machine)
            starting = [p for start, placements in plans if start == at for p in placements]
            assert find_refused(state, starting) is None, (now, at)
            used = Counter()
            for row, m in state.machines():
                used[m.name] = state.used_of(row, "cpu")
            for placement in starting:
                used[placement.machine] += dict(placement.task.shape.requests)["cpu"]
            for m in self.machines:
                assert used[m.name] <= dict(m.capacity)["cpu"], (now, at)

    def placements_of(self, reservation) -> list[Placement]:
        group = self.groups[reservation.group]
        where = dict(reservation.machines)
        assert where.keys() == {task.id for task in group.tasks}
        return [Placement(task, where[task.id]) for task in group.tasks]


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("strategy", KEEP_RESERVATIONS)
def test_reservations_hold_and_are_kept(strategy: str, seed: int):
    history = History(f"related {seed}", strategy).run()
    assert history.broken == []
    assert history.moved_later == []


@pytest.mark.parametrize("seed", range(15))
@pytest.mark.parametrize("strategies", [("easy", "flow"), ("hybrid", "fcfs"), ("flow", "easy")])
def test_reservations_hold_beside_other_queues(strategies, seed: int):
    History(f"queues {seed}", *strategies).run()


def test_the_histories_contain_reservations_with_constraints():
    found = [History(f"related {seed}", "conservative-compress").run() for seed in range(40)]
    assert sum(each.related_reservations > 0 for each in found) > 20
