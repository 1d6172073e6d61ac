"""The matching is maximum, whatever the order of requesters."""

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from afflux.kube.volumes.bipartite_matching import match

NAMES = "abcdef"
candidates = st.lists(st.lists(st.sampled_from(NAMES), unique=True, max_size=4), max_size=4)


def most(wants: list[int], allowed: list[list[str]]) -> int:
    """The size of a maximum matching, by brute force."""
    units = [number for number, count in enumerate(wants) for _ in range(count)]
    best = 0
    for chosen in product(*([None, *allowed[unit]] for unit in units)):
        taken = [name for name in chosen if name is not None]
        if len(taken) == len(set(taken)):
            best = max(best, len(taken))
    return best


@given(st.data(), candidates)
def test_the_matching_is_maximum(data, allowed: list[list[str]]) -> None:
    wants = [data.draw(st.integers(0, 2)) for _ in allowed]
    found = match(enumerate(wants), dict(enumerate(allowed)))
    for number, names in found.assigned.items():
        assert set(names) <= set(allowed[number])
        missing = found.shortfalls[number].missing if number in found.shortfalls else 0
        assert len(names) == wants[number] - missing
    taken = [name for names in found.assigned.values() for name in names]
    assert len(taken) == len(set(taken)) == most(wants, allowed)


@given(st.data(), candidates)
def test_a_shortfall_names_competitors_that_hold_all_their_candidates(
    data, allowed: list[list[str]]
) -> None:
    wants = [data.draw(st.integers(0, 3)) for _ in allowed]
    found = match(enumerate(wants), dict(enumerate(allowed)))
    for number, shortfall in found.shortfalls.items():
        assert number in shortfall.competitors
        # The competitors hold all candidates of each of them.
        assert shortfall.taken == {
            name for rival in shortfall.competitors for name in allowed[rival]
        }
        held = {name for rival in shortfall.competitors for name in found.assigned[rival]}
        assert held == shortfall.taken


def test_requesters_take_their_first_candidate_unless_another_has_no_other() -> None:
    found = match([("x", 2), ("y", 1)], {"x": "abc", "y": "bcd"})
    assert found.assigned == {"x": ["a", "b"], "y": ["c"]}
    # Earlier requesters move for one without an alternative.
    found = match([("x", 1), ("y", 1), ("z", 1)], {"x": "abc", "y": "a", "z": "ab"})
    assert found.assigned == {"x": ["c"], "y": ["a"], "z": ["b"]}


def test_thousands_of_equal_candidates() -> None:
    names = [str(number) for number in range(20_000)]
    found = match([("x", 30_000), ("y", 10)], {"x": names, "y": names})
    assert len(found.assigned["x"]) == 20_000
    assert found.shortfalls["x"].missing == 10_000
    assert found.shortfalls["y"].missing == 10
