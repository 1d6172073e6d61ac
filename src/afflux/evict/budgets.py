"""Disruption budgets: how many tasks each may lose now, and how many victims go beyond that."""

from collections import Counter
from collections.abc import Iterable, Mapping

# By budget, the number of victims that count towards it; sorted, without zeros.
Usage = tuple[tuple[str, int], ...]

NO_USAGE: Usage = ()


def usage_of(budgets: Iterable[str]) -> Usage:
    """The usage of victims; `budgets` names those that each victim counts towards."""
    return tuple(sorted(Counter(budgets).items()))


def sum_of(one: Usage, other: Usage) -> Usage:
    """The usage of two sets of victims together."""
    if not one or not other:
        return one or other
    total = Counter(dict(one))
    total.update(dict(other))
    return tuple(sorted(total.items()))


def is_within(one: Usage, other: Usage) -> bool:
    """Whether one usage takes no more of any budget than the other."""
    if not one:
        return True
    most = dict(other)
    return all(count <= most.get(name, 0) for name, count in one)


def overruns(usage: Usage, allowed: Mapping[str, int]) -> dict[str, int]:
    """By budget, the victims beyond what it allows. A budget that is not known allows none."""
    beyond = {name: count - max(0, allowed.get(name, 0)) for name, count in usage}
    return {name: count for name, count in beyond.items() if count > 0}


def count_overruns(usage: Usage, allowed: Mapping[str, int]) -> int:
    """The victims beyond what their budgets allow; one that two budgets protect counts twice."""
    return sum(overruns(usage, allowed).values())
