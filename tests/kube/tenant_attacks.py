"""Attacks of one tenant: pods that name as much as the API server lets them name.

Run as a program (`python tenant_attacks.py KIND`) it prints what an attack costs: how far the peak
of memory grows, and in which cycle another tenant's pod is placed that came after the attack.
"""

import json
import resource
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass

import msgspec

from afflux.admit.strategies import flow
from afflux.cluster.state import State
from afflux.cycle.loop import Cycle
from afflux.cycle.optimiser import Optimiser
from afflux.kube import objects
from afflux.kube.reader.cluster_reader import ClusterReader
from afflux.policies.cpu_memory import CpuMemory
from afflux.policies.policy import Weighted
from afflux.policies.registry import constraints
from afflux.queue.rules import QueueRules
from oracles.held_tasks import held_tasks

MACHINES = 1_000
MAX_CYCLES = 20
MAX_OBJECT_BYTES = 2_000_000


@dataclass(frozen=True)
class Cost:
    """`cycle` is the one in which the other tenant's pod was placed, None if it still waits."""

    growth_mib: int
    objects_mib: int
    cycle: int | None
    seconds: float
    waiting: int
    reason: str
    cut_searches: int
    untried_sets: int


def node(number: int) -> objects.Node:
    name = f"node-{number}"
    labels = {"kubernetes.io/hostname": name, "zone": f"zone-{number % 3}"}
    offered = {"cpu": "64", "memory": "256Gi", "pods": "110"}
    return _decoded(
        objects.Node,
        {"metadata": {"name": name, "labels": labels}, "status": {"allocatable": offered}},
    )


def pod(name: str, tenant: str, requests: dict[str, str] | None = None, **spec) -> dict:
    ports = spec.pop("ports", [])
    asked = {"cpu": "100m", "memory": "64Mi", **(requests or {})}
    container = {"name": "c", "ports": ports, "resources": {"requests": asked, "limits": asked}}
    return {
        "metadata": {
            "name": name,
            "namespace": tenant,
            "uid": f"{tenant}/{name}",
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {"schedulerName": "afflux", "containers": [container], **spec},
    }


def required_affinity(expressions: list[dict]) -> dict:
    terms = {"nodeSelectorTerms": [{"matchExpressions": expressions}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def affinity_attack() -> Iterator[dict]:
    """Four pods of 2 MB whose affinity names keys that no machine has."""
    for number in range(4):
        expressions, size = [], 0
        while size < MAX_OBJECT_BYTES - 1_000:
            key = f"k{number}-{len(expressions)}"
            expressions.append({"key": key, "operator": "DoesNotExist"})
            size += len(json.dumps(expressions[-1]))
        yield pod(f"affinity-{number}", "attacker", affinity=required_affinity(expressions))


def preference_attack() -> Iterator[dict]:
    """Four pods of 2 MB that prefer machines by values that no machine has."""
    for number in range(4):
        terms, size = [], 0
        while size < MAX_OBJECT_BYTES - 1_000:
            expression = {"key": "zone", "operator": "In", "values": [f"v{number}-{len(terms)}"]}
            terms.append({"weight": 1, "preference": {"matchExpressions": [expression]}})
            size += len(json.dumps(terms[-1]))
        preferred = {"preferredDuringSchedulingIgnoredDuringExecution": terms}
        yield pod(f"prefers-{number}", "attacker", affinity={"nodeAffinity": preferred})


def value_attack() -> Iterator[dict]:
    """1,000 pods, each with 4,000 values of its own that one label may not have."""
    for number in range(1_000):
        values = [f"v{number}-{each}" for each in range(4_000)]
        expression = {"key": "zone", "operator": "NotIn", "values": values}
        yield pod(f"values-{number}", "attacker", affinity=required_affinity([expression]))


def resource_attack() -> Iterator[dict]:
    """1,000 pods with 60 invented resources each."""
    for number in range(1_000):
        invented = {f"example.com/r{number}-{each}": "1" for each in range(60)}
        yield pod(f"resources-{number}", "attacker", invented)


def port_attack() -> Iterator[dict]:
    """500 pods with 120 host ports each, all different."""
    for number in range(500):
        ports = [{"containerPort": 1, "hostPort": 1 + number * 120 + each} for each in range(120)]
        yield pod(f"ports-{number}", "attacker", ports=ports)


def key_attack() -> Iterator[dict]:
    """1,000 pods with 100 label keys each that no machine has."""
    for number in range(1_000):
        keys = [f"key-{number}-{each}" for each in range(100)]
        expressions = [{"key": key, "operator": "DoesNotExist"} for key in keys]
        yield pod(f"keys-{number}", "attacker", affinity=required_affinity(expressions))


def toleration_attack() -> Iterator[dict]:
    """Four pods of 2 MB with tolerations of taints that no machine has."""
    for number in range(4):
        tolerated, size = [], 0
        while size < MAX_OBJECT_BYTES - 1_000:
            tolerated.append({"key": f"t{number}-{len(tolerated)}", "operator": "Exists"})
            size += len(json.dumps(tolerated[-1]))
        yield pod(f"tolerations-{number}", "attacker", tolerations=tolerated)


def term_attack() -> Iterator[dict]:
    """500 pods with 60 terms of their own and labels of their own, which no selector requires."""
    for number in range(500):
        terms = [
            {
                "topologyKey": ("zone", "kubernetes.io/hostname")[each % 2],
                "namespaceSelector": {},
                "labelSelector": {
                    "matchExpressions": [{"key": f"k{number}-{each}", "operator": "Exists"}]
                },
            }
            for each in range(60)
        ]
        required = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
        given = pod(f"terms-{number}", "attacker", affinity={"podAntiAffinity": required})
        given["metadata"]["labels"] = {f"own-{number}": "x"}
        yield given


def spread_attack() -> Iterator[dict]:
    """1,000 pods with constraints for 16 topology keys of their own each."""
    for number in range(1_000):
        constraints = [
            {"topologyKey": f"t{number}-{each}", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
            for each in range(16)
        ]
        yield pod(f"spread-{number}", "attacker", topologySpreadConstraints=constraints)


def _repelling_everything(selector: dict) -> dict:
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "namespaceSelector": {},
        "labelSelector": selector,
    }
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def expression_attack() -> Iterator[dict]:
    """250 pods that repel every pod, each by 510 expressions of its own."""
    for number in range(250):
        absent = [{"key": f"k{number}-{e}", "operator": "DoesNotExist"} for e in range(510)]
        affinity = _repelling_everything({"matchExpressions": absent})
        yield pod(f"expressions-{number}", "attacker", affinity=affinity)


def repulsion_attack() -> Iterator[dict]:
    """700 pods that repel every pod, each by a selector of its own."""
    for number in range(700):
        absent = [{"key": f"k{number}", "operator": "DoesNotExist"}]
        affinity = _repelling_everything({"matchExpressions": absent})
        yield pod(f"repels-{number}", "attacker", affinity=affinity)


def set_attack() -> Iterator[dict]:
    """1,000 different pods of two kinds that require and repel each other: no pair has a place."""
    key = "kubernetes.io/hostname"
    for number in range(1_000):
        own, other = ("a", "b") if number % 2 else ("b", "a")
        terms = [{"topologyKey": key, "labelSelector": {"matchLabels": {"app": other}}}]
        required = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
        affinity = {"podAffinity": required, "podAntiAffinity": required}
        requests = {"cpu": f"{100 + number}m"}
        made = pod(f"sets-{number}", "attacker", requests, affinity=affinity)
        made["metadata"]["labels"] = {"app": own}
        yield made


def skew_attack() -> Iterator[dict]:
    """2,000 pods with constraints that differ in their skew only, on 400 selectors of their own."""
    for number in range(2_000):
        absent = {"key": f"k{number % 400}", "operator": "DoesNotExist"}
        spread = [
            {
                "topologyKey": key,
                "maxSkew": 1 + number,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchExpressions": [absent]},
            }
            for key in ("kubernetes.io/hostname", "zone")
        ]
        yield pod(f"skews-{number}", "attacker", topologySpreadConstraints=spread)


ATTACKS = {
    "skews": skew_attack,
    "expressions": expression_attack,
    "repulsion": repulsion_attack,
    "sets": set_attack,
    "affinity": affinity_attack,
    "preferences": preference_attack,
    "values": value_attack,
    "resources": resource_attack,
    "ports": port_attack,
    "keys": key_attack,
    "tolerations": toleration_attack,
    "terms": term_attack,
    "spread": spread_attack,
}


def measure(kind: str) -> Cost:
    reader = ClusterReader(["afflux"])
    state = State()
    policies = {"afflux": [Weighted(CpuMemory())]}
    cycle = Cycle(state, Optimiser(state, [(QueueRules(), flow)], constraints(), policies))
    for number in range(MACHINES):
        reader.nodes.changed(node(number))
    reader.pods.changed(_decoded(objects.Pod, pod("warm-up", "other")))
    reader.assume(cycle.run(reader.take_events()).placements)

    before = _peak_mib()
    for manifest in ATTACKS[kind]():
        reader.pods.changed(_decoded(objects.Pod, manifest))
    reader.pods.changed(_decoded(objects.Pod, pod("late", "other")))
    received = _peak_mib()
    began, placed, cut, untried = time.monotonic(), None, 0, 0
    for number in range(1, MAX_CYCLES + 1):
        outcome = cycle.run(reader.take_events(), float(number))
        placements = outcome.placements
        if outcome.decision is not None:
            cut += outcome.decision.plan.cut_searches
            untried += outcome.decision.plan.untried_sets
        reader.assume(placements)
        if any(each.task.name == "other/late" for each in placements):
            placed = number
            break
    seconds = time.monotonic() - began
    held = held_tasks(reader.register)
    reasons = [hold.why for _, hold in held] or [""]
    waiting = len(held) + sum(len(g.tasks) for g in cycle.queue)
    growth, own = _peak_mib() - received, received - before
    reason = reasons[-1][:300]
    return Cost(growth, own, placed, round(seconds, 2), waiting, reason, cut, untried)


def _decoded(kind, manifest: dict):
    return msgspec.json.decode(json.dumps(manifest).encode(), type=kind)


def _peak_mib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


if __name__ == "__main__":
    print(json.dumps(asdict(measure(sys.argv[1]))))
