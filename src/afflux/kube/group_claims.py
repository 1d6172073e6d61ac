"""What a pod claims about its group: name, size and queue, as the register of groups takes it.

A pod names its group in one of four ways; the first one that is present counts:
`afflux.dev/group-name` with `afflux.dev/group-size`, `fluxnetes.group-name` with
`fluxnetes.group-size`, `scheduling.x-k8s.io/pod-group` with its PodGroup, or
`spec.schedulingGroup.podGroupName` with Kubernetes' own PodGroup. A name without a size means 1. A
pod that names none is a group of one. The label `afflux.dev/queue` names its queue.

The rules for a group as a whole are in groups/quorum.py.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from afflux.groups.member import Claim, GroupTerms, Hold, Member
from afflux.kube import objects
from afflux.kube.input_errors import shown
from afflux.kube.objects import is_name
from afflux.kube.pods import created_seconds, namespace, started_seconds
from afflux.kube.run_time import (
    UNKNOWN_RUN_TIME,
    ExpectedRunTimeError,
    RunTime,
    declared_run_seconds,
    run_time,
)
from afflux.model.task import Task
from afflux.model.waiting_group import DEFAULT_QUEUE
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
# A preemptionPolicy of pods and of priority classes.
NEVER_PREEMPT = "Never"
_SIZE = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class PodGroups:
    """The PodGroup objects of both kinds, by namespace/name."""

    coscheduling: Mapping[str, objects.CoschedulingPodGroup]
    native: Mapping[str, objects.NativePodGroup]


NO_POD_GROUPS = PodGroups({}, {})


@dataclass(frozen=True, slots=True)
class _GroupName:
    """The group that a pod names, and the label or field with the name."""

    group: str
    source: str


class _GroupError(ValueError):
    """A pod with an invalid group; the message names label and value."""


class _PodGroupError(ValueError):
    """A pod whose PodGroup is missing or not supported; the message says why."""


def member(
    pod: objects.Pod,
    found: Task,
    pod_groups: PodGroups = NO_POD_GROUPS,
    *,
    ends_seconds: float | None = None,
    ours: bool = True,
) -> Member:
    """A pod as a member of its group; `found` is its task."""
    metadata = pod.metadata
    claim, runs = _claim(pod, pod_groups)
    return Member(
        found,
        namespace(pod),
        metadata.name or "",
        claim,
        machine=pod.spec.node_name or "",
        priority=pod.spec.priority or 0,
        created_seconds=created_seconds(pod),
        started_seconds=started_seconds(pod),
        run_seconds=runs.run_seconds,
        limit_seconds=runs.limit_seconds,
        ends_seconds=ends_seconds,
        leaving=bool(metadata.deletion_timestamp),
        ours=ours,
        may_preempt=pod.spec.preemption_policy != NEVER_PREEMPT,
    )


def _claim(pod: objects.Pod, pod_groups: PodGroups) -> tuple[Claim, RunTime]:
    name: _GroupName | None = None
    try:
        name = _group_name(pod)
        terms = _terms(pod, name, pod_groups)
        runs = run_time(pod)
    except (_GroupError, ExpectedRunTimeError) as error:
        problem = Hold("refused", str(error))
    except _PodGroupError as error:
        problem = Hold("waits", str(error))
    else:
        return Claim(_name_alone(name), terms), runs
    return Claim(_name_alone(name), None, problem), UNKNOWN_RUN_TIME


def _name_alone(name: _GroupName | None) -> str:
    return "" if name is None else name.group.partition("/")[2]


def claimed_group(pod: objects.Pod) -> str | None:
    """The namespace/name of the group this pod names, None if it names none or more than one."""
    try:
        name = _group_name(pod)
    except _GroupError:
        return None
    return name.group if name else None


def leaves_as_a_whole(pod: objects.Pod, pod_groups: PodGroups) -> bool:
    """Whether a running pod may be evicted only together with its whole group: with a group that
    needs several members to start, unless its PodGroup says otherwise."""
    try:
        name = _group_name(pod)
        if name is None:
            return False
        if name.source == _NATIVE_FIELD and (found := pod_groups.native.get(name.group)):
            mode = found.spec.disruption_mode
            if mode is not None and (mode.single is not None or mode.all is not None):
                return mode.all is not None
        return _terms(pod, name, pod_groups).size > 1
    except (_GroupError, _PodGroupError):
        return False


def queue_of(pod: objects.Pod) -> str:
    return (pod.metadata.labels or {}).get(QUEUE_LABEL, DEFAULT_QUEUE)


def expected_run_seconds(pod: objects.Pod, rules: Mapping[str, QueueRules]) -> float | None:
    """The expected time of the pod on its machine: its own, else the default of its queue. For pods
    of other schedulers, which have no queue, `rules` is empty."""
    seconds = declared_run_seconds(pod)
    if seconds is None and (queue := rules.get(queue_of(pod))) is not None:
        return queue.default_run_seconds
    return seconds


def _group_name(pod: objects.Pod) -> _GroupName | None:
    labels = pod.metadata.labels or {}
    named = [(source, labels[label]) for label, source in _NAME_LABELS if label in labels]
    _check_sizes_without_name(labels)
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
    """The terms of the group that the pod claims."""
    queue = queue_of(pod)
    if named is None:
        return GroupTerms(1, queue)
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


def _check_sizes_without_name(labels: Mapping[str, str]) -> None:
    """A size above 1 needs the name of a group; 1 is the size of a pod alone."""
    for name_label, size_label in SIZED_LABELS:
        if name_label not in labels and (size := _size(labels, size_label)) > 1:
            raise _GroupError(
                f"label {size_label}: {size} without {name_label}; "
                f"add the label {name_label} with the name of the group"
            )


def _size(labels: Mapping[str, str], label: str) -> int:
    """The size that this label states; 1 without it."""
    written = labels.get(label)
    if written is None:
        return 1
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
    return GroupTerms(1, queue)


def _checked(group: str, field_name: str, minimum: int | None, queue: str) -> GroupTerms:
    source = f"PodGroup {group}: {field_name}"
    if minimum is None:
        raise _GroupError(f"{source}: missing, expected the number of members")
    if minimum < 1:
        raise _GroupError(f"{source}: {minimum}, expected a whole number from 1 up")
    return GroupTerms(minimum, queue, source)
