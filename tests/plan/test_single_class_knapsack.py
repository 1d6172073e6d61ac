"""Who is worth the room: against every choice there is."""

from itertools import combinations
from random import Random

import pytest

from afflux.plan.single_class_knapsack import choose


@pytest.mark.parametrize("seed", range(200))
def test_no_other_choice_has_a_higher_value(seed: int):
    rng = Random(f"knapsack {seed}")
    items = [(rng.randint(1, 9), rng.randint(1, 50)) for _ in range(rng.randint(0, 8))]
    singles = sorted((rng.randint(1, 12) for _ in range(rng.randint(0, 6))), reverse=True)
    room = rng.randint(0, 20)
    chosen, alone = choose(items, singles, room)
    assert len(set(chosen)) == len(chosen)
    assert sum(items[index][0] for index in chosen) + alone <= room
    value = sum(items[index][1] for index in chosen) + sum(singles[:alone])
    best = 0
    for count in range(len(items) + 1):
        for some in combinations(items, count):
            left = room - sum(size for size, _ in some)
            if left >= 0:
                best = max(best, sum(each for _, each in some) + sum(singles[:left]))
    assert value == best


def test_what_would_fill_the_memory_is_left_to_others():
    assert choose([(size, 1) for size in range(1, 2000)], [], 100_000) is None
