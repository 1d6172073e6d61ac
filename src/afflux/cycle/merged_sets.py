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
from afflux.model.reservation import Reservation, StandingReservations
from afflux.model.waiting_group import WaitingGroup
from afflux.plan.group_sets import GroupSet, sets_in_order

# No name of a group has this character.
_SEPARATOR = "\0"


@dataclass(frozen=True, slots=True)
class MergedSets:
    """`queues` have the groups of each queue as the strategies see them. `members` has, by the name
    of a merged group, its groups; `asked_by` the numbers of the queues that have to ask for it."""

    queues: Sequence[Sequence[WaitingGroup]]
    members: Mapping[str, GroupSet] = field(default_factory=dict[str, GroupSet])
    asked_by: Mapping[str, frozenset[int]] = field(default_factory=dict[str, frozenset[int]])

    def groups(self, merged: Iterable[WaitingGroup]) -> list[WaitingGroup]:
        """The groups, those of merged ones apart."""
        return [each for group in merged for each in self.members.get(group.key, (group,))]

    def names(self, merged: Iterable[str]) -> frozenset[str]:
        """The names of the groups, those of merged ones apart."""
        sets = self.members
        return frozenset(
            each for name in merged for each in (_names(sets[name]) if name in sets else [name])
        )

    def reservations(self, merged: Iterable[Reservation]) -> list[Reservation]:
        """The reservations, those of merged groups apart."""
        found: list[Reservation] = []
        for each in merged:
            group_set = self.members.get(each.group)
            if group_set is None:
                found.append(each)
                continue
            where = dict(each.machines)
            for group in group_set:
                machines = tuple((t.id, where[t.id]) for t in group.tasks if t.id in where)
                found.append(Reservation(group.key, each.start_seconds, machines))
        return found

    def standing(self, earlier: StandingReservations) -> StandingReservations:
        """The earlier reservations, with one for each merged group whose members had the same."""
        if not self.members:
            return earlier
        joined = dict(earlier.reservations)
        for name, group_set in self.members.items():
            own = [joined.pop(group.key, None) for group in group_set]
            known = [each for each in own if each is not None]
            starts = {each.start_seconds for each in known}
            if len(known) == len(group_set) and len(starts) == 1:
                machines = tuple(pair for each in known for pair in each.machines)
                joined[name] = Reservation(name, starts.pop(), machines)
        return replace(earlier, reservations=joined)


def merge_sets(queues: Sequence[Sequence[WaitingGroup]], relations: RelationIndex) -> MergedSets:
    """The groups of each queue, which come in its order: those that need each other merged, and
    those that need others behind them."""
    used = relations_of(group for groups in queues for group in groups)
    if not any(each.affinity for each in used):
        return MergedSets(queues)
    relations.use(used)
    queue_of = {group.key: number for number, groups in enumerate(queues) for group in groups}
    # In the order in which groups are decided: by priority, then queue by queue.
    everything = sorted(
        (group for groups in queues for group in groups), key=lambda group: -group.priority
    )
    sets = sets_in_order(everything, relations)
    if len(sets) == len(everything) and all(
        group_set[0] is group for group_set, group in zip(sets, everything, strict=True)
    ):
        return MergedSets(queues)
    found: list[list[WaitingGroup]] = [[] for _ in queues]
    members: dict[str, GroupSet] = {}
    asked_by: dict[str, frozenset[int]] = {}
    for group_set in sets:
        numbers = frozenset(queue_of[group.key] for group in group_set)
        group = group_set[0]
        if len(group_set) > 1:
            group = _merged(group_set)
            members[group.key] = group_set
            asked_by[group.key] = numbers
        for number in sorted(numbers):
            found[number].append(group)
    return MergedSets(found, members, asked_by)


def _merged(group_set: GroupSet) -> WaitingGroup:
    runs = [math.inf if group.run_seconds is None else group.run_seconds for group in group_set]
    longest = max(runs)
    return replace(
        group_set[-1],
        name=_SEPARATOR.join(_names(group_set)),
        tasks=tuple(task for group in group_set for task in group.tasks),
        priority=min(group.priority for group in group_set),
        run_seconds=None if longest == math.inf else longest,
    )


def _names(group_set: GroupSet) -> list[str]:
    return [group.key for group in group_set]
