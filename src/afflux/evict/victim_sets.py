"""The cheapest victims of one machine, for a load of waiting tasks: an exact, bounded search.

Victims are tried from the lightest to the heaviest. A branch ends when even the fewest further
victims that could free what is missing are too heavy. Where victims count towards budgets, all sets
are found of which none is both lighter and easier on the budgets than another.
"""

from collections.abc import Sequence
from functools import cached_property

from afflux.evict.budgets import is_within, usage_of
from afflux.evict.sites import (
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
        self._known: dict[tuple[int, Counts], list[VictimSet]] = {}

    def cheapest(self, site: Site, load: Counts) -> list[VictimSet]:
        """Sets of victims after whose end the load fits; none if it does not fit at all."""
        key = (site.row, load)
        if key not in self._known:
            self._known[key] = self._search(site, load)
        return self._known[key]

    def _search(self, site: Site, load: Counts) -> list[VictimSet]:
        if not any(load):
            return [NO_VICTIMS]
        if any(count and not ok for count, ok in zip(load, site.admits, strict=True)):
            return []
        demand = tuple(
            sum(count * need.amounts[column] for count, need in zip(load, self._needs, strict=True))
            for column in range(len(site.free))
        )
        devices = [
            need.devices
            for count, need in zip(load, self._needs, strict=True)
            if need.devices is not None
            for _ in range(count)
        ]
        mine = [v for v in site.victims if v.priority <= self._highest and not v.leaves_with]
        return _OneSearch(site, demand, devices, mine).run()


class _OneSearch:
    def __init__(
        self,
        site: Site,
        demand: Amounts,
        devices: Sequence[DeviceRequest],
        victims: Sequence[Victim],
    ) -> None:
        self._site = site
        self._requests = devices
        # The resources of which too little is free, and by how much.
        missing = [(c, demand[c] - site.free[c]) for c in range(len(demand)) if demand[c] > 0]
        self._short = [(column, amount) for column, amount in missing if amount > 0]
        useful = {column for column, _ in self._short}
        self._victims = [
            v for v in victims if (devices and v.devices) or any(v.use[c] > 0 for c in useful)
        ]
        self._found: list[VictimSet] = []
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
        return self._found

    def _fits(self, gone: Sequence[Victim]) -> bool:
        for column, amount in self._short:
            if sum(each.use[column] for each in gone) < amount:
                return False
        if not self._requests:
            return True
        _, devices = freed(self._site.free, self._site.devices, gone)
        return devices_fit(devices, self._requests)

    def _keep(self, victims: Sequence[Victim]) -> None:
        weight = sum(each.weight for each in victims)
        usage = usage_of(name for each in victims for name in each.budgets)
        if any(s.weight <= weight and is_within(s.usage, usage) for s in self._found):
            return
        better = VictimSet(tuple(victims), usage, weight)
        kept = [s for s in self._found if not (weight <= s.weight and is_within(usage, s.usage))]
        self._found = [*kept, better][-MAX_SETS:]

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
        least = weight + fewest * self._victims[at].weight
        usage = usage_of(name for each in chosen for name in each.budgets)
        if any(s.weight <= least and is_within(s.usage, usage) for s in self._found):
            return
        victim = self._victims[at]
        left = [
            amount - victim.use[column]
            for amount, (column, _) in zip(missing, self._short, strict=True)
        ]
        self._branch(at + 1, [*chosen, victim], left, weight + victim.weight)
        # Of victims that are alike, those that started last leave first.
        after = at + 1
        while after < len(self._victims) and self._victims[after].is_like(victim):
            after += 1
        self._branch(after, chosen, missing, weight)
