"""Why a task waits: per machine, and in one sentence.

Each machine is judged alone, for the current state, in kube-scheduler's order: node names of the
affinity, if it has some; constraints, of which the first that refuses gives its reason; host ports;
each resource of which too little is free; volumes; disk bandwidth; the constraints between tasks.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from afflux.cluster.machines import BoolColumn, Machines
from afflux.cluster.relation_index import relations_of
from afflux.cluster.resource_table import UNSTATED
from afflux.cluster.state import State
from afflux.cluster.task_class import TaskClass
from afflux.cluster.task_room import refusals
from afflux.model import reason
from afflux.model.implied_resources import ResourceKind, kind_of
from afflux.model.resources import PODS
from afflux.model.selectors import Term
from afflux.model.task import Shape, Task
from afflux.model.waiting_group import WaitingGroup
from afflux.plan.explain_disks import disk_refusals
from afflux.plan.explain_relations import missing_company, refusals_by_relations
from afflux.plan.waiting_demand import ClassOf
from afflux.policies.policy import PoliciesOf
from afflux.policies.volume_reachability import VolumeReachability, reachable_machines

# Reasons about volumes that kube-scheduler gives together, in this order.
_BINDING = (reason.VOLUME_AFFINITY, reason.VOLUME_MISSING, reason.VOLUME_SPACE)

Verdicts = dict[str, tuple[str, ...]]
# Reasons that are given together, each with the machines that it refuses.
Stage = list[tuple[str, BoolColumn]]


def verdicts(state: State, policies_of: PoliciesOf, of: TaskClass) -> Verdicts:
    """The reasons against each machine, by name; none where a task of the class would fit.

    What the class requires of other tasks has to be in use (`state.relations.use`).
    """
    stages = _stages(state, policies_of, of)
    answers: Verdicts = {}
    for row, machine in state.machines():
        found = (dict.fromkeys(why for why, no in stage if no[row]) for stage in stages)
        answers[machine.name] = tuple(next(filter(None, found), ()))
    return answers


def verdicts_by_task(
    state: State, policies_of: PoliciesOf, tasks: Sequence[Task]
) -> dict[str, Verdicts]:
    """The verdicts on each of these tasks, by name; equal tasks share one answer. A blocked task
    fits no machine, for that reason."""
    state.relations.use(task.shape.relations for task in tasks)
    known: dict[TaskClass | str, Verdicts] = {}
    answers: dict[str, Verdicts] = {}
    for task in tasks:
        key = task.blocked or state.relations.class_of(task)
        if key not in known:
            known[key] = (
                {machine.name: (key,) for _, machine in state.machines()}
                if isinstance(key, str)
                else verdicts(state, policies_of, key)
            )
        answers[task.name] = known[key]
    return answers


def _stages(state: State, policies_of: PoliciesOf, of: TaskClass) -> list[Stage]:
    shape = of.shape
    machines = state.view()
    # Requests come first: a resource that is new to the state gets a column.
    requests = state.requests(shape)
    asked = np.flatnonzero(requests)
    lacks = refusals(requests[asked], shape, machines.free_for(shape, asked))
    by_kind: dict[ResourceKind | None, Stage] = {kind: [] for kind in (None, *ResourceKind)}
    everywhere = np.ones(len(machines), bool)
    found = [(state.resource_names[column], lacks[:, i]) for i, column in enumerate(asked)]
    found = [(name, column) for name, column in found if name != UNSTATED]
    found += [(name, everywhere) for name in state.resource_table.unstated(shape)]
    for name, column in found:
        by_kind[kind_of(name)].append((reason.insufficient(name), column))
    # Pods first, then in the order of columns, as in kube-scheduler's messages.
    resources = by_kind[None]
    resources.sort(key=lambda entry: entry[0] != reason.insufficient(PODS))
    if shape.devices is not None:
        resources.append((reason.DEVICES, lacks[:, -2]))
    ports, attachments = by_kind[ResourceKind.PORT], by_kind[ResourceKind.ATTACHMENT]
    refused = [
        [(policy.reason, ~policy.admits(shape, machines))]
        for policy in policies_of(shape)
        if not isinstance(policy, VolumeReachability)
    ]
    drivers, binding, zones = _volume_stages(shape, machines)
    named = _named_stage(shape, machines)
    volumes = binding + by_kind[ResourceKind.VOLUME]
    disks = disk_refusals(state, shape, lacks[:, -1])
    room = [ports, resources, drivers, attachments, volumes, zones, disks]
    return [named, *refused, *room, refusals_by_relations(state, of)]


def _named_stage(shape: Shape, machines: Machines) -> Stage:
    """Machines that no term names, if every term names some; no other reason is given for them."""
    named = np.zeros(len(machines), bool)
    for term in shape.affinity.required or ():
        names = tuple(each for each in term.names if each.operator == "In")
        if not names:
            return []
        named |= machines.matching(Term(names=names))
    return [(reason.NAMES, ~named)] if shape.affinity.required else []


def _volume_stages(shape: Shape, machines: Machines) -> tuple[Stage, Stage, Stage]:
    """Missing drivers; volumes that are elsewhere or cannot be made; their zones."""
    outside = [(each.reason, ~reachable_machines(each, machines)) for each in shape.reachability]
    binding = [entry for entry in outside if entry[0] in _BINDING]
    binding.sort(key=lambda entry: _BINDING.index(entry[0]))
    zones = [entry for entry in outside if entry[0] == reason.VOLUME_ZONE]
    drivers = [e for e in outside if e[0] not in _BINDING and e[0] != reason.VOLUME_ZONE]
    # The space is only a reason where a volume could be provisioned.
    not_provisioned = [column for why, column in binding if why == reason.VOLUME_MISSING]
    if not_provisioned:
        can_provision = ~np.logical_or.reduce(not_provisioned)
        binding = [
            (why, column & can_provision if why == reason.VOLUME_SPACE else column)
            for why, column in binding
        ]
    return drivers, binding, zones


def _summary(state: State, policies_of: PoliciesOf, of: TaskClass) -> tuple[int, str]:
    """How many machines fit the task, and the reasons against the others."""
    left = state.view().present
    total = int(left.sum())
    counts: dict[str, int] = {}
    for stage in _stages(state, policies_of, of):
        refused: dict[str, BoolColumn] = {}
        for why, column in stage:
            refused[why] = refused[why] | column if why in refused else column
        for why, column in refused.items():
            if against := int((column & left).sum()):
                counts[why] = counts.get(why, 0) + against
        for column in refused.values():
            left = left & ~column
    return int(left.sum()), reason.summary(total, counts)


def why_waiting(
    state: State, policies_of: PoliciesOf, groups: Iterable[WaitingGroup]
) -> dict[str, str]:
    """For each task of groups that were not placed, by id, the reason as things stand now."""
    groups = list(groups)
    state.relations.use(relations_of(groups))
    class_of = state.relations.class_of
    waiting = _waiting_by_selector(groups, class_of) if state.relations else {}
    known: dict[TaskClass, tuple[int, str]] = {}
    total = int(state.view().present.sum())
    answers: dict[str, str] = {}
    for group in groups:
        blocked = next((task.blocked for task in group.tasks if task.blocked), None)
        for task in group.tasks:
            if blocked is not None:
                answers[task.id] = blocked
                continue
            own = class_of(task)
            if own not in known:
                open_to, sentence = _summary(state, policies_of, own)
                known[own] = open_to, sentence + missing_company(state, own, waiting)
            open_to, sentence = known[own]
            if open_to and group.is_gang:
                sentence = (
                    f"0/{total} nodes are available: group {group.name} needs room for all "
                    f"{len(group.tasks)} members at once, {open_to} node(s) have room for this one."
                )
            elif open_to:
                sentence = f"behind others in the queue; {open_to}/{total} nodes have room for it."
            answers[task.id] = sentence
    return answers


def _waiting_by_selector(groups: Iterable[WaitingGroup], class_of: ClassOf) -> dict[int, int]:
    """How many of the tasks each selector selects."""
    counts = Counter(class_of(task) for group in groups for task in group.tasks)
    waiting: dict[int, int] = {}
    for each, count in counts.items():
        for selector in each.selected_by:
            waiting[selector] = waiting.get(selector, 0) + count
    return waiting
