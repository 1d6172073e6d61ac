"""A slow register of groups: it keeps a list of all that was seen, and folds over all of it for
each answer.

Written from the rules in docs/groups.md. It shares only values with the register: there is no index
and no memory of what was reported, and each fold decides about every group at every point where
the register was asked what may start.
"""

from collections import Counter
from dataclasses import dataclass, field, replace

from afflux.groups.entries import RecordedGroup
from afflux.groups.group_id import GroupId, group_of_one
from afflux.groups.member import GroupTerms, Member
from afflux.queue.rules import QueueRules


@dataclass(frozen=True)
class Start:
    """Tasks that wait in the queue to start together, or one that starts alone."""

    tasks: frozenset[str]
    place: float
    queue: str
    priority: int
    run_seconds: float | None
    begun: bool


@dataclass(frozen=True)
class HalfBound:
    size: int
    bound: frozenset[str]
    bind_in_progress: bool
    since_seconds: float


@dataclass(frozen=True)
class GroupAnswer:
    """`members` has machine, sent_to and doubt; `ended` how each member that ran has ended."""

    state: str
    members: dict[str, tuple[str, str, str]]
    ended: dict[str, str]
    peak: int
    place: float | None
    late_places: dict[str, float]
    size: int
    queue: str


@dataclass(frozen=True)
class Answer:
    groups: dict[str, GroupAnswer]
    starts: dict[str, Start]
    held: dict[str, str]
    half_bound: dict[str, HalfBound]
    # The groups that are in each queue with limited room, and those of them that need none.
    inside: dict[str, set[str]]
    uncounted: set[str]


@dataclass
class _Task:
    uid: str
    said: Member | None = None
    machine: str = ""
    sent_to: str = ""
    doubt: str = ""
    # The adapter or the result of a bind says that it is bound, not the ledger alone.
    is_bound: bool = False
    is_rolled_back: bool = False
    is_overdue: bool = False

    @property
    def is_running(self) -> bool:
        return bool(self.machine or self.sent_to)

    @property
    def is_leaving(self) -> bool:
        return self.said is not None and self.said.leaving

    @property
    def is_ours(self) -> bool:
        return self.said is None or self.said.ours

    @property
    def age(self) -> tuple[float, str]:
        assert self.said is not None
        return self.said.created_seconds, self.said.task.name

    @property
    def terms(self) -> GroupTerms | None:
        return None if self.said is None else self.said.claim.terms


@dataclass
class _Group:
    id: GroupId
    tasks: dict[str, _Task] = field(default_factory=dict)
    ended: dict[str, str] = field(default_factory=dict)
    terms: GroupTerms = field(default_factory=GroupTerms)
    place: float | None = None
    place_terms: GroupTerms | None = None
    late_places: dict[str, float] = field(default_factory=dict)
    peak: int = 0
    # As the ledger has it.
    created_seconds: float = 0.0
    was_written: bool = False
    # Members were placed together with others, or were there before the last restart.
    was_placed: bool = False
    # Binds of its members were missed, or may have been.
    may_have_been_whole: bool = False
    # According to the ledger.
    was_about_to_bind: set[str] = field(default_factory=set)
    has_changed: bool = False
    never_starts: str = ""
    counts_in_queue: bool = True
    # The queue with limited room that it is in; or it found that queue full.
    queue: str = ""
    is_turned_away: bool = False
    starts: dict[str, Start] = field(default_factory=dict)
    held: dict[str, str] = field(default_factory=dict)
    is_complete: bool = False
    half_bound: HalfBound | None = None

    @property
    def bound(self) -> frozenset[str]:
        each = self.tasks.values()
        return frozenset(task.uid for task in each if task.is_bound and not task.is_leaving)

    @property
    def has_begun(self) -> bool:
        return self.was_placed and self.is_running

    @property
    def is_running(self) -> bool:
        return any(task.is_running and not task.is_leaving for task in self.tasks.values())


class RegisterReference:
    """`short` are the groups, by name, that lack something to start together."""

    def __init__(self, rules: dict[str, QueueRules]) -> None:
        self.rules = rules
        self.seen: list[tuple[str, tuple]] = []

    def see(self, what: str, *args: object) -> None:
        self.seen.append((what, args))

    def fold(self) -> "Fold":
        fold = Fold(self.rules)
        for what, args in self.seen:
            getattr(fold, what)(*args)
            for group in fold.groups.values():
                group.peak = max(group.peak, len(group.bound))
        return fold


class Fold:
    """What is known after a part of what was seen. One method for each kind of record."""

    def __init__(self, rules: dict[str, QueueRules]) -> None:
        self.rules = rules
        self.groups: dict[str, _Group] = {}
        # The latest group of each name that tasks name.
        self.present: dict[tuple[str, str], str] = {}
        # In the order in which they changed since the last decision.
        self.changed: list[str] = []
        self.finished: list[tuple[str, str, dict[str, str]]] = []
        self.places_given = 0
        self.is_first_pass = True

    # --- What is seen

    def reported(self, member: Member) -> None:
        uid = member.task.id
        before = self.group_of(uid)
        known = _Task(uid) if before is None else before.tasks[uid]
        if before is not None and _named(before) != member.claim.group:
            self.leave(before, uid)
            before = None
        group = before or self.group_for(member)
        is_first = known.said is None
        is_same = known.said is not None and _timeless(known.said) == _timeless(member)
        was_running, was_counted = known.is_running, uid in group.bound
        group.tasks[uid] = known
        known.said = member
        if member.machine:
            known.machine, known.sent_to, known.doubt = member.machine, "", ""
            known.is_bound = True
            if self.is_first_pass:
                group.was_placed = True
                if is_first and not was_running:
                    group.may_have_been_whole = True
        elif is_first and known.machine:
            # The ledger says that it was bound; the cluster is right.
            known.machine = ""
        if not is_same or was_counted != (uid in group.bound):
            self.change(group)

    def ended(self, uid: str, how: str) -> None:
        group = self.group_of(uid)
        if group is None:
            return
        task = group.tasks[uid]
        ran = task.machine or (task.sent_to and how != "deleted")
        if ran and task.is_ours and not task.is_rolled_back:
            group.ended[uid] = "deadline" if task.is_overdue and how == "deleted" else how
        self.leave(group, uid)

    def sent(self, uid: str, machine: str) -> None:
        group = self.group_of_unreported(uid)
        if group is not None:
            group.was_placed |= any(
                uid in start.tasks and len(start.tasks) > 1 for start in group.starts.values()
            )
            self.set_where(group, uid, sent_to=machine)

    def bound(self, uid: str, machine: str) -> None:
        group = self.group_of_unreported(uid)
        if group is not None:
            self.set_where(group, uid, machine=machine)
            group.was_placed |= self.is_first_pass

    def not_bound(self, uid: str) -> None:
        group = self.group_of_unreported(uid)
        if group is not None:
            self.set_where(group, uid)

    def doubtful(self, uid: str, why: str) -> None:
        group = self.group_of_unreported(uid)
        if group is not None:
            group.tasks[uid].doubt = why

    def group_of_unreported(self, uid: str) -> "_Group | None":
        """The group of a task that was not seen on a machine: what was seen is certain."""
        group = self.group_of(uid)
        said = None if group is None else group.tasks[uid].said
        return None if said is not None and said.machine else group

    def rolled_back(self, uids: list[str]) -> None:
        for uid in uids:
            if (group := self.group_of(uid)) is not None:
                group.tasks[uid].is_rolled_back = True

    def overdue(self, uids: list[str]) -> None:
        for uid in uids:
            if (group := self.group_of(uid)) is not None:
                group.tasks[uid].is_overdue = True

    def reported_again(self, uid: str) -> None:
        group = self.group_of(uid)
        if group is not None:
            self.change(group)

    def reasons(self, unsatisfiable: dict[str, str]) -> None:
        for group in self.groups.values():
            never = bool(group.starts) and group.starts.keys() <= unsatisfiable.keys()
            group.never_starts = unsatisfiable[next(iter(group.starts))] if never else ""
            group.counts_in_queue = not never

    def written(self) -> None:
        for group in self.groups.values():
            group.was_written |= any(task.is_ours for task in group.tasks.values())

    def restored(self, recorded: list[RecordedGroup]) -> None:
        for each in recorded:
            entry = each.entry
            group = self.groups[entry.id.key] = _Group(entry.id)
            group.terms = group.place_terms = GroupTerms(entry.size, entry.queue)
            group.created_seconds = entry.created_seconds
            group.place, group.peak, group.was_written = entry.ready_seconds, entry.peak_bound, True
            group.may_have_been_whole = entry.may_have_been_whole
            for it in each.members:
                if it.sent_to:
                    group.was_about_to_bind.add(it.uid)
                if it.how:
                    group.ended[it.uid] = it.how
                else:
                    task = _Task(it.uid, None, it.machine, it.sent_to, it.doubt)
                    group.tasks[it.uid] = task
                    group.was_placed |= task.is_running
                    if it.ready_seconds is not None:
                        group.late_places[it.uid] = it.ready_seconds

    def confirmed(self, live: set[str]) -> None:
        """Of the restored tasks these exist."""
        for group in sorted(self.groups.values(), key=lambda each: each.created_seconds):
            if not group.tasks:
                self.finish(group)
                continue
            for uid in list(group.tasks):
                if uid not in live:
                    group.may_have_been_whole |= uid in group.was_about_to_bind
                    self.ended(uid, "deleted")
            if group.tasks and not group.id.alone:
                self.present[group.id.namespace, group.id.name] = group.id.key

    # --- What may start

    def decided(self, now_seconds: float) -> None:
        """The register was asked what may start."""
        order = [*self.changed, *self.groups]
        startable = {key: self.startable(self.groups[key]) for key in dict.fromkeys(order)}
        for key in self.changed:
            self.groups[key].counts_in_queue = True
        self.make_room(startable)
        for key, (together, alone) in startable.items():
            group = self.groups[key]
            rules = self.rules.get(group.terms.queue)
            group.starts, group.is_turned_away = {}, False
            if rules is None or not (together or alone):
                continue
            if rules.max_groups is not None and not group.queue:
                group.held.update(dict.fromkeys([each.uid for each in together + alone], "refused"))
                group.is_turned_away = True
                continue
            self.start(group, together, alone, rules)
        for group in self.groups.values():
            group.half_bound = self.find_half_bound(group, now_seconds)
        self.changed.clear()
        self.is_first_pass = False

    def startable(self, group: _Group) -> tuple[list[_Task], list[_Task]]:
        """The members that may start together, and those that may start alone. Sets the terms, the
        place and what holds the others back."""
        group.held, group.is_complete = {}, False
        counted: list[_Task] = []
        for task in group.tasks.values():
            if task.said is None or task.is_leaving:
                continue
            if not task.is_running and (kind := self.refusal(task.said)):
                group.held[task.uid] = "waits" if task.said.task.blocked else kind
            else:
                counted.append(task)
        terms = _terms_of_most(counted)
        if terms is None:
            self.hold_blocked(group, counted)
            if group.place_terms and not self.keeps_place(group, group.place_terms.size):
                self.lose_place(group)
            return [], []
        group.terms = terms
        rules = self.rules.get(terms.queue)
        agreeing = [task for task in counted if task.terms in (None, terms)]
        dissenting = [task for task in counted if task.terms not in (None, terms)]
        surplus: list[_Task] = []
        if rules is not None:
            agreeing.sort(key=lambda task: (not task.is_running, task.age))
            surplus = [t for t in agreeing[rules.max_group_size :] if not t.is_running]
            agreeing = [task for task in agreeing if task not in surplus]
            group.is_complete = len(agreeing) == len(counted) >= terms.size
        for task in dissenting + surplus:
            if not task.is_running:
                group.held[task.uid] = "refused"
        self.hold_blocked(group, counted)
        together, alone = self.whole_group(group, agreeing, terms.size)
        keeps = self.keeps_place(group, terms.size)
        lacks = len(agreeing) < terms.size and not (together or alone) and not keeps
        # The youngest of the members that it needs.
        oldest = sorted(task.age for task in agreeing)[: terms.size]
        ready = oldest[-1][0] if len(oldest) == terms.size else 0.0
        was_replaced = group.peak < terms.size and group.place is not None and group.place < ready
        if group.place_terms not in (None, terms) or lacks or was_replaced:
            self.lose_place(group)
        if rules is not None and group.place is None and (together or alone):
            created = [task.said.created_seconds for task in together + alone if task.said]
            newest = max(ready, *created)
            group.place = newest + self.places_given * 1e-6
            self.places_given += 1
        group.place_terms = terms if group.place is not None else None
        return together, alone

    def keeps_place(self, group: _Group, size: int) -> bool:
        """Whether running members work for nothing without the others."""
        return group.peak >= size and group.is_running

    def lose_place(self, group: _Group) -> None:
        group.place = group.place_terms = None
        group.late_places.clear()

    def whole_group(
        self, group: _Group, agreeing: list[_Task], size: int
    ) -> tuple[list[_Task], list[_Task]]:
        running = sum(task.is_running for task in agreeing)
        free = [task for task in agreeing if not task.is_running and task.uid not in group.held]
        free.sort(key=lambda task: task.age)
        if running >= size or group.peak >= size:
            return [], free
        if size == 1:
            return free[:1], free[1:]
        if running + len(free) >= size:
            return free, []
        group.held.update(dict.fromkeys([task.uid for task in free], "waits"))
        return [], []

    def hold_blocked(self, group: _Group, counted: list[_Task]) -> None:
        for task in counted:
            if not task.is_running and task.said and task.said.task.blocked:
                group.held[task.uid] = "waits"

    def refusal(self, said: Member) -> str:
        """Whether the member may not wait here, whatever the others say; empty if it may."""
        if said.claim.problem is not None:
            return said.claim.problem.kind
        terms = said.claim.terms
        if terms is None:
            return ""
        rules = self.rules.get(terms.queue)
        if rules is None or terms.size > rules.max_group_size:
            return "refused"
        runs = rules.default_run_seconds if said.limit_seconds is None else said.limit_seconds
        longest = rules.max_run_seconds
        return "refused" if longest is not None and (runs is None or runs > longest) else ""

    def make_room(self, startable: dict[str, tuple[list[_Task], list[_Task]]]) -> None:
        """The groups that are in their queue stay; others enter by place while there is room. The
        rest of a group that has begun needs none."""
        for rules in self.rules.values():
            if rules.max_groups is None:
                continue
            outside: list[_Group] = []
            for key, (together, alone) in startable.items():
                group = self.groups[key]
                waits = bool(together or alone) and group.terms.queue == rules.name
                if waits and group.has_begun:
                    group.queue = rules.name
                elif group.queue == rules.name and not waits:
                    group.queue = ""
                elif waits and group.queue != rules.name:
                    group.queue = ""
                    outside.append(group)
            for group in sorted(outside, key=lambda each: (each.place, each.id.key)):
                if self.has_room(rules):
                    group.queue = rules.name
                    group.counts_in_queue = True

    def has_room(self, rules: QueueRules) -> bool:
        inside = [group for group in self.groups.values() if group.queue == rules.name]
        assert rules.max_groups is not None
        return sum(group.counts_in_queue for group in inside) < rules.max_groups

    def may_enter(self) -> bool:
        """Whether a group waits outside a queue that has room."""
        return any(
            self.has_room(rules)
            and any(self.is_outside(group, rules) for group in self.groups.values())
            for rules in self.rules.values()
            if rules.max_groups is not None
        )

    def is_outside(self, group: _Group, rules: QueueRules) -> bool:
        return group.is_turned_away and group.terms.queue == rules.name

    def start(
        self, group: _Group, together: list[_Task], alone: list[_Task], rules: QueueRules
    ) -> None:
        assert group.place is not None
        if together:
            group.starts[group.id.key] = _start(together, group.place, rules, group.has_begun)
        # The oldest late members, as many as the group lacks, have the place of the group.
        running = [t for t in group.tasks.values() if t.is_running and not t.is_leaving]
        agreeing = [task for task in running if task.terms in (None, group.terms)]
        lacking = max(0, group.terms.size - len(agreeing) - len(together))
        # Those that have it already come first.
        had_it = [task for task in alone if group.late_places.get(task.uid) == group.place]
        others = [task for task in alone if task not in had_it]
        heirs = (had_it + others)[:lacking] if group.is_running else []
        for task in alone:
            assert task.said is not None
            own = max(group.place, task.said.created_seconds)
            place = group.place if task in heirs else own
            place = min(place, group.late_places.get(task.uid, place))
            group.late_places[task.uid] = place
            key = f"{group.id.key}/{task.uid}"
            group.starts[key] = _start([task], place, rules, begun=False)

    def find_half_bound(self, group: _Group, now_seconds: float) -> HalfBound | None:
        size, before = group.terms.size, group.half_bound
        if group.may_have_been_whole or not (group.is_complete and group.bound):
            return None
        if group.peak >= size:
            return None
        in_progress = any(task.sent_to for task in group.tasks.values())
        newly_bound = before is None or group.bound - before.bound
        since = now_seconds if newly_bound or before is None else before.since_seconds
        return HalfBound(size, group.bound, in_progress, since)

    # --- Members

    def group_of(self, uid: str) -> _Group | None:
        return next((group for group in self.groups.values() if uid in group.tasks), None)

    def group_for(self, member: Member) -> _Group:
        """The group that the task names, else a new one."""
        if not member.claim.group:
            id_ = group_of_one(member.namespace, member.name, member.task.id)
        else:
            name = (member.namespace, member.claim.group)
            found = self.groups.get(self.present.get(name, ""))
            # The name of a group whose tasks are all being deleted is free.
            if found and (member.leaving or not all(t.is_leaving for t in found.tasks.values())):
                return found
            id_ = GroupId(*name, member.task.id)
            if id_.key in self.groups:
                # It comes back to the group that began with it.
                return self.groups[id_.key]
            self.present[name] = id_.key
        self.groups[id_.key] = _Group(id_)
        return self.groups[id_.key]

    def leave(self, group: _Group, uid: str) -> None:
        del group.tasks[uid]
        group.late_places.pop(uid, None)
        if group.tasks:
            self.change(group)
        else:
            self.finish(group)

    def finish(self, group: _Group) -> None:
        del self.groups[group.id.key]
        self.changed = [key for key in self.changed if key != group.id.key]
        if group.was_written or group.ended:
            worst_first = ("deadline", "deleted", "rejected", "failed", "succeeded")
            hows = [how for how in worst_first if how in group.ended.values()]
            self.finished.append((group.id.key, (hows or ["deleted"])[0], dict(group.ended)))

    def set_where(self, group: _Group, uid: str, machine: str = "", sent_to: str = "") -> None:
        task = group.tasks[uid]
        task.machine, task.sent_to, task.doubt = machine, sent_to, ""
        task.is_bound = bool(machine)
        self.change(group)

    def change(self, group: _Group) -> None:
        if group.id.key not in self.changed:
            self.changed.append(group.id.key)

    # --- Answers

    def answer(self) -> Answer:
        groups = self.groups.items()
        return Answer(
            {key: self.group_answer(group) for key, group in groups},
            {key: start for _, group in groups for key, start in group.starts.items()},
            {uid: kind for _, group in groups for uid, kind in group.held.items()},
            {key: group.half_bound for key, group in groups if group.half_bound is not None},
            {
                rules.name: {key for key, group in groups if group.queue == rules.name}
                for rules in self.rules.values()
                if rules.max_groups is not None
            },
            {key for key, group in groups if group.queue and not group.counts_in_queue},
        )

    def group_answer(self, group: _Group) -> GroupAnswer:
        where = {t.uid: (t.machine, t.sent_to, t.doubt) for t in group.tasks.values()}
        return GroupAnswer(
            _state(group),
            where,
            dict(group.ended),
            group.peak,
            group.place,
            dict(group.late_places),
            group.terms.size,
            group.terms.queue,
        )


def _state(group: _Group) -> str:
    unbound = [task for task in group.tasks.values() if not task.machine]
    bound = len(group.tasks) - len(unbound)
    if any(task.sent_to for task in unbound):
        return "starting"
    if not unbound or bound >= group.terms.size:
        return "running"
    if group.starts or (group.place is not None and len(group.tasks) >= group.terms.size):
        return "unsatisfiable" if group.never_starts else "waiting"
    all_refused = all(group.held.get(task.uid) == "refused" for task in unbound)
    return "refused" if all_refused else "provisional"


def _start(tasks: list[_Task], place: float, rules: QueueRules, begun: bool) -> Start:
    said = [task.said for task in tasks if task.said is not None]
    runs = [rules.default_run_seconds if s.run_seconds is None else s.run_seconds for s in said]
    ends = [seconds for seconds in runs if seconds is not None]
    longest = max(ends) if len(ends) == len(runs) else None
    uids = frozenset(task.uid for task in tasks)
    return Start(uids, place, rules.name, max(s.priority for s in said), longest, begun)


def _terms_of_most(tasks: list[_Task]) -> GroupTerms | None:
    """The terms that most members state; of equally frequent ones those of the oldest member."""
    stating = sorted((task for task in tasks if task.terms is not None), key=lambda task: task.age)
    votes = Counter(task.terms for task in stating)
    return max((task.terms for task in stating), key=lambda terms: votes[terms], default=None)


def _named(group: _Group) -> str:
    """The name that its tasks state; empty for a task that names no group."""
    return "" if group.id.alone else group.id.name


def _timeless(member: Member) -> Member:
    return replace(member, ends_seconds=None, started_seconds=None)
