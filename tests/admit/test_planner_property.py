"""Random clusters with every kind of constraint, over time: all reservations have room."""

import heapq
import math
from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from afflux.admit.strategies import BUILT_IN
from afflux.cluster.state import State
from afflux.cycle.events import GroupReady, TaskEnded
from afflux.cycle.loop import Cycle
from afflux.cycle.optimiser import Optimiser
from afflux.cycle.reservations import DelayCause
from afflux.model.waiting_group import WaitingGroup
from afflux.policies.cpu_memory import CpuMemory
from afflux.policies.policy import Weighted
from afflux.policies.registry import constraints
from afflux.queue.rules import QueueRules
from oracles.random_clusters import Generator

pytestmark = pytest.mark.slow


class RandomRun:
    """Groups arrive and end; the reservations of every cycle are checked against the machines."""

    def __init__(self, seed: str, strategy: str, **kind: bool) -> None:
        self.rng = rng = Random(seed)
        generator = Generator(rng, **kind)
        machines = [replace(m, unschedulable=False) for m in generator.machines()]
        self.capacity = {m.name: Counter(dict(m.capacity)) for m in machines}
        come = [group for _ in range(3) for group in generator.groups()]
        waiting = [group for group in come if not any(task.blocked for task in group.tasks)]
        priorities = rng.random() < 0.3
        self.arrivals: list[WaitingGroup] = []
        at = 0.0
        for group in waiting:
            at += rng.choice((0, 0, 3, 10))
            run = rng.choice((5, 10, 20, 40, 80)) if rng.random() < 0.95 else None
            priority = group.priority if priorities else 0
            self.arrivals.append(
                replace(group, ready_seconds=at, run_seconds=run, priority=priority)
            )
        self.groups = {group.name: group for group in self.arrivals}
        state = State(machines)
        queues = [(QueueRules(), BUILT_IN[strategy])]
        policies = [Weighted(CpuMemory())]
        self.cycle = Cycle(state, Optimiser(state, queues, constraints(), policies))
        # Running tasks: task -> (shape, machine, expected end).
        self.running: dict[str, tuple] = {}
        self.ends: list[tuple[float, str]] = []
        self.started: set[str] = set()
        self.broken: list[DelayCause] = []
        self.reservations = 0
        self.latest: dict[str, float] = {}
        self.moved_later = 0
        self.priorities = priorities
        self.unsatisfiable = {}

    def run(self) -> None:
        arrivals = list(self.arrivals)
        while arrivals or self.ends:
            if arrivals and (not self.ends or arrivals[0].ready_seconds <= self.ends[0][0]):
                group = arrivals.pop(0)
                now, events = group.ready_seconds, [GroupReady(group)]
            else:
                now, name = heapq.heappop(self.ends)
                events = [TaskEnded(task.id) for task in self.groups[name].tasks]
                for task in self.groups[name].tasks:
                    del self.running[task.id]
            outcome = self.cycle.run(events, now)
            if outcome.decision is not None:
                self.unsatisfiable = outcome.unsatisfiable
            self.broken += [broken.cause for broken in outcome.broken]
            self._start(outcome.placements, now)
            self._check(outcome.reservations, now)

    def _start(self, placements, now: float) -> None:
        where = {p.task.id: p.machine for p in placements}
        for group in self.arrivals:
            if not group.tasks or group.tasks[0].id not in where:
                continue
            assert group.name not in self.started
            self.started.add(group.name)
            run = group.run_seconds
            until = math.inf if run is None else now + run
            for task in group.tasks:
                self.running[task.id] = (task.shape, where[task.id], until)
            if run is not None:
                early = self.rng.choice((1.0, 1.0, 0.5, 0.1))
                heapq.heappush(self.ends, (now + run * early, group.name))

    def _check(self, reservations, now: float) -> None:
        """No machine is overfilled at any time, if all goes as expected."""
        known = [
            reservation for reservation in reservations if reservation.start_seconds is not None
        ]
        self.reservations += len(known)
        for reservation in known:
            before = self.latest.get(reservation.group, math.inf)
            self.moved_later += reservation.start_seconds > before
        self.latest = {reservation.group: reservation.start_seconds for reservation in known}
        use = [(shape, machine, now, until) for shape, machine, until in self.running.values()]
        for reservation in known:
            group = self.groups[reservation.group]
            where = dict(reservation.machines)
            assert where.keys() == {task.id for task in group.tasks}
            assert reservation.start_seconds >= now
            run = math.inf if group.run_seconds is None else group.run_seconds
            begin = reservation.start_seconds
            use += [(task.shape, where[task.id], begin, begin + run) for task in group.tasks]
        for at in {begin for _, _, begin, _ in use}:
            held: dict[str, Counter] = {}
            for shape, machine, begin, until in use:
                # A task that ends now makes room for a reservation that begins now.
                if begin <= at < until or (begin == at == now and until > now):
                    held.setdefault(machine, Counter()).update(dict(shape.requests))
            for machine, amounts in held.items():
                stated = self.capacity[machine]
                over = {n: a for n, a in amounts.items() if n in stated and a > stated[n]}
                assert not over, (reservations, machine, over)


@pytest.mark.parametrize("strategy", sorted(BUILT_IN))
@pytest.mark.parametrize("seed", range(25))
def test_reservations_have_room_and_are_kept(strategy: str, seed: int):
    one = RandomRun(f"story {seed}", strategy, gangs_only=seed % 2 == 0)
    one.run()
    if strategy in ("easy", "conservative", "conservative-compress"):
        assert DelayCause.STRATEGY not in one.broken
        assert one.priorities or not one.moved_later


def test_reservations_of_one_class_keep_their_machines():
    one = RandomRun("wide 1047", "conservative-compress", gangs_only=False)
    one.run()
    assert DelayCause.STRATEGY not in one.broken


def test_the_runs_contain_reservations():
    random_runs = [
        RandomRun(f"story {seed}", "easy", gangs_only=seed % 2 == 0) for seed in range(25)
    ]
    for one in random_runs:
        one.run()
    assert sum(one.reservations > 0 for one in random_runs) > 12


@pytest.mark.parametrize("seed", range(10))
def test_every_feasible_group_starts_in_the_end(seed: int):
    one = RandomRun(f"patience {seed}", "easy", gangs_only=True)
    one.arrivals = [replace(g, run_seconds=g.run_seconds or 7) for g in one.arrivals]
    one.groups = {group.name: group for group in one.arrivals}
    one.run()
    assert {group.name for group in one.cycle.queue} == one.unsatisfiable.keys()
