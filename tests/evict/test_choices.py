"""The victims of one level: compared with the best that integer programs find."""

from collections import Counter
from random import Random

import pytest

from afflux.evict.choice import Choice, LevelProblem
from afflux.evict.exact_choice import choose_exactly, is_small
from afflux.evict.sites import freed
from afflux.evict.wide_choice import choose_widely
from oracles.victim_reference import best_figures, figures_of, random_problem


def assert_possible(problem: LevelProblem, choice: Choice) -> None:
    """Everything has room, groups are whole, and groups that leave do so as a whole."""
    total = Counter[int]()
    for number, site in enumerate(problem.sites):
        load = choice.loads.get(number, problem.none)
        gone = choice.victims.get(number, ())
        assert len({each.id for each in gone}) == len(gone)
        assert {each.id for each in gone} <= {each.id for each in site.victims}
        free, _ = freed(site.free, site.devices, gone)
        for column, there in enumerate(free):
            asked = sum(
                n * need.amounts[column] for n, need in zip(load, problem.needs, strict=True)
            )
            assert asked <= there or not asked
        for of, count in enumerate(load):
            assert site.admits[of] or not count
            total[of] += count
    for of in range(len(problem.needs)):
        assert total[of] == sum(problem.groups[number].counts[of] for number in choice.placed)
    left = {each.id for each in choice.all_victims()}
    for members in problem.whole.values():
        assert len({victim.id in left for _, victim in members}) == 1


def figures(problem: LevelProblem, choice: Choice):
    placed = sum(problem.groups[number].size for number in choice.placed)
    return figures_of(problem, problem.tasks - placed, choice.all_victims())


@pytest.mark.parametrize("seed", range(150))
def test_the_exact_choice_is_the_best(seed: int):
    problem = random_problem(Random(seed))
    assert is_small(problem)
    choice = choose_exactly(problem)
    assert_possible(problem, choice)
    assert figures(problem, choice) == best_figures(problem)


def test_the_wide_choice_is_nearly_always_the_best():
    equal = 0
    for seed in range(100):
        problem = random_problem(Random(1000 + seed))
        choice = choose_widely(problem, Choice())
        assert_possible(problem, choice)
        best, found = best_figures(problem), figures(problem, choice)
        assert found >= best
        equal += found[:4] == best[:4]
    assert equal >= 88
