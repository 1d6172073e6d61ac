"""TaskDescription messages as tasks of the model, members of their groups.

Selectors, affinity and tolerations mean what those of a pod mean, and are read by the same code. A
constraint that cannot be read or enforced makes the task wait, with a reason that names the field.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from secrets import token_hex

from afflux.groups.member import ALONE, Claim, GroupTerms, Member
from afflux.kube import objects
from afflux.kube.input_errors import shown
from afflux.kube.node_constraints import (
    ConstraintError,
    label_requirement,
    node_affinity,
    requirement_key,
    sorted_terms,
    tolerations,
)
from afflux.kube.pod_relations import check_labels, relations, task_labels
from afflux.kube.sized_cache import MAX_CACHED_SHAPES, shape_size, sized_cache
from afflux.model.errors import InputError
from afflux.model.resources import PODS, resources
from afflux.model.selectors import NodeAffinity, Requirement, Term
from afflux.model.task import Shape, Task
from afflux.rpc.message_errors import MessageError, checked_name
from afflux.rpc.proto.firmament import constraints_pb2 as constraints
from afflux.rpc.proto.firmament import scheduler_pb2 as pb
from afflux.rpc.proto.firmament import tasks_pb2 as tasks
from afflux.rpc.resource_amounts import requested_amounts

_TASK = "task_descriptor"
_LARGEST_INT32 = 2**31 - 1
_MAX_WEIGHT = 100
_DEFAULT_NAMESPACE = "default"

_OPERATORS = {
    constraints.LabelSelector.IN_SET: "In",
    constraints.LabelSelector.NOT_IN_SET: "NotIn",
    constraints.LabelSelector.EXISTS_KEY: "Exists",
    constraints.LabelSelector.NOT_EXISTS_KEY: "DoesNotExist",
    constraints.LabelSelector.GREATER_THAN: "Gt",
    constraints.LabelSelector.LESSER_THAN: "Lt",
}

# Where the fields of a pod are in a task.
_PLACES = {
    "spec.affinity.nodeAffinity": f"{_TASK}.affinity.node_affinity",
    "spec.affinity.podAffinity": f"{_TASK}.affinity.pod_affinity",
    "spec.affinity.podAntiAffinity": f"{_TASK}.affinity.pod_anti_affinity",
    "spec.affinity": f"{_TASK}.affinity",
    "spec.tolerations": f"{_TASK}.tolerations",
    "metadata.labels": f"{_TASK}.labels",
}
_PLACE = re.compile("|".join(map(re.escape, _PLACES)))


@dataclass(frozen=True, slots=True)
class DescribedTask:
    """A task as a client describes it. Clients use a uid again for a task with another name while
    the first one still runs, and both for a later one: the id in the model is that of one run."""

    uid: int
    member: Member

    @property
    def task(self) -> Task:
        return self.member.task

    def anew(self) -> "DescribedTask":
        """The same task for a further run."""
        return self.run_as(new_id(self.uid))

    def run_as(self, task_id: str) -> "DescribedTask":
        """The same task for the run with this id."""
        task = replace(self.task, id=task_id)
        return replace(self, member=replace(self.member, task=task))

    def following(self, before: "DescribedTask") -> "DescribedTask":
        """This description for the run that `before` describes."""
        task = replace(self.task, id=before.task.id)
        created = before.member.created_seconds
        return replace(self, member=replace(self.member, task=task, created_seconds=created))


def new_id(uid: int) -> str:
    """Not used before, also not by an earlier process: the ledger keeps what has ended."""
    return f"{uid}-{token_hex(8)}"


def described_task(message: pb.TaskDescription, created_seconds: float) -> DescribedTask:
    """The task of a message, for a new run; a MessageError names a field without which there is no
    task."""
    if not message.HasField(_TASK):
        raise MessageError(f"{_TASK}: missing, expected a task")
    stated = message.task_descriptor
    name = checked_name(stated.name, f"{_TASK}.name")
    if stated.priority > _LARGEST_INT32:
        raise MessageError(
            f"{_TASK}.priority: {stated.priority}, expected at most {_LARGEST_INT32}"
        )
    requests = requested_amounts(stated.resource_request, f"{_TASK}.resource_request")
    namespace = stated.task_namespace or _DEFAULT_NAMESPACE
    why = _unsupported(stated)
    shape = Shape(resources({**requests, PODS: 1}))
    if why is None:
        try:
            shape = _shape(_constraining_part(stated))
        except (ConstraintError, InputError) as error:
            why = _PLACE.sub(lambda found: _PLACES[found[0]], str(error))
    own_name = name.removeprefix(f"{namespace}/")
    member = Member(
        Task(new_id(stated.uid), name, shape, why, task_labels(_labelled(stated))),
        namespace=namespace,
        name=own_name,
        claim=_claim(message.job_descriptor),
        priority=stated.priority,
        created_seconds=created_seconds,
    )
    return DescribedTask(stated.uid, member)


def updated(known: pb.TaskDescription, update: pb.TaskDescription) -> pb.TaskDescription:
    """A known description with what TaskUpdated may change."""
    merged = pb.TaskDescription()
    merged.CopyFrom(known)
    stated, task = update.task_descriptor, merged.task_descriptor
    task.resource_request.CopyFrom(stated.resource_request)
    task.priority = stated.priority
    del task.labels[:]
    task.labels.MergeFrom(stated.labels)
    del task.label_selectors[:]
    task.label_selectors.MergeFrom(stated.label_selectors)
    return merged


def _unsupported(stated: tasks.TaskDescriptor) -> str | None:
    """Why the task waits whatever room there is."""
    if stated.dependencies:
        return f"{_TASK}.dependencies: {len(stated.dependencies)}, but they are not supported"
    for field in ("relative_deadline", "absolute_deadline"):
        if deadline := getattr(stated, field):
            return f"{_TASK}.{field}: {deadline}, but deadlines are not supported"
    return None


def _claim(job: tasks.JobDescriptor) -> Claim:
    """A gang names its group; all other tasks start alone."""
    if not job.is_gang_scheduling_job:
        return ALONE
    uuid = checked_name(job.uuid, "job_descriptor.uuid")
    size = min(max(1, job.min_number_of_tasks), _LARGEST_INT32)
    name = f"{checked_name(job.name, 'job_descriptor.name')}.{uuid}" if job.name else uuid
    return Claim(name, GroupTerms(size, source="job_descriptor.min_number_of_tasks"))


# --- Shapes


def _constraining_part(stated: tasks.TaskDescriptor) -> bytes:
    """What decides where a task may run, so that equal tasks are read once."""
    return tasks.TaskDescriptor(
        resource_request=stated.resource_request,
        labels=stated.labels if stated.HasField("affinity") else (),
        label_selectors=stated.label_selectors,
        affinity=stated.affinity if stated.HasField("affinity") else None,
        task_namespace=stated.task_namespace,
        tolerations=stated.tolerations,
    ).SerializeToString(deterministic=True)


@sized_cache(shape_size, MAX_CACHED_SHAPES)
def _shape(encoded: bytes) -> Shape:
    stated = tasks.TaskDescriptor.FromString(encoded)
    requests = requested_amounts(stated.resource_request, f"{_TASK}.resource_request")
    affinity = _affinity(stated.affinity)
    pod = objects.Pod(metadata=_labelled(stated).metadata, spec=objects.PodSpec(affinity=affinity))
    check_labels(pod)
    return Shape(
        resources({**requests, PODS: 1}),
        affinity=_selected(node_affinity(pod.spec), stated.label_selectors),
        tolerations=tolerations(tuple(map(_toleration, stated.tolerations))),
        relations=relations(pod),
    )


def _labelled(stated: tasks.TaskDescriptor) -> objects.Pod:
    """A pod with the namespace and the labels of the task."""
    labels = {each.key: each.value for each in stated.labels}
    namespace = stated.task_namespace or _DEFAULT_NAMESPACE
    return objects.Pod(metadata=objects.Metadata(namespace=namespace, labels=labels))


def _toleration(each: constraints.Toleration) -> objects.Toleration:
    return objects.Toleration(each.key, each.operator, each.value, each.effect)


def _selected(
    affinity: NodeAffinity, selectors: Iterable[constraints.LabelSelector]
) -> NodeAffinity:
    """The affinity of a task that also has these selectors, all of which must hold."""
    found: set[Requirement] = set()
    for number, each in enumerate(selectors):
        field = f"{_TASK}.label_selectors[{number}]"
        operator = _OPERATORS.get(each.type)
        if operator is None:
            raise ConstraintError(f"{field}.type: {each.type}, expected a SelectorType")
        expression = objects.Expression(each.key, operator, tuple(each.values))
        found.add(label_requirement(expression, field))
    if not found:
        return affinity
    selected = tuple(sorted(found, key=requirement_key))
    if affinity.required is None:
        return NodeAffinity(required=(Term(selected),), preferred=affinity.preferred)
    both = sorted_terms(
        Term(tuple(sorted({*term.labels, *selected}, key=requirement_key)))
        for term in affinity.required
    )
    return NodeAffinity(required=both, preferred=affinity.preferred)


# --- Affinity, in the form of a pod's


def _affinity(stated: constraints.Affinity) -> objects.Affinity:
    return objects.Affinity(
        node_affinity=_node_affinity(stated.node_affinity),
        pod_affinity=_pod_affinity(stated.pod_affinity, f"{_TASK}.affinity.pod_affinity"),
        pod_anti_affinity=_pod_affinity(
            stated.pod_anti_affinity, f"{_TASK}.affinity.pod_anti_affinity"
        ),
    )


def _node_affinity(stated: constraints.NodeAffinity) -> objects.NodeAffinity:
    # A selector without terms asks for nothing: clients send one with preferences only.
    terms = stated.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms
    required = objects.NodeSelector(tuple(map(_node_term, terms))) if terms else None
    place = f"{_TASK}.affinity.node_affinity.preferredDuringSchedulingIgnoredDuringExecution"
    preferred = tuple(
        objects.PreferredTerm(
            _weight(each.weight, f"{place}[{number}].weight"), _node_term(each.preference)
        )
        for number, each in enumerate(stated.preferredDuringSchedulingIgnoredDuringExecution)
    )
    return objects.NodeAffinity(required, preferred)


def _node_term(stated: constraints.NodeSelectorTerm) -> objects.NodeSelectorTerm:
    return objects.NodeSelectorTerm(tuple(map(_expression, stated.matchExpressions)))


def _expression(
    stated: constraints.NodeSelectorRequirement
    | constraints.LabelSelectorRequirement
    | constraints.LabelSelectorRequirementAntiAff,
) -> objects.Expression:
    return objects.Expression(stated.key, stated.operator, tuple(stated.values))


def _pod_affinity(
    stated: constraints.PodAffinity | constraints.PodAntiAffinity, field: str
) -> objects.PodAffinity:
    place = f"{field}.preferredDuringSchedulingIgnoredDuringExecution"
    preferred = tuple(
        objects.PreferredPodAffinityTerm(
            _weight(each.weight, f"{place}[{number}].weight"), _pod_term(each.podAffinityTerm)
        )
        for number, each in enumerate(stated.preferredDuringSchedulingIgnoredDuringExecution)
    )
    required = tuple(map(_pod_term, stated.requiredDuringSchedulingIgnoredDuringExecution))
    return objects.PodAffinity(required, preferred)


def _pod_term(
    stated: constraints.PodAffinityTerm | constraints.PodAffinityTermAntiAff,
) -> objects.PodAffinityTerm:
    selector: objects.LabelSelector | None = None
    if stated.HasField("labelSelector"):
        # Clients send an entry with an empty key where they have none.
        entry = stated.labelSelector.matchLabels
        selector = objects.LabelSelector(
            {entry.key: entry.value} if entry.key else {},
            tuple(map(_expression, stated.labelSelector.matchExpressions)),
        )
    return objects.PodAffinityTerm(selector, stated.topologyKey, tuple(stated.namespaces))


def _weight(weight: int, field: str) -> int:
    if not 1 <= weight <= _MAX_WEIGHT:
        raise ConstraintError(f"{field}: {shown(weight)}, expected 1 to {_MAX_WEIGHT}")
    return weight
