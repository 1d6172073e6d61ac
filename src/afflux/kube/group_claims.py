"""Pods to groups: the group, size and queue that each pod claims, and the groups that result.

A pod names its group in one of four ways; the first one that is present counts:
`afflux.dev/group-name` with `afflux.dev/group-size`, `fluxnetes.group-name` with
`fluxnetes.group-size`, `scheduling.x-k8s.io/pod-group` with its PodGroup, or
`spec.schedulingGroup.podGroupName` with Kubernetes' own PodGroup. A pod that names none is a
group of one. The label `afflux.dev/queue` names its queue.

The rules for a group as a whole are in queue/quorum.py.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from afflux.kube import objects
from afflux.kube.input_errors import shown
from afflux.kube.objects import is_name
from afflux.kube.pods import namespace
from afflux.kube.run_time import (
    UNKNOWN_RUN_TIME,
    ExpectedRunTimeError,
    RunTime,
    declared_run_seconds,
    run_time,
)
from afflux.model.group import DEFAULT_QUEUE
from afflux.model.task import Task
from afflux.queue.quorum import (
    ONE_QUEUE,
    Candidate,
    GroupingResult,
    GroupTerms,
    form_group,
    form_single,
)
from afflux.queue.rules import QueueRules

SIZED_LABELS = (
    ("afflux.dev/group-name", "afflux.dev/group-size"),
    ("fluxnetes.group-name", "fluxnetes.group-size"),
)
POD_GROUP_LABEL = "scheduling.x-k8s.io/pod-group"
QUEUE_LABEL = "afflux.dev/queue"
_LABELS = (*(name for name, _ in SIZED_LABELS), POD_GROUP_LABEL)
# With the text that names the source in messages.
_NAME_LABELS = tuple((label, f"label {label}") for label in _LABELS)
_NATIVE_FIELD = "spec.schedulingGroup.podGroupName"
_SIZE = re.compile(r"[0-9]{1,9}")

PodShortage = Callable[[Sequence[objects.Pod]], str | None]
"""Why these pods cannot start together on any nodes; None if they can."""


@dataclass(frozen=True, slots=True)
class Member:
    """A pod with its task, as input for grouping."""

    task: Task
    pod: objects.Pod
    running: bool
    priority: int = 0
    created_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class PodGroups:
    """The PodGroup objects of both kinds, by namespace/name."""

    coscheduling: Mapping[str, objects.CoschedulingPodGroup]
    native: Mapping[str, objects.NativePodGroup]


@dataclass(frozen=True, slots=True)
class _GroupName:
    """The group that a pod names, and the label or field with the name."""

    group: str
    source: str


class _GroupError(ValueError):
    """A pod with an invalid group; the message names label and value."""


class _PodGroupError(ValueError):
    """A pod whose PodGroup is missing or not supported; the message says why."""


def groups(
    members: Iterable[Member],
    pod_groups: PodGroups,
    rules: Mapping[str, QueueRules] = ONE_QUEUE,
    shortage: PodShortage | None = None,
    peak_running: int = 0,
) -> GroupingResult:
    """The groups that have their quorum, and the pods that wait or are refused, with the reason. Of
    the group that they name, `peak_running` at once were seen running before."""
    gathered = GroupingResult()
    named: dict[str, list[Candidate]] = {}
    refused: Counter[str] = Counter()
    pods: dict[str, objects.Pod] = {}
    for member in members:
        group: str | None = None
        try:
            name = _group_name(member.pod)
            group = name.group if name else None
            terms = _terms(member.pod, name, pod_groups)
            candidate = _candidate(member, terms, run_time(member.pod))
        except (_GroupError, _PodGroupError, ExpectedRunTimeError) as problem:
            if member.running:
                if group is not None:
                    named.setdefault(group, []).append(_candidate(member, None, UNKNOWN_RUN_TIME))
            elif member.task.blocked is not None or isinstance(problem, _PodGroupError):
                gathered.waiting.append((member.task, member.task.blocked or str(problem)))
            else:
                gathered.refused.append((member.task, str(problem)))
                refused.update([group] if group else ())
            continue
        if group is not None and terms.source:
            named.setdefault(group, []).append(candidate)
            pods[member.task.id] = member.pod
        elif not member.running:
            gathered.add(form_single(candidate, rules))

    def shortage_of_tasks(tasks: Sequence[Task]) -> str | None:
        return shortage([pods[task.id] for task in tasks]) if shortage else None

    for group, candidates in named.items():
        others = refused[group]
        gathered.add(
            form_group(
                group,
                candidates,
                rules,
                already_refused=others,
                peak_running=peak_running,
                shortage=shortage_of_tasks,
            )
        )
    return gathered


def claimed_group(pod: objects.Pod) -> str | None:
    """The namespace/name of the group this pod names, None if it names none or more than one."""
    try:
        name = _group_name(pod)
    except _GroupError:
        return None
    return name.group if name else None


def queue_of(pod: objects.Pod) -> str:
    return (pod.metadata.labels or {}).get(QUEUE_LABEL, DEFAULT_QUEUE)


def expected_run_seconds(pod: objects.Pod, rules: Mapping[str, QueueRules]) -> float | None:
    """The expected time of the pod on its machine: its own, else the default of its queue. For pods
    of other schedulers, which have no queue, `rules` is empty."""
    seconds = declared_run_seconds(pod)
    if seconds is None and (queue := rules.get(queue_of(pod))) is not None:
        return queue.default_run_seconds
    return seconds


def _candidate(member: Member, terms: GroupTerms | None, run_time: RunTime) -> Candidate:
    return Candidate(
        task=member.task,
        terms=terms,
        running=member.running,
        priority=member.priority,
        created_seconds=member.created_seconds,
        run_seconds=run_time.run_seconds,
        limit_seconds=run_time.limit_seconds,
    )


def _group_name(pod: objects.Pod) -> _GroupName | None:
    labels = pod.metadata.labels or {}
    named = [(source, labels[label]) for label, source in _NAME_LABELS if label in labels]
    for name_label, size_label in SIZED_LABELS:
        if size_label in labels and name_label not in labels:
            written = shown(labels[size_label])
            raise _GroupError(f"label {size_label}: {written} without {name_label}")
    native = pod.spec.scheduling_group
    if native is not None and native.pod_group_name:
        named.append((_NATIVE_FIELD, native.pod_group_name))
    if not named:
        return None
    source, name = named[0]
    for other_source, other_name in named:
        if other_name != name:
            raise _GroupError(
                f"{source}: {shown(name)}, but {other_source}: {shown(other_name)}; "
                "expected one group"
            )
    if not is_name(name):
        raise _GroupError(f"{source}: {shown(name)}, expected the name of a group")
    return _GroupName(f"{namespace(pod)}/{name}", source)


def _terms(pod: objects.Pod, named: _GroupName | None, pod_groups: PodGroups) -> GroupTerms:
    """The terms of the group that the pod claims; without a source the pod starts on its own."""
    queue = queue_of(pod)
    if named is None:
        return GroupTerms(1, queue, source="")
    label = named.source.removeprefix("label ")
    if label == POD_GROUP_LABEL:
        found = pod_groups.coscheduling.get(named.group)
        if found is None:
            raise _PodGroupError(f"{named.source}: PodGroup {named.group} is not in the input")
        return _checked(named.group, "spec.minMember", found.spec.min_member, queue)
    if named.source == _NATIVE_FIELD:
        return _native_terms(named.group, pod_groups, queue)
    size_label = dict(SIZED_LABELS)[label]
    return GroupTerms(_size(pod.metadata.labels or {}, size_label), queue, f"label {size_label}")


def _size(labels: Mapping[str, str], label: str) -> int:
    written = labels.get(label)
    if written is None:
        raise _GroupError(f"label {label}: missing, expected the number of members")
    if not _SIZE.fullmatch(written) or int(written) == 0:
        raise _GroupError(f"label {label}: {shown(written)}, expected a whole number from 1 up")
    return int(written)


def _native_terms(group: str, pod_groups: PodGroups, queue: str) -> GroupTerms:
    found = pod_groups.native.get(group)
    if found is None:
        raise _PodGroupError(f"{_NATIVE_FIELD}: PodGroup {group} is not in the input")
    spec, constraints = f"PodGroup {group}: spec", found.spec.scheduling_constraints
    if constraints is not None and constraints.topology:
        raise _PodGroupError(f"{spec}.schedulingConstraints.topology is not supported yet")
    if found.spec.parent_composite_pod_group_name:
        raise _PodGroupError(f"{spec}.parentCompositePodGroupName is not supported yet")
    policy = found.spec.scheduling_policy
    if policy.gang is not None:
        field_name = "spec.schedulingPolicy.gang.minCount"
        return _checked(group, field_name, policy.gang.min_count, queue)
    if policy.basic is None:
        raise _GroupError(f"{spec}.schedulingPolicy: missing, expected basic or gang")
    return GroupTerms(1, queue, source="")


def _checked(group: str, field_name: str, minimum: int | None, queue: str) -> GroupTerms:
    source = f"PodGroup {group}: {field_name}"
    if minimum is None:
        raise _GroupError(f"{source}: missing, expected the number of members")
    if minimum < 1:
        raise _GroupError(f"{source}: {minimum}, expected a whole number from 1 up")
    return GroupTerms(minimum, queue, source)
