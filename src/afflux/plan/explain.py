"""Why a task waits: per machine, and in one sentence.

Each machine is judged alone, as the cluster stands now, in the order in which kube-scheduler asks:
the first constraint that refuses gives its reason, and resources give one for each that lacks.
"""

from collections.abc import Iterable

import numpy as np

from afflux.cluster.state import State
from afflux.model import reason
from afflux.model.group import Group
from afflux.model.resources import PODS
from afflux.model.task import Shape
from afflux.policies import fit
from afflux.policies.policy import PoliciesOf

Verdicts = dict[str, tuple[str, ...]]


def verdicts(state: State, policies_of: PoliciesOf, shape: Shape) -> Verdicts:
    """The reasons against each machine, by name; none where the task would fit."""
    machines = state.view()
    # First what it asks for: a resource that nobody has named yet becomes a column.
    requests = state.requests(shape)
    lacking = fit.lacking(machines.free, requests)
    refused: list[tuple[str, np.ndarray]] = [
        (policy.reason, ~policy.admits(shape, machines)) for policy in policies_of(shape)
    ]
    no_devices = (
        fit.device_room(machines.free_devices, shape.devices) == 0
        if shape.devices is not None
        else np.zeros(len(machines), bool)
    )
    answers: Verdicts = {}
    for row, machine in state.machines():
        first = next((why for why, column in refused if column[row]), None)
        if first is not None:
            answers[machine.name] = (first,)
            continue
        names = [state.resource_names[i] for i in np.flatnonzero(lacking[row])]
        # Pods first, then as the resources are known: the order of kube-scheduler's messages.
        reasons = [reason.insufficient(name) for name in sorted(names, key=lambda n: n != PODS)]
        if no_devices[row]:
            reasons.append(reason.DEVICES)
        answers[machine.name] = tuple(reasons)
    return answers


def why_waiting(state: State, policies_of: PoliciesOf, groups: Iterable[Group]) -> dict[str, str]:
    """For each task of groups that were not placed, by id, the reason as things stand now."""
    known: dict[Shape, tuple[int, int, str]] = {}
    answers: dict[str, str] = {}
    for group in groups:
        blocked = next((task.blocked for task in group.tasks if task.blocked), None)
        for task in group.tasks:
            if blocked is not None:
                answers[task.id] = blocked
                continue
            if task.shape not in known:
                against = verdicts(state, policies_of, task.shape)
                open_to = sum(not reasons for reasons in against.values())
                known[task.shape] = (open_to, len(against), reason.summary(against.values()))
            open_to, total, sentence = known[task.shape]
            if open_to and group.is_gang:
                sentence = (
                    f"0/{total} nodes are available: group {group.name} needs room for all "
                    f"{len(group.tasks)} members at once, {open_to} node(s) have room for this one."
                )
            elif open_to:
                sentence = f"behind others in the queue; {open_to}/{total} nodes have room for it."
            answers[task.id] = sentence
    return answers
