"""How wrong a mean block size can be about a mix."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afflux.diskio.mix_error import mix_error

SIZES = [512, 1024, 4096, 8192, 16384, 32768]
# By how much a byte costs more on one real disk, for reads.
MEASURED = dict(zip(SIZES, [52, 18.6, 5.0, 3.2, 1.5, 1.0], strict=True))


def of_table(size: int) -> float:
    below = max((known for known in SIZES if known <= size), default=512)
    above = min((known for known in SIZES if known >= size), default=32768)
    if below == above:
        return MEASURED[below]
    share = (size - below) / (above - below)
    return MEASURED[below] * (1 - share) + MEASURED[above] * share


def test_a_fixed_cost_and_a_cost_for_each_byte_are_never_wrong() -> None:
    found = mix_error(lambda size: 1 + 4000 / size, SIZES)
    assert (found.at_least, found.at_most) == pytest.approx((1.0, 1.0), rel=1e-3)


def test_the_mix_of_the_field_is_within_the_bound() -> None:
    """31% of the bytes in blocks of 4k and 69% in 16k look like blocks of 8k."""
    mean = 1 / (0.31 / 4096 + 0.69 / 16384)
    truth = (0.31 * MEASURED[4096] + 0.69 * MEASURED[16384]) / of_table(int(mean))
    found = mix_error(of_table, SIZES)
    assert truth < 0.9
    assert found.at_least <= truth <= found.at_most


FACTORS = st.lists(st.floats(1, 100), min_size=len(SIZES), max_size=len(SIZES)).map(
    lambda found: dict(zip(SIZES, sorted(found, reverse=True), strict=True))
)
MIXES = st.lists(st.tuples(st.sampled_from(SIZES), st.integers(1, 1000)), min_size=1, max_size=4)


@given(FACTORS, MIXES)
def test_no_mix_of_the_sizes_of_a_table_is_outside_the_bound(
    factors: dict[int, float], mix: list[tuple[int, int]]
) -> None:
    def factor(size: int) -> float:
        """Straight between the costs of two sizes, so that sizes in between are exact."""
        for small, large in pairwise(SIZES):
            if small <= size <= large:
                share = (size - small) / (large - small)
                cost = small * factors[small] * (1 - share) + large * factors[large] * share
                return cost / size
        raise AssertionError(size)

    requests = sum(count for _, count in mix)
    mean = sum(size * count for size, count in mix) / requests
    truth = sum(size * factors[size] * count for size, count in mix) / requests
    believed = mean * factor(mean)  # pyright: ignore[reportArgumentType]
    found = mix_error(factor, SIZES)
    assert found.at_least <= 1 <= found.at_most
    # Between the points of the grid the curve is straight: its hull is exact.
    assert found.at_least * 0.98 <= truth / believed <= found.at_most * 1.02
