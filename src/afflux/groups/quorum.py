"""Quorum: which members of a group may start together now, and why the others wait.

The answer depends on the members that exist and on whether the group has run before, but neither on
the order in which the members came nor on earlier answers. So it is the same after a restart.

A quorum rule decides which members start together, and which start alone; `whole_group` is the
default. Other packages register theirs as an entry point of the group `afflux.quorum_rules`
(docs/quorum-rules.md). Limits of the queue, contradictions between the members, and shortages are
checked here, before and after the rule.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import cast

from afflux.groups.member import NO_TERMS, GroupTerms, Hold
from afflux.model.errors import InputError
from afflux.model.task import Task
from afflux.queue.rules import DEFAULT_QUORUM, QueueRules

ENTRY_POINT_GROUP = "afflux.quorum_rules"

# A group is placed as a whole, at a cost that grows with the kinds of its members. With more kinds
# one group could use up the scheduler's memory.
MAX_MEMBER_KINDS = 256

Shortage = Callable[[Sequence[Task]], str | None]
"""What these tasks lack to start together, besides room on machines; None if nothing."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A member as a quorum rule sees it. `running` includes members that are being bound. `terms`
    is None for a running member whose terms are lost. Times are as in `Member`."""

    task: Task
    terms: GroupTerms | None = NO_TERMS
    running: bool = False
    priority: int = 0
    created_seconds: float = 0.0
    run_seconds: float | None = None
    limit_seconds: float | None = None
    may_preempt: bool = True


@dataclass(frozen=True, slots=True)
class Presence:
    """What is there of a group: the input of a quorum rule.

    `size` is the number of members that it needs. `startable` are the pending members that may be
    considered, the oldest first, perhaps none; `blocked` those that wait for something else, for
    example a scheduling gate. So many members are `running`, and at one time `peak_running` were
    bound.
    """

    name: str
    size: int
    startable: Sequence[Candidate]
    blocked: Sequence[Candidate]
    running: int
    peak_running: int


@dataclass(frozen=True, slots=True)
class Starts:
    """The output of a quorum rule: members that start together, all or none; members each of which
    starts alone; and why the remaining startable members wait.

    `is_whole` is for rules that ask for fewer members than the group's size: as many as they ask
    for run, or ran at one time. Such a group counts as running, keeps its place and is not
    half-bound, like a group that has run in its full size.
    """

    together: Sequence[Candidate] = ()
    alone: Sequence[Candidate] = ()
    why: str = ""
    is_whole: bool = False


QuorumRule = Callable[[Presence], Starts]


@dataclass(slots=True)
class Gathered:
    """Which members of a group may be placed, and what holds the others back.

    `is_complete`: all pending members fit together, and there are as many as the group needs.
    `is_whole`: it has run with fewer members than its size, as many as its quorum rule asks for. So
    many members are still `missing` until there are as many as its size. `quorum_seconds` is when
    the last of as many members as it needs, the oldest, was created; None if there are fewer.
    """

    terms: GroupTerms | None = None
    together: Sequence[Candidate] = ()
    alone: Sequence[Candidate] = ()
    held: list[tuple[Task, Hold]] = field(default_factory=list[tuple[Task, Hold]])
    present: int = 0
    missing: int = 0
    quorum_seconds: float | None = None
    is_complete: bool = False
    is_whole: bool = False

    def hold(self, tasks: Iterable[Task], why: str, *, refused: bool = False) -> None:
        hold = Hold("refused" if refused else "waits", why)
        self.held.extend((task, hold) for task in tasks)


def whole_group(group: Presence) -> Starts:
    """All startable members start together once there are as many as the group needs. Once it has
    run whole, each later member starts alone."""
    if max(group.running, group.peak_running) >= group.size:
        return Starts(alone=group.startable)
    if group.size == 1:
        return Starts(together=group.startable[:1], alone=group.startable[1:])
    if group.running + len(group.startable) >= group.size:
        return Starts(together=group.startable)
    present = group.running + len(group.startable) + len(group.blocked)
    if present < group.size or not group.blocked:
        return Starts(why=f"group {group.name} has {present} of {group.size} members")
    first = min(group.blocked, key=age).task
    return Starts(why=f"group {group.name} waits for {first.name}: {first.blocked}")


BUILT_IN: Mapping[str, QuorumRule] = {DEFAULT_QUORUM: whole_group}


def quorum_rule(name: str, where: str) -> QuorumRule:
    """The rule of this name; `where` is the place in the input that names it, for errors."""
    if name in BUILT_IN:
        return BUILT_IN[name]
    shipped = {point.name: point for point in entry_points(group=ENTRY_POINT_GROUP)}
    if name not in shipped:
        known = ", ".join([*BUILT_IN, *sorted(shipped)])
        raise InputError(f"{where}: unknown quorum rule {name!r}; expected one of {known}")
    try:
        rule = cast("QuorumRule", shipped[name].load())
    except Exception as error:
        raise InputError(f"{where}: quorum rule {name} cannot be loaded: {error}") from error
    if not callable(rule):
        raise InputError(f"{where}: quorum rule {name} is {rule!r}; expected a function")
    return rule


def gather(
    name: str,
    candidates: Iterable[Candidate],
    rules: Mapping[str, QueueRules],
    quorum_rules: Mapping[str, QuorumRule] = BUILT_IN,
    *,
    already_refused: int = 0,
    peak_running: int = 0,
    shortage: Shortage | None = None,
) -> Gathered:
    """What may start of the group with this name, which all these members state.

    If the members contradict each other, the terms hold that most of them state, and of equally
    frequent ones those of the oldest member; members with other terms are refused and do not count.
    `already_refused` members were refused before. A blocked member joins later, unless it is needed
    for the quorum.
    """
    found = Gathered()
    fitting = _sort_out(found, candidates, rules)
    terms = found.terms = _agreed(fitting)
    if terms is None:
        return found
    agreeing = _without_dissenters(found, fitting, terms)
    queue = rules.get(terms.queue)
    if queue is None:
        # Only running members can state an unknown queue: the others were refused.
        return found
    agreeing = _without_surplus(found, agreeing, queue)
    pending = sorted((each for each in agreeing if not each.running), key=age)
    running = len(agreeing) - len(pending)
    found.present = len(agreeing)
    found.missing = max(0, terms.size - running)
    if found.present >= terms.size:
        found.quorum_seconds = sorted(each.created_seconds for each in agreeing)[terms.size - 1]
    found.is_complete = len(fitting) == len(agreeing) >= terms.size
    startable = [each for each in pending if each.task.blocked is None]
    blocked = [each for each in pending if each.task.blocked is not None]
    presence = Presence(name, terms.size, startable, blocked, running, peak_running)
    starts = quorum_rules[queue.quorum](presence)
    _check(starts, presence, queue.quorum)
    found.is_whole = starts.is_whole
    found.alone = starts.alone
    _set_together(found, name, starts.together, shortage)
    if len(starts.together) + len(starts.alone) < len(startable):
        started = {each.task.id for each in (*starts.together, *starts.alone)}
        why, refused = starts.why, already_refused + _refused(found)
        if refused:
            why += f"; {refused} refused"
        found.hold((each.task for each in startable if each.task.id not in started), why)
    return found


def refusal_reason(candidate: Candidate, rules: Mapping[str, QueueRules]) -> str | None:
    """Why the queue of this task does not take it, whatever the other members say."""
    terms = candidate.terms
    if terms is None:
        return None
    queue = rules.get(terms.queue)
    if queue is None:
        known = ", ".join(sorted(rules))
        return f"queue {terms.queue!r:.80} is not known, expected one of: {known}"
    if terms.size > queue.max_group_size:
        return (
            f"{terms.source}: {terms.size}, expected at most {queue.max_group_size} "
            f"in queue {queue.name}"
        )
    longest, runs = queue.max_run_seconds, candidate.limit_seconds
    if runs is None:
        runs = queue.default_run_seconds
    if longest is None or (runs is not None and runs <= longest):
        return None
    lasts = "without end" if runs is None else f"{runs:.10g} s"
    return f"it may run {lasts}, expected at most {longest:.10g} s in queue {queue.name}"


def run_seconds_of(members: Iterable[Candidate], queue: QueueRules) -> float | None:
    """How long these members run together: as long as the longest, None without end."""
    usual = queue.default_run_seconds
    runs = [usual if each.run_seconds is None else each.run_seconds for each in members]
    bounded = [seconds for seconds in runs if seconds is not None]
    return max(bounded) if len(bounded) == len(runs) else None


def _set_together(
    found: Gathered, name: str, together: Sequence[Candidate], shortage: Shortage | None
) -> None:
    """Let these members start together, unless the group lacks something as a whole."""
    tasks = [each.task for each in together]
    kinds = len({task.shape for task in tasks})
    if kinds > MAX_MEMBER_KINDS:
        why = f"group {name} has {kinds} kinds of members, expected at most {MAX_MEMBER_KINDS}"
        found.hold(tasks, why, refused=True)
        return
    short = shortage(tasks) if shortage is not None and len(tasks) > 1 else None
    if short is not None:
        found.hold(tasks, f"group {name} {short}")
        return
    found.together = together


def _check(starts: Starts, group: Presence, rule: str) -> None:
    """Raise an error if a quorum rule starts members that may not start, or starts one twice."""
    allowed = {each.task.id for each in group.startable}
    chosen = [each.task.id for each in (*starts.together, *starts.alone)]
    if len(set(chosen)) != len(chosen) or not allowed.issuperset(chosen):
        raise ValueError(
            f"quorum rule {rule}: expected each member of `startable` at most once in its answer"
        )
    if len(chosen) < len(allowed) and not starts.why:
        raise ValueError(f"quorum rule {rule}: expected `why` for the members that wait")


def _refused(found: Gathered) -> int:
    return sum(hold.kind == "refused" for _, hold in found.held)


def _sort_out(
    found: Gathered, candidates: Iterable[Candidate], rules: Mapping[str, QueueRules]
) -> list[Candidate]:
    """The members that their queue takes; blocked members wait, the others are refused."""
    fitting: list[Candidate] = []
    for each in candidates:
        why = None if each.running else refusal_reason(each, rules)
        if why is None:
            fitting.append(each)
        if each.running:
            continue
        if each.task.blocked is not None:
            found.hold([each.task], each.task.blocked)
        elif why is not None:
            found.hold([each.task], why, refused=True)
    return fitting


def _agreed(candidates: Sequence[Candidate]) -> GroupTerms | None:
    """The terms that hold, None if no member states any."""
    counts = Counter(each.terms for each in candidates if each.terms is not None)
    if len(counts) < 2:
        return next(iter(counts), None)
    by_age = (each.terms for each in sorted(candidates, key=age) if each.terms is not None)
    # `max` returns the first of equally frequent terms: those of the oldest member.
    return max(dict.fromkeys(by_age), key=lambda terms: counts[terms])


def _without_dissenters(
    found: Gathered, candidates: Sequence[Candidate], terms: GroupTerms
) -> list[Candidate]:
    """The members that state these terms, or none; the others are refused."""
    agreeing = [each for each in candidates if each.terms is None or each.terms == terms]
    if len(agreeing) == len(candidates):
        return agreeing
    oldest = min((each for each in agreeing if each.terms is not None), key=age)
    for each in candidates:
        if each.terms is None or each.terms == terms or each.running or each.task.blocked:
            continue
        found.hold([each.task], _contradiction(each, each.terms, oldest, terms), refused=True)
    return agreeing


def _without_surplus(
    found: Gathered, agreeing: Sequence[Candidate], queue: QueueRules
) -> Sequence[Candidate]:
    """At most as many members as the queue allows, the oldest; the others are refused."""
    limit = queue.max_group_size
    if len(agreeing) <= limit:
        return agreeing
    in_order = sorted(agreeing, key=lambda each: (not each.running, *age(each)))
    why = f"its group has {len(agreeing)} members, expected at most {limit} in queue {queue.name}"
    surplus = [each.task for each in in_order[limit:] if not each.running]
    found.hold((task for task in surplus if task.blocked is None), why, refused=True)
    return in_order[: max(limit, len(agreeing) - len(surplus))]


def _contradiction(one: Candidate, its: GroupTerms, other: Candidate, terms: GroupTerms) -> str:
    if its.size != terms.size:
        theirs = other.terms or terms
        return (
            f"{its.source}: {its.size} on {one.task.name}, "
            f"but {theirs.source}: {terms.size} on {other.task.name}"
        )
    return (
        f"queue {its.queue} on {one.task.name}, but queue {terms.queue} on {other.task.name}; "
        "expected one queue for the whole group"
    )


def age(candidate: Candidate) -> tuple[float, str]:
    """Orders members by age, the oldest first."""
    return candidate.created_seconds, candidate.task.name
