"""Rounds with constraints between pods, over random clusters with all of their features mixed.

After each round, judged by the filters of Kubernetes: every pod that was placed, taken out, is
admitted where it is, with everything else in place; and no pod or small gang waits that could be
placed without harm to what runs.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import product
from random import Random

import pytest

from afflux.plan.check import check_complete, check_plan
from oracles import kubernetes_filters as filters
from oracles.builders import decide
from oracles.kubernetes_filters import Cluster, Manifest, bound, name_of, node_of, terms
from oracles.related_pods import RelatedPods

BATCHES = 20
QUICK_BATCHES = 4
CLUSTERS_PER_BATCH = 100
# Places of a gang that are tried.
MAX_COMBINATIONS = 400


def all_admitted(cluster: Cluster, pods: Sequence[Manifest]) -> bool:
    """Whether each of these bound pods, taken out, would be admitted again."""
    return not any(
        filters.refusals(cluster.without(pod), pod, cluster.nodes[node_of(pod)]) for pod in pods
    )


def fits_whole(after: Cluster, pods: Sequence[Manifest], placed: Sequence[Manifest]) -> bool:
    """Whether all of these pods could be placed, with no other of the round refused by that."""
    possible = [
        [
            name
            for name, node in after.nodes.items()
            if not any(filters.node_refusals(pod, node))
            and not any(filters.resource_refusals(after, pod, node))
        ]
        for pod in pods
    ]
    if len(pods) == 1:
        possible = [
            [n for n in possible[0] if not filters.refusals(after, pods[0], after.nodes[n])]
        ]
    for number, names in enumerate(product(*possible)):
        if number == MAX_COMBINATIONS:
            return False
        tried = [bound(pod, name) for pod, name in zip(pods, names, strict=True)]
        with_them = after.with_pods(tried)
        if all_admitted(with_them, [*tried, *placed]):
            return True
    return False


@pytest.mark.parametrize(
    "batch",
    [
        pytest.param(batch, marks=[pytest.mark.slow] if batch >= QUICK_BATCHES else [])
        for batch in range(BATCHES)
    ],
)
def test_every_placement_is_admitted_and_no_pod_waits_needlessly(batch: int):
    first = batch * CLUSTERS_PER_BATCH
    for seed in range(first, first + CLUSTERS_PER_BATCH):
        random = RelatedPods(Random(f"related {seed}"))
        state, groups = random.state(), random.groups()
        decided = decide(state, *groups)
        check_plan(state, decided.placed, decided.placements)
        check_complete(decided.placed, decided.placements)
        machine_of = {each.task.id: each.machine for each in decided.placements}
        pods = [pod for pod in random.pods() if name_of(pod) in machine_of]
        placed = [bound(pod, machine_of[name_of(pod)]) for pod in pods]
        after = random.cluster.with_pods(placed)
        for pod in placed:
            why = filters.refusals(after.without(pod), pod, after.nodes[node_of(pod)])
            assert not why, f"seed {seed}: {name_of(pod)} on {node_of(pod)}"
        for waiting in random.waiting:
            if name_of(waiting[0]) not in machine_of:
                names = [name_of(pod) for pod in waiting]
                assert not fits_whole(after, waiting, placed), f"seed {seed}: {names}"


# --- What the random clusters contain


def affinity_features(cluster: Cluster, pod: Manifest, kind: str) -> Iterator[str]:
    stated = terms(pod, kind)
    if stated:
        yield kind
    if len(stated) > 1:
        yield f"{kind}: several terms"
    for term in stated:
        if "namespaces" in term:
            yield f"{kind}: namespaces"
        if "namespaceSelector" in term:
            yield f"{kind}: namespaceSelector"
    if kind == "podAffinity" and filters.is_self_affine(cluster, pod):
        yield "podAffinity: matches itself"


def spread_features(pod: Manifest, constraint: Manifest) -> Iterator[str]:
    yield "spread"
    if len(filters.hard_constraints(pod)) > 1:
        yield "spread: several constraints"
    for field in ("minDomains", "matchLabelKeys"):
        if field in constraint:
            yield f"spread: {field}"
    if constraint["maxSkew"] > 1:
        yield "spread: maxSkew above 1"
    if constraint.get("nodeAffinityPolicy") == "Ignore":
        yield "spread: nodeAffinityPolicy"
    if constraint.get("nodeTaintsPolicy") == "Honor":
        yield "spread: nodeTaintsPolicy"


def verdicts(cluster: Cluster, pod: Manifest, node: Manifest) -> Iterator[tuple[str, bool]]:
    """The features that the node is judged by, each with its verdict."""
    for feature in affinity_features(cluster, pod, "podAffinity"):
        yield feature, filters.meets_affinity(cluster, pod, node)
    anti_affinity = terms(pod, "podAntiAffinity")
    for feature in affinity_features(cluster, pod, "podAntiAffinity"):
        admitted = (filters.meets_anti_affinity(cluster, pod, node, t) for t in anti_affinity)
        yield feature, all(admitted)
    yield "existing anti-affinity", filters.meets_existing_anti_affinity(cluster, pod, node)
    for constraint in filters.hard_constraints(pod):
        admitted = filters.spread_refusal(cluster, pod, node, constraint) is None
        for feature in spread_features(pod, constraint):
            yield feature, admitted


def test_the_random_clusters_have_every_feature_with_both_verdicts():
    clusters = 400
    having: dict[tuple[str, object], set[int]] = defaultdict(set)
    for seed in range(clusters):
        random = RelatedPods(Random(f"related {seed}"))
        cluster = random.cluster
        having["tight", random.is_tight].add(seed)
        having["several priorities", len(set(random.priorities)) > 1].add(seed)
        having["gangs", any(len(group) > 1 for group in random.waiting)].add(seed)
        having["ending pods", any(map(filters.is_ending, cluster.pods))].add(seed)
        for pod in random.pods():
            for node in cluster.nodes.values():
                for feature, verdict in verdicts(cluster, pod, node):
                    having[feature, verdict].add(seed)
    counts = Counter({key: len(seeds) for key, seeds in having.items()})
    features = {feature for feature, _ in counts}
    assert len(features) == 21
    for feature in features:
        assert min(counts[feature, True], counts[feature, False]) >= clusters / 20, feature
