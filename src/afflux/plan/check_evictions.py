"""The checker's reading of evictions: which tasks leave, for which others, and that it is needed.

Like the rest of the checker it adds up by names and uses nothing of the search. Whether fewer
victims were possible is not checked here: the oracle of the tests knows that.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from afflux.cluster.state import PlacedTask, State
from afflux.model.eviction import Eviction, EvictionCause
from afflux.model.eviction_terms import EvictionTerms
from afflux.model.implied_resources import capacity_of
from afflux.model.placement import Placement
from afflux.model.task import Task
from afflux.plan.check import PlanError, check_complete, check_plan
from afflux.plan.check_relations import find_refused
from afflux.plan.plan import Plan
from afflux.policies.policy import PoliciesOf, no_policies


def check_evictions(
    state: State,
    plan: Plan,
    allowed: Mapping[str, int],
    policies_of: PoliciesOf = no_policies,
    *,
    ending: Collection[str] = (),
) -> None:
    """Raise PlanError unless every eviction is allowed and needed, and all nominated groups fit
    once the victims, and the tasks that are `ending` anyway, have left."""
    if not plan.evictions and not plan.nominations:
        return
    victims = {each.task.id: _victim(state, each) for each in plan.evictions}
    if len(victims) != len(plan.evictions):
        raise PlanError("a task is evicted twice")
    after = state.overlay()
    for task_id in {*victims, *ending}:
        after.remove(task_id)
    new = (*plan.placements, *plan.nominations)
    check_plan(after, (*plan.placed, *plan.nominated), new, policies_of)
    check_complete(plan.nominated, plan.nominations)
    priority = {task.id: group.priority for group in plan.nominated for task in group.tasks}
    for each in plan.evictions:
        _check_cause(each, victims[each.task.id], priority)
    _check_whole_groups(state, victims, ending)
    _check_needed(after, victims, new)
    used = Counter(name for held in victims.values() for name in _terms(held).budgets)
    beyond = {name: count - max(0, allowed.get(name, 0)) for name, count in used.items()}
    if {name: count for name, count in beyond.items() if count > 0} != dict(plan.overruns):
        raise PlanError("the evictions beyond budgets are not those that the plan reports")


def _victim(state: State, eviction: Eviction) -> PlacedTask:
    held = state.placed_task(eviction.task.id)
    if held is None or state.name_of(held.row) != eviction.machine:
        raise PlanError(f"{eviction.task.name} is evicted from {eviction.machine}: it is not there")
    return held


def _terms(held: PlacedTask) -> EvictionTerms:
    if held.terms is None:
        raise PlanError(f"{held.task.name} is evicted: it has no eviction terms")
    return held.terms


def _check_cause(eviction: Eviction, held: PlacedTask, priority: Mapping[str, int]) -> None:
    """A preempted task makes room for nominated tasks of a higher priority."""
    if eviction.cause is not EvictionCause.PREEMPT:
        raise PlanError(f"{eviction.task.name} is evicted for an unknown cause")
    if not eviction.needed_by:
        raise PlanError(f"{eviction.task.name} is evicted for no task")
    for task in eviction.needed_by:
        if task.id not in priority:
            raise PlanError(f"{eviction.task.name} is evicted for {task.name}: not nominated")
        if priority[task.id] <= _terms(held).priority:
            raise PlanError(f"{eviction.task.name} is evicted for {task.name}: no higher priority")


def _check_whole_groups(
    state: State, victims: Mapping[str, PlacedTask], ending: Collection[str]
) -> None:
    groups = {_terms(held).group for held in victims.values() if _terms(held).whole_group}
    for row, _ in state.machines() if groups else ():
        for held in state.placed_on(row):
            left = held.task.id in victims or held.task.id in ending
            if not left and held.terms is not None and held.terms.group in groups:
                raise PlanError(f"group {held.terms.group} is evicted only in part")


def needed_evictions(
    state: State, plan: Plan, ending: Collection[str] = ()
) -> tuple[Eviction, ...]:
    """The evictions of a plan without those that are not needed for it: the victim, or the whole
    group that would leave, could stay beside all tasks of the plan."""
    after = state.overlay()
    victims = {each.task.id: _victim(state, each) for each in plan.evictions}
    for task_id in {*victims, *ending}:
        after.remove(task_id)
    new = (*plan.placements, *plan.nominations)
    kept = dict.fromkeys(victims)
    units = sorted(
        _units(victims.values()), key=lambda unit: -max(_terms(h).priority for h in unit)
    )
    for unit in units:
        if could_stay(after, unit, new):
            for held in unit:
                del kept[held.task.id]
                disks = state.disks.disks_of(held.task.id)
                name = state.name_of(held.row)
                until, terms = held.until_seconds, held.terms
                after.place(held.task, name, held.devices, until, disks=disks, terms=terms)
    return tuple(each for each in plan.evictions if each.task.id in kept)


def could_stay(after: State, unit: Sequence[PlacedTask], new: Sequence[Placement]) -> bool:
    """Whether these victims, which leave together, could stay beside the new tasks."""
    by_row: dict[int, list[PlacedTask]] = {}
    for held in unit:
        by_row.setdefault(held.row, []).append(held)
    return all(_could_stay(after, row, some, new) for row, some in by_row.items())


def _units(victims: Iterable[PlacedTask]) -> list[list[PlacedTask]]:
    """The victims that leave together or not at all."""
    together: dict[tuple[bool, str], list[PlacedTask]] = {}
    for held in victims:
        terms = _terms(held)
        key = terms.group if terms.whole_group else held.task.id
        together.setdefault((terms.whole_group, key), []).append(held)
    return list(together.values())


def _check_needed(
    after: State, victims: Mapping[str, PlacedTask], new: Sequence[Placement]
) -> None:
    """No victim could stay beside the new tasks, and no group that leaves as a whole."""
    for unit in _units(victims.values()):
        if could_stay(after, unit, new):
            raise PlanError(f"{unit[0].task.name} is evicted, and could stay")


def _could_stay(
    after: State, row: int, victims: Sequence[PlacedTask], new: Sequence[Placement]
) -> bool:
    """Whether these victims on one machine could all stay beside the new tasks."""
    name, machine = after.name_of(row), after.machine(row)
    here = [each for each in new if each.machine == name]
    asked = _sums(each.task for each in here)
    uses = _sums(held.task for held in victims)
    for resource, amount in asked.items():
        there = capacity_of(machine.capacity, resource) if machine else 0
        if amount and after.used_of(row, resource) + amount + uses[resource] > there:
            return False
    free = list(after.free_devices[row])
    for each in here:
        _take(free, each.task, each.devices)
    for held in victims:
        _take(free, held.task, held.devices)
    if any(left < 0 for left in free):
        return False
    if any(each.task.shape.disks is not None for each in here):
        # Whether the disks have room for both depends on which disks the new tasks get.
        return False
    if not after.relations:
        return True
    again = after.overlay()
    for held in victims:
        again.place(held.task, name, held.devices)
    return find_refused(again, new) is None


def _sums(tasks: Iterable[Task]) -> Counter[str]:
    total: Counter[str] = Counter()
    for task in tasks:
        total.update(dict(task.shape.requests))
    return total


def _take(free: list[int], task: Task, devices: Sequence[int]) -> None:
    request = task.shape.devices
    if request is not None:
        for index in devices[: request.count]:
            free[index] -= request.milli
