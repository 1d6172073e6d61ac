"""Clusters with running tasks that may be evicted, in a few words."""

from collections.abc import Mapping, Sequence

from afflux.cluster.state import State
from afflux.evict.candidates import CandidatesReader
from afflux.evict.preemption import Preemption, preempt
from afflux.model.eviction_terms import EvictionTerms
from afflux.model.relations import TaskLabels
from afflux.model.task import Shape, Task
from afflux.model.waiting_group import WaitingGroup
from afflux.network.pricing import Pricing
from afflux.plan.check_evictions import check_evictions, needed_evictions
from afflux.plan.plan import Plan
from afflux.plan.round import plan_round
from afflux.policies.cpu_memory import CpuMemory
from afflux.policies.policy import Weighted
from afflux.policies.registry import constraints


def run(
    state: State,
    name: str,
    where: str,
    of: Shape,
    priority: int = 0,
    *,
    started: float = 0.0,
    grace: float = 0.0,
    budgets: Sequence[str] = (),
    group: str = "",
    labels: Mapping[str, str] | None = None,
) -> Task:
    """A task that runs, and may be evicted; with `group` only as a whole."""
    task = Task(name, name, of, labels=TaskLabels("a", tuple((labels or {}).items())))
    terms = EvictionTerms(
        group or name, priority, "", started, grace, tuple(budgets), whole_group=bool(group)
    )
    state.place(task, where, terms=terms)
    return task


def decide(
    state: State, *queue: WaitingGroup, allowed: Mapping[str, int] | None = None
) -> Preemption:
    """What is evicted for these groups, if no strategy holds them back; checked."""
    pricing = Pricing(state, constraints(), [Weighted(CpuMemory())])
    started = plan_round(state, pricing, queue)
    found = preempt(
        state, pricing, CandidatesReader(state), queue, started.placements, allowed=allowed or {}
    )
    plan = Plan(
        found.placements,
        found.started,
        evictions=found.evictions,
        nominated=found.groups,
        nominations=found.nominations,
        overruns=found.overruns,
    )
    if found.evictions:
        check_evictions(state, plan, allowed or {})
        assert needed_evictions(state, plan) == found.evictions
    return found


def victims(found: Preemption) -> list[str]:
    """The names of the victims."""
    return sorted(each.task.name for each in found.evictions)


def nominated(found: Preemption) -> dict[str, str]:
    """Where tasks are nominated, by name."""
    return {each.task.name: each.machine for each in found.nominations}
