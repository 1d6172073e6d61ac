"""Pod objects to tasks of the model, and the status and times of a pod."""

import re
from collections.abc import Container
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache

from afflux.kube import objects
from afflux.kube.cluster_relations import DEFAULT_SCHEDULER, ClusterRelations
from afflux.kube.disks.disk_requests import DiskCounting, running_request, waiting_request
from afflux.kube.host_ports import host_port_requests
from afflux.kube.images import pod_images
from afflux.kube.input_errors import shown
from afflux.kube.node_constraints import ConstraintError, node_affinity, tolerations
from afflux.kube.object_limits import first_resources, first_volumes
from afflux.kube.pod_relations import (
    check_labels,
    relations,
    running_relations,
    task_labels,
    with_spread,
)
from afflux.kube.pod_requests import requests
from afflux.kube.sized_cache import MAX_CACHED_SHAPES, shape_size, sized_cache
from afflux.kube.unsupported_constraints import first_unsupported
from afflux.kube.volumes.storage import Storage
from afflux.kube.volumes.volume_needs import Blocked
from afflux.model.disks import DiskRequest
from afflux.model.errors import InputError
from afflux.model.images import Images
from afflux.model.reachability import Reachability
from afflux.model.relations import DEFAULT_REQUIRED_AFFINITY_WEIGHT, NO_RELATIONS, Relations
from afflux.model.resources import Resources, resources
from afflux.model.selectors import ANYWHERE, NodeAffinity
from afflux.model.taints import Toleration
from afflux.model.task import Shape, Task

# With the value "true": the pod's requirements hold as long as it runs, and not only when it is
# placed.
REQUIRED_DURING_EXECUTION = "afflux.dev/required-during-execution"

_RFC3339 = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?"
    r"(?:Z|[+-][0-9]{2}:[0-9]{2})"
)


@dataclass(frozen=True, slots=True)
class PodContext:
    """The facts about the cluster that a task depends on.

    `images` are the images that matter for placement; `profiles` the scheduler names with their
    own policies. Without `storage`, a pod with claims waits; without `relations`, a pod has no
    default constraints; without `disks`, no profile counts disk bandwidth.
    """

    images: Container[str] = frozenset[str]()
    profiles: Container[str] = frozenset[str]()
    storage: Storage | None = None
    relations: ClusterRelations | None = None
    disks: DiskCounting | None = None


EMPTY_CONTEXT = PodContext()


def task(pod: objects.Pod, context: PodContext = EMPTY_CONTEXT) -> Task:
    """The task for a pod; a pending pod with an unsupported constraint is blocked."""
    spec = pod.spec
    name = f"{namespace(pod)}/{pod.metadata.name or ''}"
    if not spec.containers:
        raise InputError("spec.containers: missing, expected at least one container")
    blocked = None
    if not is_bound(pod):
        blocked = first_unsupported(spec, claims=context.storage is not None)
    affinity, tolerated, implied = ANYWHERE, (), {}
    related = running_relations(pod, _affinity_weight(context)) if is_bound(pod) else NO_RELATIONS
    try:
        implied = host_port_requests(spec)
        affinity = node_affinity(spec)
        tolerated = tolerations(spec.tolerations) if spec.tolerations else ()
        if not is_bound(pod):
            related = _waiting_relations(pod, context)
    except ConstraintError as error:
        if not is_bound(pod):
            blocked = blocked or str(error)
    requested, unrequested = requests(pod)
    (asked, excess), reachability = first_resources(requested), ()
    if spec.volumes and context.storage is not None:
        needs = context.storage.needs(pod)
        if isinstance(needs, Blocked):
            blocked = blocked or needs.reason
        else:
            reachability = needs.reachability
            volumes, too_many_volumes = first_volumes((*needs.attached, *needs.taken))
            implied.update(volumes)
            excess = excess or too_many_volumes
    if excess and not is_bound(pod):
        blocked = blocked or excess
    if implied:
        asked = resources((*asked, *implied.items()))
    images = pod_images(spec, context.images) if context.images else None
    profile = spec.scheduler_name or ""
    if profile and profile not in context.profiles:
        profile = ""
    shape = _shape(asked, affinity, tolerated, unrequested)
    if reachability or images or profile or related is not NO_RELATIONS:
        shape = _extended_shape(shape, reachability, images, profile, related)
    shape, unreadable = _counting_disks(shape, pod, context)
    blocked = blocked or unreadable
    return Task(
        id=pod.metadata.uid or name,
        name=name,
        shape=shape,
        blocked=blocked,
        labels=task_labels(pod),
        required_during_execution=_is_required_during_execution(pod, context),
    )


def _counting_disks(
    shape: Shape, pod: objects.Pod, context: PodContext
) -> tuple[Shape, str | None]:
    """The shape with what the pod does on disks; what is wrong with its annotation, if it waits."""
    counting = context.disks
    if counting is None:
        return shape, None
    scheduler, request = scheduler_of(pod), None
    try:
        if is_bound(pod):
            request = running_request(pod, scheduler, counting, context.storage)
        elif counting.counts(scheduler):
            request = waiting_request(pod, counting, context.storage)
    except InputError as error:
        return shape, str(error)
    return shape if request is None else _shape_with_disks(shape, request), None


def _waiting_relations(pod: objects.Pod, context: PodContext) -> Relations:
    """What a pod requires and prefers of other pods, the default constraints included, which only
    matter while the pod waits."""
    check_labels(pod)
    stated = relations(pod, _affinity_weight(context))
    if context.relations is None or pod.spec.topology_spread_constraints:
        return stated
    return with_spread(stated, context.relations.default_relations(pod))


def _affinity_weight(context: PodContext) -> int:
    if context.relations is None:
        return DEFAULT_REQUIRED_AFFINITY_WEIGHT
    return context.relations.affinity_weight


def _is_required_during_execution(pod: objects.Pod, context: PodContext) -> bool:
    annotations = pod.metadata.annotations
    if annotations is None or annotations.get(REQUIRED_DURING_EXECUTION) != "true":
        return False
    # Another scheduler's pods are counted where they are, and not judged.
    return scheduler_of(pod) in context.profiles


def namespace(pod: objects.Pod) -> str:
    return pod.metadata.namespace or "default"


def scheduler_of(pod: objects.Pod) -> str:
    return pod.spec.scheduler_name or DEFAULT_SCHEDULER


def is_bound(pod: objects.Pod) -> bool:
    return bool(pod.spec.node_name)


def is_finished(pod: objects.Pod) -> bool:
    """Whether the pod has ended, so that it uses no resources."""
    return pod.status is not None and pod.status.phase in {"Succeeded", "Failed"}


def created_seconds(pod: objects.Pod) -> float:
    """When the pod was created, in seconds since 1970; 0 if it does not say."""
    written = pod.metadata.creation_timestamp
    if not written:
        return 0.0
    found = seconds_of(written)
    if found is None:
        raise InputError(
            f"metadata.creationTimestamp: {shown(written)}, expected a time such as "
            "2026-01-31T08:00:00Z"
        )
    return found


def started_seconds(pod: objects.Pod) -> float | None:
    """When the kubelet started the pod, in seconds since 1970; None if it has not yet."""
    written = pod.status and pod.status.start_time
    return seconds_of(written) if written else None


def deleted_seconds(pod: objects.Pod) -> float | None:
    """When a pod that is being deleted stops at the latest, None if it is not being deleted. The
    timestamp of the API server includes the grace period."""
    written = pod.metadata.deletion_timestamp
    return seconds_of(written) if written else None


@lru_cache(maxsize=65536)
def seconds_of(written: str) -> float | None:
    """A time of the API server in seconds since 1970, None if it is malformed."""
    if _RFC3339.fullmatch(written):
        try:
            return datetime.fromisoformat(written).timestamp()
        except (ValueError, OverflowError):
            pass
    return None


@sized_cache(shape_size, MAX_CACHED_SHAPES)
def _shape(
    asked: Resources,
    affinity: NodeAffinity,
    tolerated: tuple[Toleration, ...],
    unrequested_amounts: Resources,
) -> Shape:
    """The shape, cached so that equal tasks share one object."""
    return Shape(asked, affinity=affinity, tolerations=tolerated, unrequested=unrequested_amounts)


@sized_cache(shape_size, MAX_CACHED_SHAPES)
def _extended_shape(
    plain: Shape,
    reachability: tuple[Reachability, ...],
    images: Images | None,
    profile: str,
    related: Relations,
) -> Shape:
    """The same for tasks with volumes, known images, a profile, or relations to other tasks."""
    return replace(
        plain, reachability=reachability, images=images, profile=profile, relations=related
    )


@sized_cache(shape_size, MAX_CACHED_SHAPES)
def _shape_with_disks(shape: Shape, disks: DiskRequest) -> Shape:
    return replace(shape, disks=disks)
