"""The register under random histories of tasks, binds, restarts and leaders.

After each decision it equals a slow reference that folds over everything that was seen; after a
restart without a ledger one that has seen only the tasks that exist.
"""

from dataclasses import dataclass, replace
from random import Random
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from afflux.groups.changes import Changes
from afflux.groups.entries import GroupEntry, MemberEntry, RecordedGroup
from afflux.groups.half_bound import HalfBoundGroups
from afflux.groups.member import Claim, GroupTerms, Hold, Member
from afflux.groups.register import GroupRegister
from afflux.groups.states import EndReason
from afflux.model.resources import resources
from afflux.model.task import Shape, Task
from afflux.model.waiting_group import WaitingGroup
from afflux.queue.rules import QueueRules
from oracles.held_tasks import held_tasks
from oracles.register_reference import Answer, GroupAnswer, HalfBound, RegisterReference, Start

RULES = {
    "default": QueueRules(max_group_size=4),
    "narrow": QueueRules("narrow", max_groups=2, default_run_seconds=60.0),
    "single": QueueRules("single", max_groups=1, max_run_seconds=300.0, default_run_seconds=5.0),
}
# The last two are the name of a task, and the default name of the group of that task.
GROUPS = ("g", "h", "a", "fluxnetes-group-ns-a")
SHAPE = Shape(resources({"cpu": 1}))
# `make explore` sets another profile, which draws new examples.
HISTORIES = 500 if settings().derandomize else 10_000
PARTS = 4


class LedgerCopy:
    """A ledger: it folds over the changes that the register reports."""

    def __init__(self) -> None:
        self.groups: dict[str, tuple[GroupEntry, dict[str, MemberEntry]]] = {}
        self.finished: list[tuple[str, str, dict[str, str]]] = []

    def write(self, changes: Changes) -> None:
        changed, ended, _ = changes
        for each in ended:
            # Nothing of a group is lost when it ends.
            how = {member.uid: str(member.how) for member in each.members}
            self.finished.append((each.entry.id.key, each.how, how))
            self.groups.pop(each.entry.id.key, None)
        for change in changed:
            _, members = self.groups.get(change.entry.id.key, (None, dict[str, MemberEntry]()))
            assert not {each.uid for each in change.members} & set(change.dropped)
            kept = {uid: each for uid, each in members.items() if uid not in change.dropped}
            now = kept | {each.uid: each for each in change.members}
            self.groups[change.entry.id.key] = change.entry, now

    def recorded(self) -> list[RecordedGroup]:
        return [
            RecordedGroup(entry, tuple(members.values())) for entry, members in self.groups.values()
        ]


@dataclass
class Bind:
    machine: str
    is_doubtful: bool = False


class History:
    """A cluster whose tasks change at random, the scheduler's register, and the reference."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.usual_terms = {group: self.terms(group) for group in ("", *GROUPS)}
        self.has_ledger = self.rng.random() < 0.8
        self.now = 0.0
        self.count = 0
        # What exists; binds without a known result; those bound of which the watch knows nothing.
        self.tasks: dict[str, Member] = {}
        self.binds: dict[str, Bind] = {}
        self.unreported: dict[str, str] = {}
        self.ledger = LedgerCopy()
        self.log: list[str] = []
        self.start()

    def start(self) -> None:
        self.half_bound = HalfBoundGroups(30.0)
        self.register = GroupRegister(RULES, half_bound=self.half_bound)
        self.reference = RegisterReference(RULES)
        self.waiting: dict[str, WaitingGroup] = {}
        self.asked_again: set[str] = set()
        self.ledger.finished.clear()
        self.unreported.clear()

    # --- Steps

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.step()
            if self.rng.random() < 0.6:
                self.decide_and_check()
        self.decide_and_check()
        self.write()

    def step(self) -> None:
        rng = self.rng
        self.now += rng.choice((0, 0, 1, 5))
        steps = (
            (24, self.create),
            (20, self.schedule),
            (22, self.resolve_bind),
            (8, self.report_bound),
            (10, self.change),
            (10, self.end),
            (4, self.change_terms),
            (4, self.leave),
            (4, self.bind_elsewhere),
            (3, self.end_for_a_reason),
            (6, self.set_reasons),
            (3, self.report_again),
            (3, self.report_unchanged),
            (4, self.restart),
        )
        (chosen,) = rng.choices([each for _, each in steps], [weight for weight, _ in steps])
        chosen()

    def create(self) -> None:
        """A controller makes some tasks, of one group or of none."""
        group = self.rng.choice(("", "", "g", "g", *GROUPS))
        for _ in range(self.rng.choice((1, 2, 3))):
            self.create_task(group)

    def create_task(self, group: str) -> None:
        rng, used = self.rng, {each.name for each in self.tasks.values()}
        names = [name for name in "abcdefgh" if name not in used]
        if not names:
            return
        self.count += 1
        uid, name = f"{self.count}", rng.choice(names)
        runs = rng.choice((None, None, 50.0, 200.0, 400.0))
        found = Member(
            Task(uid, f"ns/{name}", SHAPE, "gate" if rng.random() < 0.08 else None),
            "ns",
            name,
            self.claim(group),
            priority=rng.choice((0, 0, 5)),
            created_seconds=self.now // 1,
            run_seconds=runs,
            limit_seconds=runs,
        )
        if rng.random() < 0.05:
            found = replace(found, machine="m", task=replace(found.task, blocked=None))
            found = replace(found, ours=not group or rng.random() < 0.5)
        self.set(found)

    def claim(self, group: str) -> Claim:
        rng = self.rng
        if rng.random() < 0.04:
            return Claim(group, None, Hold(rng.choice(("waits", "refused")), "unusable"))
        if rng.random() < 0.9:
            return Claim(group, self.usual_terms[group])
        queue = rng.choice(("default", "narrow", "single", "unknown"))
        return Claim(group, GroupTerms(rng.choice((1, 2, 3, 5)) if group else 1, queue))

    def terms(self, group: str) -> GroupTerms:
        queue = self.rng.choice(("default", "narrow", "single"))
        return GroupTerms(self.rng.choice((1, 2, 2, 3, 3)) if group else 1, queue)

    def schedule(self) -> None:
        """The cycle places what waits; what has changed since is not bound."""
        if not self.waiting:
            return
        start = self.rng.choice(list(self.waiting.values()))
        group = self.register.group_of_start(start.key)
        for task in start.tasks:
            found = self.tasks.get(task.id)
            if found is None or found.leaving or not self.is_free(task.id):
                continue
            if self.register._group_of[task.id] != group:
                continue
            self.binds[task.id] = Bind("m")
            self.see("sent", task.id, "m")
            self.register.sent(task.id, "m")
        # Intents are in the ledger before a bind is tried.
        self.write()

    def resolve_bind(self) -> None:
        for _ in range(min(len(self.binds), self.rng.randrange(1, 4))):
            self.resolve(self.rng.choice(list(self.binds)))

    def resolve(self, uid: str) -> None:
        rng, bind = self.rng, self.binds[uid]
        choice = rng.random()
        if choice < 0.15 and not bind.is_doubtful:
            bind.is_doubtful = True
            self.see("doubtful", uid, "no answer")
            self.register.doubtful(uid, "no answer")
        elif choice < 0.45:
            del self.binds[uid]
            self.reject(uid)
        else:
            del self.binds[uid]
            if rng.random() < 0.3:
                self.set(replace(self.tasks[uid], machine=bind.machine))
                self.answer_late(uid)
                return
            self.unreported[uid] = bind.machine
            self.see("bound", uid, bind.machine)
            self.register.bound(uid, bind.machine)

    def answer_late(self, uid: str) -> None:
        """The answer about a bind comes after the watch has seen that it happened."""
        match self.rng.randrange(3):
            case 0:
                self.see("doubtful", uid, "no answer")
                self.register.doubtful(uid, "no answer")
            case 1:
                self.see("not_bound", uid)
                self.register.not_bound(uid, "a webhook")
            case _:
                self.see("bound", uid, "m")
                self.register.bound(uid, "m")

    def report_bound(self) -> None:
        """The watch sees what the results of binds have said."""
        for uid, machine in list(self.unreported.items()):
            if self.rng.random() < 0.7:
                self.set(replace(self.tasks[uid], machine=machine))

    def change(self) -> None:
        uid = self.any_task()
        if uid is None:
            return
        rng, found = self.rng, self.tasks[uid]
        match rng.randrange(6):
            case 0 | 1:
                group = rng.choice((found.claim.group, "", *GROUPS))
                found = replace(found, claim=self.claim(group))
            case 2 if not found.machine and uid not in self.unreported:
                blocked = None if found.task.blocked else "gate"
                found = replace(found, task=replace(found.task, blocked=blocked))
            case 3:
                found = replace(found, priority=rng.choice((0, 5)))
            case 4:
                found = replace(found, run_seconds=rng.choice((None, 10.0, 300.0)))
            case _:
                found = replace(found, ends_seconds=self.now, started_seconds=self.now)
        if not found.claim.group and not found.ours:
            return
        before = self.tasks[uid]
        self.set(found)
        if rng.random() < 0.2:
            self.set(replace(before, machine=self.tasks[uid].machine))

    def change_terms(self) -> None:
        for found in self.with_other_terms():
            self.set(found)

    def with_other_terms(self) -> list[Member]:
        """The members of a group after the object that states their terms has changed."""
        group = self.rng.choice(GROUPS)
        self.usual_terms[group] = terms = self.terms(group)
        return [
            replace(each, claim=Claim(group, terms))
            for each in self.tasks.values()
            if each.claim.group == group
        ]

    def leave(self) -> None:
        uid = self.any_task()
        if uid is not None:
            self.set(replace(self.tasks[uid], leaving=True))

    def bind_elsewhere(self) -> None:
        """Another component binds a task, or the watch is ahead of the result."""
        uid = self.any_task()
        if uid is not None and not self.tasks[uid].machine and uid not in self.unreported:
            machine = self.binds.pop(uid, Bind(self.rng.choice(("m", "other")))).machine
            self.set(replace(self.tasks[uid], machine=machine))

    def end(self) -> None:
        uid = self.any_task()
        if uid is not None:
            how = self.rng.choice(get_args(EndReason))
            self.forget(uid)
            self.see("ended", uid, how)
            self.register.ended(uid, how, self.now)

    def end_for_a_reason(self) -> None:
        """A rollback, or a deadline, after which some of the tasks end."""
        uids = [uid for uid, each in self.tasks.items() if each.machine]
        chosen = self.rng.sample(uids, min(len(uids), 2))
        if self.rng.random() < 0.5:
            self.see("rolled_back", chosen)
            self.register.roll_back(chosen, "half-bound")
        else:
            self.see("overdue", chosen)
            self.register.overdue(chosen)
        for uid in chosen:
            self.set(replace(self.tasks[uid], leaving=True))

    def set_reasons(self) -> None:
        rng = self.rng
        never = {key: "too large" for key in self.waiting if rng.random() < 0.4}
        reasons = {each.tasks[0].id: "no room" for each in self.waiting.values()}
        self.see("reasons", never)
        may_enter = self.register.set_reasons(reasons, never)
        assert may_enter == self.reference.fold().may_enter()

    def report_again(self) -> None:
        uid = self.any_task()
        if uid is not None:
            self.asked_again.add(self.register._group_of[uid])
            self.see("reported_again", uid)
            self.register.report_again(uid)

    def report_unchanged(self) -> None:
        uid = self.any_task()
        if uid is not None:
            self.set(self.tasks[uid])

    # --- Restarts

    def restart(self) -> None:
        """A new leader: binds that were tried have happened or not, tasks have come and gone."""
        rng = self.rng
        self.note("restart")
        for uid, machine in self.unreported.items():
            self.tasks[uid] = replace(self.tasks[uid], machine=machine)
        for uid in list(self.binds):
            if rng.random() < 0.5:
                self.tasks[uid] = replace(self.tasks[uid], machine=self.binds.pop(uid).machine)
        for uid in list(self.tasks):
            if rng.random() < 0.1:
                self.forget(uid)
        if rng.random() < 0.2:
            self.tasks.update((each.task.id, each) for each in self.with_other_terms())
        keeps = self.has_ledger and rng.random() < 0.8
        recorded = self.ledger.recorded() if keeps else []
        if not keeps:
            self.ledger.groups.clear()
        self.start()
        self.see("restored", recorded)
        self.register.restore(recorded)
        sent = [e.uid for each in recorded for e in each.members if e.sent_to]
        self.ask_about_binds(sent)
        self.see("confirmed", set(self.tasks))
        self.register.confirm_restored(lambda entry: entry.uid in self.tasks, self.now)
        order = list(self.tasks)
        rng.shuffle(order)
        for uid in order:
            self.set(self.tasks[uid])
        if rng.random() < 0.7:
            self.resolve_bind()
        if not keeps:
            self.check_other_order()
        self.decide_and_check()
        self.write()

    def ask_about_binds(self, sent: list[str]) -> None:
        """The new leader asks the cluster about binds that the ledger shows, before it knows which
        tasks exist. Those that it does not ask about may be bound yet."""
        self.binds.clear()
        for uid in sent:
            found = self.tasks.get(uid)
            machine = "" if found is None else found.machine
            if self.rng.random() < 0.4:
                if found is not None and not machine:
                    self.binds[uid] = Bind("m")
            elif machine:
                self.see("bound", uid, machine)
                self.register.bound(uid, machine)
            else:
                self.reject(uid)

    def reject(self, uid: str) -> None:
        self.see("not_bound", uid)
        self.asked_again.add(self.register._group_of[uid])
        self.register.not_bound(uid, self.rng.choice(("", "a webhook")))

    # --- What is reported

    def set(self, found: Member) -> None:
        uid = found.task.id
        if not found.machine and uid in self.unreported and self.rng.random() < 0.8:
            # Otherwise this report is older than the bind.
            found = replace(found, machine=self.unreported[uid])
        if found.machine:
            self.unreported.pop(uid, None)
            self.binds.pop(uid, None)
        self.tasks[uid] = found
        self.see("reported", found)
        self.register.set(found, self.now)

    def forget(self, uid: str) -> None:
        del self.tasks[uid]
        self.binds.pop(uid, None)
        self.unreported.pop(uid, None)

    def is_free(self, uid: str) -> bool:
        """Whether the task is neither bound nor being bound."""
        bound = self.tasks[uid].machine or uid in self.unreported
        return not bound and uid not in self.binds

    def any_task(self) -> str | None:
        return self.rng.choice(list(self.tasks)) if self.tasks else None

    def see(self, what: str, *args: object) -> None:
        self.note(f"{what} {args}")
        self.reference.see(what, *args)

    def note(self, text: str) -> None:
        self.log.append(f"{self.now:g}: {text}")

    # --- Checks

    def decide_and_check(self) -> None:
        self.see("decided", self.now)
        self.take_starts()
        self.check_members()
        assert answer_of(self.register, self.half_bound) == self.reference.fold().answer()
        if self.rng.random() < 0.8:
            self.write()

    def take_starts(self) -> None:
        asked, self.asked_again = self.asked_again, set()
        withdrawn, ready = self.register.take_starts(self.now)
        for key in withdrawn:
            del self.waiting[key]
        for start in ready:
            is_asked = self.register.group_of_start(start.key) in asked
            assert is_asked or self.waiting.get(start.key) != start, "reported twice"
            self.waiting[start.key] = start
        for key, start in self.waiting.items():
            assert self.register.waiting_group(key) == start
        assert self.register.take_starts(self.now) == ([], [])

    def check_members(self) -> None:
        """Each task is in one group, and each task that waits is in one start or held back."""
        groups = self.register._groups.values()
        members = [uid for group in groups for uid in group.members]
        assert sorted(members) == sorted(self.tasks)
        starting = [task.id for start in self.waiting.values() for task in start.tasks]
        held = [task.id for task, _ in held_tasks(self.register)]
        pending = [
            uid for uid, each in self.tasks.items() if not each.leaving and self.is_free(uid)
        ]
        assert sorted(starting + held) == sorted(pending)

    def check_other_order(self) -> None:
        """Without a ledger the order of the reports decides only between groups of one second."""
        others = [GroupRegister(RULES), GroupRegister(RULES)]
        for each, order in zip(others, (self.tasks, reversed(self.tasks)), strict=True):
            for uid in order:
                each.set(self.tasks[uid])
        assert unordered_answer_of(others[0]) == unordered_answer_of(others[1])

    def write(self) -> None:
        """The ledger tells the truth: its changes add up to the groups of the register."""
        self.ledger.write(self.register.changes.take(self.now))
        self.see("written")
        groups = [each for each in self.register._groups.values() if each.is_recorded]
        assert self.ledger.groups == {
            group.key: (
                group.entry(self.now),
                {
                    uid: each.entry
                    for uid, each in group.members.items()
                    if each.said is None or each.said.ours
                }
                | group.ended,
            )
            for group in groups
        }
        assert self.ledger.finished == self.reference.fold().finished


def answer_of(register: GroupRegister, half_bound: HalfBoundGroups) -> Answer:
    groups, room = register._groups, register._evaluator.room
    return Answer(
        {
            key: GroupAnswer(
                group.state(),
                {
                    uid: (each.entry.machine, each.entry.sent_to, each.entry.doubt)
                    for uid, each in group.members.items()
                },
                {uid: str(each.how) for uid, each in group.ended.items()},
                group.peak_bound,
                group.place,
                {
                    uid: each.entry.ready_seconds
                    for uid, each in group.members.items()
                    if each.entry.ready_seconds is not None
                },
                group.terms.size,
                group.terms.queue,
            )
            for key, group in groups.items()
        },
        {
            key: Start(
                frozenset(task.id for task in start.tasks),
                start.ready_seconds,
                start.queue,
                start.priority,
                start.run_seconds,
                start.begun,
            )
            for group in groups.values()
            for key, start in group.starts.items()
        },
        {task.id: hold.kind for task, hold in held_tasks(register)},
        {
            key: HalfBound(each.size, each.bound, each.bind_in_progress, each.since_seconds)
            for key, each in half_bound._groups.items()
        },
        {
            name: {key for key, queue in room._queue_of.items() if queue == name}
            for name, rules in RULES.items()
            if rules.max_groups is not None
        },
        room._unsatisfiable,
    )


def unordered_answer_of(register: GroupRegister) -> object:
    """What waits in the queue without a limit, and all members that are not in it."""
    _, ready = register.take_starts()
    full = "is full"
    return (
        {frozenset(task.id for task in each.tasks) for each in ready if each.queue == "default"},
        {task.id: hold for task, hold in held_tasks(register) if full not in hold.why},
    )


@pytest.mark.parametrize("part", range(PARTS))
@settings(max_examples=HISTORIES // PARTS)
@given(data=st.data())
def test_the_register_equals_the_fold_over_everything_seen(part: int, data: st.DataObject) -> None:
    seed = data.draw(st.integers(0, 2**64 - 1)) * PARTS + part
    history = History(seed)
    try:
        history.run(history.rng.choice((10, 30, 60)))
    except BaseException:
        print(f"seed {seed}:", *history.log, sep="\n")
        raise
