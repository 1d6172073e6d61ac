"""Whatever happens: promises are real, they are kept, and whoever breaks one is named.

Sequences of everything that can happen to a cluster drive the real cycle; a record of our own says
what is true. With durations that hold, and nothing else that is against them, `easy` and
`conservative-compress` break no promise.
"""

import math
from collections.abc import Generator
from contextlib import contextmanager
from random import Random
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from afflux.admit import searching
from afflux.cycle import optimising
from afflux.cycle.promises import Cause
from afflux.queue.rules import QueueRules
from oracles.promise_checks import KEEP_PROMISES
from oracles.promised_world import World

pytestmark = pytest.mark.slow

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
    assert world.record.broken == []
    assert world.record.moved_later == []


@contextmanager
def little_to_spend() -> Generator[None]:
    """More waits than can be looked at in one pass."""
    with (
        patch.object(searching, "MOST_EFFORT", 3 * searching.OF_EACH_TRY),
        patch.object(optimising, "CELLS", 0),
        patch.object(optimising, "FEWEST_CLASSES", 2),
    ):
        yield


@pytest.mark.parametrize("strategy", ["easy", "conservative-compress"])
@thorough(60)
@given(data=st.data(), machines=st.integers(1, 4))
def test_nor_if_there_is_more_than_can_be_looked_at(strategy: str, data, machines: int):
    with little_to_spend():
        world = World(machines, data.draw(queues(strategy, several=False)))
        live(world, data.draw(st.lists(HONEST, min_size=5, max_size=25)))
    assert world.record.broken == []
    assert world.record.moved_later == []


@pytest.mark.parametrize("strategy", ["easy", "conservative-compress"])
@thorough(60)
@given(data=st.data(), machines=st.integers(1, 4))
def test_nor_is_anybody_forgotten_then_whatever_goes_wrong(strategy: str, data, machines: int):
    with little_to_spend():
        world = World(machines, data.draw(queues(strategy, several=False)))
        live(world, data.draw(st.lists(ANYTHING, min_size=5, max_size=30)))


@pytest.mark.parametrize("strategy", ["easy", "conservative-compress"])
@thorough(80)
@given(data=st.data(), machines=st.integers(1, 4))
def test_with_several_queues_only_one_that_is_served_first_breaks_promises(
    strategy: str, data, machines: int
):
    world = World(machines, data.draw(queues(strategy, several=True)))
    live(world, data.draw(st.lists(HONEST, min_size=5, max_size=25)))
    kept = [cause for of, cause in world.record.broken if of in KEEP_PROMISES]
    assert set(kept) <= {Cause.QUEUE}


@pytest.mark.parametrize(
    "strategy", ["easy", "conservative-compress", "hybrid", "conservative-rebuild"]
)
@thorough(120)
@given(data=st.data(), machines=st.integers(1, 4))
def test_whatever_breaks_a_promise_has_happened_and_is_named(strategy: str, data, machines: int):
    world = World(machines, data.draw(queues(strategy, several=data.draw(st.booleans()))))
    live(world, data.draw(st.lists(ANYTHING, min_size=5, max_size=30)))


# --- Long stories: hypothesis likes short ones, in which there is room for all.

RUNS = (5.0, 10.0, 20.0, 40.0, 40.0, None)
SECONDS = (1.0, 2.0, 5.0, 10.0)


def crowded(rng: Random, *, honest: bool) -> list[tuple]:
    """Sixty things that happen, most of them arrivals for which there is no room."""
    others = [
        lambda: ("overrun", rng.randrange(8), rng.choice(SECONDS)),
        lambda: ("extend", rng.randrange(8), rng.choice(SECONDS)),
        lambda: ("resize", rng.randrange(8), rng.randrange(8)),
        lambda: ("lose", rng.randrange(8)),
        lambda: ("impair", rng.randrange(8), rng.randrange(3)),
        lambda: ("put_foreign", rng.randrange(8), rng.randrange(8), rng.choice(SECONDS)),
        lambda: ("repel", rng.choice(("a", "b", ""))),
        lambda: ("change", rng.randrange(8), rng.choice(RUNS)),
    ]
    mild = [
        lambda: ("end_early", rng.randrange(8)),
        lambda: ("withdraw", rng.randrange(8)),
        lambda: ("join",),
        lambda: ("restart",),
    ]
    # Of all that can go wrong only some do in one story, or nobody could tell what did.
    wrong = [] if honest else rng.sample(others, rng.randint(1, 2))
    priorities = (0,) if honest or rng.random() < 0.5 else (0, 0, 1, 2)
    kinds = rng.sample(range(8), rng.randint(1, 4))

    def step() -> tuple:
        chance = rng.random()
        if chance < 0.45:
            return (
                "arrive",
                tuple(rng.choice(kinds) for _ in range(rng.randint(1, 4))),
                rng.choice(RUNS[:-1] if rng.random() < 0.9 else RUNS),
                rng.choice(priorities),
                rng.randrange(8),
                rng.choice((0.0, 0.0, 0.0, 20.0)),
            )
        if chance < 0.75:
            return ("passes", rng.choice(SECONDS))
        return rng.choice(mild)() if chance < 0.85 or not wrong else rng.choice(wrong)()

    return [step() for _ in range(60)]


def random_queues(rng: Random, first: str, *, several: bool) -> list[tuple[QueueRules, str]]:
    names = [first, *(rng.choice(ALL) for _ in range(rng.randint(1, 2) if several else 0))]
    rng.shuffle(names)
    return [
        (
            QueueRules(
                f"q{number}",
                depth=rng.choice((None, None, 2, 5)),
                reservations=rng.choice((None, None, 2)),
                holds_for_endless=rng.random() < 0.2,
            ),
            name,
        )
        for number, name in enumerate(names)
    ]


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("strategy", ["easy", "conservative-compress"])
def test_long_and_honest_stories(strategy: str, seed: int):
    rng = Random(f"honest {strategy} {seed}")
    world = World(rng.randint(1, 3), random_queues(rng, strategy, several=False))
    live(world, crowded(rng, honest=True))
    assert world.record.broken == []
    assert world.record.moved_later == []


def troubled(strategy: str, seed: int) -> World:
    rng = Random(f"wrong {strategy} {seed}")
    queues = random_queues(rng, strategy, several=rng.random() < 0.3)
    return live(World(rng.randint(1, 3), queues), crowded(rng, honest=False))


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize("strategy", ALL[:4])
def test_long_stories_in_which_things_go_wrong(strategy: str, seed: int):
    troubled(strategy, seed)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("strategy", ["easy", "conservative-compress"])
def test_long_stories_in_which_more_waits_than_can_be_looked_at(strategy: str, seed: int):
    with little_to_spend():
        troubled(strategy, seed)


def test_in_these_stories_promises_are_made_and_broken_by_everything_there_is():
    worlds = [troubled(strategy, seed) for strategy in ALL[:4] for seed in range(10)]
    assert sum(world.record.promised > 0 for world in worlds) > 35
    # A restart takes no time here, in which little can change; and nobody makes an error.
    seldom = {Cause.RESTART, Cause.ERROR}
    assert {cause for world in worlds for _, cause in world.record.broken} >= {*Cause} - seldom
