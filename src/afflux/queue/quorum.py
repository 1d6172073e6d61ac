"""Quorum: which of those who name a group may start together, and why the others wait.

The answer depends on who is there, and on whether the group has run before, neither on the order in
which they came nor on what was answered before. So it is the same after a restart.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from afflux.model.group import DEFAULT_QUEUE, Group
from afflux.model.task import Task
from afflux.queue.rules import QueueRules

ONE_QUEUE: Mapping[str, QueueRules] = {DEFAULT_QUEUE: QueueRules()}

Held = tuple[Task, str]
"""A task that may not be considered, and why."""

Shortage = Callable[[Sequence[Task]], str | None]
"""Of what there is too little for these to start together, whatever room there is; None if not."""


# A group is placed as a whole, at a cost that grows with the kinds of its members. With more of
# them one group could use up the scheduler's memory.
MOST_KINDS = 256


@dataclass(frozen=True, slots=True)
class Terms:
    """What a task says its group is: how many have to be there, and the queue they wait in.

    `source` is where the size is written.
    """

    size: int = 1
    queue: str = DEFAULT_QUEUE
    source: str = field(default="size", compare=False)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A task that names a group. Its terms are None if it runs and nobody can tell them any more.

    `run_seconds` is how long it is expected to hold its machine, `limit_seconds` how long it may
    run as its queue counts it; None if it does not say.
    """

    task: Task
    terms: Terms | None = Terms()
    running: bool = False
    priority: int = 0
    created_seconds: float = 0.0
    run_seconds: float | None = None
    limit_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Gathered:
    """Who may be placed; who waits for something to happen; and who will never be considered unless
    somebody changes what they say."""

    ready: list[Group] = field(default_factory=list[Group])
    waiting: list[Held] = field(default_factory=list[Held])
    refused: list[Held] = field(default_factory=list[Held])
    # Of the groups whose members are all there, and agree, how many have to start together.
    whole: dict[str, int] = field(default_factory=dict[str, int])
    # Of the groups whose terms are known, whoever contradicts them: how many more have to run.
    lacking: dict[str, int] = field(default_factory=dict[str, int])

    def add(self, other: "Gathered") -> None:
        """Both together."""
        self.ready.extend(other.ready)
        self.waiting.extend(other.waiting)
        self.refused.extend(other.refused)
        self.whole.update(other.whole)
        self.lacking.update(other.lacking)


def objection(candidate: Candidate, rules: Mapping[str, QueueRules]) -> str | None:
    """Why the queue that this one names does not take it, whoever else is in its group."""
    terms = candidate.terms
    if terms is None:
        return None
    queue = rules.get(terms.queue)
    if queue is None:
        known = ", ".join(sorted(rules))
        return f"queue {terms.queue!r:.80} is not known, expected one of: {known}"
    if terms.size > queue.largest_group:
        return (
            f"{terms.source}: {terms.size}, expected at most {queue.largest_group} "
            f"in queue {queue.name}"
        )
    longest, runs = queue.longest_run_seconds, candidate.limit_seconds
    if runs is None:
        runs = queue.default_run_seconds
    if longest is None or (runs is not None and runs <= longest):
        return None
    lasts = "without end" if runs is None else f"{runs:.10g} s"
    return f"it may run {lasts}, expected at most {longest:.10g} s in queue {queue.name}"


def alone(candidate: Candidate, rules: Mapping[str, QueueRules]) -> Gathered:
    """A pending task that names no group: it is one, of its own name."""
    gathered = Gathered()
    _sort_out(gathered, [candidate], rules)
    if candidate.task.blocked is None and not gathered.refused:
        gathered.ready.append(_group(candidate.task.name, [candidate], rules))
    return gathered


def form(
    name: str,
    candidates: Iterable[Candidate],
    rules: Mapping[str, QueueRules],
    *,
    others: int = 0,
    most_ran: int = 0,
    shortage: Shortage | None = None,
) -> Gathered:
    """The group of this name, out of those who name it; `others` were refused before.

    If they contradict each other, the terms hold that most of them state, then those of the oldest;
    whoever states others is refused and does not count. Those who run count towards the quorum.
    Once that many run, or have run (`most_ran` at once) and some of them have ended, each newcomer
    starts on its own; before, those who can start do so together. Who is held back by something of
    its own joins later, unless it is needed for the quorum.
    """
    gathered = Gathered()
    fitting = _sort_out(gathered, candidates, rules)
    terms = _agreed(fitting)
    if terms is None:
        return gathered
    everybody, fitting = fitting, _without_dissenters(gathered, fitting, terms)
    if len(everybody) == len(fitting) >= terms.size:
        gathered.whole[name] = terms.size
    pending = [each for each in fitting if not each.running]
    startable = [each for each in pending if each.task.blocked is None]
    running = len(fitting) - len(pending)
    gathered.lacking[name] = max(0, terms.size - running)
    if max(running, most_ran) >= terms.size:
        gathered.ready.extend(_group(each.task.name, [each], rules) for each in startable)
    elif terms.size == 1:
        for place, each in enumerate(sorted(startable, key=_age)):
            gathered.ready.append(_group(each.task.name if place else name, [each], rules))
    elif running + len(startable) >= terms.size:
        short = _short(startable, shortage)
        kinds = len({each.task.shape for each in startable})
        if kinds > MOST_KINDS:
            why = f"group {name} has {kinds} kinds of members, expected at most {MOST_KINDS}"
            gathered.refused.extend((each.task, why) for each in startable)
        elif short is None:
            gathered.ready.append(_group(name, startable, rules))
        else:
            gathered.waiting.extend((each.task, f"group {name} {short}") for each in startable)
    else:
        why = _lacking(name, pending, running, terms.size)
        if refused := others + len(gathered.refused):
            why += f"; {refused} refused"
        gathered.waiting.extend((each.task, why) for each in startable)
    return gathered


def _sort_out(
    gathered: Gathered, candidates: Iterable[Candidate], rules: Mapping[str, QueueRules]
) -> list[Candidate]:
    """Those whom their queue takes; who is held back by something of its own waits for that."""
    fitting: list[Candidate] = []
    for each in candidates:
        why = None if each.running else objection(each, rules)
        if why is None:
            fitting.append(each)
        if each.running:
            continue
        if each.task.blocked is not None:
            gathered.waiting.append((each.task, each.task.blocked))
        elif why is not None:
            gathered.refused.append((each.task, why))
    return fitting


def _agreed(candidates: Sequence[Candidate]) -> Terms | None:
    """The terms that hold, None if nobody states any."""
    counts = Counter(each.terms for each in candidates if each.terms is not None)
    if len(counts) < 2:
        return next(iter(counts), None)
    by_age = (each.terms for each in sorted(candidates, key=_age) if each.terms is not None)
    # Of equals the first, which is the oldest's.
    return max(dict.fromkeys(by_age), key=lambda terms: counts[terms])


def _without_dissenters(
    gathered: Gathered, candidates: Sequence[Candidate], terms: Terms
) -> list[Candidate]:
    """Those who state these terms, or none; the others are refused, with whom they contradict."""
    kept = [each for each in candidates if each.terms is None or each.terms == terms]
    if len(kept) == len(candidates):
        return kept
    speaker = min((each for each in kept if each.terms is not None), key=_age)
    for each in candidates:
        if each.terms is None or each.terms == terms or each.running or each.task.blocked:
            continue
        gathered.refused.append((each.task, _contradiction(each, each.terms, speaker, terms)))
    return kept


def _contradiction(one: Candidate, its: Terms, other: Candidate, terms: Terms) -> str:
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


def _short(members: Sequence[Candidate], shortage: Shortage | None) -> str | None:
    if shortage is None or len(members) < 2:
        return None
    return shortage([each.task for each in members])


def _lacking(name: str, pending: Sequence[Candidate], running: int, size: int) -> str:
    present = running + len(pending)
    blocked = next((each.task for each in pending if each.task.blocked), None)
    if present < size or blocked is None:
        return f"group {name} has {present} of {size} members"
    return f"group {name} waits for {blocked.name}: {blocked.blocked}"


def _group(name: str, members: Sequence[Candidate], rules: Mapping[str, QueueRules]) -> Group:
    first = members[0].terms or Terms()
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
