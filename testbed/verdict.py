"""Checks of the cluster, read from the API server: no pod is bound twice or lost, and no machine is
over its capacity.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from testbed import resource_requests
from testbed.api import Manifest
from testbed.control_plane import ControlPlane

ENDED = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, slots=True)
class Binding:
    """One answered request to bind, from the audit log."""

    namespace: str
    pod: str
    uid: str
    """Empty if the request has none."""
    node: str
    user: str
    code: int
    """201 if the pod was bound; 409 if it was bound already or has another uid."""
    at: str

    @property
    def bound(self) -> bool:
        """Whether the API server granted the request."""
        return 200 <= self.code < 300


@dataclass(frozen=True, slots=True)
class Verdict:
    """The violations, in sentences, and all binding requests."""

    bound_twice: Sequence[str]
    over_capacity: Sequence[str]
    lost: Sequence[str]
    bindings: Sequence[Binding]

    @property
    def complaints(self) -> list[str]:
        """All violations; empty if the cluster is sound."""
        return [*self.bound_twice, *self.over_capacity, *self.lost]

    @property
    def refused(self) -> list[Binding]:
        """Requests that the API server refused. A few are normal."""
        return [binding for binding in self.bindings if not binding.bound]


def verify(
    plane: ControlPlane,
    expected: Iterable[str] = (),
    *,
    ours: Callable[[Manifest], bool] = lambda _: True,
) -> Verdict:
    """Reads pods, nodes and the audit log, and checks them.

    The pods `expected` (`namespace/name`) must exist and be bound. `ours` selects the pods that
    count against capacity; by default all.
    """
    pods, nodes = plane.pods(), plane.nodes()
    seen = bindings(plane)
    return Verdict(
        bound_twice=bound_twice(seen),
        over_capacity=over_capacity(nodes, [pod for pod in pods if ours(pod)]),
        lost=lost(pods, expected),
        bindings=seen,
    )


def assert_sound(plane: ControlPlane, expected: Iterable[str] = ()) -> Verdict:
    """Like `verify`, but raises AssertionError if anything is wrong."""
    verdict = verify(plane, expected)
    complaints = verdict.complaints
    if complaints:
        more = f"\n... and {len(complaints) - 20} more" if len(complaints) > 20 else ""
        raise AssertionError("\n".join(complaints[:20]) + more)
    return verdict


def bindings(plane: ControlPlane) -> list[Binding]:
    """Every answered binding request since the cluster was last emptied, in order.

    They are read from the audit log, which is written before the answer is sent. If an API server
    is killed during a request, this request may have been granted and be missing here.
    """
    log = plane.components.audit_log
    if not log.exists():
        raise FileNotFoundError(f"{log}: this control plane was started with audit=False")
    with log.open("rb") as file:
        file.seek(plane.audit_from)
        lines = file.read().splitlines()
    found: list[Binding] = []
    for line in lines:
        try:
            event = json.loads(line)
        except ValueError:
            continue  # incomplete line of a killed API server
        found.append(_binding(event))
    return found


def bound_twice(seen: Iterable[Binding]) -> list[str]:
    """Pods that were bound more than once. The API server should prevent this."""
    granted: defaultdict[tuple[str, str, str], list[Binding]] = defaultdict(list)
    for binding in seen:
        if binding.bound:
            granted[binding.namespace, binding.pod, binding.uid].append(binding)
    return [
        f"pod {namespace}/{name} was bound {len(times)} times: "
        + ", ".join(f"to {time.node} by {time.user} at {time.at}" for time in times)
        for (namespace, name, _), times in granted.items()
        if len(times) > 1
    ]


def over_capacity(nodes: Iterable[Manifest], pods: Iterable[Manifest]) -> list[str]:
    """Machines whose pods request more than is allocatable. Pods that have ended do not count."""
    requests: defaultdict[str, list[resource_requests.ResourceTable]] = defaultdict(list)
    for pod in pods:
        name = pod["spec"].get("nodeName")
        if name and pod.get("status", {}).get("phase") not in ENDED:
            requests[name].append(resource_requests.of_pod(pod))
    complaints: list[str] = []
    for node in nodes:
        name = node["metadata"]["name"]
        allocatable = resource_requests.of_node(node)
        for resource, amount in resource_requests.total(requests[name]).items():
            if amount > allocatable.get(resource, 0):
                complaints.append(
                    f"machine {name} is over its capacity: pods ask for {amount} of {resource}, "
                    f"it has {allocatable.get(resource, 0)}"
                )
    return complaints


def lost(pods: Iterable[Manifest], expected: Iterable[str]) -> list[str]:
    """Pods that should be bound but do not exist or still wait, with the reason."""
    existing = {f"{pod['metadata']['namespace']}/{pod['metadata']['name']}": pod for pod in pods}
    complaints: list[str] = []
    for key in expected:
        pod = existing.get(key)
        if pod is None:
            complaints.append(f"pod {key} is gone")
        elif not pod["spec"].get("nodeName"):
            reason = _reason(pod)
            complaints.append(f"pod {key} is not bound" + (f": {reason}" if reason else ""))
    return complaints


def _reason(pod: Manifest) -> str:
    """Why the pod waits, from its condition PodScheduled."""
    conditions = pod.get("status", {}).get("conditions", ())
    messages = (each.get("message", "") for each in conditions if each["type"] == "PodScheduled")
    return next(messages, "")


def _binding(event: Manifest) -> Binding:
    about, request = event["objectRef"], event.get("requestObject", {})
    return Binding(
        namespace=about["namespace"],
        pod=about.get("name") or request.get("metadata", {}).get("name", ""),
        uid=about.get("uid") or request.get("metadata", {}).get("uid", ""),
        node=request.get("target", {}).get("name", ""),
        user=event["user"]["username"],
        code=event["responseStatus"]["code"],
        at=event["requestReceivedTimestamp"],
    )
