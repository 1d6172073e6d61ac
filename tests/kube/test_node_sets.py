"""Union and intersection of node sets agree with membership, and merge terms."""

from random import Random

import pytest

from afflux.kube.node_constraints import sorted_terms
from afflux.kube.volumes.node_sets import EVERYWHERE, NOWHERE, contains, intersection, only, union
from afflux.model.selectors import Requirement, Term
from oracles.random_clusters import LABELS, random_term


def random_node_set(rng: Random):
    if rng.random() < 0.1:
        return EVERYWHERE
    return sorted_terms(t for _ in range(rng.randint(0, 3)) if (t := random_term(rng)) != Term())


def nodes(rng: Random) -> list[tuple[str, dict[str, str]]]:
    return [
        (f"m{number}", {k: rng.choice(v) for k, v in LABELS.items() if rng.random() < 0.7})
        for number in range(12)
    ]


@pytest.mark.parametrize("seed", range(150))
def test_union_and_intersection_hold_for_every_node(seed: int) -> None:
    rng = Random(f"regions {seed}")
    node_sets = [random_node_set(rng) for _ in range(rng.randint(1, 4))]
    one, other = random_node_set(rng), random_node_set(rng)
    for name, labels in nodes(rng):
        assert contains(union(node_sets), name, labels) == any(
            contains(node_set, name, labels) for node_set in node_sets
        )
        assert contains(intersection(one, other), name, labels) == (
            contains(one, name, labels) and contains(other, name, labels)
        )
        assert contains(only("m3"), name, labels) == (name == "m3")


def test_the_union_does_not_depend_on_order() -> None:
    rng = Random("order")
    for _ in range(50):
        node_sets = [random_node_set(rng) for _ in range(4)]
        assert union(node_sets) == union(reversed(node_sets))


def test_disjoint_sets_have_an_empty_intersection() -> None:
    a, b = ((Term((Requirement("zone", "In", (zone,)),)),) for zone in "ab")
    assert intersection(a, b) == NOWHERE
    assert union([a, b]) == (Term((Requirement("zone", "In", ("a", "b")),)),)
    assert union([]) == NOWHERE
