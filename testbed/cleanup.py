"""Empties the cluster, in the order of the dependencies between objects."""

import time
from collections.abc import Collection, Iterable

from testbed.api import Api, ApiError, Manifest

NAMESPACES = "/api/v1/namespaces"
LEASES = "/apis/coordination.k8s.io/v1/leases"
PRIORITY_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
# Controllers are deleted before their pods, which they would create again. Pods protect claims, and
# claims protect volumes, until controllers remove the finalizers.
PATHS = (
    "/apis/apps/v1/deployments",
    "/apis/apps/v1/statefulsets",
    "/apis/apps/v1/daemonsets",
    "/apis/apps/v1/replicasets",
    "/apis/batch/v1/cronjobs",
    "/apis/batch/v1/jobs",
    "/api/v1/replicationcontrollers",
    "/api/v1/pods",
    "/apis/policy/v1/poddisruptionbudgets",
    "/api/v1/persistentvolumeclaims",
    "/api/v1/persistentvolumes",
    "/apis/storage.k8s.io/v1/volumeattachments",
    "/apis/storage.k8s.io/v1/csistoragecapacities",
    "/apis/storage.k8s.io/v1/csinodes",
    "/apis/storage.k8s.io/v1/csidrivers",
    "/apis/storage.k8s.io/v1/storageclasses",
    "/api/v1/nodes",
    LEASES,
    PRIORITY_CLASSES,
    "/api/v1/resourcequotas",
    "/api/v1/limitranges",
    "/apis/events.k8s.io/v1/events",
)
KEPT_NAMESPACES = frozenset({"default", "kube-system", "kube-public", "kube-node-lease"})
TIMEOUT_SECONDS = 120.0


def delete_everything(api: Api, keep: Collection[str] = ()) -> None:
    """Deletes what tests create and waits until it is gone. The namespaces `keep` stay."""
    # Namespaces first: in a terminating namespace no object can be created.
    kept = KEPT_NAMESPACES.union(keep)
    namespaces = [name for item in api.list(NAMESPACES) if (name := _name(item)) not in kept]
    for name in namespaces:
        _delete(api, f"{NAMESPACES}/{name}")
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while left := _sweep(api, keep):
        if time.monotonic() > deadline:
            raise TimeoutError(f"after {TIMEOUT_SECONDS:g} s there is still {', '.join(left[:9])}")
        time.sleep(0.05)
    if namespaces:
        _finish(api, namespaces)


def _sweep(api: Api, keep: Collection[str]) -> list[str]:
    """Deletes what exists and returns what it found."""
    found: list[str] = []
    for path in PATHS:
        items = [
            item
            for item in api.list(path)
            if not _kept(path, item) and item["metadata"].get("namespace") not in keep
        ]
        found += [f"{path}/{_name(item)}" for item in items]
        for target in _targets(path, items):
            _delete(api, target)
    return found


def _targets(path: str, items: Iterable[Manifest]) -> list[str]:
    """The paths to delete: collections, or single objects if some of the kind must stay."""
    prefix, _, resource = path.rpartition("/")
    targets: set[str] = set()
    for item in items:
        namespace = item["metadata"].get("namespace")
        collection = f"{prefix}/namespaces/{namespace}/{resource}" if namespace else path
        some_stay = path in (LEASES, PRIORITY_CLASSES)
        targets.add(f"{collection}/{_name(item)}" if some_stay else collection)
    return sorted(targets)


def _kept(path: str, item: Manifest) -> bool:
    if path == PRIORITY_CLASSES:
        return _name(item).startswith("system-")
    # Each API server renews one of these leases while it runs.
    return path == LEASES and _name(item).startswith("apiserver-")


def _finish(api: Api, namespaces: Iterable[str]) -> None:
    """Finalizes the namespaces itself: their controller waits five seconds first."""
    kinds = _kinds(api)
    for namespace in namespaces:
        for prefix, resource in kinds:
            _delete(api, f"{prefix}/namespaces/{namespace}/{resource}")
        end = {"metadata": {"name": namespace}, "spec": {"finalizers": list[str]()}}
        try:
            api.request("PUT", f"{NAMESPACES}/{namespace}/finalize", end)
        except ApiError as error:
            if error.status != 404:
                raise


def _kinds(api: Api) -> list[tuple[str, str]]:
    """Prefix and name of every namespaced resource that supports deletecollection."""
    groups = ["/api/v1"]
    groups += [
        f"/apis/{group['preferredVersion']['groupVersion']}" for group in api.get("/apis")["groups"]
    ]
    return [
        (group, resource["name"])
        for group in groups
        for resource in api.get(group)["resources"]
        if resource["namespaced"] and "deletecollection" in resource["verbs"]
    ]


def _delete(api: Api, path: str) -> None:
    try:
        api.delete(path, gracePeriodSeconds=0, propagationPolicy="Background")
    except ApiError as error:
        # 404: already deleted. 409: already being deleted.
        if error.status not in (404, 409):
            raise


def _name(item: Manifest) -> str:
    return item["metadata"]["name"]
