"""One node or pod to one machine or task."""

import re
from collections.abc import Container
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache

from afflux.kube import objects
from afflux.kube.bounds import MOST_OFFERED, first_resources, first_volumes, too_many
from afflux.kube.complaints import shown
from afflux.kube.host_ports import host_port_requests
from afflux.kube.images import machine_images, pod_images
from afflux.kube.node_affinity import UnusableError, node_affinity, tolerations
from afflux.kube.pod_requests import in_units, nanos, requests
from afflux.kube.unsupported import first_unsupported
from afflux.kube.volumes.needs import Blocked
from afflux.kube.volumes.storage import Storage
from afflux.model.errors import InputError
from afflux.model.images import Images
from afflux.model.implied import attachments
from afflux.model.machine import Machine
from afflux.model.places import Places, driver_label
from afflux.model.resources import Resources, resources
from afflux.model.selectors import ANYWHERE, NodeAffinity
from afflux.model.taints import (
    NOT_READY_KEY,
    UNREACHABLE_KEY,
    UNSCHEDULABLE_KEY,
    Taint,
    Toleration,
    untolerated,
)
from afflux.model.task import Shape, Task

# Whom a pod asks for that names nobody.
KUBERNETES_SCHEDULER = "default-scheduler"

_RFC3339 = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?"
    r"(?:Z|[+-][0-9]{2}:[0-9]{2})"
)


def machine(
    node: objects.Node,
    drivers: objects.CSINode | None = None,
    volumes: dict[str, int] | None = None,
) -> Machine:
    """The machine this node is, with the drivers that attach volumes to it, and those it has.

    What it offers is status.allocatable, or status.capacity where that is missing. A node that
    does not say how many pods it takes takes none, as in kube-scheduler.
    """
    spec, status = node.spec or objects.NodeSpec(), node.status or objects.NodeStatus()
    if status.allocatable is not None:
        path, offered = "status.allocatable", status.allocatable
    else:
        path, offered = "status.capacity", status.capacity or {}
    if len(offered) > MOST_OFFERED:
        raise InputError(too_many(path, len(offered), MOST_OFFERED, "resources"))
    taints = tuple(_taint(t, f"spec.taints[{i}]") for i, t in enumerate(spec.taints or ()))
    capacity, labels = in_units(nanos(offered, path), path), node.metadata.labels or {}
    if drivers is not None and drivers.spec.drivers:
        # A limit of nothing is a limit: unlike other resources it is kept.
        capacity = tuple(sorted((dict(capacity) | _limits(drivers.spec.drivers)).items()))
        labels = labels | {driver_label(driver.name): "" for driver in drivers.spec.drivers}
    if volumes:
        capacity = tuple(sorted((dict(capacity) | volumes).items()))
    return Machine(
        name=node.metadata.name or "",
        capacity=capacity,
        labels=labels,
        taints=taints + _not_ready(status, taints),
        unschedulable=bool(spec.unschedulable),
        images=machine_images(status),
    )


def _limits(drivers: tuple[objects.NodeDriver, ...]) -> dict[str, int]:
    """How many volumes of each driver can be attached, where there is a limit."""
    return {
        attachments(driver.name): max(0, driver.allocatable.count)
        for driver in drivers
        if driver.allocatable is not None and driver.allocatable.count is not None
    }


def _not_ready(status: objects.NodeStatus, taints: tuple[Taint, ...]) -> tuple[Taint, ...]:
    """The taint that a node which is not ready is about to get, if it has not got it yet.

    The controller that writes it comes a little later; nothing should start there meanwhile. A
    node that says nothing about being ready is taken to be.
    """
    ready = next((c.status for c in status.conditions or () if c.type == "Ready"), "True")
    if ready == "True":
        return ()
    taint = Taint(NOT_READY_KEY if ready == "False" else UNREACHABLE_KEY, "NoSchedule")
    known = any(t.key == taint.key and t.effect == taint.effect for t in taints)
    return () if known else (taint,)


def is_closed(node: objects.Node, tolerated: tuple[Toleration, ...]) -> bool:
    """Whether the node lets nobody in who tolerates no more than this.

    For a decision that was made a moment ago: was it cordoned or tainted since, is it not ready?
    """
    spec, status = node.spec or objects.NodeSpec(), node.status or objects.NodeStatus()
    try:
        taints = tuple(_taint(t, "spec.taints") for t in spec.taints or ())
    except InputError:
        return True
    taints += _not_ready(status, taints)
    if spec.unschedulable:
        taints = (*taints, Taint(UNSCHEDULABLE_KEY, "NoSchedule"))
    return any(t.effect != "PreferNoSchedule" for t in untolerated(taints, tolerated))


def _taint(stated: objects.Taint, path: str) -> Taint:
    match stated.effect:
        case "NoSchedule" | "PreferNoSchedule" | "NoExecute":
            return Taint(stated.key, stated.effect, stated.value or "")
        case _:
            raise InputError(
                f"{path}.effect: {shown(stated.effect)}, "
                "expected NoSchedule, PreferNoSchedule or NoExecute"
            )


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What of a cluster decides what a pod asks for; by default nothing is known.

    `images` are those that can tell machines apart; `profiles` the scheduler names that have
    policies of their own. Without `storage`, a pod that claims volumes waits.
    """

    images: Container[str] = frozenset[str]()
    profiles: Container[str] = frozenset[str]()
    storage: Storage | None = None


NOTHING_KNOWN = Surroundings()


def task(pod: objects.Pod, around: Surroundings = NOTHING_KNOWN) -> Task:
    """The task this pod is; blocked if it waits for placement and has an unsupported constraint."""
    spec = pod.spec
    name = f"{namespace(pod)}/{pod.metadata.name or ''}"
    if not spec.containers:
        raise InputError("spec.containers: missing, expected at least one container")
    blocked = None
    if not is_bound(pod):
        blocked = first_unsupported(spec, claims=around.storage is not None)
    affinity, tolerated, implied = ANYWHERE, (), {}
    try:
        implied = host_port_requests(spec)
        affinity = node_affinity(spec)
        tolerated = tolerations(spec.tolerations) if spec.tolerations else ()
    except UnusableError as error:
        if not is_bound(pod):
            blocked = blocked or str(error)
    (asked, excess), places = first_resources(requests(pod)), ()
    if spec.volumes and around.storage is not None:
        needs = around.storage.needs(pod)
        if isinstance(needs, Blocked):
            blocked = blocked or needs.reason
        else:
            places = needs.places
            volumes, too_many_volumes = first_volumes((*needs.attached, *needs.taken))
            implied.update(volumes)
            excess = excess or too_many_volumes
    if excess and not is_bound(pod):
        blocked = blocked or excess
    if implied:
        asked = resources((*asked, *implied.items()))
    images = pod_images(spec, around.images) if around.images else None
    profile = spec.scheduler_name or ""
    if profile and profile not in around.profiles:
        profile = ""
    shape = _shape(asked, affinity, tolerated)
    if places or images or profile:
        shape = _special(shape, places, images, profile)
    return Task(id=pod.metadata.uid or name, name=name, shape=shape, blocked=blocked)


def namespace(pod: objects.Pod) -> str:
    """The pod's namespace."""
    return pod.metadata.namespace or "default"


def scheduler_of(pod: objects.Pod) -> str:
    """The scheduler that the pod asks for."""
    return pod.spec.scheduler_name or KUBERNETES_SCHEDULER


def is_bound(pod: objects.Pod) -> bool:
    """Whether the pod has its node."""
    return bool(pod.spec.node_name)


def is_finished(pod: objects.Pod) -> bool:
    """Whether the pod has ended and uses nothing any more."""
    return pod.status is not None and pod.status.phase in {"Succeeded", "Failed"}


def created_seconds(pod: objects.Pod) -> float:
    """When the pod was created, in seconds since 1970; 0 if it does not say."""
    written = pod.metadata.creation_timestamp
    if not written:
        return 0.0
    found = _seconds(written)
    if found is None:
        raise InputError(
            f"metadata.creationTimestamp: {shown(written)}, expected a time such as "
            "2026-01-31T08:00:00Z"
        )
    return found


def started_seconds(pod: objects.Pod) -> float | None:
    """When its machine began with the pod, in seconds since 1970; None if nobody says so yet."""
    written = pod.status and pod.status.start_time
    return _seconds(written) if written else None


def deleted_seconds(pod: objects.Pod) -> float | None:
    """When a pod that is being deleted is stopped at the latest: the API server has added its grace
    period already. None if nobody has deleted it."""
    written = pod.metadata.deletion_timestamp
    return _seconds(written) if written else None


@lru_cache(maxsize=65536)
def _seconds(written: str) -> float | None:
    if _RFC3339.fullmatch(written):
        try:
            return datetime.fromisoformat(written).timestamp()
        except (ValueError, OverflowError):
            pass
    return None


@lru_cache(maxsize=65536)
def _shape(asked: Resources, affinity: NodeAffinity, tolerated: tuple[Toleration, ...]) -> Shape:
    """One object for all tasks of the same shape."""
    return Shape(requests=asked, affinity=affinity, tolerations=tolerated)


@lru_cache(maxsize=65536)
def _special(
    plain: Shape, places: tuple[Places, ...], images: Images | None, profile: str
) -> Shape:
    """The same for tasks that have what most have not."""
    return replace(plain, places=places, images=images, profile=profile)
