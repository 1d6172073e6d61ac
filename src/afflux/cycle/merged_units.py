"""Groups that need each other, as one group for the strategies.

Pods that require each other can only start together. While the strategies walk the queues such
groups are merged into one: at the place of the last of them, with the lowest priority among them.
Where they wait in different queues, the merged group is in each, and starts when the strategies of
all of them have asked for it. Afterwards it is taken apart again.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from afflux.cluster.relation_index import RelationIndex, relations_of
from afflux.model.group import Group
from afflux.model.reservation import Reservation, StandingReservations
from afflux.plan.units import Unit, units_in_order

# No name of a group has this character.
_SEPARATOR = "\0"


@dataclass(frozen=True, slots=True)
class MergedUnits:
    """`queues` have the groups of each queue as the strategies see them. `members` has, by the name
    of a merged group, its groups; `asked_by` the numbers of the queues that have to ask for it."""

    queues: Sequence[Sequence[Group]]
    members: Mapping[str, Unit] = field(default_factory=dict[str, Unit])
    asked_by: Mapping[str, frozenset[int]] = field(default_factory=dict[str, frozenset[int]])

    def groups(self, merged: Iterable[Group]) -> list[Group]:
        """The groups, those of merged ones apart."""
        return [each for group in merged for each in self.members.get(group.name, (group,))]

    def names(self, merged: Iterable[str]) -> frozenset[str]:
        """The names of the groups, those of merged ones apart."""
        units = self.members
        return frozenset(
            each for name in merged for each in (_names(units[name]) if name in units else [name])
        )

    def reservations(self, merged: Iterable[Reservation]) -> list[Reservation]:
        """The reservations, those of merged groups apart."""
        found: list[Reservation] = []
        for each in merged:
            unit = self.members.get(each.group)
            if unit is None:
                found.append(each)
                continue
            where = dict(each.machines)
            for group in unit:
                machines = tuple((t.id, where[t.id]) for t in group.tasks if t.id in where)
                found.append(Reservation(group.name, each.start_seconds, machines))
        return found

    def standing(self, earlier: StandingReservations) -> StandingReservations:
        """The earlier reservations, with one for each merged group whose members had the same."""
        if not self.members:
            return earlier
        joined = dict(earlier.reservations)
        for name, unit in self.members.items():
            own = [joined.pop(group.name, None) for group in unit]
            known = [each for each in own if each is not None]
            starts = {each.start_seconds for each in known}
            if len(known) == len(unit) and len(starts) == 1:
                machines = tuple(pair for each in known for pair in each.machines)
                joined[name] = Reservation(name, starts.pop(), machines)
        return replace(earlier, reservations=joined)


def merge_units(queues: Sequence[Sequence[Group]], relations: RelationIndex) -> MergedUnits:
    """The groups of each queue, which come in its order: those that need each other merged, and
    those that need others behind them."""
    used = relations_of(group for groups in queues for group in groups)
    if not any(each.affinity for each in used):
        return MergedUnits(queues)
    relations.use(used)
    queue_of = {group.name: number for number, groups in enumerate(queues) for group in groups}
    # In the order in which groups are decided: by priority, then queue by queue.
    everything = sorted(
        (group for groups in queues for group in groups), key=lambda group: -group.priority
    )
    units = units_in_order(everything, relations)
    if len(units) == len(everything) and all(
        unit[0] is group for unit, group in zip(units, everything, strict=True)
    ):
        return MergedUnits(queues)
    found: list[list[Group]] = [[] for _ in queues]
    members: dict[str, Unit] = {}
    asked_by: dict[str, frozenset[int]] = {}
    for unit in units:
        numbers = frozenset(queue_of[group.name] for group in unit)
        group = unit[0]
        if len(unit) > 1:
            group = _merged(unit)
            members[group.name] = unit
            asked_by[group.name] = numbers
        for number in sorted(numbers):
            found[number].append(group)
    return MergedUnits(found, members, asked_by)


def _merged(unit: Unit) -> Group:
    runs = [math.inf if group.run_seconds is None else group.run_seconds for group in unit]
    longest = max(runs)
    return replace(
        unit[-1],
        name=_SEPARATOR.join(_names(unit)),
        tasks=tuple(task for group in unit for task in group.tasks),
        priority=min(group.priority for group in unit),
        run_seconds=None if longest == math.inf else longest,
    )


def _names(unit: Unit) -> list[str]:
    return [group.name for group in unit]
