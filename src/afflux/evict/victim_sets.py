"""The cheapest victims of one machine, for a load of waiting tasks: an exact, bounded search.

Victims are tried from the lightest to the heaviest. A branch ends when even the fewest further
victims that could free what is missing are too heavy. Where victims count towards budgets, all sets
are found of which none is both lighter and easier on the budgets than another.
"""

from collections.abc import Sequence
from functools import cached_property

from afflux.evict.budgets import NO_USAGE, Usage, is_within, usage_of
from afflux.evict.sites import (
    BEYOND,
    NO_VICTIMS,
    Amounts,
    Counts,
    Need,
    Site,
    Victim,
    VictimSet,
    devices_fit,
    freed,
)
from afflux.model.devices import DeviceRequest

# Branches of one search; beyond that the lightest sets found so far count.
MAX_BRANCHES = 4_000
# Sets with different use of budgets that are kept.
MAX_SETS = 16


class VictimSearch:
    """Searches for the victims of loads, among sites of which each has another row. `highest` is
    the highest priority of a victim."""

    def __init__(self, needs: Sequence[Need], highest: int) -> None:
        self._needs = needs
        self._highest = highest
        self._sets: dict[tuple[int, Counts], list[VictimSet]] = {}
        self._lightest: dict[tuple[int, Counts, frozenset[str]], VictimSet | None] = {}

    def cheapest(self, site: Site, load: Counts) -> list[VictimSet]:
        """Sets of victims after whose end the load fits; none if it does not fit at all."""
        key = (site.row, load)
        if key not in self._sets:
            self._sets[key] = self._search(site, load, None)
        return self._sets[key]

    def lightest(self, site: Site, load: Counts, exhausted: frozenset[str]) -> VictimSet | None:
        """One of these sets: with the fewest victims of budgets that are exhausted, and of these
        the lightest. How many victims another budget allows is not looked at."""
        key = (site.row, load, exhausted)
        if key not in self._lightest:
            self._lightest[key] = next(iter(self._search(site, load, exhausted)), None)
        return self._lightest[key]

    def least_weight(self, site: Site, load: Counts) -> int | None:
        """A weight that no set of victims undercuts; None if there surely is no set."""
        if not self._admits(site, load):
            return None
        demand = self._demand(site, load)
        mine = [v for v in site.victims if v.priority <= self._highest and not v.leaves_with]
        fewest = 0
        for column, there in enumerate(site.free):
            missing = demand[column] - there if demand[column] else 0
            if missing > 0:
                count = 0
                for use in sorted((victim.use[column] for victim in mine), reverse=True):
                    missing -= use
                    count += 1
                    if missing <= 0:
                        break
                if missing > 0:
                    return None
                fewest = max(fewest, count)
        return sum(victim.weight for victim in mine[:fewest])

    def _admits(self, site: Site, load: Counts) -> bool:
        return all(ok or not count for count, ok in zip(load, site.admits, strict=True))

    def _demand(self, site: Site, load: Counts) -> Amounts:
        return tuple(
            sum(count * need.amounts[column] for count, need in zip(load, self._needs, strict=True))
            for column in range(len(site.free))
        )

    def _search(
        self, site: Site, load: Counts, exhausted: frozenset[str] | None
    ) -> list[VictimSet]:
        if not any(load):
            return [NO_VICTIMS]
        if not self._admits(site, load):
            return []
        demand = self._demand(site, load)
        devices = [
            need.devices
            for count, need in zip(load, self._needs, strict=True)
            if need.devices is not None
            for _ in range(count)
        ]
        mine = [v for v in site.victims if v.priority <= self._highest and not v.leaves_with]
        return _OneSearch(site, demand, devices, mine, exhausted).run()


class _OneSearch:
    def __init__(
        self,
        site: Site,
        demand: Amounts,
        devices: Sequence[DeviceRequest],
        victims: Sequence[Victim],
        exhausted: frozenset[str] | None,
    ) -> None:
        self._site = site
        self._looks_at_budgets = exhausted is None
        self._requests = devices
        # The resources of which too little is free, and by how much.
        missing = [(c, demand[c] - site.free[c]) for c in range(len(demand)) if demand[c] > 0]
        self._short = [(column, amount) for column, amount in missing if amount > 0]
        useful = {column for column, _ in self._short}
        self._victims = [
            v for v in victims if (devices and v.devices) or any(v.use[c] > 0 for c in useful)
        ]
        self._weights = {
            v.id: v.weight + BEYOND * sum(name in exhausted for name in v.budgets)
            if exhausted
            else v.weight
            for v in self._victims
        }
        self._victims.sort(key=lambda v: (self._weights[v.id], v.id))
        # The sets found, each with its weight in this search.
        self._found: list[tuple[int, VictimSet]] = []
        self._branches = 0

    def run(self) -> list[VictimSet]:
        """The cheapest sets; none if the load does not fit even without all victims."""
        if self._fits(()):
            return [NO_VICTIMS]
        if not self._fits(self._victims):
            return []
        # Something to compare with: leave out the heaviest victims that are not needed.
        needed = list(self._victims)
        for victim in reversed(self._victims):
            fewer = [each for each in needed if each is not victim]
            if self._fits(fewer):
                needed = fewer
        self._keep(needed)
        self._branch(0, [], [amount for _, amount in self._short], 0)
        return [found for _, found in self._found]

    def _fits(self, gone: Sequence[Victim]) -> bool:
        for column, amount in self._short:
            if sum(each.use[column] for each in gone) < amount:
                return False
        if not self._requests:
            return True
        _, devices = freed(self._site.free, self._site.devices, gone)
        return devices_fit(devices, self._requests)

    def _usage(self, victims: Sequence[Victim]) -> Usage:
        if not self._looks_at_budgets:
            return NO_USAGE
        return usage_of(name for each in victims for name in each.budgets)

    def _is_undercut(self, weight: int, usage: Usage) -> bool:
        """Whether a set was found that is no heavier and no harder on budgets."""
        return any(w <= weight and is_within(self._limits(s), usage) for w, s in self._found)

    def _limits(self, found: VictimSet) -> Usage:
        return found.usage if self._looks_at_budgets else NO_USAGE

    def _keep(self, victims: Sequence[Victim]) -> None:
        weight = sum(self._weights[each.id] for each in victims)
        usage = self._usage(victims)
        if self._is_undercut(weight, usage):
            return
        full = usage_of(name for each in victims for name in each.budgets)
        better = VictimSet(tuple(victims), full, sum(each.weight for each in victims))
        kept = [
            (w, s)
            for w, s in self._found
            if not (weight <= w and is_within(usage, self._limits(s)))
        ]
        self._found = [*kept, (weight, better)][-MAX_SETS:]

    @cached_property
    def _most(self) -> list[list[int]]:
        """For each position, the most that a victim from there on frees of each missing amount."""
        rows = [[0] * len(self._short)]
        for victim in reversed(self._victims):
            freed_here = [victim.use[column] for column, _ in self._short]
            rows.append([max(pair) for pair in zip(rows[-1], freed_here, strict=True)])
        return rows[::-1]

    def _branch(self, at: int, chosen: list[Victim], missing: list[int], weight: int) -> None:
        self._branches += 1
        if self._branches > MAX_BRANCHES:
            return
        if all(amount <= 0 for amount in missing) and self._fits(chosen):
            self._keep(chosen)
            return
        if at == len(self._victims):
            return
        fewest = 1
        for amount, most in zip(missing, self._most[at], strict=True):
            if amount > 0:
                if not most:
                    return
                fewest = max(fewest, -(-amount // most))
        victim = self._victims[at]
        least = weight + fewest * self._weights[victim.id]
        if self._is_undercut(least, self._usage(chosen)):
            return
        left = [
            amount - victim.use[column]
            for amount, (column, _) in zip(missing, self._short, strict=True)
        ]
        self._branch(at + 1, [*chosen, victim], left, weight + self._weights[victim.id])
        # Of victims that are alike, those that started last leave first.
        after = at + 1
        while after < len(self._victims) and self._victims[after].is_like(victim):
            after += 1
        self._branch(after, chosen, missing, weight)
