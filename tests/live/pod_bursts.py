"""Many pods at once on a cluster that has exactly enough room for them.

If the scheduler counts one pod twice or leaks the resources of one, the last pods are never bound.
If it binds one pod too many, the verdict reports the overfilled machine.
"""

import http.client
import threading
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from testbed import ApiError, ControlPlane, Manifest, verdict

WAIT_TIMEOUT_SECONDS = 60.0
NODES = 30
PODS_PER_NODE = 8
CREATE_WORKERS = 8
TRANSIENT_ERRORS = (OSError, http.client.HTTPException, ApiError)


def pod(name: str, cpu: str = "500m", scheduler: str = "afflux", **more: Any) -> Manifest:
    """A pod; `labels` and `annotations` go to its metadata, all other fields to its spec."""
    metadata = {key: more.pop(key) for key in ("labels", "annotations") if key in more}
    resources = {"requests": {"cpu": cpu, "memory": "64Mi"}}
    container = {"name": "main", "image": "testbed.invalid/nothing", "resources": resources}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **metadata},
        "spec": {"schedulerName": scheduler, "containers": [container], **more},
    }


def gang(name: str, size: int, cpu: str = "500m") -> list[Manifest]:
    """The pods of one group."""
    labels = {"afflux.dev/group-name": name, "afflux.dev/group-size": str(size)}
    return [pod(f"{name}-{number}", cpu, labels=labels) for number in range(size)]


def numbered_pods(count: int, prefix: str = "burst", **fields: Any) -> list[Manifest]:
    """Pods with the same fields and numbered names."""
    return [pod(f"{prefix}-{number:03d}", **fields) for number in range(count)]


def names(manifests: Iterable[Manifest]) -> list[str]:
    """The names as namespace/name, which is what `verdict` expects."""
    return [f"default/{each['metadata']['name']}" for each in manifests]


def create_nodes(plane: ControlPlane, count: int = NODES, **fields: Any) -> list[str]:
    """Create machines with room for exactly PODS_PER_NODE pods of the default size each."""
    return plane.create_nodes(count, cpu=str(PODS_PER_NODE // 2), **fields)


def delete_pod(plane: ControlPlane, name: str) -> None:
    """Delete namespace/name without a grace period; the pod may be gone already."""
    try:
        path = f"/api/v1/namespaces/{name.replace('/', '/pods/')}"
        plane.api.delete(path, gracePeriodSeconds=0)
    except ApiError as error:
        if error.status != 404:
            raise


class Burst:
    """Creates pods in a thread at a limited rate, so that a test can act during the burst.

    Retries while the API server is not reachable.
    """

    def __init__(
        self, plane: ControlPlane, manifests: Sequence[Manifest], per_second: float = 200
    ) -> None:
        self.names = names(manifests)
        self._plane = plane
        self._manifests = manifests
        self._gap_seconds = 1 / per_second
        self._thread = threading.Thread(target=self._create, name="burst", daemon=True)
        self._thread.start()

    def wait_bound(self, count: int) -> None:
        """Wait until so many pods have been bound according to the audit log."""

        def enough_bound() -> bool:
            return sum(each.bound for each in verdict.bindings(self._plane)) >= count

        try:
            self._plane.wait_until(enough_bound, f"{count} bound pods", WAIT_TIMEOUT_SECONDS)
        except TimeoutError as error:
            unbound = verdict.lost(self._plane.pods(), self.names)
            raise AssertionError(f"{error}: {_first_of(unbound)}") from None

    def wait_all(self, but: Iterable[str] = ()) -> None:
        """Wait until all pods are created and bound, except for the pods of `but`."""
        self._thread.join(WAIT_TIMEOUT_SECONDS)
        assert not self._thread.is_alive(), "pods could not be created"
        wait_bound(self._plane, set(self.names).difference(but))

    def _create(self) -> None:
        due = time.monotonic()
        with ThreadPoolExecutor(CREATE_WORKERS) as workers:
            for start in range(0, len(self._manifests), CREATE_WORKERS):
                list(workers.map(self._create_one, self._manifests[start : start + CREATE_WORKERS]))
                due += self._gap_seconds * CREATE_WORKERS
                time.sleep(max(0.0, due - time.monotonic()))

    def _create_one(self, manifest: Manifest) -> None:
        deadline = time.monotonic() + WAIT_TIMEOUT_SECONDS
        while time.monotonic() < deadline:
            try:
                self._plane.api.create("/api/v1/namespaces/default/pods", manifest)
            except TRANSIENT_ERRORS as error:
                if isinstance(error, ApiError) and error.status == 409:
                    return  # created before: only the response was lost
                time.sleep(0.1)
            else:
                return


def wait_bound(plane: ControlPlane, expected: Iterable[str]) -> None:
    """Wait until these pods are bound; on a timeout the error has the reasons of the others."""
    expected, unbound = set(expected), ["everything"]

    def all_bound() -> bool:
        nonlocal unbound
        try:
            unbound = verdict.lost(plane.pods(), expected)
        except TRANSIENT_ERRORS:
            return False
        return not unbound

    try:
        plane.wait_until(all_bound, "all pods to be bound", WAIT_TIMEOUT_SECONDS, every=0.2)
    except TimeoutError:
        raise AssertionError(f"after {WAIT_TIMEOUT_SECONDS:g} s {_first_of(unbound)}") from None


def _first_of(complaints: Sequence[str]) -> str:
    more = f" and {len(complaints) - 5} more" if len(complaints) > 5 else ""
    return "; ".join(complaints[:5]) + more
