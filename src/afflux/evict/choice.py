"""A choice: where the tasks of one level go, and which running tasks leave for them.

Choices are compared by what is settled first: the tasks that get no place; the victims beyond what
budgets allow; the highest victim; the weight of all victims.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from afflux.evict.budgets import Usage, count_overruns, usage_of
from afflux.evict.sites import BEYOND, Counts, Need, Site, Victim, Waiting

# Below every priority: no victim.
NO_VICTIM = -(1 << 40)

Key = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class LevelProblem:
    """The classes, groups and machines of one level. `whole` has, by their key, the groups of
    running tasks that leave as a whole: each victim with the number of its site. Victims of at most
    the priority `floor` do not raise the highest victim: one of that priority leaves anyway."""

    needs: Sequence[Need]
    groups: Sequence[Waiting]
    sites: Sequence[Site]
    allowed: Mapping[str, int] = field(default_factory=dict[str, int])
    whole: Mapping[str, Sequence[tuple[int, Victim]]] = field(
        default_factory=dict[str, Sequence[tuple[int, Victim]]]
    )
    floor: int = NO_VICTIM

    @property
    def tasks(self) -> int:
        return sum(group.size for group in self.groups)

    @property
    def none(self) -> Counts:
        """No task of any class."""
        return (0,) * len(self.needs)

    def totals(self) -> Counts:
        """All waiting tasks, by class."""
        counts = (self.none, *(group.counts for group in self.groups))
        return tuple(map(sum, zip(*counts, strict=True)))

    def limits(self) -> list[int]:
        """The limits on the highest victim that make a difference, ascending."""
        priorities = {victim.priority for site in self.sites for victim in site.victims}
        return [self.floor, *sorted(each for each in priorities if each > self.floor)]


@dataclass(frozen=True, slots=True)
class Choice:
    """`loads` has the new tasks on each site, by its number, `victims` those that leave there.
    `placed` are the numbers of the groups that get places."""

    placed: tuple[int, ...] = ()
    loads: Mapping[int, Counts] = field(default_factory=dict[int, Counts])
    victims: Mapping[int, tuple[Victim, ...]] = field(default_factory=dict[int, tuple[Victim, ...]])

    def all_victims(self) -> list[Victim]:
        """The victims of all sites."""
        return [each for found in self.victims.values() for each in found]

    @property
    def usage(self) -> Usage:
        """What the victims use of budgets."""
        return usage_of(name for each in self.all_victims() for name in each.budgets)

    def key(self, problem: LevelProblem) -> Key:
        """By which choices are compared, less is better."""
        victims = self.all_victims()
        waiting = problem.tasks - sum(problem.groups[number].size for number in self.placed)
        beyond, weight = divmod(sum(each.weight for each in victims), BEYOND)
        highest = max((each.priority for each in victims), default=problem.floor)
        overruns = beyond + count_overruns(self.usage, problem.allowed)
        return waiting, overruns, max(highest, problem.floor), weight


def add(one: Counts, other: Counts) -> Counts:
    """The tasks of both, by class."""
    return tuple(a + b for a, b in zip(one, other, strict=True))


def fits_in(one: Counts, other: Counts) -> bool:
    """Whether there are no more tasks of any class than in the other."""
    return all(a <= b for a, b in zip(one, other, strict=True))
