"""One group: its members, what may start of it, and its entry in the ledger.

The state of a group is a function of its members and is not stored beside them.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from msgspec.structs import replace

from afflux.groups.entries import GroupEntry, MemberEntry, RecordedGroup
from afflux.groups.group_id import GroupId, GroupKey
from afflux.groups.member import NO_TERMS, GroupTerms, Hold, Member
from afflux.groups.quorum import Candidate
from afflux.groups.states import EndReason, GroupState
from afflux.model.waiting_group import WaitingGroup

# Ended members of a group that are kept. A group may live for years, and replace its members.
MAX_ENDED_MEMBERS = 1_000


@dataclass(slots=True)
class GroupMember:
    """A task of a group. `said` is what the adapter reported last; None before the first report
    after a restart. `entry` has its machine, or the machine to which it is about to be bound."""

    entry: MemberEntry
    said: Member | None = None
    hold: Hold | None = None
    # It was bound, and is deleted because the rest of its group could not be: it has not run.
    rolled_back: bool = False
    # Its group's deadline has passed: if it is deleted, this is why.
    is_overdue: bool = False
    # What waits of it, and the candidate from which that was made, if it starts alone.
    own_start: tuple[Candidate, WaitingGroup] | None = None
    # Made once: a change of one member evaluates thousands that are the same.
    _candidate: Candidate | None = None

    def say(self, said: Member) -> None:
        """The adapter has reported this."""
        self.said, self._candidate = said, None

    def candidate(self) -> Candidate | None:
        """As the quorum rules see it; None if it does not count."""
        said, is_running = self.said, self.is_running
        if said is None or said.leaving:
            return None
        if self._candidate is None or self._candidate.running != is_running:
            self._candidate = Candidate(
                said.task,
                said.claim.terms,
                is_running,
                said.priority,
                said.created_seconds,
                said.run_seconds,
                said.limit_seconds,
                said.may_preempt,
            )
        return self._candidate

    @property
    def is_running(self) -> bool:
        """Whether it counts on a machine, perhaps not bound yet."""
        return bool(self.entry.machine or self.entry.sent_to)

    @property
    def is_ours(self) -> bool:
        return self.said is None or self.said.ours


@dataclass(slots=True)
class Group:
    """A group, from its first member to its last.

    `members` are those that have not ended; `ended` the last of those that ran before, for the
    ledger; so many earlier ones are `unlisted`.
    """

    id: GroupId
    members: dict[str, GroupMember] = field(default_factory=dict[str, GroupMember])
    ended: dict[str, MemberEntry] = field(default_factory=dict[str, MemberEntry])
    unlisted: int = 0
    # How many of `ended` have ended in each way: counting them at every end would take too long.
    ended_hows: dict[str, int] = field(default_factory=dict[str, int])
    terms: GroupTerms = NO_TERMS
    # When it had all the members that it needs, and for which terms. None while it lacks members
    # and has not run whole.
    place: float | None = None
    # The place before it was lost: of a group that runs, or has ended, when it was ready.
    last_place: float | None = None
    place_terms: GroupTerms | None = None
    # What waits in the queue, by key.
    starts: dict[str, WaitingGroup] = field(default_factory=dict[str, WaitingGroup])
    # The members that are being deleted.
    leaving: set[str] = field(default_factory=set[str])
    # The members that are bound and not leaving, and the largest number of them at any time.
    bound: set[str] = field(default_factory=set[str])
    peak_bound: int = 0
    # The size, if all members exist and agree; else 0.
    complete_size: int = 0
    # It has run with fewer members than its size, as many as its quorum rule asks for.
    is_whole: bool = False
    # The cycle placed some of its members together with others.
    was_placed: bool = False
    # Binds of its members were missed, while nothing led or nothing was written.
    may_have_been_whole: bool = False
    reason: str = ""
    unsatisfiable_reason: str = ""
    # Which running members do not meet their requirements, and why; empty if all do.
    violation: str = ""
    priority: int = 0
    run_seconds: float | None = None
    created_seconds: float = 0.0
    started_seconds: float | None = None
    # As the ledger has it, and what has changed since.
    written: GroupEntry | None = None
    changed_members: dict[str, None] = field(default_factory=dict[str, None])
    dropped: dict[str, None] = field(default_factory=dict[str, None])
    # That of its id, which is needed often.
    key: GroupKey = field(init=False)

    def __post_init__(self) -> None:
        self.key = self.id.key

    @staticmethod
    def restored(recorded: RecordedGroup) -> "Group":
        """A group as the ledger has it."""
        entry = recorded.entry
        group = Group(entry.id, written=entry)
        group.terms = GroupTerms(entry.size, entry.queue)
        group.place = entry.ready_seconds
        group.place_terms = None if entry.ready_seconds is None else group.terms
        group.peak_bound = entry.peak_bound
        group.may_have_been_whole = entry.may_have_been_whole
        group.reason, group.priority = entry.reason, entry.priority
        group.run_seconds, group.created_seconds = entry.run_seconds, entry.created_seconds
        group.started_seconds, group.unlisted = entry.started_seconds, entry.unlisted
        for each in recorded.members:
            if each.how:
                group.ended[each.uid] = each
                group.count_ended(each, 1)
            else:
                group.members[each.uid] = GroupMember(each)
        group.was_placed = any(each.is_running for each in group.members.values())
        return group

    @property
    def is_recorded(self) -> bool:
        """Whether the ledger keeps it: not if only tasks of other schedulers are in it."""
        return self.written is not None or any(each.is_ours for each in self.members.values())

    @property
    def has_begun(self) -> bool:
        """Whether members that were placed together with others run, so that these must follow."""
        return self.was_placed and self.is_running

    @property
    def is_running(self) -> bool:
        """Whether a member runs, or is being bound, and is not being deleted."""
        members = self.members.items()
        return any(each.is_running and uid not in self.leaving for uid, each in members)

    @property
    def is_leaving(self) -> bool:
        """Whether all its members are being deleted: its name is free for another group."""
        return len(self.leaving) == len(self.members)

    def add(self, member: GroupMember) -> None:
        uid = member.entry.uid
        self.members[uid] = member
        self.changed_members[uid] = None
        self.dropped.pop(uid, None)
        self._forget_ended(uid)

    def set_entry(self, uid: str, entry: MemberEntry) -> None:
        self.members[uid].entry = entry
        self.changed_members[uid] = None

    def drop(self, uid: str) -> None:
        """The task has no part in the group any more, and none in its history."""
        self.members.pop(uid, None)
        self.changed_members.pop(uid, None)
        self.dropped[uid] = None

    def add_ended(self, entry: MemberEntry) -> None:
        """A member that ran has ended. If too many have, the oldest is only counted; of each way to
        end, one stays, so that the end of the group is as of all."""
        self.ended[entry.uid] = entry
        self.count_ended(entry, 1)
        self.changed_members[entry.uid] = None
        if len(self.ended) > MAX_ENDED_MEMBERS:
            count = self.ended_hows
            oldest = next(uid for uid, each in self.ended.items() if count[each.how] > 1)
            self._forget_ended(oldest)
            self.changed_members.pop(oldest, None)
            self.dropped[oldest] = None
            self.unlisted += 1

    def _forget_ended(self, uid: str) -> None:
        entry = self.ended.pop(uid, None)
        if entry is not None:
            self.count_ended(entry, -1)

    def count_ended(self, entry: MemberEntry, change: int) -> None:
        self.ended_hows[entry.how] = self.ended_hows.get(entry.how, 0) + change

    def pending(self) -> list[GroupMember]:
        return [each for each in self.members.values() if not each.is_running]

    def summarise(self) -> None:
        """Update what the ledger says of the group as a whole."""
        said = [each.said for each in self.members.values() if each.said is not None]
        if not said:
            return
        if self.starts:
            self.priority = max(start.priority for start in self.starts.values())
            self.run_seconds = next(iter(self.starts.values())).run_seconds
        elif self.written is None:
            self.priority = max(each.priority for each in said)
        if not self.created_seconds:
            self.created_seconds = min(each.created_seconds for each in said)

    def candidates(self) -> Iterator[tuple[GroupMember, Candidate]]:
        """The members that count, as the quorum rules see them."""
        for each in self.members.values():
            found = each.candidate()
            if found is not None:
                yield each, found

    def state(self) -> GroupState:
        """Running once its quorum is bound, also while later members wait."""
        pending = [each for each in self.members.values() if not each.entry.machine]
        if not pending:
            return "running"
        if any(each.entry.sent_to for each in pending):
            return "starting"
        bound = len(self.members) - len(pending)
        if bound >= self.terms.size or (bound and self.is_whole):
            return "running"
        if self.starts or (self.place is not None and len(self.members) >= self.terms.size):
            return "unsatisfiable" if self.unsatisfiable_reason else "waiting"
        refused = all(each.hold is not None and each.hold.kind == "refused" for each in pending)
        return "refused" if refused else "provisional"

    def waiting(self) -> list[GroupMember]:
        """The members that may still start, for the ledger."""
        return [
            each
            for each in self.members.values()
            if not each.is_running
            and (each.said is None or (each.said.ours and not each.said.leaving))
        ]

    def entry(self, now_seconds: float) -> GroupEntry:
        """The entry of the ledger. A group that runs for the first time starts now, unless its
        members say when they started."""
        state = self.state()
        if state == "running" and self.started_seconds is None:
            self.started_seconds = now_seconds
        waiting = self.waiting()
        return GroupEntry(
            self.id,
            queue=self.terms.queue,
            size=self.terms.size,
            priority=self.priority,
            ready_seconds=self._ready_seconds(state),
            run_seconds=self.run_seconds,
            state=state,
            reason=self._shown_reason(state, waiting),
            created_seconds=self.created_seconds,
            started_seconds=self.started_seconds,
            until_seconds=self._expected_end() if state == "running" else None,
            peak_bound=self.peak_bound,
            may_have_been_whole=self.may_have_been_whole,
            waiting=len(waiting),
            late_since_seconds=_oldest(waiting) if state == "running" else None,
            unlisted=self.unlisted,
        )

    def last_entry(self) -> GroupEntry:
        """The entry after the last member has ended."""
        reason = "" if self.violation else self.reason
        entry = replace(self.entry(0.0), state="finished", reason=reason, until_seconds=None)
        return replace(entry, started_seconds=self.started_seconds)

    def ending(self) -> EndReason:
        """How the group ended: as the worst of the members that ran."""
        for how in _WORST_FIRST:
            if self.ended_hows.get(how):
                return how
        return "deleted"

    def _shown_reason(self, state: GroupState, waiting: Collection[GroupMember]) -> str:
        return self.violation or (self.reason if waiting or state != "running" else "")

    def _ready_seconds(self, state: GroupState) -> float | None:
        return self.last_place if self.place is None and state == "running" else self.place

    def _expected_end(self) -> float | None:
        """The latest expected end of the running members, None if one of them has none."""
        running = [each for each in self.members.values() if each.entry.machine]
        ends = [each.said.ends_seconds for each in running if each.said is not None]
        bounded = [end for end in ends if end is not None]
        if running and len(bounded) == len(running):
            return max(bounded)
        if self.started_seconds is None or self.run_seconds is None:
            return None
        return self.started_seconds + self.run_seconds


def _oldest(members: Iterable[GroupMember]) -> float | None:
    created = (each.said.created_seconds for each in members if each.said is not None)
    return min(created, default=None)


_WORST_FIRST: tuple[EndReason, ...] = ("deadline", "deleted", "rejected", "failed", "succeeded")
