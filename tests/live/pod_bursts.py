"""Many pods at once on a cluster that has just enough room for them.

Every machine takes exactly as many as fit: one pod counted twice, or one place lost for good, and
the last pods wait for ever; one pod too many, and the verdict says so.
"""

import http.client
import threading
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from testbed import ApiError, ControlPlane, Manifest, verdict

PATIENCE_SECONDS = 60.0
NODES = 30
PER_NODE = 8
HANDS = 8
TROUBLE = (OSError, http.client.HTTPException, ApiError)


def pod(name: str, cpu: str = "500m", scheduler: str = "afflux", **more: Any) -> Manifest:
    """A pod; `labels` and `annotations` are its metadata's, anything else its spec's."""
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
    """Pods that start together."""
    labels = {"afflux.dev/group-name": name, "afflux.dev/group-size": str(size)}
    return [pod(f"{name}-{number}", cpu, labels=labels) for number in range(size)]


def many(count: int, prefix: str = "burst", **fields: Any) -> list[Manifest]:
    """Pods of one kind."""
    return [pod(f"{prefix}-{number:03d}", **fields) for number in range(count)]


def names(manifests: Iterable[Manifest]) -> list[str]:
    """namespace/name, as the verdict wants them."""
    return [f"default/{each['metadata']['name']}" for each in manifests]


def create_nodes(plane: ControlPlane, count: int = NODES, **fields: Any) -> list[str]:
    """Machines that take PER_NODE pods of the usual size each, and not one more."""
    return plane.create_nodes(count, cpu=str(PER_NODE // 2), **fields)


def delete_pod(plane: ControlPlane, name: str) -> None:
    """At once; namespace/name. It may be gone already."""
    try:
        path = f"/api/v1/namespaces/{name.replace('/', '/pods/')}"
        plane.api.delete(path, gracePeriodSeconds=0)
    except ApiError as error:
        if error.status != 404:
            raise


class Burst:
    """Pods that are created by a thread while the test does something else.

    An API server that is not there is waited for. Some at a time and not all at once, so that there
    is a middle of the burst.
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
        """Until so many pods have been bound, by the audit log."""

        def enough() -> bool:
            return sum(each.bound for each in verdict.bindings(self._plane)) >= count

        try:
            self._plane.wait_until(enough, f"{count} bound pods", PATIENCE_SECONDS)
        except TimeoutError as error:
            left = verdict.lost(self._plane.pods(), self.names)
            raise AssertionError(f"{error}: {_some(left)}") from None

    def wait_all(self, but: Iterable[str] = ()) -> None:
        """Until every pod is created and bound."""
        self._thread.join(PATIENCE_SECONDS)
        assert not self._thread.is_alive(), "pods could not be created"
        wait_bound(self._plane, set(self.names).difference(but))

    def _create(self) -> None:
        due = time.monotonic()
        with ThreadPoolExecutor(HANDS) as hands:
            for start in range(0, len(self._manifests), HANDS):
                list(hands.map(self._create_one, self._manifests[start : start + HANDS]))
                due += self._gap_seconds * HANDS
                time.sleep(max(0.0, due - time.monotonic()))

    def _create_one(self, manifest: Manifest) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            try:
                self._plane.api.create("/api/v1/namespaces/default/pods", manifest)
            except TROUBLE as error:
                if isinstance(error, ApiError) and error.status == 409:
                    return  # it was there already: only the answer was lost
                time.sleep(0.1)
            else:
                return


def wait_bound(plane: ControlPlane, expected: Iterable[str]) -> None:
    """Until all of these are bound; those that are not say why if it takes too long."""
    expected, left = set(expected), ["everything"]

    def none_left() -> bool:
        nonlocal left
        try:
            left = verdict.lost(plane.pods(), expected)
        except TROUBLE:
            return False
        return not left

    try:
        plane.wait_until(none_left, "all pods to be bound", PATIENCE_SECONDS, every=0.2)
    except TimeoutError:
        raise AssertionError(f"after {PATIENCE_SECONDS:g} s {_some(left)}") from None


def _some(complaints: Sequence[str]) -> str:
    more = f" and {len(complaints) - 5} more" if len(complaints) > 5 else ""
    return "; ".join(complaints[:5]) + more
