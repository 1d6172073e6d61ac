"""The cache of prices is bounded by what its classes name, not only by their pairs."""

from afflux.cluster.state import State
from afflux.model.selectors import NodeAffinity, Requirement, Term
from afflux.network import pricing
from afflux.network.pricing import Pricing
from afflux.policies.registry import constraints
from oracles.builders import machine, shape


def large(number: int):
    values = tuple(f"v{number}-{each}" for each in range(1_000))
    return shape(affinity=NodeAffinity(required=(Term((Requirement("k", "NotIn", values),)),)))


def test_classes_that_name_much_leave_the_cache_early(monkeypatch):
    monkeypatch.setattr(pricing, "MAX_CACHED_PARTS", 10_000)
    prices = Pricing(State([machine("a")]), constraints(), [])
    for number in range(50):
        assert prices.prices(large(number)).rows.tolist() == [0]
    kept = list(prices._known)
    assert sum(each.parts for each in kept) <= 10_000
    assert len(kept) == 9
    assert kept[-1] == large(49)
