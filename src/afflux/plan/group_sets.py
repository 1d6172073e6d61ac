"""Sets of groups that need each other: decided together, at the place of the last of them.

A group needs another if its required affinity is met by no running task and by none of its own.
Groups that need each other in a circle are one set. A group that needs others without being needed
by them comes after them. Of several groups that could meet a need the first in the queue counts.
"""

from collections.abc import Sequence

from afflux.cluster.relation_index import RelationIndex
from afflux.model.waiting_group import WaitingGroup
from afflux.plan.strong_components import strong_components

# A set of more groups than this is not kept together.
MAX_GROUPS_OF_SET = 64

GroupSet = tuple[WaitingGroup, ...]


def sets_in_order(groups: Sequence[WaitingGroup], relations: RelationIndex) -> list[GroupSet]:
    """The groups, which come in queue order and whose constraints are in use, as sets."""
    needs = _needs(groups, relations)
    if not needs:
        return [(group,) for group in groups]
    # The place of the set of each group; a component comes after those that it needs.
    place: dict[int, int] = {}
    sets: list[tuple[int, int, GroupSet]] = []
    for component in strong_components(range(len(groups)), lambda n: needs.get(n, ())):
        members = sorted(component)
        others = (place[need] for n in members for need in needs.get(n, ()) if need in place)
        last = max(members[-1], max(others, default=0))
        place.update(dict.fromkeys(members, last))
        parts = [members] if len(members) <= MAX_GROUPS_OF_SET else [[n] for n in members]
        sets += [(last, len(sets), tuple(groups[n] for n in part)) for part in parts]
    sets.sort(key=lambda group_set: group_set[:2])
    return [group_set for _, _, group_set in sets]


def _needs(groups: Sequence[WaitingGroup], relations: RelationIndex) -> dict[int, list[int]]:
    """By the number of a group, those of the groups that it needs: the first for each need."""
    wanted: dict[int, set[int]] = {}
    for number, group in enumerate(groups):
        for shape, _ in group.shapes:
            attracting = shape.relations.attracting
            if attracting is not None:
                selector = relations.selector_id(attracting)
                if not relations.rows_of(selector):
                    wanted.setdefault(selector, set()).add(number)
    if not wanted:
        return {}
    first: dict[int, int] = {}
    for number, group in enumerate(groups):
        for selector in {s for task in group.tasks for s in relations.class_of(task).selected_by}:
            if selector in wanted:
                first.setdefault(selector, number)
                # A group that meets its own need waits for no other.
                wanted[selector].discard(number)
    needs: dict[int, list[int]] = {}
    for selector, numbers in wanted.items():
        for number in numbers if selector in first else ():
            needs.setdefault(number, []).append(first[selector])
    return needs
