"""Places: when a waiting group counts as ready, by which it is ordered in its queue.

A place belongs to terms and members. It lasts while the group has as many members as its terms ask
for, or as its quorum rule starts; with other terms, after it lacked a member, or when members that
it needs were replaced, the group is ready anew. While members of a group that has run whole run, it
keeps its place for as many members as it lacks: the others work for nothing without them.
"""

from collections.abc import Sequence
from itertools import count

from msgspec.structs import replace

from afflux.groups.group import Group
from afflux.groups.quorum import Candidate, Gathered, age

# Creation times are whole seconds; this keeps the order in which groups of one second were ready.
_TIE_SECONDS = 1e-6
# Less than a second in all, however many places were given.
_TIES = 1_000_000


class Places:
    """Gives groups and late members their places."""

    def __init__(self) -> None:
        self._sequence = count()

    def update(self, group: Group, found: Gathered) -> None:
        """Give the group a place if it is ready for the first time, or anew."""
        terms = found.terms or group.place_terms
        if terms is None:
            return
        starting = (*found.together, *found.alone)
        quorum_seconds = found.quorum_seconds or 0.0
        if found.is_whole or group.peak_bound >= terms.size:
            # It has run whole. If nothing of it runs, nothing works in vain without the others.
            is_lost = found.present < terms.size and not starting and not group.is_running
        else:
            is_lost = found.present < terms.size and not starting
            # Members that came after it was ready have replaced some of those that it needs.
            is_lost |= group.place is not None and group.place < quorum_seconds
        if is_lost or group.place_terms not in (None, terms):
            self.clear(group)
        if group.place is None and starting:
            newest = max(quorum_seconds, *(each.created_seconds for each in starting))
            group.place = newest + next(self._sequence) % _TIES * _TIE_SECONDS
        if group.place is not None:
            group.place_terms = terms

    def clear(self, group: Group) -> None:
        if group.place is not None:
            group.last_place = group.place
        group.place = group.place_terms = None
        for uid, each in group.members.items():
            if each.entry.ready_seconds is not None:
                group.set_entry(uid, replace(each.entry, ready_seconds=None))

    def of_late_members(
        self, group: Group, late: Sequence[Candidate], missing: int
    ) -> dict[str, float]:
        """The places of members that start alone. The oldest, as many as a running group is
        `missing`, get the place of the group; the others are queued by when they were created.
        Otherwise one idle member could hold a place for thousands. A member that has the place of
        the group keeps it when older ones come, and is one of as many."""
        group_place = group.place
        if group_place is None:
            return {}

        def order(each: Candidate) -> tuple[bool, float, str]:
            own = group.members[each.task.id].entry.ready_seconds
            return own is None or own > group_place, *age(each)

        heirs = sorted(late, key=order)[: max(0, missing)] if group.is_running else ()
        inheriting = {each.task.id for each in heirs}
        places: dict[str, float] = {}
        for each in late:
            uid = each.task.id
            own = max(group_place, each.created_seconds)
            place = group_place if uid in inheriting else own
            entry = group.members[uid].entry
            before = entry.ready_seconds
            places[uid] = place if before is None else min(place, before)
            if places[uid] != before:
                group.set_entry(uid, replace(entry, ready_seconds=places[uid]))
        return places
