"""Quorum: which tasks that name a group may start together, and why the others wait.

The answer depends on the tasks that exist and on whether the group has run before, but neither on
the order in which the tasks came nor on earlier answers. So it is the same after a restart.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from afflux.model.group import DEFAULT_QUEUE, Group
from afflux.model.task import Task
from afflux.queue.rules import QueueRules

ONE_QUEUE: Mapping[str, QueueRules] = {DEFAULT_QUEUE: QueueRules()}

HeldBackTask = tuple[Task, str]
"""A task that may not be considered, and why."""

Shortage = Callable[[Sequence[Task]], str | None]
"""What these tasks lack to start together, besides room on machines; None if nothing."""


# A group is placed as a whole, at a cost that grows with the kinds of its members. With more kinds
# one group could use up the scheduler's memory.
MAX_MEMBER_KINDS = 256


@dataclass(frozen=True, slots=True)
class GroupTerms:
    """What a task says about its group: the members it needs, and the queue it waits in.

    `source` is where the size is written.
    """

    size: int = 1
    queue: str = DEFAULT_QUEUE
    source: str = field(default="size", compare=False)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A task that names a group. `terms` is None for a running task whose terms are lost.

    `run_seconds` is how long it is expected to hold its machine, `limit_seconds` how long it may
    run as its queue counts it; None if it does not say.
    """

    task: Task
    terms: GroupTerms | None = GroupTerms()
    running: bool = False
    priority: int = 0
    created_seconds: float = 0.0
    run_seconds: float | None = None
    limit_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class GroupingResult:
    """The groups that may be placed, and the tasks that wait or are refused, with the reason.

    A waiting task waits for an event; a refused one for a change of what it says.
    """

    ready: list[Group] = field(default_factory=list[Group])
    waiting: list[HeldBackTask] = field(default_factory=list[HeldBackTask])
    refused: list[HeldBackTask] = field(default_factory=list[HeldBackTask])
    # The size of each group whose members are all there and agree.
    complete_sizes: dict[str, int] = field(default_factory=dict[str, int])
    # How many more members have to run, for each group whose terms are known.
    missing_members: dict[str, int] = field(default_factory=dict[str, int])

    def add(self, other: "GroupingResult") -> None:
        self.ready.extend(other.ready)
        self.waiting.extend(other.waiting)
        self.refused.extend(other.refused)
        self.complete_sizes.update(other.complete_sizes)
        self.missing_members.update(other.missing_members)


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


def form_single(candidate: Candidate, rules: Mapping[str, QueueRules]) -> GroupingResult:
    """A pending task that names no group is a group of one, with the name of the task."""
    result = GroupingResult()
    _sort_out(result, [candidate], rules)
    if candidate.task.blocked is None and not result.refused:
        result.ready.append(_group(candidate.task.name, [candidate], rules))
    return result


def form_group(
    name: str,
    candidates: Iterable[Candidate],
    rules: Mapping[str, QueueRules],
    *,
    already_refused: int = 0,
    peak_running: int = 0,
    shortage: Shortage | None = None,
) -> GroupingResult:
    """The group of this name, formed from the tasks that name it.

    If the tasks contradict each other, the terms hold that most of them state, and of equally
    frequent ones those of the oldest task; tasks with other terms are refused and do not count.
    `already_refused` tasks were refused before. Running tasks count towards the quorum. Before the
    quorum has run, all tasks that can start do so together. Once it runs, or `peak_running` says
    that it ran at one time, each later task starts on its own. A blocked task joins later, unless
    it is needed for the quorum.
    """
    result = GroupingResult()
    fitting = _sort_out(result, candidates, rules)
    terms = _agreed(fitting)
    if terms is None:
        return result
    all_fitting, fitting = fitting, _without_dissenters(result, fitting, terms)
    if len(all_fitting) == len(fitting) >= terms.size:
        result.complete_sizes[name] = terms.size
    pending = [each for each in fitting if not each.running]
    startable = [each for each in pending if each.task.blocked is None]
    running = len(fitting) - len(pending)
    result.missing_members[name] = max(0, terms.size - running)
    if max(running, peak_running) >= terms.size:
        result.ready.extend(_group(each.task.name, [each], rules) for each in startable)
    elif terms.size == 1:
        for place, each in enumerate(sorted(startable, key=_age)):
            result.ready.append(_group(each.task.name if place else name, [each], rules))
    elif running + len(startable) >= terms.size:
        short = None
        if shortage is not None and len(startable) > 1:
            short = shortage([each.task for each in startable])
        kinds = len({each.task.shape for each in startable})
        if kinds > MAX_MEMBER_KINDS:
            why = f"group {name} has {kinds} kinds of members, expected at most {MAX_MEMBER_KINDS}"
            result.refused.extend((each.task, why) for each in startable)
        elif short is None:
            result.ready.append(_group(name, startable, rules))
        else:
            result.waiting.extend((each.task, f"group {name} {short}") for each in startable)
    else:
        why = _incomplete_reason(name, pending, running, terms.size)
        if refused := already_refused + len(result.refused):
            why += f"; {refused} refused"
        result.waiting.extend((each.task, why) for each in startable)
    return result


def _sort_out(
    result: GroupingResult, candidates: Iterable[Candidate], rules: Mapping[str, QueueRules]
) -> list[Candidate]:
    """The tasks that their queue takes; blocked tasks wait, the others are refused."""
    fitting: list[Candidate] = []
    for each in candidates:
        why = None if each.running else refusal_reason(each, rules)
        if why is None:
            fitting.append(each)
        if each.running:
            continue
        if each.task.blocked is not None:
            result.waiting.append((each.task, each.task.blocked))
        elif why is not None:
            result.refused.append((each.task, why))
    return fitting


def _agreed(candidates: Sequence[Candidate]) -> GroupTerms | None:
    """The terms that hold, None if no task states any."""
    counts = Counter(each.terms for each in candidates if each.terms is not None)
    if len(counts) < 2:
        return next(iter(counts), None)
    by_age = (each.terms for each in sorted(candidates, key=_age) if each.terms is not None)
    # `max` returns the first of equally frequent terms: those of the oldest task.
    return max(dict.fromkeys(by_age), key=lambda terms: counts[terms])


def _without_dissenters(
    result: GroupingResult, candidates: Sequence[Candidate], terms: GroupTerms
) -> list[Candidate]:
    """The tasks that state these terms, or none; the others are refused."""
    agreeing = [each for each in candidates if each.terms is None or each.terms == terms]
    if len(agreeing) == len(candidates):
        return agreeing
    oldest = min((each for each in agreeing if each.terms is not None), key=_age)
    for each in candidates:
        if each.terms is None or each.terms == terms or each.running or each.task.blocked:
            continue
        result.refused.append((each.task, _contradiction(each, each.terms, oldest, terms)))
    return agreeing


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


def _incomplete_reason(name: str, pending: Sequence[Candidate], running: int, size: int) -> str:
    present = running + len(pending)
    blocked = next((each.task for each in pending if each.task.blocked), None)
    if present < size or blocked is None:
        return f"group {name} has {present} of {size} members"
    return f"group {name} waits for {blocked.name}: {blocked.blocked}"


def _group(name: str, members: Sequence[Candidate], rules: Mapping[str, QueueRules]) -> Group:
    first = members[0].terms or GroupTerms()
    usual = rules[first.queue].default_run_seconds
    runs = [usual if each.run_seconds is None else each.run_seconds for each in members]
    bounded = [seconds for seconds in runs if seconds is not None]
    return Group(
        name=name,
        tasks=tuple(each.task for each in members),
        priority=max(each.priority for each in members),
        ready_seconds=max(each.created_seconds for each in members),
        run_seconds=max(bounded) if len(bounded) == len(runs) else None,
        queue=first.queue,
    )


def _age(candidate: Candidate) -> tuple[float, str]:
    return candidate.created_seconds, candidate.task.name
