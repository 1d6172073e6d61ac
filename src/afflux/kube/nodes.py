"""Node objects to machines of the model."""

from afflux.kube import objects
from afflux.kube.images import machine_images
from afflux.kube.input_errors import shown
from afflux.kube.object_limits import MAX_NODE_RESOURCES, limit_exceeded
from afflux.kube.pod_requests import in_units, nanos
from afflux.model.errors import InputError
from afflux.model.implied_resources import attachment_resource
from afflux.model.machine import Machine
from afflux.model.reachability import driver_label
from afflux.model.taints import (
    NOT_READY_KEY,
    UNREACHABLE_KEY,
    UNSCHEDULABLE_KEY,
    Taint,
    Toleration,
    untolerated,
)


def machine(
    node: objects.Node,
    drivers: objects.CSINode | None = None,
    volumes: dict[str, int] | None = None,
) -> Machine:
    """The machine for a node, its CSINode, and the number of its local volumes by resource.

    The capacity is status.allocatable, or status.capacity if that is missing. As in kube-scheduler,
    a node without a number of pods takes no pods.
    """
    spec, status = node.spec or objects.NodeSpec(), node.status or objects.NodeStatus()
    if status.allocatable is not None:
        path, offered = "status.allocatable", status.allocatable
    else:
        path, offered = "status.capacity", status.capacity or {}
    if len(offered) > MAX_NODE_RESOURCES:
        raise InputError(limit_exceeded(path, len(offered), MAX_NODE_RESOURCES, "resources"))
    taints = tuple(_taint(t, f"spec.taints[{i}]") for i, t in enumerate(spec.taints or ()))
    capacity, labels = in_units(nanos(offered, path), path), node.metadata.labels or {}
    if drivers is not None and drivers.spec.drivers:
        # A limit of 0 is kept, unlike an amount of 0 of other resources.
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
        attachment_resource(driver.name): max(0, driver.allocatable.count)
        for driver in drivers
        if driver.allocatable is not None and driver.allocatable.count is not None
    }


def _not_ready(status: objects.NodeStatus, taints: tuple[Taint, ...]) -> tuple[Taint, ...]:
    """The taint that the node controller will add to a node that is not ready, if it is missing.

    It keeps pods away until the controller has written it. A node without a Ready condition counts
    as ready.
    """
    ready = next((c.status for c in status.conditions or () if c.type == "Ready"), "True")
    if ready == "True":
        return ()
    taint = Taint(NOT_READY_KEY if ready == "False" else UNREACHABLE_KEY, "NoSchedule")
    known = any(t.key == taint.key and t.effect == taint.effect for t in taints)
    return () if known else (taint,)


def rejects_pod(node: objects.Node, tolerated: tuple[Toleration, ...]) -> bool:
    """Whether the node rejects a pod with these tolerations. Checks a recent decision again: the
    node may have been cordoned or tainted, or be not ready."""
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
