"""What a pod claims: its controller, and the terms on which it is scheduled.

The author of a pod may write any owner reference and any label. So these are claims until the
controller confirms them with its own pod template (live/pod_sources.py). Pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from afflux.kube import objects
from afflux.kube.cluster_relations import DEFAULT_SCHEDULER
from afflux.kube.group_claims import POD_GROUP_LABEL, QUEUE_LABEL, SIZED_LABELS
from afflux.kube.objects import OwnerReference

_LABELS = (*(label for pair in SIZED_LABELS for label in pair), POD_GROUP_LABEL, QUEUE_LABEL)
TERM_NAMES = (
    "spec.schedulerName",
    *(f"label {label}" for label in _LABELS),
    "spec.schedulingGroup.podGroupName",
    "spec.activeDeadlineSeconds",
)

PodTerms = tuple[str | int | None, ...]
"""The values of TERM_NAMES, as written; None for a missing one."""


@dataclass(frozen=True, slots=True)
class PodClaims:
    """The controller and the terms that a pod claims. Pods with equal claims stand or fall
    together; their other labels may differ."""

    controller: OwnerReference | None
    terms: PodTerms
    labels: Mapping[str, str] = field(compare=False)


class TemplateSpec(objects.Fields, frozen=True, gc=False):
    """The fields of a pod template's specification that are terms."""

    scheduler_name: str | None = None
    scheduling_group: objects.SchedulingGroup | None = None
    active_deadline_seconds: objects.Int64 | None = None


def pod_claims(pod: objects.Pod) -> PodClaims:
    labels = pod.metadata.labels or {}
    return PodClaims(controller_of(pod), pod_terms(labels, pod.spec), labels)


def pod_terms(labels: Mapping[str, str], spec: objects.PodSpec | TemplateSpec) -> PodTerms:
    """The terms of a pod or of a pod template."""
    group = spec.scheduling_group
    return (
        spec.scheduler_name or DEFAULT_SCHEDULER,
        *(labels.get(label) for label in _LABELS),
        None if group is None else group.pod_group_name,
        spec.active_deadline_seconds,
    )


def controller_of(item: objects.Object) -> OwnerReference | None:
    """The owner reference of the controller, which recreates the object when it is deleted."""
    return next((ref for ref in item.metadata.owner_references or () if ref.controller), None)
