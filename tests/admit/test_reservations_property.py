"""Reservations have room, they are kept, and the cause of every broken one has happened.

Random sequences of everything that can happen to a cluster drive the real cycle; an independent
record checks it. With honest durations and no disturbances, `easy` and `conservative-compress`
break no reservation.
"""

import math
from collections.abc import Generator
from contextlib import contextmanager
from random import Random
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from afflux.admit import multi_class_pass
from afflux.cycle import optimiser
from afflux.cycle.reservations import DelayCause
from afflux.queue.rules import QueueRules
from oracles.reservation_checks import KEEP_RESERVATIONS
from oracles.reservation_world import World

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
time_passes = st.tuples(st.just("wait"), seconds)
# Honest durations: no group runs longer than it said, and all priorities are equal.
HONEST = st.one_of(
    arrivals,
    arrivals,
    st.tuples(st.just("arrive"), members, runs, st.just(0), numbers, seconds),
    time_passes,
    time_passes,
    st.tuples(st.just("end_early"), numbers),
    st.tuples(st.just("withdraw"), numbers),
    st.tuples(st.just("join")),
    st.tuples(st.just("restart")),
)
# Disturbances as well.
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
                max_reservations=draw(st.sampled_from((None, None, 1, 3))),
                hold_for_endless=draw(st.booleans()),
            ),
            name,
        )
        for number, name in enumerate(names)
    ]


def play(world: World, steps: list) -> World:
    for name, *given_with in steps:
        getattr(world, name)(*given_with)
    world.wait(1000.0)
    return world


def examples(count: int):
    return settings(
        max_examples=count, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
    )


@pytest.mark.parametrize("strategy", ["easy", "conservative-compress"])
@examples(120)
@given(data=st.data(), machines=st.integers(1, 4))
def test_with_honest_durations_no_reservation_is_broken(strategy: str, data, machines: int):
    world = World(machines, data.draw(queues(strategy, several=False)))
    play(world, data.draw(st.lists(HONEST, min_size=5, max_size=25)))
    assert world.record.broken == []
    assert world.record.moved_later == []


@contextmanager
def bounded_passes() -> Generator[None]:
    """Passes that cannot examine all groups."""
    with (
        patch.object(multi_class_pass, "MAX_EFFORT", 3 * multi_class_pass.EFFORT_PER_TRY),
        patch.object(optimiser, "MAX_PAIRS_PER_ROUND", 0),
        patch.object(optimiser, "MIN_CLASSES_PER_ROUND", 2),
    ):
        yield


@pytest.mark.parametrize("strategy", ["easy", "conservative-compress"])
@examples(60)
@given(data=st.data(), machines=st.integers(1, 4))
def test_with_honest_durations_no_reservation_is_broken_if_passes_are_bounded(
    strategy: str, data, machines: int
):
    with bounded_passes():
        world = World(machines, data.draw(queues(strategy, several=False)))
        play(world, data.draw(st.lists(HONEST, min_size=5, max_size=25)))
    assert world.record.broken == []
    assert world.record.moved_later == []


@pytest.mark.parametrize("strategy", ["easy", "conservative-compress"])
@examples(60)
@given(data=st.data(), machines=st.integers(1, 4))
def test_no_reservation_is_lost_if_passes_are_bounded(strategy: str, data, machines: int):
    with bounded_passes():
        world = World(machines, data.draw(queues(strategy, several=False)))
        play(world, data.draw(st.lists(ANYTHING, min_size=5, max_size=30)))


@pytest.mark.parametrize("strategy", ["easy", "conservative-compress"])
@examples(80)
@given(data=st.data(), machines=st.integers(1, 4))
def test_with_several_queues_only_those_served_first_break_reservations(
    strategy: str, data, machines: int
):
    world = World(machines, data.draw(queues(strategy, several=True)))
    play(world, data.draw(st.lists(HONEST, min_size=5, max_size=25)))
    causes = [cause for of, cause in world.record.broken if of in KEEP_RESERVATIONS]
    assert set(causes) <= {DelayCause.QUEUE}


@pytest.mark.parametrize(
    "strategy", ["easy", "conservative-compress", "hybrid", "conservative-rebuild"]
)
@examples(120)
@given(data=st.data(), machines=st.integers(1, 4))
def test_the_named_cause_has_happened(strategy: str, data, machines: int):
    world = World(machines, data.draw(queues(strategy, several=data.draw(st.booleans()))))
    play(world, data.draw(st.lists(ANYTHING, min_size=5, max_size=30)))


# --- Long histories: hypothesis prefers short ones, in which there is room for all groups.

RUNS = (5.0, 10.0, 20.0, 40.0, 40.0, None)
SECONDS = (1.0, 2.0, 5.0, 10.0)


def crowded_history(rng: Random, *, honest: bool) -> list[tuple]:
    """Sixty steps, most of them arrivals for which there is no room."""
    others = [
        lambda: ("overrun", rng.randrange(8), rng.choice(SECONDS)),
        lambda: ("extend", rng.randrange(8), rng.choice(SECONDS)),
        lambda: ("resize", rng.randrange(8), rng.randrange(8)),
        lambda: ("lose", rng.randrange(8)),
        lambda: ("impair", rng.randrange(8), rng.randrange(3)),
        lambda: ("put_foreign", rng.randrange(8), rng.randrange(8), rng.choice(SECONDS)),
        lambda: ("change", rng.randrange(8), rng.choice(RUNS)),
    ]
    mild = [
        lambda: ("end_early", rng.randrange(8)),
        lambda: ("withdraw", rng.randrange(8)),
        lambda: ("join",),
        lambda: ("restart",),
    ]
    # One history has only some kinds of disturbances, so that the causes differ.
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
            return ("wait", rng.choice(SECONDS))
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
                max_reservations=rng.choice((None, None, 2)),
                hold_for_endless=rng.random() < 0.2,
            ),
            name,
        )
        for number, name in enumerate(names)
    ]


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("strategy", ["easy", "conservative-compress"])
def test_long_histories_with_honest_durations(strategy: str, seed: int):
    rng = Random(f"honest {strategy} {seed}")
    world = World(rng.randint(1, 3), random_queues(rng, strategy, several=False))
    play(world, crowded_history(rng, honest=True))
    assert world.record.broken == []
    assert world.record.moved_later == []


def disturbed(strategy: str, seed: int) -> World:
    rng = Random(f"wrong {strategy} {seed}")
    queues = random_queues(rng, strategy, several=rng.random() < 0.3)
    return play(World(rng.randint(1, 3), queues), crowded_history(rng, honest=False))


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize("strategy", ALL[:4])
def test_long_histories_with_disturbances(strategy: str, seed: int):
    disturbed(strategy, seed)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("strategy", ["easy", "conservative-compress"])
def test_long_histories_with_bounded_passes(strategy: str, seed: int):
    with bounded_passes():
        disturbed(strategy, seed)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("strategy", ["easy", "conservative-compress"])
def test_reservations_of_disk_bandwidth_are_kept_with_honest_durations(strategy: str, seed: int):
    rng = Random(f"disks {strategy} {seed}")
    queues = random_queues(rng, strategy, several=False)
    world = play(World(4, queues, with_disks=True), crowded_history(rng, honest=True))
    assert world.record.broken == []
    assert world.record.moved_later == []


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("strategy", ALL[:4])
def test_reservations_of_disk_bandwidth_break_only_for_a_cause_that_has_happened(
    strategy: str, seed: int
):
    rng = Random(f"disks lost {strategy} {seed}")
    steps = crowded_history(rng, honest=rng.random() < 0.5)
    for place in rng.sample(range(len(steps)), 8):
        steps.insert(place, ("lose_bandwidth", rng.randrange(3)))
    world = World(4, random_queues(rng, strategy, several=rng.random() < 0.3), with_disks=True)
    play(world, steps)


@pytest.mark.long
def test_the_histories_contain_broken_reservations_of_every_cause():
    worlds = [disturbed(strategy, seed) for strategy in ALL[:4] for seed in range(10)]
    assert sum(world.record.reservations > 0 for world in worlds) > 35
    # A restart takes no time here, so little can change in it; no policy fails; there are no
    # constraints between tasks, no disks, and no preemption.
    seldom = {DelayCause.RESTART, DelayCause.ERROR}
    absent = {DelayCause.COMPANY, DelayCause.DISKS, DelayCause.PREEMPTION}
    found = {cause for world in worlds for _, cause in world.record.broken}
    assert found >= {*DelayCause} - seldom - absent
