"""Whatever happens: promises are real, they are kept, and whoever breaks one is named.

Sequences of everything that can happen to a cluster drive the real cycle; a record of our own says
what is true. With durations that hold, and nothing else that is against them, `easy` and
`conservative-compress` break no promise.
"""

import math
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from afflux.admit import searching
from afflux.cycle import optimising
from afflux.cycle.promises import Cause
from afflux.queue.rules import QueueRules
from oracles.promised_world import KEEP_PROMISES, World

ALL = ("easy", "conservative-compress", "hybrid", "conservative-rebuild", "fcfs", "flow")

numbers = st.integers(0, 7)
seconds = st.sampled_from((1.0, 2.0, 5.0, 10.0, 25.0))
runs = st.sampled_from((5.0, 10.0, 10.0, 20.0, 40.0, None))
members = st.one_of(
    st.tuples(numbers, st.integers(1, 3)).map(lambda pair: (pair[0],) * pair[1]),
    st.lists(numbers, min_size=1, max_size=3).map(tuple),
)
arrivals = st.tuples(st.just("arrive"), members, runs, st.just(0), numbers)
passing = st.tuples(st.just("passes"), seconds)
# As honest as can be: nobody runs longer than it said, and nobody is more important.
HONEST = st.one_of(
    arrivals,
    arrivals,
    st.tuples(st.just("arrive"), members, runs, st.just(0), numbers, seconds),
    passing,
    passing,
    st.tuples(st.just("end_early"), numbers),
    st.tuples(st.just("withdraw"), numbers),
    st.tuples(st.just("join")),
    st.tuples(st.just("restart")),
)
# And everything else.
ANYTHING = st.one_of(
    HONEST,
    HONEST,
    st.tuples(st.just("arrive"), members, runs, st.integers(0, 2), numbers),
    st.tuples(st.just("overrun"), numbers, seconds),
    st.tuples(st.just("extend"), numbers, seconds),
    st.tuples(st.just("resize"), numbers, numbers),
    st.tuples(st.just("lose"), numbers),
    st.tuples(st.just("impair"), numbers, numbers),
    st.tuples(st.just("put_foreign"), numbers, numbers, st.one_of(seconds, st.just(math.inf))),
    st.tuples(st.just("repel"), st.sampled_from(("a", "b", ""))),
    st.tuples(st.just("change"), numbers, runs),
)


@st.composite
def queues(draw, first: str, *, several: bool):
    names = [first]
    if several:
        names = draw(st.permutations([first, *draw(st.lists(st.sampled_from(ALL), max_size=2))]))
    return [
        (
            QueueRules(
                f"q{number}",
                depth=draw(st.sampled_from((None, None, 1, 3))),
                reservations=draw(st.sampled_from((None, None, 1, 3))),
                holds_for_endless=draw(st.booleans()),
            ),
            name,
        )
        for number, name in enumerate(names)
    ]


def live(world: World, steps: list) -> World:
    for name, *given_with in steps:
        getattr(world, name)(*given_with)
    world.passes(1000.0)
    return world


def thorough(examples: int):
    return settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )


@pytest.mark.parametrize("strategy", ["easy", "conservative-compress"])
@thorough(120)
@given(data=st.data(), machines=st.integers(1, 4))
def test_with_honest_durations_no_promise_is_broken(strategy: str, data, machines: int):
    world = World(machines, data.draw(queues(strategy, several=False)))
    live(world, data.draw(st.lists(HONEST, min_size=5, max_size=25)))
    assert world.broken == []
    assert world.moved_later == []


@pytest.mark.parametrize("strategy", ["easy", "conservative-compress"])
@thorough(60)
@given(data=st.data(), machines=st.integers(1, 4))
def test_nor_if_there_is_more_than_can_be_looked_at(strategy: str, data, machines: int):
    with (
        patch.object(searching, "MOST_EFFORT", 3 * searching.OF_EACH_TRY),
        patch.object(optimising, "CELLS", 0),
        patch.object(optimising, "FEWEST_CLASSES", 2),
    ):
        world = World(machines, data.draw(queues(strategy, several=False)))
        live(world, data.draw(st.lists(HONEST, min_size=5, max_size=25)))
    assert world.broken == []
    assert world.moved_later == []


@pytest.mark.parametrize("strategy", ["easy", "conservative-compress"])
@thorough(80)
@given(data=st.data(), machines=st.integers(1, 4))
def test_with_several_queues_only_one_that_is_served_first_breaks_promises(
    strategy: str, data, machines: int
):
    world = World(machines, data.draw(queues(strategy, several=True)))
    live(world, data.draw(st.lists(HONEST, min_size=5, max_size=25)))
    kept = [cause for of, cause in world.broken if of in KEEP_PROMISES]
    assert set(kept) <= {Cause.QUEUE}


@pytest.mark.parametrize(
    "strategy", ["easy", "conservative-compress", "hybrid", "conservative-rebuild"]
)
@thorough(120)
@given(data=st.data(), machines=st.integers(1, 4))
def test_whatever_breaks_a_promise_has_happened_and_is_named(strategy: str, data, machines: int):
    world = World(machines, data.draw(queues(strategy, several=data.draw(st.booleans()))))
    live(world, data.draw(st.lists(ANYTHING, min_size=5, max_size=30)))
