"""The cache of answers: how long entries live, how many there are, what is not cached."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afflux.web.answer_cache import AnswerCache, RecentlySeen

SECONDS, MOST = 10.0, 3


class Time:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("saw"), st.integers(0, 5)),
            st.tuples(st.just("forget"), st.integers(0, 5)),
            st.tuples(st.just("wait"), st.integers(0, 7)),
        )
    )
)
def test_recently_seen_holds_the_last_keys_within_the_ttl(steps: list[tuple[str, int]]) -> None:
    clock = Time()
    recent = RecentlySeen[int](SECONDS, MOST, clock)
    seen: list[tuple[int, float]] = []  # a list of the maximum length
    for step, number in steps:
        if step == "wait":
            clock.now += number
            continue
        seen = [(one, when) for one, when in seen if one != number]
        if step == "saw":
            recent.add(number)
            seen.append((number, clock.now))
        else:
            recent.discard(number)
        # Dropped keys do not come back when a later one is discarded.
        seen = seen[-MOST:]
        expected = {one for one, when in seen if clock.now - when < SECONDS}
        assert {one for one in range(6) if one in recent} == expected


def test_an_answer_that_was_put_expires_like_others() -> None:
    async def test() -> None:
        clock = Time()
        cache = AnswerCache[str, int](SECONDS, MOST, clock)

        async def compute() -> int:
            return 2

        cache.put("key", 1)
        assert await cache.get("key", compute) == 1
        clock.now += SECONDS
        assert await cache.get("key", compute) == 2
        cache.put("key", 3)
        assert await cache.get("key", compute) == 3

    asyncio.run(test())


def test_the_cache_never_exceeds_its_maximum() -> None:
    async def test() -> None:
        cache = AnswerCache[int, int](SECONDS, MOST, Time())
        asked: list[int] = []

        async def compute(number: int) -> int:
            asked.append(number)
            return number

        for number in (0, 1, 2, 3, 3, 2, 1, 0):
            assert await cache.get(number, lambda number=number: compute(number)) == number
        assert asked == [0, 1, 2, 3, 0]

    asyncio.run(test())


def test_failures_are_not_cached() -> None:
    async def test() -> None:
        cache = AnswerCache[str, int](SECONDS, MOST, Time())

        async def fail() -> int:
            raise ValueError("not now")

        async def compute() -> int:
            return 1

        with pytest.raises(ValueError, match="not now"):
            await cache.get("key", fail)
        assert await cache.get("key", compute) == 1

    asyncio.run(test())
