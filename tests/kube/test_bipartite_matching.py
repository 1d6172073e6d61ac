"""As many as possible get what they could have, whatever the order in which they come."""

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from afflux.kube.volumes.matching import match

NAMES = "abcdef"
candidates = st.lists(st.lists(st.sampled_from(NAMES), unique=True, max_size=4), max_size=4)


def most(wants: list[int], could_have: list[list[str]]) -> int:
    """By trying everything."""
    units = [number for number, count in enumerate(wants) for _ in range(count)]
    best = 0
    for chosen in product(*([None, *could_have[unit]] for unit in units)):
        taken = [name for name in chosen if name is not None]
        if len(taken) == len(set(taken)):
            best = max(best, len(taken))
    return best


@given(st.data(), candidates)
def test_nobody_could_do_better(data, could_have: list[list[str]]) -> None:
    wants = [data.draw(st.integers(0, 2)) for _ in could_have]
    found = match(enumerate(wants), dict(enumerate(could_have)))
    for number, names in found.given.items():
        assert set(names) <= set(could_have[number])
        missing = found.short[number].missing if number in found.short else 0
        assert len(names) == wants[number] - missing
    taken = [name for names in found.given.values() for name in names]
    assert len(taken) == len(set(taken)) == most(wants, could_have)


@given(st.data(), candidates)
def test_who_goes_without_is_shown_that_it_cannot_be_helped(
    data, could_have: list[list[str]]
) -> None:
    wants = [data.draw(st.integers(0, 3)) for _ in could_have]
    found = match(enumerate(wants), dict(enumerate(could_have)))
    for number, shortage in found.short.items():
        assert number in shortage.rivals
        # The rivals have everything that any of them could have.
        assert shortage.taken == {name for rival in shortage.rivals for name in could_have[rival]}
        held = {name for rival in shortage.rivals for name in found.given[rival]}
        assert held == shortage.taken


def test_the_first_candidate_is_taken_if_nobody_has_to_move() -> None:
    found = match([("x", 2), ("y", 1)], {"x": "abc", "y": "bcd"})
    assert found.given == {"x": ["a", "b"], "y": ["c"]}
    # Who chose first moves for whoever has no choice.
    found = match([("x", 1), ("y", 1), ("z", 1)], {"x": "abc", "y": "a", "z": "ab"})
    assert found.given == {"x": ["c"], "y": ["a"], "z": ["b"]}


def test_thousands_of_equal_ones_take_no_time() -> None:
    names = [str(number) for number in range(20_000)]
    found = match([("x", 30_000), ("y", 10)], {"x": names, "y": names})
    assert len(found.given["x"]) == 20_000
    assert found.short["x"].missing == 10_000
    assert found.short["y"].missing == 10
