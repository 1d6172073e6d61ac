"""Tasks to groups: who starts together, who still waits for others and why.

A pod names its group in one of four ways, the first found being the one that counts:
`afflux.dev/group-name` with `afflux.dev/group-size`, `fluxnetes.group-name` with
`fluxnetes.group-size`, `scheduling.x-k8s.io/pod-group` with its PodGroup, or
`spec.schedulingGroup.podGroupName` with Kubernetes' own PodGroup. A pod that names none is a
group of one.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from afflux.kube import objects
from afflux.kube.complaints import shown
from afflux.kube.decoding import namespace
from afflux.kube.objects import is_name
from afflux.model.group import Group
from afflux.model.task import Task

SIZED_LABELS = (
    ("afflux.dev/group-name", "afflux.dev/group-size"),
    ("fluxnetes.group-name", "fluxnetes.group-size"),
)
POD_GROUP_LABEL = "scheduling.x-k8s.io/pod-group"
_NATIVE_FIELD = "spec.schedulingGroup.podGroupName"
_SIZE = re.compile(r"[0-9]{1,9}")

Waiting = tuple[Task, str]
# Of what there is too little for pods to start together, if there is.
Shortage = Callable[[Sequence[objects.Pod]], str | None]


@dataclass(frozen=True, slots=True)
class Member:
    """A pod as grouping sees it."""

    task: Task
    pod: objects.Pod
    running: bool
    priority: int = 0
    created_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class PodGroups:
    """The PodGroup objects of both kinds, by namespace/name."""

    coscheduling: Mapping[str, objects.MemberGroup] = field(
        default_factory=dict[str, objects.MemberGroup]
    )
    native: Mapping[str, objects.NativeGroup] = field(
        default_factory=dict[str, objects.NativeGroup]
    )


@dataclass(frozen=True, slots=True)
class _Claim:
    """A pod's word that it belongs to a group, and where it says so."""

    group: str
    source: str
    minimum: int = 1


class _UnclearError(ValueError):
    """A pod whose group cannot be made out; the text names label and value."""


def groups(
    members: Iterable[Member], pod_groups: PodGroups, shortage: Shortage | None = None
) -> tuple[list[Group], list[Waiting]]:
    """The groups that have their quorum, and the tasks that wait with the reason.

    Running members count towards the quorum. Once that many run, each newcomer is a group of one;
    before, the pending members start together. A gang is all its pending members, even if fewer
    would do: choosing the quorum out of more is left for later.
    """
    singles, claims, running, waiting = _sort(members, pod_groups)
    gangs: dict[str, list[Member]] = {}
    for name, claimed in claims.items():
        gang = [member for member, _ in claimed]
        minimum, present = claimed[0][1].minimum, running[name]
        reason = _contradiction(claimed) or _missing_members(name, len(gang) + present, minimum)
        together = present < minimum and minimum > 1
        if reason is None and together:
            reason = _blocked_member(name, gang)
        if reason is None and together and len(gang) > 1 and shortage is not None:
            short = shortage([member.pod for member in gang])
            reason = f"group {name} {short}" if short else None
        if reason is not None:
            waiting += [(member.task, member.task.blocked or reason) for member in gang]
        elif together:
            gangs[name] = gang
        else:
            singles += gang

    waiting += [(m.task, m.task.blocked) for m in singles if m.task.blocked]
    ready = [_group(m.task.name, [m]) for m in singles if not m.task.blocked]
    # A pod and a group may have the same name; the queue knows groups by it.
    taken = {group.name for group in ready}
    ready += [_group(f"{name} (group)" if name in taken else name, g) for name, g in gangs.items()]
    return ready, waiting


def claimed_group(pod: objects.Pod) -> str | None:
    """The namespace/name of the group this pod names, None if it names none or more than one."""
    try:
        claim = _claim(pod, PodGroups(), sized=False)
    except _UnclearError:
        return None
    return claim.group if claim else None


def _sort(
    members: Iterable[Member], pod_groups: PodGroups
) -> tuple[list[Member], dict[str, list[tuple[Member, _Claim]]], Counter[str], list[Waiting]]:
    """Pending members without a group and by group, how many run of each, and the unclear."""
    singles: list[Member] = []
    claims: dict[str, list[tuple[Member, _Claim]]] = {}
    running: Counter[str] = Counter()
    waiting: list[Waiting] = []
    for member in members:
        try:
            claim = _claim(member.pod, pod_groups, sized=not member.running)
        except _UnclearError as problem:
            if not member.running:
                waiting.append((member.task, member.task.blocked or str(problem)))
            continue
        if claim is None:
            singles += [] if member.running else [member]
        elif member.running:
            running[claim.group] += 1
        else:
            claims.setdefault(claim.group, []).append((member, claim))
    return singles, claims, running, waiting


def _missing_members(name: str, present: int, minimum: int) -> str | None:
    return f"group {name} has {present} of {minimum} members" if present < minimum else None


def _blocked_member(name: str, gang: Sequence[Member]) -> str | None:
    blocked = next((member.task for member in gang if member.task.blocked), None)
    return f"group {name} waits for {blocked.name}: {blocked.blocked}" if blocked else None


def _group(name: str, members: Sequence[Member]) -> Group:
    limits = [member.pod.spec.active_deadline_seconds for member in members]
    bounded = [float(limit) for limit in limits if limit is not None]
    return Group(
        name=name,
        tasks=tuple(member.task for member in members),
        priority=max(member.priority for member in members),
        ready_seconds=max(member.created_seconds for member in members),
        run_seconds=max(bounded) if len(bounded) == len(limits) else None,
    )


def _contradiction(claimed: Sequence[tuple[Member, _Claim]]) -> str | None:
    first, claim = claimed[0]
    for other, its in claimed:
        if its.minimum != claim.minimum:
            return (
                f"{claim.source}: {claim.minimum} on {first.task.name}, "
                f"but {its.source}: {its.minimum} on {other.task.name}"
            )
    return None


def _claim(pod: objects.Pod, pod_groups: PodGroups, *, sized: bool) -> _Claim | None:
    """The group this pod names; without `sized` nobody asks how large it has to be."""
    labels, space = pod.metadata.labels or {}, namespace(pod)
    named: list[tuple[str, str]] = [
        (f"label {label}", labels[label])
        for label in (*(name for name, _ in SIZED_LABELS), POD_GROUP_LABEL)
        if label in labels
    ]
    for name_label, size_label in SIZED_LABELS:
        if size_label in labels and name_label not in labels:
            raise _UnclearError(
                f"label {size_label}: {shown(labels[size_label])} without {name_label}"
            )
    native = pod.spec.scheduling_group
    if native is not None and native.pod_group_name:
        named.append((_NATIVE_FIELD, native.pod_group_name))
    if not named:
        return None
    source, name = named[0]
    for other_source, other_name in named:
        if other_name != name:
            raise _UnclearError(
                f"{source}: {shown(name)}, but {other_source}: {shown(other_name)}; "
                "expected one group"
            )
    if not is_name(name):
        raise _UnclearError(f"{source}: {shown(name)}, expected the name of a group")
    group = f"{space}/{name}"
    if not sized:
        return _Claim(group, source)
    label = source.removeprefix("label ")
    if label == POD_GROUP_LABEL:
        return _coscheduling_claim(group, pod_groups)
    if source == _NATIVE_FIELD:
        return _native_claim(group, pod_groups)
    size_label = dict(SIZED_LABELS)[label]
    return _Claim(group, f"label {size_label}", _size(labels, size_label))


def _size(labels: Mapping[str, str], label: str) -> int:
    written = labels.get(label)
    if written is None:
        raise _UnclearError(f"label {label}: missing, expected the number of members")
    if not _SIZE.fullmatch(written) or int(written) == 0:
        raise _UnclearError(f"label {label}: {shown(written)}, expected a whole number from 1 up")
    return int(written)


def _coscheduling_claim(group: str, pod_groups: PodGroups) -> _Claim:
    found = pod_groups.coscheduling.get(group)
    if found is None:
        raise _UnclearError(f"label {POD_GROUP_LABEL}: PodGroup {group} is not in the input")
    return _checked_claim(group, "spec.minMember", found.spec.min_member)


def _native_claim(group: str, pod_groups: PodGroups) -> _Claim | None:
    found = pod_groups.native.get(group)
    if found is None:
        raise _UnclearError(f"{_NATIVE_FIELD}: PodGroup {group} is not in the input")
    constraints = found.spec.scheduling_constraints
    if constraints is not None and constraints.topology:
        raise _UnclearError(
            f"PodGroup {group}: spec.schedulingConstraints.topology is not supported yet"
        )
    if found.spec.parent_composite_pod_group_name:
        raise _UnclearError(
            f"PodGroup {group}: spec.parentCompositePodGroupName is not supported yet"
        )
    policy = found.spec.scheduling_policy
    if policy.gang is not None:
        field_name = "spec.schedulingPolicy.gang.minCount"
        return _checked_claim(group, field_name, policy.gang.min_count)
    if policy.basic is None:
        raise _UnclearError(
            f"PodGroup {group}: spec.schedulingPolicy: missing, expected basic or gang"
        )
    return None


def _checked_claim(group: str, field_name: str, minimum: int | None) -> _Claim:
    source = f"PodGroup {group}: {field_name}"
    if minimum is None:
        raise _UnclearError(f"{source}: missing, expected the number of members")
    if minimum < 1:
        raise _UnclearError(f"{source}: {minimum}, expected a whole number from 1 up")
    return _Claim(group, source, minimum)
