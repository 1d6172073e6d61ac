"""The filters of kube-scheduler for one pod and one node, in plain loops over manifests.

Written from the API documentation of pods: cordon, taints, node selector and node affinity,
resources, topology spread constraints, and affinity and anti-affinity between pods. Manifests are
dictionaries as in JSON, with all the fields that Kubernetes would default left out or given.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Manifest = dict[str, Any]

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
CORDONED = "node(s) were unschedulable"
TAINTED = "node(s) had untolerated taint(s)"
NODE_AFFINITY = "node(s) didn't match Pod's node affinity/selector"
SPREAD = "node(s) didn't match pod topology spread constraints"
SPREAD_LABEL = f"{SPREAD} (missing required label)"
AFFINITY = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
EXISTING = "node(s) didn't satisfy existing pods anti-affinity rules"


@dataclass
class Cluster:
    """Nodes by name, the labels of namespaces, and bound pods: `spec.nodeName` is one of the
    nodes."""

    nodes: dict[str, Manifest]
    namespaces: dict[str, Mapping[str, str]]
    pods: list[Manifest] = field(default_factory=list)

    def without(self, pod: Manifest) -> "Cluster":
        return Cluster(self.nodes, self.namespaces, [each for each in self.pods if each is not pod])

    def with_pods(self, pods: list[Manifest]) -> "Cluster":
        return Cluster(self.nodes, self.namespaces, [*self.pods, *pods])


def refusals(cluster: Cluster, pod: Manifest, node: Manifest) -> tuple[str, ...]:
    """Why the node refuses the pod: what the first filter says that refuses; empty if none does.
    The pod itself must not be among those of the cluster."""
    stages = (
        node_refusals(pod, node),
        resource_refusals(cluster, pod, node),
        spread_refusals(cluster, pod, node),
        affinity_refusals(cluster, pod, node),
    )
    for stage in stages:
        if found := tuple(stage):
            return found
    return ()


def relation_refusals(cluster: Cluster, pod: Manifest, node: Manifest) -> tuple[str, ...]:
    """The same for the constraints between pods alone."""
    found = tuple(spread_refusals(cluster, pod, node))
    return found or tuple(affinity_refusals(cluster, pod, node))


# --- The node alone


def node_refusals(pod: Manifest, node: Manifest) -> Iterator[str]:
    if node["spec"].get("unschedulable"):
        yield CORDONED
    elif not tolerates(pod, node):
        yield TAINTED
    elif not matches_node_affinity(pod, node):
        yield NODE_AFFINITY


def tolerates(pod: Manifest, node: Manifest) -> bool:
    """Whether every taint that keeps pods away is tolerated; all tolerations here are `Exists`."""
    tolerated = {each["key"] for each in pod["spec"].get("tolerations", ())}
    taints = node["spec"].get("taints", ())
    return all(each["effect"] == "PreferNoSchedule" or each["key"] in tolerated for each in taints)


def matches_node_affinity(pod: Manifest, node: Manifest) -> bool:
    labels = node["metadata"]["labels"]
    for key, value in pod["spec"].get("nodeSelector", {}).items():
        if labels.get(key) != value:
            return False
    required = pod["spec"].get("affinity", {}).get("nodeAffinity", {}).get(REQUIRED)
    if required is None:
        return True
    terms = required["nodeSelectorTerms"]
    return any(all(holds(e, labels) for e in term["matchExpressions"]) for term in terms)


def resource_refusals(cluster: Cluster, pod: Manifest, node: Manifest) -> Iterator[str]:
    there = [each for each in cluster.pods if node_of(each) == name_of(node)]
    allocatable = node["status"]["allocatable"]
    if len(there) + 1 > int(allocatable["pods"]):
        yield "Too many pods"
    if sum(map(cpu_of, [*there, pod])) > int(allocatable["cpu"]) and cpu_of(pod):
        yield "Insufficient cpu"


# --- Topology spread


def spread_refusals(cluster: Cluster, pod: Manifest, node: Manifest) -> Iterator[str]:
    for constraint in hard_constraints(pod):
        why = spread_refusal(cluster, pod, node, constraint)
        if why is not None:
            yield why
            return


def hard_constraints(pod: Manifest) -> list[Manifest]:
    stated = pod["spec"].get("topologySpreadConstraints", [])
    return [each for each in stated if each["whenUnsatisfiable"] == "DoNotSchedule"]


def spread_refusal(
    cluster: Cluster, pod: Manifest, node: Manifest, constraint: Manifest
) -> str | None:
    key = constraint["topologyKey"]
    domain = node["metadata"]["labels"].get(key)
    if domain is None:
        return SPREAD_LABEL
    matching: dict[str, int] = {}
    for other in cluster.nodes.values():
        if not is_eligible(pod, other, constraint):
            continue
        value = other["metadata"]["labels"][key]
        matching.setdefault(value, 0)
        for each in cluster.pods:
            if node_of(each) == name_of(other) and is_counted(pod, each, constraint):
                matching[value] += 1
    global_minimum = min(matching.values(), default=0)
    if len(matching) < constraint.get("minDomains", 1):
        global_minimum = 0
    itself = int(selects(selector_of_spread(pod, constraint), labels_of(pod)))
    skew = matching.get(domain, 0) + itself - global_minimum
    return SPREAD if skew > constraint["maxSkew"] else None


def is_eligible(pod: Manifest, node: Manifest, constraint: Manifest) -> bool:
    """Whether a node is part of a domain for this constraint."""
    labels = node["metadata"]["labels"]
    if any(each["topologyKey"] not in labels for each in hard_constraints(pod)):
        return False
    if constraint.get("nodeAffinityPolicy", "Honor") == "Honor" and not matches_node_affinity(
        pod, node
    ):
        return False
    return constraint.get("nodeTaintsPolicy", "Ignore") == "Ignore" or tolerates(pod, node)


def is_counted(pod: Manifest, other: Manifest, constraint: Manifest) -> bool:
    """Pods of the same namespace that match and are not being deleted."""
    if namespace_of(pod) != namespace_of(other) or is_ending(other):
        return False
    return selects(selector_of_spread(pod, constraint), labels_of(other))


def selector_of_spread(pod: Manifest, constraint: Manifest) -> Manifest | None:
    """The selector, and with it the pod's own values of `matchLabelKeys`."""
    selector = constraint.get("labelSelector")
    if selector is None:
        return None
    own = [
        {"key": key, "operator": "In", "values": [labels_of(pod)[key]]}
        for key in constraint.get("matchLabelKeys", ())
        if key in labels_of(pod)
    ]
    return selector | {"matchExpressions": [*selector.get("matchExpressions", ()), *own]}


# --- Affinity and anti-affinity


def affinity_refusals(cluster: Cluster, pod: Manifest, node: Manifest) -> Iterator[str]:
    if not meets_affinity(cluster, pod, node):
        yield AFFINITY
    elif not all(meets_anti_affinity(cluster, pod, node, t) for t in terms(pod, "podAntiAffinity")):
        yield ANTI_AFFINITY
    elif not meets_existing_anti_affinity(cluster, pod, node):
        yield EXISTING


def terms(pod: Manifest, kind: str) -> list[Manifest]:
    return pod["spec"].get("affinity", {}).get(kind, {}).get(REQUIRED, [])


def meets_affinity(cluster: Cluster, pod: Manifest, node: Manifest) -> bool:
    """A pod that matches all terms runs in the domain of every term. The exception: the pod matches
    its own terms, and no pod matches them in any domain."""
    wanted = terms(pod, "podAffinity")
    if any(term["topologyKey"] not in node["metadata"]["labels"] for term in wanted):
        return False
    matching = [
        each
        for each in cluster.pods
        if all(term_selects(cluster, pod, term, each) for term in wanted)
    ]
    if all(
        any(same_domain(cluster, node, each, term["topologyKey"]) for each in matching)
        for term in wanted
    ):
        return True
    in_some_domain = any(
        term["topologyKey"] in cluster.nodes[node_of(each)]["metadata"]["labels"]
        for each in matching
        for term in wanted
    )
    return not in_some_domain and is_self_affine(cluster, pod)


def is_self_affine(cluster: Cluster, pod: Manifest) -> bool:
    wanted = terms(pod, "podAffinity")
    return bool(wanted) and all(term_selects(cluster, pod, term, pod) for term in wanted)


def meets_anti_affinity(cluster: Cluster, pod: Manifest, node: Manifest, term: Manifest) -> bool:
    """No pod that the term selects runs in the domain of the node."""
    return not any(
        term_selects(cluster, pod, term, each)
        and same_domain(cluster, node, each, term["topologyKey"])
        for each in cluster.pods
    )


def meets_existing_anti_affinity(cluster: Cluster, pod: Manifest, node: Manifest) -> bool:
    """No pod in a domain of the node has an anti-affinity term that selects this one."""
    return not any(
        term_selects(cluster, each, term, pod)
        and same_domain(cluster, node, each, term["topologyKey"])
        for each in cluster.pods
        for term in terms(each, "podAntiAffinity")
    )


def term_selects(cluster: Cluster, owner: Manifest, term: Manifest, pod: Manifest) -> bool:
    """Whether a term of the owner selects the pod."""
    stated = term.get("namespaces", [])
    by_labels = term.get("namespaceSelector")
    if not stated and by_labels is None:
        stated = [namespace_of(owner)]
    admitted = namespace_of(pod) in stated or selects(
        by_labels, cluster.namespaces.get(namespace_of(pod), {})
    )
    return admitted and selects(term.get("labelSelector"), labels_of(pod))


def same_domain(cluster: Cluster, node: Manifest, pod: Manifest, key: str) -> bool:
    """Whether a bound pod is in the domain of the node; nodes without the label are in none."""
    value = node["metadata"]["labels"].get(key)
    other = cluster.nodes[node_of(pod)]["metadata"]["labels"].get(key)
    return value is not None and value == other


# --- Selectors and fields


def selects(selector: Manifest | None, labels: Mapping[str, str]) -> bool:
    """A label selector; none selects nothing, an empty one everything."""
    if selector is None:
        return False
    if any(labels.get(key) != value for key, value in selector.get("matchLabels", {}).items()):
        return False
    return all(holds(each, labels) for each in selector.get("matchExpressions", ()))


def holds(expression: Manifest, labels: Mapping[str, str]) -> bool:
    key, values = expression["key"], expression.get("values", ())
    match expression["operator"]:
        case "In":
            return key in labels and labels[key] in values
        case "NotIn":
            return key not in labels or labels[key] not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
    raise ValueError(expression["operator"])


def name_of(item: Manifest) -> str:
    return item["metadata"]["name"]


def namespace_of(pod: Manifest) -> str:
    return pod["metadata"]["namespace"]


def labels_of(pod: Manifest) -> Mapping[str, str]:
    return pod["metadata"]["labels"]


def node_of(pod: Manifest) -> str:
    return pod["spec"]["nodeName"]


def is_ending(pod: Manifest) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def bound(pod: Manifest, node: str) -> Manifest:
    """A copy of the pod, bound to this node."""
    return pod | {"spec": pod["spec"] | {"nodeName": node}}


def cpu_of(pod: Manifest) -> int:
    return int(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"])
