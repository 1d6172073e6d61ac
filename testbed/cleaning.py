"""Back to an empty cluster, in the order in which things hold on to each other."""

import time

from testbed.api import Api, ApiError, Manifest

# What makes pods goes before the pods, or they come back.
OWNERS = (
    "/apis/apps/v1/deployments",
    "/apis/apps/v1/statefulsets",
    "/apis/apps/v1/daemonsets",
    "/apis/apps/v1/replicasets",
    "/apis/batch/v1/cronjobs",
    "/apis/batch/v1/jobs",
    "/api/v1/replicationcontrollers",
)
PODS = "/api/v1/pods"
# Claims are held by pods, volumes by claims; controllers let go of them a moment later.
REST = (
    "/apis/policy/v1/poddisruptionbudgets",
    "/api/v1/persistentvolumeclaims",
    "/api/v1/persistentvolumes",
    "/apis/storage.k8s.io/v1/volumeattachments",
    "/apis/storage.k8s.io/v1/csistoragecapacities",
    "/apis/storage.k8s.io/v1/csinodes",
    "/apis/storage.k8s.io/v1/csidrivers",
    "/apis/storage.k8s.io/v1/storageclasses",
    "/api/v1/nodes",
    "/apis/coordination.k8s.io/v1/leases",
    "/apis/scheduling.k8s.io/v1/priorityclasses",
    "/apis/events.k8s.io/v1/events",
    "/api/v1/resourcequotas",
    "/api/v1/limitranges",
)
NAMESPACES = "/api/v1/namespaces"
KEPT_NAMESPACES = frozenset({"default", "kube-system", "kube-public", "kube-node-lease"})
PATIENCE_SECONDS = 120.0


def delete_everything(api: Api) -> None:
    """Delete what tests make, and wait until it is gone."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while left := _sweep(api):
        if time.monotonic() > deadline:
            raise TimeoutError(
                f"after {PATIENCE_SECONDS:g} s there are still {', '.join(sorted(left)[:20])}"
            )
        time.sleep(0.05)


def _sweep(api: Api) -> set[str]:
    """Delete what is there; what was found."""
    found: set[str] = set()
    for path in (*OWNERS, PODS, *REST, NAMESPACES):
        items = [item for item in api.list(path) if not _kept(path, item)]
        found |= {f"{path}/{item['metadata']['name']}" for item in items}
        _delete(api, path, items)
    return found


def _delete(api: Api, path: str, items: list[Manifest]) -> None:
    prefix, _, resource = path.rpartition("/")
    standing = [item for item in items if path == PODS or not _leaving(item)]
    if path in (NAMESPACES, "/apis/coordination.k8s.io/v1/leases") or _kinds_kept(path):
        # Here some have to stay: one by one.
        paths = [_path_of(prefix, resource, item) for item in standing]
    else:
        paths = sorted({_path_of(prefix, resource, item, whole=True) for item in standing})
    for target in paths:
        try:
            api.delete(target, gracePeriodSeconds=0, propagationPolicy="Background")
        except ApiError as error:
            if error.status not in (404, 409):
                raise


def _path_of(prefix: str, resource: str, item: Manifest, *, whole: bool = False) -> str:
    namespace = item["metadata"].get("namespace")
    path = f"{prefix}/namespaces/{namespace}/{resource}" if namespace else f"{prefix}/{resource}"
    return path if whole else f"{path}/{item['metadata']['name']}"


def _leaving(item: Manifest) -> bool:
    return "deletionTimestamp" in item["metadata"]


def _kinds_kept(path: str) -> bool:
    return path.endswith("/priorityclasses")


def _kept(path: str, item: Manifest) -> bool:
    name: str = item["metadata"]["name"]
    if path == NAMESPACES:
        return name in KEPT_NAMESPACES
    if path.endswith("/priorityclasses"):
        return name.startswith("system-")
    if path.endswith("/leases"):
        return name.startswith("apiserver-")  # each API server says with it that it is alive
    return False
