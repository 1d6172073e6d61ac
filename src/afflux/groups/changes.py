"""What has changed of the groups, for the ledger and for listeners.

The register says which groups have changed and which have ended. Here is what of that is new to the
ledger: a group that changes often between two calls is one change, and only its members that differ
are in it. Not here: what a change means, and who writes it.
"""

from collections.abc import Callable

from afflux.groups.entries import EndedGroup, EventEntry, GroupChange, MemberEntry
from afflux.groups.group import Group
from afflux.groups.group_id import GroupKey

Changes = tuple[list[GroupChange], list[EndedGroup], list[EventEntry]]


class GroupChanges:
    """The changes since the last `take`."""

    def __init__(self) -> None:
        self._changed: dict[GroupKey, Group] = {}
        self._ended: list[EndedGroup] = []
        self._events: list[EventEntry] = []
        # Whether a group of the last `take` had another place in the queue than before.
        self.changed_places = False
        # Called when there is something to take again, and with every group that has ended.
        self.on_change: Callable[[], None] = lambda: None
        self.on_ended: list[Callable[[EndedGroup], None]] = []

    def mark(self, group: Group) -> None:
        """Something of this group may have changed."""
        if not self._changed:
            self.on_change()
        self._changed[group.key] = group

    def note(self, group: Group, kind: str, message: str) -> None:
        """An event in the history of this group."""
        self._events.append(EventEntry(group.key, kind, message))
        self.mark(group)

    def end(self, group: Group, now_seconds: float) -> None:
        """The last member of this group has ended. A group that the ledger does not have, and of
        which no member ran, leaves nothing behind."""
        self._changed.pop(group.key, None)
        if group.written is None and not group.ended:
            return
        members = tuple(group.ended.values())
        ended = EndedGroup(group.last_entry(), members, group.ending(), now_seconds)
        self._ended.append(ended)
        self.on_change()
        for listener in self.on_ended:
            listener(ended)

    def take(self, now_seconds: float) -> Changes:
        """The groups that have changed, those that have ended, and events, since the last call."""
        changes: list[GroupChange] = []
        self.changed_places = False
        changed, self._changed = self._changed, {}
        for group in changed.values():
            if not group.is_recorded:
                continue
            entry = group.entry(now_seconds)
            if entry == group.written and not group.changed_members and not group.dropped:
                continue
            before = None if group.written is None else group.written.ready_seconds
            self.changed_places = self.changed_places or entry.ready_seconds != before
            group.written = entry
            changes.append(GroupChange(entry, _changed_entries(group), tuple(group.dropped)))
            _forget_changes(group)
        ended, self._ended = self._ended, []
        events, self._events = self._events, []
        return changes, ended, events

    def discard(self) -> None:
        """Without a ledger nothing takes the changes: they need not be kept."""
        for group in self._changed.values():
            _forget_changes(group)
        self._changed.clear()
        self._ended.clear()
        self._events.clear()


def _changed_entries(group: Group) -> tuple[MemberEntry, ...]:
    """The entries of the members that have changed, without those of other schedulers."""
    found: list[MemberEntry] = []
    for uid in group.changed_members:
        member = group.members.get(uid)
        if member is None:
            found.append(group.ended[uid])
        elif member.is_ours:
            found.append(member.entry)
    return tuple(found)


def _forget_changes(group: Group) -> None:
    group.changed_members.clear()
    group.dropped.clear()
