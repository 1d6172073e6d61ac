"""Prices are cached from cycle to cycle and always equal newly computed ones."""

from random import Random

import numpy as np
import pytest

from afflux.cluster.state import State
from afflux.model.errors import InputError
from afflux.model.images import Images
from afflux.model.task import Task
from afflux.network.pricing import Pricing
from afflux.policies.cpu_memory import CpuMemory
from afflux.policies.load_spreading import LoadSpreading
from afflux.policies.policy import Policy, Weighted
from afflux.policies.registry import constraints
from oracles.builders import machine, shape, task
from oracles.random_clusters import MIB, Generator

POLICIES = [Weighted(CpuMemory(), 2), Weighted(LoadSpreading(), 3)]


class CountingPolicy(Policy):
    """Records how many rows each call is about."""

    def __init__(self) -> None:
        self.rows: list[int] = []

    def cost(self, shape, machines):
        self.rows.append(len(machines))
        return np.zeros(len(machines), np.int64)


@pytest.mark.parametrize("seed", range(30))
def test_cached_prices_equal_new_ones_after_any_changes(seed: int):
    rng = Random(f"pricing {seed}")
    generator = Generator(rng)
    generator.constrained = True
    state = State()
    kept = Pricing(state, constraints(), POLICIES)
    shapes = [generator.shape() for _ in range(5)]
    running: list[str] = []
    for step in range(40):
        for _ in range(rng.randint(0, 3)):
            names = list(state.rows)
            kind = rng.choice(("set", "remove", "place", "place", "end", "shape"))
            if kind == "set" or not names:
                state.set_machine(generator.machine(f"m{rng.randrange(9)}"))
            elif kind == "remove":
                state.remove_machine(rng.choice(names))
            elif kind == "place":
                running.append(f"t{step}.{len(running)}")
                new = Task(running[-1], running[-1], rng.choice(shapes))
                state.place(new, rng.choice(names))
            elif kind == "end" and running:
                state.remove(rng.choice(running))
            elif kind == "shape":
                shapes.append(shape(cpu=1, **{f"example.com/new-{step}": 1}))
        for of in rng.sample(shapes, rng.randint(1, len(shapes))):
            ours = kept.prices(of)
            fresh = Pricing(state, constraints(), POLICIES).prices(of)
            assert ours.room.tolist() == fresh.room.tolist()
            assert ours.cost.tolist() == fresh.cost.tolist()
            assert ours.slope.tolist() == fresh.slope.tolist()
            assert ours.rows.tolist() == fresh.rows.tolist()
            assert set(ours.rows.tolist()) <= set(state.rows.values())
            assert ours.machines == len(state)


def test_each_class_is_priced_by_the_policies_of_its_profile():
    state = State([machine("a", cpu=4), machine("b", cpu=4)])
    state.place(task("running", shape(cpu=1)), "a")
    profiles = {"": [Weighted(LoadSpreading(10))], "dear": [Weighted(LoadSpreading(10), 7)]}
    pricing = Pricing(state, constraints(), profiles)
    assert pricing.prices(shape(cpu=1)).cost.tolist() == [10, 0]
    assert pricing.prices(shape(cpu=1, profile="dear")).cost.tolist() == [70, 0]


def test_a_policy_refuses_only_for_its_profile():
    class Nowhere(Policy):
        def admits(self, shape, machines):
            return np.zeros(len(machines), bool)

    state = State([machine("a", cpu=4)])
    nowhere = Nowhere()
    pricing = Pricing(state, constraints(), {"": [], "closed": [Weighted(nowhere)]})
    assert pricing.prices(shape(cpu=1)).room.tolist() == [4]
    assert pricing.prices(shape(cpu=1, profile="closed")).rows.tolist() == []
    assert nowhere not in pricing.policies_of(shape())
    assert pricing.policies_of(shape(profile="closed"))[-1] is nowhere


def test_a_profile_without_policies_is_named():
    pricing = Pricing(State([machine("a")]), constraints(), {"": [], "batch": []})
    with pytest.raises(LookupError, match=r"profile 'none' has no policies; .* '', 'batch'"):
        pricing.prices(shape(profile="none"))


def test_a_changed_cache_key_renews_every_price_of_the_class():
    large = {"app:1": 900 * MIB}
    state = State([machine("a", images=large), machine("b")])
    pricing = Pricing(state, constraints(), [])
    wants, other = shape(images=Images(("app:1",), 1)), shape(cpu=0)
    assert pricing.prices(wants).cost.tolist() == [28, 50]
    plain = pricing.prices(other)
    state.set_machine(machine("b", images=large))
    assert pricing.prices(wants).cost.tolist() == [5, 5]
    assert pricing.prices(other) is plain


def test_in_a_large_cluster_one_more_machine_with_an_image_changes_only_its_own_row():
    large = {"app:1": 900 * MIB}
    state = State([machine(f"m{n}", images=large if n < 300 else {}) for n in range(1000)])
    counting = CountingPolicy()
    pricing = Pricing(state, constraints(), [Weighted(counting)])
    wants = shape(images=Images(("app:1",), 1))
    pricing.prices(wants)
    state.set_machine(machine("m999", images=large))
    pricing.prices(wants)
    assert counting.rows == [1000, 1]


def test_only_changed_rows_are_priced_again():
    state = State([machine(f"m{i}", cpu=9) for i in range(100)])
    counting = CountingPolicy()
    pricing = Pricing(state, constraints(), [Weighted(counting)])
    of = shape(cpu=1)
    pricing.prices(of)
    pricing.prices(of)
    state.place(task("t", of), "m7")
    state.set_machine(machine("m9", cpu=3))
    pricing.prices(of)
    pricing.prices(of)
    assert counting.rows == [100, 2]


def test_costs_add_up_by_weight():
    state = State([machine("m", cpu=10, memory=10)])
    state.place(task("t"), "m")
    of = shape(cpu=2, memory=2)
    prices = Pricing(state, constraints(), POLICIES).prices(of)
    assert prices.cost.tolist() == [2 * 200 + 3 * 100]
    assert prices.slope.tolist() == [2 * 200 + 3 * 100]


def test_classes_evicted_from_the_cache_are_priced_again():
    state = State([machine("m", cpu=9)])
    counting = CountingPolicy()
    pricing = Pricing(
        state, constraints(), [Weighted(counting)], max_cached_pairs=0, min_cached_classes=2
    )
    shapes = [shape(cpu=i) for i in (1, 2, 3)]
    for of in (*shapes, shapes[2], shapes[0]):
        assert pricing.prices(of).room.tolist() == [9 // dict(of.requests)["cpu"]]
    assert len(counting.rows) == 4


class FixedAnswer(Policy):
    """Returns the same answer for every call."""

    def __init__(self, answer) -> None:
        self.answer = answer

    def cost(self, shape, machines):
        return self.answer


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (np.zeros(1, np.int64), "cost: int64 of shape .1,.; expected 2 integers"),
        (np.zeros(2), "cost: float64 of shape .2,.; expected 2 integers"),
        (np.array([0, -1]), "cost: -1; expected 0 to"),
        (np.array([0, 1 << 50]), "cost: 1125899906842624; expected 0 to"),
    ],
)
def test_an_answer_that_is_no_column_of_costs_is_an_error_that_names_the_policy(answer, words: str):
    state = State([machine("m", cpu=9), machine("n", cpu=9)])
    with pytest.raises(InputError, match=f"policy FixedAnswer: {words}"):
        Pricing(state, constraints(), [Weighted(FixedAnswer(answer))]).prices(shape(cpu=1))
