"""The certificate accepts optimal flows and names the first violation of others."""

import numpy as np
import pytest
from random_networks import KINDS, Network, anything, drawn, network

from afflux._core import InfeasibleError, solve
from afflux.network.certificate import violation

# Two units from 0 to 2: one through the cheap and narrow node 1, one directly.
TWO_WAYS = network([2, 0, -2], (0, 1, 0, 1, 1), (1, 2, 0, 1, 1), (0, 2, 0, 5, 7))
FLOW = np.array([1, 1, 1])
PRICE = np.array([0, 3, 7])


def test_an_optimal_flow_with_its_prices_passes() -> None:
    assert violation(*TWO_WAYS, FLOW, PRICE) is None


@pytest.mark.parametrize(
    ("flow", "price", "sentence"),
    [
        ([1, 1, 0], PRICE, "node 0 sends 1 more than it receives, its supply is 2"),
        ([1, 0, 1], PRICE, "node 1 sends -1 more than it receives, its supply is 0"),
        ([2, 2, 0], PRICE, "arc 0 carries 2, its bounds are 0 and 1"),
        ([-1, -1, 3], PRICE, "arc 0 carries -1, its bounds are 0 and 1"),
        ([0, 0, 2], PRICE, "arc 0 carries 0, its bounds are 0 and 1, but its reduced cost is -2"),
        (FLOW, [0, 3, 8], "arc 2 carries 1, its bounds are 0 and 5, but its reduced cost is -1"),
        (FLOW, [0, 0, 7], "arc 0 carries 1, its bounds are 0 and 1, but its reduced cost is 1"),
        ([1, 1], PRICE, "2 flows and 3 prices, expected 3 and 3: one per arc and one per node"),
        (FLOW, [0, 3], "3 flows and 2 prices, expected 3 and 3: one per arc and one per node"),
    ],
)
def test_the_first_violation_is_named(flow, price, sentence: str) -> None:
    assert violation(*TWO_WAYS, np.array(flow), np.array(price)) == sentence


def _answers() -> list[tuple[Network, np.ndarray, np.ndarray]]:
    answers = []
    for of in (of for kind in KINDS for of in drawn(kind, 20, offset=3)):
        try:
            answer = solve(*of)
        except InfeasibleError:
            continue
        answers.append((of, answer.flow, answer.price))
    return answers


def test_a_flow_changed_on_one_arc_fails() -> None:
    """A single arc that carries one unit more or less unbalances two nodes, unless it is a loop."""
    for of, flow, price in _answers():
        for arc in np.flatnonzero(of.tail != of.head)[:10]:
            for change in (-1, 1):
                changed = flow.copy()
                changed[arc] += change
                assert violation(*of, changed, price) is not None


def test_a_changed_price_at_an_arc_between_its_bounds_fails() -> None:
    """Where an arc could carry both more and less, its reduced cost must be zero exactly."""
    tried = 0
    for of, flow, price in _answers():
        movable = (of.tail != of.head) & (flow > of.lower) & (flow < of.capacity)
        for arc in np.flatnonzero(movable)[:10]:
            for change in (-1, 1):
                changed = price.copy()
                changed[of.tail[arc]] += change
                assert violation(*of, flow, changed) is not None
                tried += 1
    assert tried > 100


def test_a_flow_that_is_not_optimal_fails() -> None:
    """A flow that is optimal for other costs fails with its own and with the best prices."""
    caught = 0
    for seed in range(100):
        of = anything(np.random.default_rng(seed))
        other = solve(*of._replace(cost=-of.cost))
        best = solve(*of)
        if int((of.cost * other.flow).sum()) > best.cost:
            assert violation(*of, other.flow, best.price) is not None
            assert violation(*of, other.flow, other.price) is not None
            caught += 1
    assert caught > 50
