"""Random histories of preemption: every plan passes the checker, and what was promised happens."""

from random import Random

import pytest

from afflux.admit.strategies import Strategy, conservative_compress, easy, fcfs, flow
from afflux.cluster.state import State
from afflux.cycle.events import BudgetSet, Event, GroupReady, MachineSet, TaskEnded, TaskRuns
from afflux.cycle.loop import Cycle
from afflux.cycle.preempting_scheduler import PreemptingScheduler
from afflux.model.eviction_terms import EvictionTerms
from oracles.builders import group, machine, scheduler, shape


@pytest.mark.parametrize("strategy", [flow, fcfs, easy, conservative_compress])
@pytest.mark.parametrize("seed", range(12))
def test_victims_end_and_their_preemptors_start(seed: int, strategy: Strategy):
    rng = Random(seed)
    state = State()
    cycle = Cycle(state, PreemptingScheduler(state, scheduler(state, strategy), [""]))
    cycle.run([MachineSet(machine(f"m{n}", cpu=6, devices=2)) for n in range(4)])
    cycle.run([BudgetSet("pdb", 1)])
    running: dict[str, EvictionTerms] = {}
    priority: dict[str, int] = {}
    ending: dict[str, float] = {}
    names, now = 0, 0.0
    for _ in range(40):
        now += 1.0
        events: list[Event] = []
        for task_id in [each for each, at in ending.items() if at <= now]:
            del ending[task_id], running[task_id]
            events.append(TaskEnded(task_id))
        for task_id in [each for each in running if each not in ending and rng.random() < 0.05]:
            del running[task_id]
            events.append(TaskEnded(task_id))
        for _ in range(rng.randint(0, 3)):
            names += 1
            count = rng.choice([0, 0, 1])
            of = shape(cpu=rng.randint(1, 4), count=count, milli=rng.choice([500, 1000]))
            level = rng.choice([0, 5, 9])
            waiting = group(f"g{names}", *[of] * rng.choice([1, 1, 2]), priority=level, ready=now)
            priority[waiting.key] = level
            events.append(GroupReady(waiting))
        outcome = cycle.run(events, now)
        for each in outcome.placements:
            key = each.task.name.split(".")[0]
            whole = any(f"{key}.1" == other.task.name for other in outcome.placements)
            budgets = ("pdb",) if rng.random() < 0.3 else ()
            terms = EvictionTerms(
                key, priority[key], "", now, float(rng.randint(0, 3)), budgets, whole_group=whole
            )
            running[each.task.id] = terms
        for each in outcome.evictions:
            assert all(
                priority[t.name.split(".")[0]] > running[each.task.id].priority
                for t in each.needed_by
            )
            ending[each.task.id] = now + each.grace_seconds
        reports = [
            TaskRuns(each.task, each.machine, terms=running[each.task.id])
            for each in outcome.placements
        ]
        cycle.run(reports, now)
    # Once all victims have ended, every nominated task starts.
    waiting = {each.task.id for each in cycle.run([], now).nominations}
    started: set[str] = set()
    for step in range(1, 8):
        gone = [TaskEnded(each) for each, at in list(ending.items()) if at <= now + step]
        for each in gone:
            ending.pop(each.task_id)
        outcome = cycle.run(gone, now + step)
        started |= {each.task.id for each in outcome.placements}
        for each in outcome.evictions:
            ending[each.task.id] = now + step + each.grace_seconds
    assert waiting <= started
