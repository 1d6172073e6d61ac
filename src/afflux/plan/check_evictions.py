"""The checker's reading of evictions: which tasks leave, for which others, and that it is needed.

Like the rest of the checker it adds up by names and uses nothing of the search. Whether fewer
victims were possible is not checked here: the oracle of the tests knows that.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from afflux.cluster.state import PlacedTask, State
from afflux.model.eviction import Eviction, EvictionCause
from afflux.model.eviction_terms import EvictionTerms
from afflux.model.implied_resources import capacity_of
from afflux.model.placement import Placement
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


def _check_needed(
    after: State, victims: Mapping[str, PlacedTask], new: Sequence[Placement]
) -> None:
    """No victim could stay beside the new tasks; of a group that leaves as a whole one could
    not."""
    needed_groups: set[str] = set()
    spare: dict[str, PlacedTask] = {}
    for task_id, held in victims.items():
        if not _could_stay(after, held, new):
            needed_groups.add(_terms(held).group)
        else:
            spare[task_id] = held
    for held in spare.values():
        terms = _terms(held)
        if not (terms.whole_group and terms.group in needed_groups):
            raise PlanError(f"{held.task.name} is evicted, and could stay")


def _could_stay(after: State, held: PlacedTask, new: Sequence[Placement]) -> bool:
    name = after.name_of(held.row)
    machine = after.machine(held.row)
    here = [each for each in new if each.machine == name]
    asked: Counter[str] = Counter()
    for each in here:
        asked.update(dict(each.task.shape.requests))
    uses = dict(held.task.shape.requests)
    for resource, amount in asked.items():
        there = capacity_of(machine.capacity, resource) if machine else 0
        if amount and after.used_of(held.row, resource) + amount + uses.get(resource, 0) > there:
            return False
    shape = held.task.shape
    if shape.devices is not None:
        free = list(after.free_devices[held.row])
        for each in here:
            own = each.task.shape.devices
            for index in each.devices[: own.count] if own is not None else ():
                free[index] -= own.milli if own is not None else 0
        if any(free[index] < shape.devices.milli for index in held.devices):
            return False
    if any(each.task.shape.disks is not None for each in here) and shape.disks is not None:
        # Whether the disks have room for both depends on which disks the new tasks get.
        return False
    if not after.relations:
        return True
    again = after.overlay()
    again.place(held.task, name)
    return find_refused(again, new) is None
