"""The register of groups: the one place where the life of every group is kept.

In: what the adapter reports of members, the decisions of the cycle and the results of binds, the
reasons why tasks wait, and at take-over the groups of the ledger. Out: what may start, for the
cycle; what has changed, for the ledger; what holds members back, for announcements. Deadlines, the
half-bound rule and the room in queues are indexes over it.

A change of a member evaluates only its own group again, and what was reported is remembered, so
that only differences are reported. Pure: no clock, no network. Not thread-safe.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Literal

from msgspec import structs

from afflux.groups.changes import GroupChanges
from afflux.groups.entries import MemberEntry, RecordedGroup
from afflux.groups.evaluation import Evaluator
from afflux.groups.group import Group, GroupMember
from afflux.groups.group_id import GroupId, GroupKey, group_of_one
from afflux.groups.half_bound import HalfBoundGroups, half_bound_of
from afflux.groups.member import Hold, Member
from afflux.groups.quorum import BUILT_IN, QuorumRule, Shortage
from afflux.groups.states import EndReason
from afflux.model.task import Task
from afflux.model.waiting_group import WaitingGroup
from afflux.queue.rules import ONE_QUEUE, QueueRules

HeldBackTask = tuple[Task, Hold]


class GroupRegister:
    """The groups of one cluster.

    `shortage` says what tasks lack to start together, besides room on machines. `changes` is for
    the ledger.
    """

    def __init__(
        self,
        rules: Mapping[str, QueueRules] = ONE_QUEUE,
        quorum_rules: Mapping[str, QuorumRule] = BUILT_IN,
        shortage: Shortage | None = None,
        *,
        half_bound: HalfBoundGroups | None = None,
    ) -> None:
        self._evaluator = Evaluator(rules, quorum_rules, shortage)
        self._half_bound = half_bound
        self._groups: dict[GroupKey, Group] = {}
        # The present group of each namespace and name that tasks name.
        self._named: dict[tuple[str, str], GroupKey] = {}
        self._group_of: dict[str, GroupKey] = {}
        self._group_of_start: dict[str, GroupKey] = {}
        # To be evaluated, and to be reported even if nothing has changed.
        self._changed: dict[GroupKey, None] = {}
        self._to_report: set[GroupKey] = set()
        self._withdrawn: list[str] = []
        self._newly_held: dict[str, None] = {}
        self._violating: set[GroupKey] = set()
        self._unsatisfiable: dict[GroupKey, str] = {}
        # Restored from the ledger; which of their members exist is not known yet. With the members
        # that were about to be bound.
        self._unconfirmed: dict[GroupKey, frozenset[str]] = {}
        # Until the first evaluation the members that exist are those of before a restart.
        self._first_pass_done = False
        self.changes = GroupChanges()

    # --- What the adapter reports

    def set(self, member: Member, now_seconds: float = 0.0) -> None:
        """A task exists, as described; it was not reported before, or has changed."""
        uid = member.task.id
        before_group = self._group_with(uid)
        # It keeps its machine, and its bind in progress, if it now names another group.
        known = None if before_group is None else before_group.members[uid]
        group = self._group_for(member, now_seconds)
        if known is None or group is not before_group:
            known = known or GroupMember(MemberEntry(uid, member.task.name))
            group.add(known)
            self._group_of[uid] = group.key
        before = known.said
        known.say(member)
        (group.leaving.add if member.leaving else group.leaving.discard)(uid)
        if before is None and known.entry.machine and not member.machine:
            # The ledger says that it was bound; the cluster is right.
            self._set_entry(group, uid)
        elif machine := member.machine or known.entry.machine:
            self._set_bound(group, known, machine, is_first_report=before is None)
        if before is None or not member.decides_as(before):
            self._changed[group.key] = None
        self.changes.mark(group)

    def ended(self, uid: str, how: EndReason, now_seconds: float) -> None:
        """A task has ended, is gone, or belongs to another scheduler now."""
        group = self._group_with(uid)
        if group is not None:
            self._remove(group, uid, how, now_seconds)

    def reconsider(self, namespace: str, name: str) -> None:
        """What the tasks of this group need has changed, besides the tasks themselves."""
        key = self._named.get((namespace, name))
        if key is not None:
            self._changed[key] = None

    def present(self, namespace: str, name: str) -> Sequence[str]:
        """The tasks, by name, that name this group."""
        key = self._named.get((namespace, name))
        members = {} if key is None else self._groups[key].members
        return [each.entry.name for each in members.values()]

    def group_of(self, uid: str) -> GroupId | None:
        """The group that this task is a member of."""
        group = self._group_with(uid)
        return None if group is None else group.id

    def members_of(self, key: GroupKey) -> Collection[str]:
        """The uids of the members of this group that have not ended."""
        group = self._groups.get(key)
        return () if group is None else group.members.keys()

    # --- Decisions and their results. What the adapter has reported of a bound task outranks them:
    # the answer to a request may come after the news of what it did.

    def sent(self, uid: str, machine: str) -> None:
        """The task is about to be bound to this machine."""
        group = self._group_not_reported_bound(uid)
        if group is not None:
            # Only members that start together have the key of their group.
            together = group.starts.get(group.key)
            group.was_placed |= together is not None and len(together.tasks) > 1
            self._set_entry(group, uid, sent_to=machine)
            self._changed[group.key] = None

    def bound(self, uid: str, machine: str) -> None:
        group = self._group_not_reported_bound(uid)
        if group is not None:
            self._set_bound(group, group.members[uid], machine)

    def doubtful(self, uid: str, why: str) -> None:
        """It is unknown whether the task was bound. Until it is known, it counts on its machine."""
        group = self._group_not_reported_bound(uid)
        if group is not None and (machine := group.members[uid].entry.sent_to):
            self._set_entry(group, uid, sent_to=machine, doubt=why)

    def not_bound(self, uid: str, why: str = "") -> None:
        """The task was not bound: it waits again, in its old place."""
        group = self._group_not_reported_bound(uid)
        if group is None:
            return
        self._set_entry(group, uid)
        self.report_again(uid)
        if why:
            group.reason = why
            name = group.members[uid].entry.name
            self.changes.note(group, "NotBound", f"pod {name} was not bound: {why}")

    def report_again(self, uid: str) -> None:
        """Report what waits with this task again, as the cycle does not know it any more."""
        key = self._group_of.get(uid)
        if key is not None:
            self._to_report.add(key)
            self._changed[key] = None

    def roll_back(self, uids: Iterable[str], why: str) -> None:
        """These bound tasks are deleted because the rest of their group could not be bound. They
        do not count as run."""
        noted: set[GroupKey] = set()
        for uid in uids:
            group = self._group_with(uid)
            if group is None:
                continue
            group.members[uid].rolled_back = True
            if group.key not in noted:
                noted.add(group.key)
                self.changes.note(group, "TakenBack", why)

    def not_rolled_back(self, uids: Iterable[str]) -> None:
        """These tasks could not be deleted: they run on, and count."""
        for uid in uids:
            group = self._group_with(uid)
            if group is not None:
                group.members[uid].rolled_back = False

    def overdue(self, uids: Iterable[str]) -> None:
        """The deadline of these tasks' group has passed: this is why they are deleted."""
        for uid in uids:
            group = self._group_with(uid)
            if group is not None:
                group.members[uid].is_overdue = True

    # --- Reasons

    def set_reasons(self, reasons: Mapping[str, str], unsatisfiable: Mapping[str, str]) -> bool:
        """Why tasks wait, by id, and why waiting groups can never start on the cluster as it is, by
        key. Returns whether a group may now enter a queue that was full."""
        # Each group is looked at once, however many of its members start alone.
        found = {
            key: why
            for start, why in unsatisfiable.items()
            if (key := self._group_of_start.get(start)) is not None
        }
        never = {
            key: why
            for key, why in found.items()
            if self._groups[key].starts.keys() <= unsatisfiable.keys()
        }
        for key in self._unsatisfiable.keys() | never:
            group, why = self._groups.get(key), never.get(key, "")
            if group is not None and group.unsatisfiable_reason != why:
                group.unsatisfiable_reason = group.reason = why
                self.changes.mark(group)
        self._unsatisfiable = never
        first_of: dict[GroupKey, str | None] = {}
        for uid, why in reasons.items():
            group = self._group_with(uid)
            if group is None or group.unsatisfiable_reason or group.reason == why:
                continue
            if group.key not in first_of:
                first_of[group.key] = _first_waiting(group)
            if first_of[group.key] == uid:
                group.reason = why
                self.changes.mark(group)
        return self._evaluator.room.set_unsatisfiable(never)

    def set_violations(self, violations: Mapping[str, str]) -> None:
        """Which running tasks, by id, do not meet their requirements, and why."""
        by_group: dict[GroupKey, list[str]] = {}
        in_order = sorted(violations, key=self._name_of)
        for uid in in_order:
            key = self._group_of.get(uid)
            if key is not None:
                by_group.setdefault(key, []).append(violations[uid])
        for key in sorted(self._violating | by_group.keys()):
            group = self._groups.get(key)
            why = _first_and_more(by_group.get(key, ()))
            if group is None or group.violation == why:
                continue
            if not why:
                self.changes.note(
                    group, "RequirementMet", "all members meet their requirements again"
                )
            elif not group.violation:
                self.changes.note(group, "RequirementViolated", why)
            group.violation = why
            self.changes.mark(group)
        self._violating = set(by_group)

    # --- Take-over

    def restore(self, recorded: Iterable[RecordedGroup]) -> None:
        """The groups of the ledger, before the first report."""
        for each in recorded:
            group = Group.restored(each)
            self._groups[group.key] = group
            for uid in group.members.keys() & self._group_of.keys():
                # A ledger of an earlier version may have one task in two groups.
                group.drop(uid)
            self._group_of.update(dict.fromkeys(group.members, group.key))
            sent = frozenset(uid for uid, it in group.members.items() if it.entry.sent_to)
            self._unconfirmed[group.key] = sent
            self.changes.mark(group)

    def confirm_restored(self, is_live: Callable[[MemberEntry], bool], now_seconds: float) -> None:
        """Members of restored groups that are not live have ended, before any other is reported:
        the name of a group without live members is free for another."""
        unconfirmed, self._unconfirmed = self._unconfirmed, {}
        # Those whose members were reported as ended are gone. Of groups with one name, all members
        # of the earlier ones are being deleted: the name is that of the last.
        groups = [self._groups[key] for key in unconfirmed if key in self._groups]
        for group in sorted(groups, key=lambda each: each.created_seconds):
            gone = [uid for uid, each in group.members.items() if not is_live(each.entry)]
            # Whether these were bound, before they ended, nothing says any more.
            group.may_have_been_whole |= not unconfirmed[group.key].isdisjoint(gone)
            for uid in gone:
                self._remove(group, uid, "deleted", now_seconds)
            if group.members and not group.id.alone:
                self._named[group.id.namespace, group.id.name] = group.key
            elif not group.members and group.key in self._groups:
                self._finish(group, now_seconds)

    def note(self, key: GroupKey, kind: str, message: str) -> None:
        """An event in the history of this group, unless it has ended."""
        group = self._groups.get(key)
        if group is not None:
            self.changes.note(group, kind, message)

    # --- What may start

    def take_starts(self, now_seconds: float = 0.0) -> tuple[list[str], list[WaitingGroup]]:
        """The changes since the last call: the keys of what does not wait any more, then what
        waits, new or changed."""
        ready: list[WaitingGroup] = []
        while True:
            changed, self._changed = self._changed, {}
            for key in changed:
                group = self._groups.get(key)
                if group is not None:
                    ready += self._evaluate(group)
                    self._report_half_bound(group, now_seconds)
            admitted = self._evaluator.room.admit_next()
            if admitted is not None:
                self._changed[admitted] = None
            elif not self._changed:
                break
        self._to_report.clear()
        self._first_pass_done = True
        withdrawn, self._withdrawn = self._withdrawn, []
        return withdrawn, ready

    def waiting_group(self, key: str) -> WaitingGroup | None:
        """What was reported to the cycle under this key and waits still."""
        group = self._groups.get(self._group_of_start.get(key, ""))
        return None if group is None else group.starts.get(key)

    def shown(self, key: str) -> str:
        """The name that people see of what waits, or waited a moment ago, under this key."""
        group = self.waiting_group(key)
        return key if group is None else group.name

    def group_of_start(self, key: str) -> GroupKey | None:
        return self._group_of_start.get(key)

    # --- What holds members back

    def take_held_back(self) -> list[HeldBackTask]:
        """The tasks found to be held back since the last call, and why."""
        newly, self._newly_held = self._newly_held, {}
        found = [(self._group_with(uid), uid) for uid in newly]
        return [
            (member.said.task, member.hold)
            for group, uid in found
            if group is not None
            and (member := group.members[uid]).hold is not None
            and member.said is not None
        ]

    # --- Members

    def _group_with(self, uid: str) -> Group | None:
        key = self._group_of.get(uid)
        return None if key is None else self._groups[key]

    def _group_not_reported_bound(self, uid: str) -> Group | None:
        """The group of this member, None if there is none or the adapter has reported it bound."""
        group = self._group_with(uid)
        if group is None:
            return None
        said = group.members[uid].said
        return None if said is not None and said.machine else group

    def _name_of(self, uid: str) -> str:
        group = self._group_with(uid)
        return "" if group is None else group.members[uid].entry.name

    def _group_for(self, member: Member, now_seconds: float) -> Group:
        """The group that the task names, or its own; it leaves the group that it named before."""
        name = (member.namespace, member.claim.group)
        before = self._group_with(member.task.id)
        if before is not None:
            named = "" if before.id.alone else before.id.name
            if named == member.claim.group:
                return before
            self._remove(before, member.task.id, "deleted", now_seconds, is_gone=False)
        present = self._groups.get(self._named.get(name, "")) if name[1] else None
        if present is not None and (member.leaving or not present.is_leaving):
            return present
        uid = member.task.id
        if name[1]:
            id_ = GroupId(*name, uid)
        else:
            id_ = group_of_one(member.namespace, member.name or member.task.name, uid)
        if id_.key in self._groups:
            # The group began with this task, which has left it since.
            return self._groups[id_.key]
        group = Group(id_, created_seconds=member.created_seconds)
        self._groups[group.key] = group
        if name[1]:
            self._named[name] = group.key
        return group

    def _remove(
        self, group: Group, uid: str, how: EndReason, now_seconds: float, *, is_gone: bool = True
    ) -> None:
        member = group.members.pop(uid)
        del self._group_of[uid]
        group.bound.discard(uid)
        group.leaving.discard(uid)
        member.own_start = None
        if member.entry.ready_seconds is not None:
            # A place belongs to the group in which the member got it.
            member.entry = structs.replace(member.entry, ready_seconds=None)
        self._newly_held.pop(uid, None)
        # A task that did not just vanish ran where it was sent: its end was seen before its start.
        ran_on = member.entry.machine or (member.entry.sent_to if how != "deleted" else "")
        if ran_on and is_gone and member.is_ours and not member.rolled_back:
            # One that ended by itself was not deleted, perhaps because its controller stays.
            how = "deadline" if member.is_overdue and how == "deleted" else how
            group.add_ended(_with(member.entry, ran_on, how=how))
        else:
            group.drop(uid)
        self.changes.mark(group)
        if group.members:
            self._changed[group.key] = None
        else:
            self._finish(group, now_seconds)

    def _finish(self, group: Group, now_seconds: float) -> None:
        """The last member has ended. Later tasks that name this group are another group."""
        self._withdraw(group.starts)
        key = group.key
        self._evaluator.room.leave(key)
        if self._half_bound is not None:
            self._half_bound.remove(key)
        del self._groups[key]
        self._changed.pop(key, None)
        self._unsatisfiable.pop(key, None)
        name = (group.id.namespace, group.id.name)
        if self._named.get(name) == key:
            del self._named[name]
        self.changes.end(group, now_seconds)

    def _set_bound(
        self, group: Group, member: GroupMember, machine: str, *, is_first_report: bool = False
    ) -> None:
        uid = member.entry.uid
        if is_first_report and not member.is_running:
            # Bound by another component, or before this process started: the task may say when.
            if group.started_seconds is None and member.said is not None:
                group.started_seconds = member.said.started_seconds
            # The ledger does not know of this bind: nor, perhaps, of others of the group.
            group.may_have_been_whole |= not self._first_pass_done
        if member.entry.machine != machine or member.entry.sent_to:
            self._set_entry(group, uid, machine=machine)
            self._changed[group.key] = None
        if not self._first_pass_done:
            group.was_placed = True
        counts = member.said is None or not member.said.leaving
        if counts != (uid in group.bound):
            (group.bound.add if counts else group.bound.discard)(uid)
            group.peak_bound = max(group.peak_bound, len(group.bound))
            self._changed[group.key] = None

    def _set_entry(
        self, group: Group, uid: str, machine: str = "", sent_to: str = "", doubt: str = ""
    ) -> None:
        member = group.members[uid]
        group.set_entry(uid, _with(member.entry, machine, sent_to, doubt))
        self.changes.mark(group)

    # --- Evaluation

    def _evaluate(self, group: Group) -> list[WaitingGroup]:
        """What waits of this group and is to be reported."""
        found = self._evaluator.evaluate(group)
        before, group.starts = group.starts, found.starts
        if group.starts and not before:
            group.reason = ""
        self._set_holds(group, found.held)
        group.summarise()
        self.changes.mark(group)
        self._withdraw(before.keys() - group.starts.keys())
        self._group_of_start.update(dict.fromkeys(group.starts, group.key))
        is_asked = group.key in self._to_report
        return [
            start
            for key, start in group.starts.items()
            if is_asked or ((old := before.get(key)) is not start and old != start)
        ]

    def _set_holds(self, group: Group, held: Iterable[HeldBackTask]) -> None:
        for each in group.members.values():
            each.hold = None
        for task, hold in held:
            group.members[task.id].hold = hold
            self._newly_held[task.id] = None
            if not group.starts:
                group.reason = hold.why

    def _withdraw(self, keys: Iterable[str]) -> None:
        for key in list(keys):
            if self._group_of_start.pop(key, None) is not None:
                self._withdrawn.append(key)

    def _report_half_bound(self, group: Group, now_seconds: float) -> None:
        if self._half_bound is None or group.key not in self._groups:
            return
        found = half_bound_of(group)
        if found is not None:
            self._half_bound.set(found, now_seconds)
        else:
            self._half_bound.remove(group.key)


def _first_waiting(group: Group) -> str | None:
    """The first member in the queue: why it waits is why the group does."""
    return next((start.tasks[0].id for start in group.starts.values()), None)


def _with(
    entry: MemberEntry,
    machine: str = "",
    sent_to: str = "",
    doubt: str = "",
    how: EndReason | Literal[""] = "",
) -> MemberEntry:
    return MemberEntry(entry.uid, entry.name, machine, sent_to, doubt, how, entry.ready_seconds)


def _first_and_more(reasons: Sequence[str]) -> str:
    """The first of these reasons, and how many more there are."""
    if not reasons:
        return ""
    others = len(reasons) - 1
    return reasons[0] + (f" (and {others:,} more)" if others else "")
