"""Create, change and delete objects on the API server; wait for placements, reasons and events."""

from collections.abc import Collection, Mapping
from typing import Any

from testbed import ControlPlane, Manifest
from testbed.api import STRATEGIC

# Usually immediate; a busy machine may take this long.
WAIT_TIMEOUT_SECONDS = 30.0

_COLLECTIONS = {
    "Namespace": "/api/v1/namespaces",
    "Pod": "/api/v1/namespaces/{namespace}/pods",
    "Node": "/api/v1/nodes",
    "PersistentVolume": "/api/v1/persistentvolumes",
    "PersistentVolumeClaim": "/api/v1/namespaces/{namespace}/persistentvolumeclaims",
    "StorageClass": "/apis/storage.k8s.io/v1/storageclasses",
    "CSINode": "/apis/storage.k8s.io/v1/csinodes",
    "CSIDriver": "/apis/storage.k8s.io/v1/csidrivers",
    "CSIStorageCapacity": "/apis/storage.k8s.io/v1/namespaces/{namespace}/csistoragecapacities",
    "RuntimeClass": "/apis/node.k8s.io/v1/runtimeclasses",
}


def collection(kind: str, namespace: str = "default") -> str:
    """The path of the objects of a kind."""
    return _COLLECTIONS[kind].format(namespace=namespace)


def create(plane: ControlPlane, *manifests: Manifest) -> list[Manifest]:
    """Create these objects one after the other."""
    return [
        plane.api.create(
            collection(each["kind"], each["metadata"].get("namespace", "default")), each
        )
        for each in manifests
    ]


def delete(plane: ControlPlane, kind: str, *names: str) -> None:
    """Delete these objects without a grace period."""
    for name in names:
        plane.api.delete(f"{collection(kind)}/{name}", gracePeriodSeconds=0)


def set_status(plane: ControlPlane, node: str, **status: Any) -> None:
    """Patch the status of a node, as its kubelet would."""
    plane.api.patch(f"/api/v1/nodes/{node}/status", {"status": status}, STRATEGIC)


def set_ready(plane: ControlPlane, node: str, status: str) -> None:
    """Set the Ready condition of a node: True, False or Unknown."""
    set_status(plane, node, conditions=[{"type": "Ready", "status": status}])


def set_spec(plane: ControlPlane, node: str, **spec: Any) -> None:
    """Patch the spec of a node: cordon it, taint it."""
    plane.api.patch(f"/api/v1/nodes/{node}", {"spec": spec})


# --- Pods


def names(plane: ControlPlane, namespace: str = "default") -> set[str]:
    """The names of all pods."""
    return {each["metadata"]["name"] for each in plane.pods(namespace)}


def node_of(plane: ControlPlane, name: str, namespace: str = "default") -> str | None:
    """The node of a pod, None if the pod is not bound."""
    return plane.pod(name, namespace)["spec"].get("nodeName")


def condition(pod: Manifest) -> Manifest:
    """The PodScheduled condition of a pod, empty if it has none."""
    conditions = pod.get("status", {}).get("conditions", [])
    return next((each for each in conditions if each["type"] == "PodScheduled"), {})


def wait_placed(
    plane: ControlPlane,
    *names: str,
    seconds: float = WAIT_TIMEOUT_SECONDS,
    namespace: str = "default",
) -> dict[str, str]:
    """Wait until these pods are bound; returns their nodes."""
    found: dict[str, str] = {}

    def check() -> bool:
        for each in plane.pods(namespace):
            if each["spec"].get("nodeName"):
                found[each["metadata"]["name"]] = each["spec"]["nodeName"]
        return found.keys() >= set(names)

    try:
        plane.wait_until(check, "the pods to be bound", seconds)
    except TimeoutError:
        missing = [name for name in names if name not in found]
        why = {name: condition(plane.pod(name, namespace)).get("message") for name in missing}
        raise AssertionError(f"after {seconds:g} s these pods are not bound: {why}") from None
    return {name: found[name] for name in names}


def wait_for_reason(
    plane: ControlPlane,
    name: str,
    words: str = "",
    *,
    seconds: float = WAIT_TIMEOUT_SECONDS,
    namespace: str = "default",
) -> Manifest:
    """Wait until the condition of an unbound pod has these words in its message; returns it."""
    found: Manifest = {}

    def check() -> bool:
        pod = plane.pod(name, namespace)
        assert "nodeName" not in pod["spec"], f"{name} is on {pod['spec']['nodeName']}"
        found.clear()
        found.update(condition(pod))
        return found.get("status") == "False" and words in found.get("message", "")

    try:
        plane.wait_until(check, words, seconds)
    except TimeoutError:
        raise AssertionError(f"expected {words!r}; {name} says {found}") from None
    return found


def events_of(plane: ControlPlane, name: str, reason: str) -> list[Manifest]:
    """The events of a pod with this reason, ordered by time."""
    found = [
        each
        for each in plane.events()
        if each["regarding"].get("name") == name and each["reason"] == reason
    ]
    return sorted(found, key=lambda each: each["eventTime"])


def event_of(plane: ControlPlane, name: str, reason: str) -> Manifest:
    """Wait for an event of a pod with this reason; returns the first one."""
    plane.wait_until(lambda: bool(events_of(plane, name, reason)), f"{reason} of {name}")
    return events_of(plane, name, reason)[0]


def count(values: Mapping[Any, str] | Collection[str]) -> dict[str, int]:
    """How often each value occurs."""
    listed = list(values.values()) if isinstance(values, Mapping) else list(values)
    return {value: listed.count(value) for value in sorted(set(listed))}
