"""The checker: verifies every plan before it is bound.

It knows every constraint, and uses nothing of the planner: no classes, no columns, no book. Each
task is checked against the machines as the cluster reports them; policies of other packages are
asked again. A plan that fails is a defect of the planner and is never bound.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from afflux.cluster.state import State
from afflux.model import reason
from afflux.model.implied_resources import capacity_of
from afflux.model.machine import Machine
from afflux.model.placement import Placement
from afflux.model.taints import UNSCHEDULABLE_KEY, Taint, untolerated
from afflux.model.task import Shape
from afflux.model.waiting_group import WaitingGroup
from afflux.plan.check_disks import DiskCheck
from afflux.plan.check_relations import find_refused
from afflux.policies.policy import PoliciesOf, no_policies


class PlanError(AssertionError):
    """A plan that breaks a rule; the message names the rule and the place."""


def check_plan(
    state: State,
    groups: Iterable[WaitingGroup],
    placements: Sequence[Placement],
    policies_of: PoliciesOf = no_policies,
) -> None:
    """Raise PlanError unless every placement is allowed, everything fits, every group is whole."""
    _check_groups(groups, placements)
    asked: dict[str, dict[str, int]] = {}
    devices: dict[str, list[int]] = {}
    disks = DiskCheck(state)
    admitted: dict[tuple[Shape, str], str | None] = {}
    for placement in placements:
        shape, name = placement.task.shape, placement.machine
        row = state.rows.get(name)
        machine = state.machine(row) if row is not None else None
        if row is None or machine is None:
            raise PlanError(f"{placement.task.name}: there is no machine {name}")
        if (shape, name) not in admitted:
            admitted[shape, name] = _refusal(shape, machine)
        if (why := admitted[shape, name]) is not None:
            raise PlanError(f"{placement.task.name} on {name}: {why}")
        sums = asked.setdefault(name, {})
        for resource, amount in shape.requests:
            sums[resource] = sums.get(resource, 0) + amount
        _take_devices(placement, devices.setdefault(name, list(state.free_devices[row])))
        if (why := disks.refusal(placement)) is not None:
            raise PlanError(f"{placement.task.name} on {name}: {why}")
    for name, sums in asked.items():
        _check_sums(state, name, sums)
    _check_policies(state, list(admitted), policies_of)
    if (refused := find_refused(state, placements)) is not None:
        placement, why = refused
        raise PlanError(f"{placement.task.name} on {placement.machine}: {why}")


def check_complete(groups: Iterable[WaitingGroup], placements: Sequence[Placement]) -> None:
    """Raise PlanError if a group that the plan reports as placed is not: it would be lost."""
    placed = {placement.task.id for placement in placements}
    for group in groups:
        if any(task.id not in placed for task in group.tasks):
            raise PlanError(f"group {group.name} is said to be placed and is not")


def _check_groups(groups: Iterable[WaitingGroup], placements: Sequence[Placement]) -> None:
    placed = {placement.task.id for placement in placements}
    if len(placed) != len(placements):
        raise PlanError("a task is placed twice")
    known: set[str] = set()
    for group in groups:
        members = {task.id for task in group.tasks}
        known |= members
        if 0 < len(members & placed) < len(members):
            raise PlanError(f"group {group.name} is placed only in part")
        if blocked := next((t for t in group.tasks if t.blocked and t.id in placed), None):
            raise PlanError(f"{blocked.name} must wait: {blocked.blocked}")
    if unknown := placed - known:
        raise PlanError(f"{min(unknown)} was placed without waiting for it")


def _check_policies(
    state: State, pairs: Sequence[tuple[Shape, str]], policies_of: PoliciesOf
) -> None:
    """Ask every policy about every pair of shape and machine."""
    machines: dict[Shape, list[str]] = {}
    for shape, name in pairs:
        machines.setdefault(shape, []).append(name)
    for shape, names in machines.items():
        view = state.view(np.array([state.rows[name] for name in names]))
        for policy in policies_of(shape):
            for name, admits in zip(names, policy.admits(shape, view), strict=True):
                if not admits:
                    raise PlanError(f"{name}: {policy.reason}")


def _refusal(shape: Shape, machine: Machine) -> str | None:
    tolerations = shape.tolerations
    if machine.unschedulable and untolerated([Taint(UNSCHEDULABLE_KEY, "NoSchedule")], tolerations):
        return reason.UNSCHEDULABLE
    if any(t.effect != "PreferNoSchedule" for t in untolerated(machine.taints, tolerations)):
        return reason.UNTOLERATED
    if not shape.affinity.matches(machine.name, machine.labels):
        return reason.AFFINITY
    for reachability in shape.reachability:
        if not reachability.matches(machine.name, machine.labels):
            return reachability.reason
    return None


def _take_devices(placement: Placement, free: list[int]) -> None:
    shape = placement.task.shape
    request, taken = shape.devices, placement.devices
    if request is None:
        return
    if shape.disks is not None:
        taken = taken[: request.count]
    if not len(taken) == len(set(taken)) == request.count:
        raise PlanError(f"{placement.task.name}: needs {request.count} different devices")
    for index in taken:
        if not 0 <= index < len(free):
            raise PlanError(f"{placement.machine}: there is no device {index}")
        free[index] -= request.milli
        if free[index] < 0:
            raise PlanError(f"{placement.machine}: device {index} is over its capacity")


def _check_sums(state: State, name: str, sums: dict[str, int]) -> None:
    row = state.rows[name]
    machine = state.machine(row)
    for resource, amount in sums.items():
        capacity = capacity_of(machine.capacity, resource) if machine else 0
        if state.used_of(row, resource) + amount > capacity:
            raise PlanError(f"{name}: {reason.insufficient(resource)}")
