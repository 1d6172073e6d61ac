"""Regions are sets of nodes: union and intersection mean what they say, in few terms."""

from random import Random

import pytest

from afflux.kube.node_affinity import sorted_terms
from afflux.kube.volumes.regions import EVERYWHERE, NOWHERE, contains, intersection, only, union
from afflux.model.selectors import Requirement, Term
from oracles.random_clusters import LABELS, random_term


def random_region(rng: Random):
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
    regions = [random_region(rng) for _ in range(rng.randint(1, 4))]
    one, other = random_region(rng), random_region(rng)
    for name, labels in nodes(rng):
        assert contains(union(regions), name, labels) == any(
            contains(region, name, labels) for region in regions
        )
        assert contains(intersection(one, other), name, labels) == (
            contains(one, name, labels) and contains(other, name, labels)
        )
        assert contains(only("m3"), name, labels) == (name == "m3")


def test_order_does_not_matter() -> None:
    rng = Random("order")
    for _ in range(50):
        regions = [random_region(rng) for _ in range(4)]
        assert union(regions) == union(reversed(regions))


def test_regions_that_exclude_each_other_meet_nowhere() -> None:
    a, b = ((Term((Requirement("zone", "In", (zone,)),)),) for zone in "ab")
    assert intersection(a, b) == NOWHERE
    assert union([a, b]) == (Term((Requirement("zone", "In", ("a", "b")),)),)
    assert union([]) == NOWHERE
