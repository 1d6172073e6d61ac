"""The resource requests of a pod, as kube-scheduler computes them, in the model's units.

Containers and sidecars run at the same time; init containers run one after the other, each beside
the sidecars before it. A pod needs, per resource, the larger of the two, or its pod-level request,
plus its overhead. A limit without a request counts as a request. A container that is being resized
counts with the maximum of its actual, allocated and desired requests.

A container without a request for CPU or memory counts in costs, not in what fits, with the amounts
that kube-scheduler takes: otherwise no machine would look fuller for it.
"""

from collections.abc import Mapping

from afflux.kube import objects
from afflux.kube.input_errors import entry
from afflux.kube.quantities import QuantityValue, nano, to_amount
from afflux.kube.sized_cache import sized_cache
from afflux.model.errors import InputError
from afflux.model.resources import CPU, MEMORY, PODS, Resources, resources

Nanos = dict[str, int]
_Statuses = Mapping[str | None, objects.ContainerStatus]

# Resources in the cache of requests: 50,000 common pods, about 60 MB.
_MAX_CACHED_REQUESTS = 400_000

# What a container without a request counts for in costs, in billionths: 100m and 200Mi.
_UNREQUESTED: Nanos = {CPU: 10**8, MEMORY: 200 * 2**20 * 10**9}

_NO_STATUSES: _Statuses = {}
_NO_RESOURCES = objects.ContainerResources()


def requests(pod: objects.Pod) -> tuple[Resources, Resources]:
    """The requests of the pod, including its pod slot, and what its containers without a request
    for CPU or memory add to the costs of a machine. An InputError names the invalid field."""
    containers = pod.spec.containers
    if containers and len(containers) == 1 and _is_plain(pod):
        stated = containers[0].resources or _NO_RESOURCES
        return _single(
            tuple(stated.requests.items()) if stated.requests else (),
            tuple(stated.limits.items()) if stated.limits else (),
        )
    return _with_pod_level(_containers(pod), pod.spec), _unrequested(pod)


def _unrequested(pod: objects.Pod) -> Resources:
    spec = pod.spec
    everything = (*(spec.containers or ()), *(spec.init_containers or ()))
    if all(_requests_all(container) for container in everything):
        return ()
    total, scored = _containers(pod), _containers(pod, _UNREQUESTED)
    if spec.resources is not None:
        pod_level = _pod_level(spec.resources, total)
        total.update(pod_level)
        scored.update(pod_level)
    more = {name: scored.get(name, 0) - total.get(name, 0) for name in _UNREQUESTED}
    return in_units(more, "spec")


def _requests_all(container: objects.Container) -> bool:
    """Whether a container states a request or a limit for CPU and for memory."""
    stated = container.resources
    if stated is None:
        return False
    requests, limits = stated.requests or {}, stated.limits or {}
    return all(name in requests or name in limits for name in _UNREQUESTED)


def _with_pod_level(total: Nanos, spec: objects.PodSpec) -> Resources:
    if spec.resources is not None:
        total.update(_pod_level(spec.resources, total))
    if spec.overhead:
        _add(total, nanos(spec.overhead, "spec.overhead"))
    total[PODS] = 10**9
    return in_units(total, "spec: sum of requests")


def _is_plain(pod: objects.Pod) -> bool:
    """Whether the requests depend on the containers only, and not on a status."""
    spec, status = pod.spec, pod.status
    if spec.init_containers or spec.resources or spec.overhead:
        return False
    return not (spec.node_name and status is not None and status.container_statuses)


def _size(found: tuple[Resources, Resources]) -> int:
    return len(found[0]) + len(found[1]) + 4


@sized_cache(_size, _MAX_CACHED_REQUESTS)
def _single(
    stated: tuple[tuple[str, QuantityValue], ...], limits: tuple[tuple[str, QuantityValue], ...]
) -> tuple[Resources, Resources]:
    """A pod with one container. Cached: many pods have equal requests."""
    wanted = objects.ContainerResources(dict(stated), dict(limits))
    container = objects.Container(resources=wanted)
    total = _container(container, "spec.containers[0]", _NO_STATUSES, False)
    missing = {name: amount for name, amount in _UNREQUESTED.items() if name not in total}
    return _with_pod_level(total, objects.PodSpec()), in_units(missing, "spec")


def in_units(amounts: Nanos, path: str) -> Resources:
    """Billionths to the model's units, rounded up."""
    try:
        return resources((name, to_amount(name, amount)) for name, amount in amounts.items())
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def nanos(amounts: objects.ResourceTable, path: str) -> Nanos:
    found: Nanos = {}
    for name, written in amounts.items():
        try:
            found[name] = nano(written)
        except InputError as error:
            raise InputError(f"{entry(path, name)}: {error}") from None
    return found


def is_sidecar(container: objects.Container) -> bool:
    return container.restart_policy == "Always"


def _containers(pod: objects.Pod, missing: Nanos | None = None) -> Nanos:
    """The maximum over time of what containers, sidecars and init containers use; a container that
    does not request a resource in `missing` counts with that amount."""
    missing = missing or {}
    status = pod.status if pod.spec.node_name else None
    infeasible = status is not None and any(
        condition.type == "PodResizePending" and condition.reason == "Infeasible"
        for condition in status.conditions or ()
    )
    total: Nanos = {}
    statuses = _by_name(status.container_statuses) if status else _NO_STATUSES
    for index, container in enumerate(pod.spec.containers or ()):
        if container.resources is not None:
            path = f"spec.containers[{index}]"
            _add(total, missing | _container(container, path, statuses, infeasible))
        else:
            _add(total, missing)
    if not pod.spec.init_containers:
        return total

    statuses = _by_name(status.init_container_statuses) if status else _NO_STATUSES
    sidecars: Nanos = {}
    peak: Nanos = {}
    for index, container in enumerate(pod.spec.init_containers):
        path = f"spec.initContainers[{index}]"
        if is_sidecar(container):
            mine = missing | _container(container, path, statuses, infeasible)
            _add(total, mine)
            _add(sidecars, mine)
            _take_maximum(peak, sidecars)
        else:
            mine = missing | _container(container, path, _NO_STATUSES, infeasible)
            _add(mine, sidecars)
            _take_maximum(peak, mine)
    _take_maximum(total, peak)
    return total


def _container(
    container: objects.Container, path: str, statuses: _Statuses, resize_infeasible: bool
) -> Nanos:
    wanted = container.resources or objects.ContainerResources()
    found = nanos(wanted.requests or {}, f"{path}.resources.requests")
    # A limit replaces a missing request; other limits do not matter.
    missing = {name: limit for name, limit in (wanted.limits or {}).items() if name not in found}
    found |= nanos(missing, f"{path}.resources.limits")
    status = statuses.get(container.name)
    if status is None or status.resources is None:
        return found
    if resize_infeasible:
        # The resize will not happen: only its current resources count.
        found = {}
    where = f"{path}: its status"
    _take_maximum(found, nanos(status.resources.requests or {}, f"{where}: resources.requests"))
    _take_maximum(found, nanos(status.allocated_resources or {}, f"{where}: allocatedResources"))
    return found


def _pod_level(stated: objects.ContainerResources, containers: Nanos) -> Nanos:
    """Pod-level requests, which replace the sum over the containers. A limit replaces a missing
    request; for CPU and memory only if no container requests any."""
    found = nanos(stated.requests or {}, "spec.resources.requests")
    missing = {
        name: limit
        for name, limit in (stated.limits or {}).items()
        if name not in found and not (name in {CPU, MEMORY} and name in containers)
    }
    found |= nanos(missing, "spec.resources.limits")
    return {name: amount for name, amount in found.items() if _is_pod_level_resource(name)}


def _is_pod_level_resource(resource: str) -> bool:
    return resource in {CPU, MEMORY} or resource.startswith("hugepages-")


def _by_name(statuses: tuple[objects.ContainerStatus, ...] | None) -> _Statuses:
    return {status.name: status for status in statuses or ()}


def _add(total: Nanos, more: Nanos) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _take_maximum(total: Nanos, floor: Nanos) -> None:
    for name, amount in floor.items():
        if amount > total.get(name, 0):
            total[name] = amount
