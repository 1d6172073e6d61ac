"""The best choice for a few machines together, exactly: a dynamic program over the machines.

A state is how many tasks of each class have a place on the machines seen so far; of each state the
cheapest ways to reach it are kept. Which groups can start together is a sum of their tasks. The
highest victim is settled by trying lower and lower limits. Groups of running tasks that leave as a
whole are tried in all combinations, as long as there are few.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations, product
from math import prod
from typing import NamedTuple

from afflux.evict.budgets import NO_USAGE, Usage, count_overruns, is_within, sum_of, usage_of
from afflux.evict.choice import Choice, Key, LevelProblem, add, fits_in
from afflux.evict.sites import BEYOND, Counts, Site, Victim, VictimSet
from afflux.evict.victim_sets import VictimSearch

# The work of one program: states times loads, over all machines.
MAX_WORK = 60_000
# Groups that leave as a whole and are tried in all combinations.
MAX_COMBINED = 4
# Ways to reach a state that are kept; more than one only where budgets differ.
MAX_WAYS = 32


class _Way(NamedTuple):
    """One way to reach a state: what the victims use of budgets, their weight, and the last step
    with the way before it."""

    usage: Usage
    weight: int
    step: tuple[int, Counts, VictimSet] | None = None
    before: "_Way | None" = None


def is_small(problem: LevelProblem) -> bool:
    """Whether the problem can be solved exactly in bounded time."""
    states = prod(count + 1 for count in problem.totals())
    combined = min(len(problem.whole), MAX_COMBINED)
    # On one machine there is room for a few tasks only, mostly.
    return states * len(problem.sites) * min(states, 16) * 2**combined <= MAX_WORK * 4


def choose_exactly(problem: LevelProblem) -> Choice:
    """The best choice of all."""
    found = _choose(_with_few_budgets(problem))
    own = {victim.id: victim for site in problem.sites for victim in site.victims}
    victims = {n: tuple(own[each.id] for each in gone) for n, gone in found.victims.items()}
    return replace(found, victims=victims)


def _with_few_budgets(problem: LevelProblem) -> LevelProblem:
    """The same problem without the budgets that need no choice. One that allows as many victims as
    there are is left out; one that allows none makes its victims heavier."""
    counts = Counter(
        name for site in problem.sites for victim in site.victims for name in victim.budgets
    )
    simple = {
        name for name, count in counts.items() if not 0 < problem.allowed.get(name, 0) < count
    }
    if not simple:
        return problem
    none = {name for name in simple if problem.allowed.get(name, 0) <= 0}

    def changed(victim: Victim) -> Victim:
        kept = tuple(name for name in victim.budgets if name not in simple)
        beyond = sum(name in none for name in victim.budgets)
        return replace(victim, budgets=kept, weight=victim.weight + BEYOND * beyond)

    new = {victim.id: changed(victim) for site in problem.sites for victim in site.victims}
    sites = [
        replace(
            site,
            victims=tuple(sorted((new[v.id] for v in site.victims), key=lambda v: v.weight)),
        )
        for site in problem.sites
    ]
    whole = {
        name: [(number, new[victim.id]) for number, victim in members]
        for name, members in problem.whole.items()
    }
    return replace(problem, sites=sites, whole=whole)


def _choose(problem: LevelProblem) -> Choice:
    sums = _group_sums(problem)
    limits = problem.limits()
    best = _best_below(problem, sums, limits[-1])
    if best is None:
        return Choice()
    wanted = best[0][:2]
    # The lowest limit that places as many, with as few beyond their budgets.
    low, high = 0, len(limits) - 1
    while low < high:
        middle = (low + high) // 2
        found = _best_below(problem, sums, limits[middle])
        if found is not None and found[0][:2] == wanted:
            best, high = found, middle
        else:
            low = middle + 1
    return best[1]


def _best_below(
    problem: LevelProblem, sums: "_GroupSums", highest: int
) -> tuple[Key, Choice] | None:
    """The best choice whose victims have at most this priority."""
    best: tuple[Key, Choice] | None = None
    for gone in _whole_groups(problem, highest):
        leaving: dict[int, list[Victim]] = {}
        for name in gone:
            for number, victim in problem.whole[name]:
                leaving.setdefault(number, []).append(victim)
        sites = [site.without(leaving.get(number, ())) for number, site in enumerate(problem.sites)]
        found = _program(problem, sums, sites, leaving, highest)
        if found is not None and (best is None or found[0] < best[0]):
            best = found
    return best


def _whole_groups(problem: LevelProblem, highest: int) -> Iterator[Sequence[str]]:
    """Combinations of groups that leave as a whole."""
    able = [
        name
        for name, members in problem.whole.items()
        if max(victim.priority for _, victim in members) <= highest
    ]
    most = len(able) if len(able) <= MAX_COMBINED else 1
    for size in range(most + 1):
        yield from combinations(able, size)


def _program(
    problem: LevelProblem,
    sums: "_GroupSums",
    sites: Sequence[Site],
    leaving: dict[int, list[Victim]],
    highest: int,
) -> tuple[Key, Choice] | None:
    search = VictimSearch(problem.needs, highest)
    start = [victim for gone in leaving.values() for victim in gone]
    usage = usage_of(name for victim in start for name in victim.budgets)
    first = _Way(usage, sum(victim.weight for victim in start))
    totals = problem.totals()
    states: dict[Counts, list[_Way]] = {problem.none: [first]}
    for number, site in enumerate(sites):
        options = _options(search, site, totals)
        reached = {counts: list(ways) for counts, ways in states.items()}
        for (counts, ways), (load, sets) in product(states.items(), options):
            together = add(counts, load)
            if not fits_in(together, totals):
                continue
            known = reached.setdefault(together, [])
            for way, chosen in product(ways, sets):
                _keep(
                    known,
                    _Way(
                        sum_of(way.usage, chosen.usage),
                        way.weight + chosen.weight,
                        (number, load, chosen),
                        way,
                    ),
                )
        states = reached
    best: tuple[tuple[int, int, int], Counts, _Way] | None = None
    for counts, ways in states.items():
        if counts not in sums.reachable:
            continue
        waiting = sum(totals) - sum(counts)
        for way in ways:
            beyond, weight = divmod(way.weight, BEYOND)
            key = (waiting, beyond + count_overruns(way.usage, problem.allowed), weight)
            if best is None or key < best[0]:
                best = key, counts, way
    if best is None:
        return None
    choice = _traced(best[2], sums.groups_of(best[1]), leaving)
    return choice.key(problem), choice


def _options(
    search: VictimSearch, site: Site, totals: Counts
) -> list[tuple[Counts, list[VictimSet]]]:
    """The loads that the site may take, other than none, with the cheapest victims of each."""
    found: list[tuple[Counts, list[VictimSet]]] = []
    seen = {(0,) * len(totals)}
    pending = list(seen)
    while pending:
        load = pending.pop()
        for number in range(len(totals)):
            more = (*load[:number], load[number] + 1, *load[number + 1 :])
            if more in seen or more[number] > totals[number]:
                continue
            seen.add(more)
            sets = search.cheapest(site, more)
            if sets:
                found.append((more, sets))
                pending.append(more)
    return found


def _keep(known: list[_Way], way: _Way) -> None:
    if any(k.weight <= way.weight and is_within(k.usage, way.usage) for k in known):
        return
    if way.usage is NO_USAGE:
        known[:] = [k for k in known if k.weight < way.weight]
    else:
        known[:] = [
            k for k in known if not (way.weight <= k.weight and is_within(way.usage, k.usage))
        ]
    known.append(way)
    del known[:-MAX_WAYS]


def _traced(way: _Way, placed: tuple[int, ...], leaving: dict[int, list[Victim]]) -> Choice:
    loads: dict[int, Counts] = {}
    victims = {number: tuple(gone) for number, gone in leaving.items()}
    current: _Way | None = way
    while current is not None and current.step is not None:
        number, load, chosen = current.step
        loads[number] = load
        if chosen.victims:
            victims[number] = (*victims.get(number, ()), *chosen.victims)
        current = current.before
    return Choice(placed, loads, victims)


class _GroupSums:
    """Which numbers of tasks, by class, are those of whole groups."""

    def __init__(self, groups: Sequence[Counts], none: Counts) -> None:
        self._groups = groups
        # For each position, the sums of groups from there on.
        self._from: list[set[Counts]] = [{none}]
        for counts in reversed(groups):
            later = self._from[-1]
            self._from.append(later | {add(counts, each) for each in later})
        self._from.reverse()

    @property
    def reachable(self) -> set[Counts]:
        return self._from[0]

    def groups_of(self, counts: Counts) -> tuple[int, ...]:
        """Groups with so many tasks together, the first in the queue if there are several."""
        left, found = counts, list[int]()
        for number, own in enumerate(self._groups):
            if fits_in(own, left):
                rest = tuple(a - b for a, b in zip(left, own, strict=True))
                if rest in self._from[number + 1]:
                    found.append(number)
                    left = rest
        return tuple(found)


def _group_sums(problem: LevelProblem) -> _GroupSums:
    return _GroupSums([group.counts for group in problem.groups], problem.none)
