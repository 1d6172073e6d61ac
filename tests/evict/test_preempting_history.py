"""Random histories of preemption: every plan passes the checker, and what was promised happens."""

from collections.abc import Iterable
from random import Random

import pytest

from afflux.admit.strategies import Strategy, conservative_compress, easy, fcfs, flow
from afflux.cluster.state import State
from afflux.cycle.events import BudgetSet, Event, GroupReady, MachineSet, TaskEnded, TaskRuns
from afflux.cycle.loop import Cycle, Outcome
from afflux.cycle.preempting_scheduler import PreemptingScheduler
from afflux.model.eviction_terms import EvictionTerms
from afflux.model.placement import Placement
from oracles.builders import group, machine, scheduler, shape


class History:
    """A cluster in which tasks come and end, and in which evictions are carried out."""

    def __init__(self, seed: int, strategy: Strategy) -> None:
        self.rng = Random(seed)
        state = State()
        self.cycle = Cycle(state, PreemptingScheduler(state, scheduler(state, strategy), [""]))
        self.running: dict[str, EvictionTerms] = {}
        self.priority: dict[str, int] = {}
        # When evicted tasks end.
        self.ending: dict[str, float] = {}
        self.names = 0

    def run(self, events: Iterable[Event], now: float) -> Outcome:
        """One cycle, and further ones until nothing starts and nothing is evicted."""
        outcome = self.cycle.run(events, now)
        while outcome.placements or outcome.evictions:
            for each in outcome.evictions:
                lower = self.running[each.task.id].priority
                assert all(self.priority[_group_of(t.name)] > lower for t in each.needed_by)
                self.ending[each.task.id] = now + each.grace_seconds
            reports = [self.started(each, outcome, now) for each in outcome.placements]
            outcome = self.cycle.run(reports, now)
        return outcome

    def started(self, placement: Placement, outcome: Outcome, now: float) -> TaskRuns:
        key = _group_of(placement.task.name)
        whole = any(each.task.name == f"{key}.1" for each in outcome.placements)
        budgets = ("pdb",) if self.rng.random() < 0.3 else ()
        grace = float(self.rng.randint(0, 3))
        terms = EvictionTerms(key, self.priority[key], "", now, grace, budgets, whole_group=whole)
        self.running[placement.task.id] = terms
        return TaskRuns(placement.task, placement.machine, terms=terms)

    def ends(self, now: float, share: float) -> list[Event]:
        """Evicted tasks whose time is over end, and a share of the others."""
        gone = [each for each, at in self.ending.items() if at <= now]
        alive = [each for each in self.running if each not in self.ending]
        gone += [each for each in alive if self.rng.random() < share]
        for each in gone:
            self.ending.pop(each, None)
            del self.running[each]
        return [TaskEnded(each) for each in gone]

    def arrivals(self, now: float) -> list[Event]:
        found: list[Event] = []
        for _ in range(self.rng.randint(0, 3)):
            self.names += 1
            milli, count = self.rng.choice([500, 1000]), self.rng.choice([0, 0, 1])
            of = shape(cpu=self.rng.randint(1, 4), count=count, milli=milli)
            tasks = [of] * self.rng.choice([1, 1, 2])
            level = self.rng.choice([0, 5, 9])
            waiting = group(f"g{self.names}", *tasks, priority=level, ready=now)
            self.priority[waiting.key] = level
            found.append(GroupReady(waiting))
        return found


def _group_of(name: str) -> str:
    return name.split(".", maxsplit=1)[0]


@pytest.mark.parametrize("strategy", [flow, fcfs, easy, conservative_compress])
@pytest.mark.parametrize("seed", range(12))
def test_victims_end_and_their_preemptors_start(seed: int, strategy: Strategy):
    history = History(seed, strategy)
    history.run([MachineSet(machine(f"m{n}", cpu=6, devices=2)) for n in range(4)], 0.0)
    history.run([BudgetSet("pdb", 1)], 0.0)
    for step in range(40):
        now = float(step)
        history.run([*history.ends(now, 0.05), *history.arrivals(now)], now)
    # Once all victims have ended, every nominated task has started.
    last = history.run([], 40.0)
    for step in range(41, 60):
        last = history.run(history.ends(float(step), 0.0), float(step))
    assert not history.ending
    assert not last.nominations
