"""What is true, as the API server has it: after every fault, no pod bound twice, none lost, no
machine over its capacity.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from testbed import footprint
from testbed.api import Manifest
from testbed.control_plane import ControlPlane

ENDED = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, slots=True)
class Binding:
    """One answered request to bind, from the audit log."""

    namespace: str
    pod: str
    uid: str
    """Empty if the request named none."""
    node: str
    user: str
    code: int
    """201 if it bound; 409 if the pod was bound already or is another one now."""
    at: str

    @property
    def bound(self) -> bool:
        """Whether the API server did as it was asked."""
        return 200 <= self.code < 300


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is wrong, in sentences, and what was counted on the way."""

    bound_twice: Sequence[str]
    over_capacity: Sequence[str]
    lost: Sequence[str]
    bindings: Sequence[Binding]

    @property
    def complaints(self) -> list[str]:
        """All of it; empty if all is well."""
        return [*self.bound_twice, *self.over_capacity, *self.lost]

    @property
    def refused(self) -> list[Binding]:
        """Requests that the API server did not grant: normal life, but not without limit."""
        return [binding for binding in self.bindings if not binding.bound]


def verify(
    plane: ControlPlane,
    expected: Iterable[str] = (),
    *,
    ours: Callable[[Manifest], bool] = lambda _: True,
) -> Verdict:
    """Read everything back.

    `expected` names pods, as `namespace/name`, that have to exist and be bound; `ours` chooses the
    pods whose machines are checked for capacity, all of them if nothing else is said.
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
    """The verdict, if there is nothing to complain about."""
    verdict = verify(plane, expected)
    complaints = verdict.complaints
    if complaints:
        more = f"\n... and {len(complaints) - 20} more" if len(complaints) > 20 else ""
        raise AssertionError("\n".join(complaints[:20]) + more)
    return verdict


def bindings(plane: ControlPlane) -> list[Binding]:
    """Every answered request to bind since the cluster was last emptied, in order.

    From the audit log, which is written before the answer leaves. The one request that an API
    server is working on when it is killed may have been carried out and be missing here.
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
            continue  # the line that a killed API server was writing
        found.append(_binding(event))
    return found


def bound_twice(seen: Iterable[Binding]) -> list[str]:
    """Pods that were bound more than once, which the API server should make impossible."""
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
    """Machines whose pods ask for more than there is; pods that have ended ask for nothing."""
    held: defaultdict[str, list[footprint.Amounts]] = defaultdict(list)
    for pod in pods:
        name = pod["spec"].get("nodeName")
        if name and pod.get("status", {}).get("phase") not in ENDED:
            held[name].append(footprint.of_pod(pod))
    complaints: list[str] = []
    for node in nodes:
        name = node["metadata"]["name"]
        room = footprint.of_node(node)
        for resource, amount in footprint.total(held[name]).items():
            if amount > room.get(resource, 0):
                complaints.append(
                    f"machine {name} is over its capacity: pods ask for {amount} of {resource}, "
                    f"it has {room.get(resource, 0)}"
                )
    return complaints


def lost(pods: Iterable[Manifest], expected: Iterable[str]) -> list[str]:
    """Pods that should be bound, and are not there or still wait, and what they are told."""
    there = {f"{pod['metadata']['namespace']}/{pod['metadata']['name']}": pod for pod in pods}
    complaints: list[str] = []
    for key in expected:
        pod = there.get(key)
        if pod is None:
            complaints.append(f"pod {key} is gone")
        elif not pod["spec"].get("nodeName"):
            told = _told(pod)
            complaints.append(f"pod {key} is not bound" + (f": {told}" if told else ""))
    return complaints


def _told(pod: Manifest) -> str:
    """Why the pod waits, as its condition says."""
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
