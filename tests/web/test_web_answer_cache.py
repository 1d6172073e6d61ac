"""What is remembered for a while: how long, how much of it, and what is asked again."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afflux.web.remembering import Lately, Remembering

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
def test_lately_are_the_last_so_many_who_were_seen_within_so_many_seconds(
    steps: list[tuple[str, int]],
) -> None:
    clock = Time()
    lately = Lately[int](SECONDS, MOST, clock)
    seen: list[tuple[int, float]] = []  # as a list that is as long as it gets
    for step, number in steps:
        if step == "wait":
            clock.now += number
            continue
        seen = [(one, when) for one, when in seen if one != number]
        if step == "saw":
            lately.saw(number)
            seen.append((number, clock.now))
        else:
            lately.forget(number)
        # Those who made room for others are gone, even if one of these is forgotten.
        seen = seen[-MOST:]
        expected = {one for one, when in seen if clock.now - when < SECONDS}
        assert {one for one in range(6) if one in lately} == expected


def test_what_was_learnt_elsewhere_is_an_answer_for_as_long_as_any() -> None:
    async def test() -> None:
        clock = Time()
        remembering = Remembering[str, int](SECONDS, MOST, clock)

        async def find_out() -> int:
            return 2

        remembering.learn("question", 1)
        assert await remembering.answer("question", find_out) == 1
        clock.now += SECONDS
        assert await remembering.answer("question", find_out) == 2
        remembering.learn("question", 3)
        assert await remembering.answer("question", find_out) == 3

    asyncio.run(test())


def test_never_more_than_there_is_room_for() -> None:
    async def test() -> None:
        remembering = Remembering[int, int](SECONDS, MOST, Time())
        asked: list[int] = []

        async def find_out(number: int) -> int:
            asked.append(number)
            return number

        for number in (0, 1, 2, 3, 3, 2, 1, 0):
            assert (
                await remembering.answer(number, lambda number=number: find_out(number)) == number
            )
        assert asked == [0, 1, 2, 3, 0]

    asyncio.run(test())


def test_failures_are_not_remembered() -> None:
    async def test() -> None:
        remembering = Remembering[str, int](SECONDS, MOST, Time())

        async def fail() -> int:
            raise ValueError("not now")

        async def find_out() -> int:
            return 1

        with pytest.raises(ValueError, match="not now"):
            await remembering.answer("question", fail)
        assert await remembering.answer("question", find_out) == 1

    asyncio.run(test())
