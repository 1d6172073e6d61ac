"""What has become of pods, as the API server has it; waiting for it; and making objects."""

from collections.abc import Collection, Mapping
from typing import Any

from testbed import ControlPlane, Manifest
from testbed.api import STRATEGIC

# For what happens at once: a machine that is busy with other work may take this long.
AT_ONCE_SECONDS = 30.0

_COLLECTIONS = {
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
    """Where objects of a kind are."""
    return _COLLECTIONS[kind].format(namespace=namespace)


def create(plane: ControlPlane, *manifests: Manifest) -> list[Manifest]:
    """Make these, one after the other."""
    return [
        plane.api.create(
            collection(each["kind"], each["metadata"].get("namespace", "default")), each
        )
        for each in manifests
    ]


def delete(plane: ControlPlane, kind: str, *names: str) -> None:
    """Delete these, gone when this returns or soon after."""
    for name in names:
        plane.api.delete(f"{collection(kind)}/{name}", gracePeriodSeconds=0)


def set_status(plane: ControlPlane, node: str, **status: Any) -> None:
    """Change some of a machine's status, as its kubelet would."""
    plane.api.patch(f"/api/v1/nodes/{node}/status", {"status": status}, STRATEGIC)


def set_ready(plane: ControlPlane, node: str, status: str) -> None:
    """Have a machine say that it is ready, or not, or nothing (`Unknown`)."""
    set_status(plane, node, conditions=[{"type": "Ready", "status": status}])


def set_spec(plane: ControlPlane, node: str, **spec: Any) -> None:
    """Change a machine's spec: cordon it, taint it."""
    plane.api.patch(f"/api/v1/nodes/{node}", {"spec": spec})


# --- Pods


def names(plane: ControlPlane, namespace: str = "default") -> set[str]:
    """Of all pods that are there."""
    return {each["metadata"]["name"] for each in plane.pods(namespace)}


def node_of(plane: ControlPlane, name: str, namespace: str = "default") -> str | None:
    """The machine that a pod has, None if it has none."""
    return plane.pod(name, namespace)["spec"].get("nodeName")


def condition(pod: Manifest) -> Manifest:
    """Its PodScheduled condition, empty if it has none."""
    conditions = pod.get("status", {}).get("conditions", [])
    return next((each for each in conditions if each["type"] == "PodScheduled"), {})


def placed(
    plane: ControlPlane,
    *names: str,
    seconds: float = AT_ONCE_SECONDS,
    namespace: str = "default",
) -> dict[str, str]:
    """The machines of these pods, as soon as all of them have one."""
    found: dict[str, str] = {}

    def look() -> bool:
        for each in plane.pods(namespace):
            if each["spec"].get("nodeName"):
                found[each["metadata"]["name"]] = each["spec"]["nodeName"]
        return found.keys() >= set(names)

    try:
        plane.wait_until(look, "places", seconds)
    except TimeoutError:
        missing = [name for name in names if name not in found]
        why = {name: condition(plane.pod(name, namespace)).get("message") for name in missing}
        raise AssertionError(f"after {seconds:g} s these have no place: {why}") from None
    return {name: found[name] for name in names}


def waits(
    plane: ControlPlane,
    name: str,
    words: str = "",
    *,
    seconds: float = AT_ONCE_SECONDS,
    namespace: str = "default",
) -> Manifest:
    """The condition of a pod that waits, as soon as its message has these words in it."""
    found: Manifest = {}

    def look() -> bool:
        pod = plane.pod(name, namespace)
        assert "nodeName" not in pod["spec"], f"{name} is on {pod['spec']['nodeName']}"
        found.clear()
        found.update(condition(pod))
        return found.get("status") == "False" and words in found.get("message", "")

    try:
        plane.wait_until(look, words, seconds)
    except TimeoutError:
        raise AssertionError(f"expected {words!r}; {name} says {found}") from None
    return found


def events_of(plane: ControlPlane, name: str, reason: str) -> list[Manifest]:
    """The events about a pod with this reason, in the order in which they happened."""
    found = [
        each
        for each in plane.events()
        if each["regarding"].get("name") == name and each["reason"] == reason
    ]
    return sorted(found, key=lambda each: each["eventTime"])


def event_of(plane: ControlPlane, name: str, reason: str) -> Manifest:
    """The first event about a pod with this reason, as soon as it is there."""
    plane.wait_until(lambda: bool(events_of(plane, name, reason)), f"{reason} of {name}")
    return events_of(plane, name, reason)[0]


def count(values: Mapping[Any, str] | Collection[str]) -> dict[str, int]:
    """How often each occurs."""
    listed = list(values.values()) if isinstance(values, Mapping) else list(values)
    return {value: listed.count(value) for value in sorted(set(listed))}
