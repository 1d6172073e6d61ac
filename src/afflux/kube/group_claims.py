"""Pods to groups: what a pod says about its group, and hence who starts together and who waits.

A pod names its group in one of four ways, the first found being the one that counts:
`afflux.dev/group-name` with `afflux.dev/group-size`, `fluxnetes.group-name` with
`fluxnetes.group-size`, `scheduling.x-k8s.io/pod-group` with its PodGroup, or
`spec.schedulingGroup.podGroupName` with Kubernetes' own PodGroup. A pod that names none is a
group of one. The label `afflux.dev/queue` names the queue it waits in.

Here is what pods say; what follows from it for a group as a whole is in queue/quorum.py.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from afflux.kube import objects
from afflux.kube.complaints import shown
from afflux.kube.decoding import namespace
from afflux.kube.lasting import WITHOUT_END, ExpectationError, Lasting, lasting, planned_seconds
from afflux.kube.objects import is_name
from afflux.model.group import DEFAULT_QUEUE
from afflux.model.task import Task
from afflux.queue.quorum import ONE_QUEUE, Candidate, Gathered, Terms, alone, form
from afflux.queue.rules import QueueRules

SIZED_LABELS = (
    ("afflux.dev/group-name", "afflux.dev/group-size"),
    ("fluxnetes.group-name", "fluxnetes.group-size"),
)
POD_GROUP_LABEL = "scheduling.x-k8s.io/pod-group"
QUEUE_LABEL = "afflux.dev/queue"
# With the words for where it was found.
_NAME_LABELS = tuple(
    (label, f"label {label}") for label in (*(name for name, _ in SIZED_LABELS), POD_GROUP_LABEL)
)
_NATIVE_FIELD = "spec.schedulingGroup.podGroupName"
_SIZE = re.compile(r"[0-9]{1,9}")

Shortage = Callable[[Sequence[objects.Pod]], str | None]
"""Of what there is too little for these pods to start together, if there is."""


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
class _Named:
    """The group that a pod names, and where it does."""

    group: str
    source: str


class _RefusedError(ValueError):
    """A pod that cannot be understood; the text names label and value."""


class _WaitsError(ValueError):
    """A pod whose group nobody can look at yet; the text says what is missing."""


def groups(
    members: Iterable[Member],
    pod_groups: PodGroups,
    rules: Mapping[str, QueueRules] = ONE_QUEUE,
    shortage: Shortage | None = None,
    most_ran: int = 0,
) -> Gathered:
    """The groups that have their quorum, and the pods that wait or are refused, with the reason.

    Of the group that they name, `most_ran` at once were seen running before.
    """
    gathered = Gathered()
    named: dict[str, list[Candidate]] = {}
    refused: Counter[str] = Counter()
    pods: dict[str, objects.Pod] = {}
    for member in members:
        group: str | None = None
        try:
            name = _named(member.pod)
            group = name.group if name else None
            terms = _terms(member.pod, name, pod_groups)
            candidate = _candidate(member, terms, lasting(member.pod))
        except (_RefusedError, _WaitsError, ExpectationError) as problem:
            if member.running:
                if group is not None:
                    named.setdefault(group, []).append(_candidate(member, None, WITHOUT_END))
            elif member.task.blocked is not None or isinstance(problem, _WaitsError):
                gathered.waiting.append((member.task, member.task.blocked or str(problem)))
            else:
                gathered.refused.append((member.task, str(problem)))
                refused.update([group] if group else ())
            continue
        if group is not None and terms.source:
            named.setdefault(group, []).append(candidate)
            pods[member.task.id] = member.pod
        elif not member.running:
            gathered.add(alone(candidate, rules))

    def short(tasks: Sequence[Task]) -> str | None:
        return shortage([pods[task.id] for task in tasks]) if shortage else None

    for group, candidates in named.items():
        others = refused[group]
        gathered.add(
            form(group, candidates, rules, others=others, most_ran=most_ran, shortage=short)
        )
    return gathered


def claimed_group(pod: objects.Pod) -> str | None:
    """The namespace/name of the group this pod names, None if it names none or more than one."""
    try:
        name = _named(pod)
    except _RefusedError:
        return None
    return name.group if name else None


def queue_of(pod: objects.Pod) -> str:
    """The queue that the pod asks for."""
    return (pod.metadata.labels or {}).get(QUEUE_LABEL, DEFAULT_QUEUE)


def expected_run_seconds(pod: objects.Pod, rules: Mapping[str, QueueRules]) -> float | None:
    """How long the pod is expected to hold its machine: what it says, else what its queue does.

    A pod of another scheduler is in no queue of ours: there are no `rules` for it.
    """
    seconds = planned_seconds(pod)
    if seconds is None and (queue := rules.get(queue_of(pod))) is not None:
        return queue.default_run_seconds
    return seconds


def _candidate(member: Member, terms: Terms | None, lasts: Lasting) -> Candidate:
    return Candidate(
        task=member.task,
        terms=terms,
        running=member.running,
        priority=member.priority,
        created_seconds=member.created_seconds,
        run_seconds=lasts.run_seconds,
        limit_seconds=lasts.limit_seconds,
    )


def _named(pod: objects.Pod) -> _Named | None:
    """The group this pod names, whatever its size."""
    labels = pod.metadata.labels or {}
    named = [(source, labels[label]) for label, source in _NAME_LABELS if label in labels]
    for name_label, size_label in SIZED_LABELS:
        if size_label in labels and name_label not in labels:
            raise _RefusedError(
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
            raise _RefusedError(
                f"{source}: {shown(name)}, but {other_source}: {shown(other_name)}; "
                "expected one group"
            )
    if not is_name(name):
        raise _RefusedError(f"{source}: {shown(name)}, expected the name of a group")
    return _Named(f"{namespace(pod)}/{name}", source)


def _terms(pod: objects.Pod, named: _Named | None, pod_groups: PodGroups) -> Terms:
    """What the pod says its group is; without a source it starts on its own, whoever is there."""
    queue = queue_of(pod)
    if named is None:
        return Terms(1, queue, source="")
    label = named.source.removeprefix("label ")
    if label == POD_GROUP_LABEL:
        found = pod_groups.coscheduling.get(named.group)
        if found is None:
            raise _WaitsError(
                f"label {POD_GROUP_LABEL}: PodGroup {named.group} is not in the input"
            )
        return _checked(named.group, "spec.minMember", found.spec.min_member, queue)
    if named.source == _NATIVE_FIELD:
        return _native_terms(named.group, pod_groups, queue)
    size_label = dict(SIZED_LABELS)[label]
    return Terms(_size(pod.metadata.labels or {}, size_label), queue, f"label {size_label}")


def _size(labels: Mapping[str, str], label: str) -> int:
    written = labels.get(label)
    if written is None:
        raise _RefusedError(f"label {label}: missing, expected the number of members")
    if not _SIZE.fullmatch(written) or int(written) == 0:
        raise _RefusedError(f"label {label}: {shown(written)}, expected a whole number from 1 up")
    return int(written)


def _native_terms(group: str, pod_groups: PodGroups, queue: str) -> Terms:
    found = pod_groups.native.get(group)
    if found is None:
        raise _WaitsError(f"{_NATIVE_FIELD}: PodGroup {group} is not in the input")
    constraints = found.spec.scheduling_constraints
    if constraints is not None and constraints.topology:
        raise _WaitsError(
            f"PodGroup {group}: spec.schedulingConstraints.topology is not supported yet"
        )
    if found.spec.parent_composite_pod_group_name:
        raise _WaitsError(
            f"PodGroup {group}: spec.parentCompositePodGroupName is not supported yet"
        )
    policy = found.spec.scheduling_policy
    if policy.gang is not None:
        field_name = "spec.schedulingPolicy.gang.minCount"
        return _checked(group, field_name, policy.gang.min_count, queue)
    if policy.basic is None:
        raise _RefusedError(
            f"PodGroup {group}: spec.schedulingPolicy: missing, expected basic or gang"
        )
    return Terms(1, queue, source="")


def _checked(group: str, field_name: str, minimum: int | None, queue: str) -> Terms:
    source = f"PodGroup {group}: {field_name}"
    if minimum is None:
        raise _RefusedError(f"{source}: missing, expected the number of members")
    if minimum < 1:
        raise _RefusedError(f"{source}: {minimum}, expected a whole number from 1 up")
    return Terms(minimum, queue, source)
