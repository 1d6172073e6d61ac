"""A good choice for many machines: cheapest places first, then improved a few machines at a time.

Every waiting task takes the place whose victims cost least, given what was chosen before. Then a
few machines at a time are emptied of what was chosen for them and solved exactly again, together
with tasks that got no place. The limit on the highest victim is lowered as far as as many tasks
find places with as few victims beyond their budgets. Everything is bounded and repeatable.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from heapq import heapify, heappop, heappush

from afflux.evict.choice import Choice, LevelProblem, add
from afflux.evict.exact_choice import choose_exactly, is_small
from afflux.evict.sites import NO_VICTIMS, Counts, Victim, VictimSet, Waiting
from afflux.evict.victim_sets import VictimSearch

# Exact searches on a few machines each, and the machines of one of them.
MAX_IMPROVEMENTS = 48
MACHINES_TOGETHER = 3
# The machines with the heaviest victims that are solved again in turn.
MAX_CROWDED = 8
# Groups of running tasks that leave as a whole and are tried one after the other.
MAX_WHOLE_GROUPS = 16

# Victims beyond their budgets, and the weight of the victims.
_Cost = tuple[int, int]


def choose_widely(problem: LevelProblem, begin: Choice) -> Choice:
    """A choice that is at least as good as `begin`, in which no task leaves."""
    limits = problem.limits()

    def better(one: Choice, other: Choice) -> Choice:
        return min(one, other, key=lambda choice: choice.key(problem))

    # Tasks that are dear to place find no room after others; cheap ones first need fewer victims.
    cheap, dear = (
        _greedy(problem, begin, limits[-1], dearest_first=order) for order in (False, True)
    )
    dearest_first = dear.key(problem) < cheap.key(problem)
    best = better(better(cheap, dear), begin)
    best = better(best, _greedy(problem, Choice(), limits[-1], dearest_first=dearest_first))
    low, high = 0, len(limits) - 1
    while low < high:
        middle = (low + high) // 2
        found = _greedy(problem, begin, limits[middle], dearest_first=dearest_first)
        if found.key(problem)[:2] <= best.key(problem)[:2]:
            best, high = better(best, found), middle
        else:
            low = middle + 1
    best = _improved(problem, best)
    return better(best, _with_whole_groups(problem, begin, best))


def _greedy(problem: LevelProblem, begin: Choice, highest: int, *, dearest_first: bool) -> Choice:
    """Places the waiting groups where they cost least: gangs in queue order, then single tasks,
    those that are cheapest or dearest to place first."""
    greedy = _Greedy(problem, begin, highest)
    waiting = [n for n in range(len(problem.groups)) if n not in greedy.placed]
    singles: dict[int, list[int]] = {}
    for number in waiting:
        counts = problem.groups[number].counts
        if sum(counts) == 1:
            singles.setdefault(counts.index(1), []).append(number)
        elif greedy.place_gang(counts):
            greedy.placed.add(number)
    while singles:
        costs = {of: cost for of in singles if (cost := greedy.least_cost(of)) is not None}
        if not costs:
            break
        choose = max if dearest_first else min
        of = choose(costs, key=lambda each: costs[each])
        greedy.place_one(of)
        greedy.placed.add(singles[of].pop(0))
        if not singles[of]:
            del singles[of]
    return greedy.result()


class _Greedy:
    """What one greedy pass has chosen for each site, and what the next task would cost where."""

    def __init__(self, problem: LevelProblem, begin: Choice, highest: int) -> None:
        self.placed = set(begin.placed)
        self._problem = problem
        self._search = VictimSearch(problem.needs, highest)
        self._loads = dict(begin.loads)
        self._chosen: dict[int, VictimSet] = {}
        self._used: Counter[str] = Counter()
        self._budgets = [
            frozenset(name for victim in site.victims for name in victim.budgets)
            for site in problem.sites
        ]
        # How often the choice for a site has changed; and by class what one more task would cost
        # at least on each site, as of which change.
        self._changes = [0] * len(problem.sites)
        self._offers: dict[int, list[tuple[_Cost, int, int]]] = {}

    def least_cost(self, of: int) -> _Cost | None:
        """What one more task of a class costs where that is least; None if it has no place."""
        offers = self._offers_of(of)
        while offers:
            cost, number, as_of = offers[0]
            if as_of == self._changes[number]:
                now = self._offer(of, number)
                if now is not None and now[0] <= cost:
                    return cost
                if now is not None:
                    # What it costs was only bounded, or others have used up what a budget allows.
                    heappop(offers)
                    heappush(offers, (now[0], number, as_of))
                    continue
            heappop(offers)
        return None

    def place_one(self, of: int) -> int | None:
        """One more task of a class where it costs least; the site, None if it has no place."""
        if self.least_cost(of) is None:
            return None
        number = self._offers[of][0][1]
        offer = self._offer(of, number)
        if offer is None:
            return None
        self._take(number, self._with_one(of, number), offer[1])
        return number

    def place_gang(self, counts: Counts) -> bool:
        """All these tasks, or none."""
        before: dict[int, tuple[Counts, VictimSet]] = {}
        for of, count in enumerate(counts):
            for _ in range(count):
                if self.least_cost(of) is None:
                    for number, (load, chosen) in before.items():
                        self._take(number, load, chosen)
                    return False
                number = self._offers[of][0][1]
                there = (self._load(number), self._chosen.get(number, NO_VICTIMS))
                before.setdefault(number, there)
                self.place_one(of)
        return True

    def result(self) -> Choice:
        """What was chosen."""
        victims = {n: each.victims for n, each in self._chosen.items() if each.victims}
        loads = {n: load for n, load in self._loads.items() if any(load)}
        return Choice(tuple(sorted(self.placed)), loads, victims)

    def _offers_of(self, of: int) -> list[tuple[_Cost, int, int]]:
        offers = self._offers.get(of)
        if offers is None:
            offers = self._offers[of] = [
                (cost, number, self._changes[number])
                for number, site in enumerate(self._problem.sites)
                if site.admits[of] and (cost := self._bound(of, number)) is not None
            ]
            heapify(offers)
        return offers

    def _offer(self, of: int, number: int) -> tuple[_Cost, VictimSet] | None:
        """The cheapest victims of a site with one more task of a class, and what they cost more
        than those chosen there now."""
        before = self._chosen.get(number, NO_VICTIMS)
        site = self._problem.sites[number]
        found = self._search.lightest(
            site, self._with_one(of, number), self._exhausted(number, before)
        )
        if found is None:
            return None
        return (self._more_overruns(before, found), found.weight - before.weight), found

    def _exhausted(self, number: int, before: VictimSet) -> frozenset[str]:
        """The budgets of a site that allow no victim there any more."""
        own, allowed = dict(before.usage), self._problem.allowed
        return frozenset(
            name
            for name in self._budgets[number]
            if self._used[name] - own.get(name, 0) >= allowed.get(name, 0)
        )

    def _bound(self, of: int, number: int) -> _Cost | None:
        """What one more task of a class costs at least on a site."""
        site = self._problem.sites[number]
        weight = self._search.least_weight(site, self._with_one(of, number))
        if weight is None:
            return None
        before = self._chosen.get(number, NO_VICTIMS)
        # Other victims than before may even be easier on the budgets.
        return -sum(count for _, count in before.usage), weight - before.weight

    def _more_overruns(self, before: VictimSet, after: VictimSet) -> int:
        """How many victims more are beyond what budgets allow, with other victims on a site."""
        if not before.usage and not after.usage:
            return 0
        less, more = dict(before.usage), dict(after.usage)
        total = 0
        for name in less | more:
            allowed, used = max(0, self._problem.allowed.get(name, 0)), self._used[name]
            now = used - less.get(name, 0) + more.get(name, 0)
            total += max(0, now - allowed) - max(0, used - allowed)
        return total

    def _take(self, number: int, load: Counts, chosen: VictimSet) -> None:
        self._used.subtract(dict(self._chosen.get(number, NO_VICTIMS).usage))
        self._used.update(dict(chosen.usage))
        self._loads[number], self._chosen[number] = load, chosen
        self._changes[number] += 1
        for of, offers in self._offers.items():
            cost = self._bound(of, number)
            if cost is not None:
                heappush(offers, (cost, number, self._changes[number]))

    def _load(self, number: int) -> Counts:
        return self._loads.get(number, self._problem.none)

    def _with_one(self, of: int, number: int) -> Counts:
        load = self._load(number)
        return (*load[:of], load[of] + 1, *load[of + 1 :])


def _improved(problem: LevelProblem, choice: Choice) -> Choice:
    """Solves a few machines at a time exactly: those with the heaviest victims, and others."""
    best, key = choice, choice.key(problem)
    tried: set[tuple[int, ...]] = set()
    sites = len(problem.sites)
    for turn in range(MAX_IMPROVEMENTS):
        weights = {n: sum(each.weight for each in gone) for n, gone in best.victims.items()}
        crowded = sorted(weights, key=lambda number: -weights[number])[:MAX_CROWDED]
        if not crowded and not key[0]:
            break
        used = sorted(best.loads) if turn % 2 else range(sites)
        pool = used or range(sites)
        first = crowded[turn % len(crowded)] if crowded else turn % sites
        # Far apart in the order of machines, and others in each turn.
        others = (pool[(turn * 7_919 + each * 104_729) % len(pool)] for each in range(1, 9))
        numbers = tuple(sorted(list(dict.fromkeys([first, *others]))[:MACHINES_TOGETHER]))
        if numbers in tried:
            continue
        tried.add(numbers)
        found = _solved_again(problem, best, numbers)
        if found is not None and found.key(problem) < key:
            best, key = found, found.key(problem)
            tried.clear()
    return best


def _solved_again(problem: LevelProblem, choice: Choice, numbers: Sequence[int]) -> Choice | None:
    """The choice with these machines solved again, for the tasks that they have now and a few
    single tasks that have no place. None if that is no small problem."""
    outside = [victim for n, gone in choice.victims.items() if n not in numbers for victim in gone]
    inside = [victim for n in numbers for victim in choice.victims.get(n, ())]
    if any(victim.leaves_with for victim in inside):
        # Groups that leave as a whole stay as they are.
        return None
    loads = [choice.loads.get(number, problem.none) for number in numbers]
    total = problem.none
    for load in loads:
        total = add(total, load)
    waiting = [
        number
        for number, group in enumerate(problem.groups)
        if group.size == 1 and number not in choice.placed
    ][:2]
    groups = [Waiting(problem.groups[number].counts) for number in waiting]
    if sum(total):
        groups.insert(0, Waiting(total))
    used = Counter(name for victim in outside for name in victim.budgets)
    part = replace(
        problem,
        groups=groups,
        sites=[problem.sites[number] for number in numbers],
        allowed={name: max(0, most - used[name]) for name, most in problem.allowed.items()},
        whole={},
        floor=max((victim.priority for victim in outside), default=problem.floor),
    )
    if not is_small(part):
        return None
    found = choose_exactly(part)
    if sum(total) and 0 not in found.placed:
        return None
    first = int(bool(sum(total)))
    more = [waiting[number - first] for number in found.placed if number >= first]
    new_loads = {n: load for n, load in choice.loads.items() if n not in numbers}
    new_victims = {n: gone for n, gone in choice.victims.items() if n not in numbers}
    new_loads |= {numbers[n]: load for n, load in found.loads.items() if any(load)}
    new_victims |= {numbers[n]: gone for n, gone in found.victims.items() if gone}
    return Choice(tuple(sorted({*choice.placed, *more})), new_loads, new_victims)


def _with_whole_groups(problem: LevelProblem, begin: Choice, best: Choice) -> Choice:
    """Lets groups leave that only leave as a whole, if tasks have no place otherwise: one more at a
    time, the lightest first; then those stay again that are not needed."""
    if not best.key(problem)[0]:
        return best
    weights = {
        key: sum(victim.weight for _, victim in members) for key, members in problem.whole.items()
    }
    leaving: list[str] = []
    needed: list[str] = []
    for key in sorted(weights, key=lambda key: weights[key])[:MAX_WHOLE_GROUPS]:
        leaving.append(key)
        found = _greedy_without(problem, begin, leaving)
        if found.key(problem) < best.key(problem):
            best, needed = found, leaving.copy()
        if not best.key(problem)[0]:
            break
    for key in sorted(needed, key=lambda key: -weights[key]):
        fewer = [each for each in needed if each != key]
        found = _greedy_without(problem, begin, fewer)
        if found.key(problem) < best.key(problem):
            best, needed = found, fewer
    return best


def _greedy_without(problem: LevelProblem, begin: Choice, gone: Sequence[str]) -> Choice:
    """A greedy choice in which these groups leave as a whole."""
    leaving: dict[int, list[Victim]] = {}
    for key in gone:
        for number, victim in problem.whole[key]:
            leaving.setdefault(number, []).append(victim)
    sites = [site.without(leaving.get(n, ())) for n, site in enumerate(problem.sites)]
    rest = replace(problem, sites=sites, whole={})
    found = _greedy(rest, begin, problem.limits()[-1], dearest_first=False)
    victims = {
        number: (*leaving.get(number, ()), *found.victims.get(number, ()))
        for number in {*leaving, *found.victims}
    }
    return replace(found, victims=victims)
