"""Fault isolation: finds the groups that make a decision fail, and quarantines them.

If a policy raises, or the checker refuses a plan, the whole decision is lost, although usually one
group or one class of groups is the reason. So the queue is halved until single groups are found
that fail alone, and the others are decided together. If these still fail, the reason is a
combination of groups: then the queue is cut after the longest part that passes, and the group that
follows it is left out.

A quarantined group keeps its place in the queue, and is tried again after a backoff that doubles.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from afflux.cycle.decision import NOTHING_DECIDED, Decision
from afflux.model.task import Shape
from afflux.model.waiting_group import WaitingGroup
from afflux.queue.order import WaitingQueue

INITIAL_BACKOFF_SECONDS = 5.0
MAX_BACKOFF_SECONDS = 600.0
# Decisions in one search; the groups that have not passed by then are quarantined as well.
MAX_ATTEMPTS = 1000
# If so many groups of one class fail alone, the other groups of that class are not tried.
MAX_FAILURES_PER_CLASS = 2

Decide = Callable[[Sequence[WaitingGroup]], Decision]


def decide_isolating_faults(
    decide: Decide, queue: Sequence[WaitingGroup]
) -> tuple[Decision, Mapping[str, Exception]]:
    """A decision for the groups that do not make it fail; the other groups with their errors."""
    try:
        return decide(queue), {}
    except Exception as error:
        search = _FaultSearch(decide)
        sound = search.sound_groups(queue, error)
        return search.largest_decision(sound), search.faulty


class _FaultSearch:
    """The search for faulty groups; `faulty` has what was found, with the errors."""

    def __init__(self, decide: Decide) -> None:
        self.faulty: dict[str, Exception] = {}
        self._decide = decide
        self._attempts = 0
        self._failures: Counter[frozenset[Shape]] = Counter()

    def sound_groups(self, groups: Sequence[WaitingGroup], error: Exception) -> list[WaitingGroup]:
        """Of groups that fail together, those that do not fail in smaller parts."""
        if len(groups) == 1 or self._attempts >= MAX_ATTEMPTS:
            self._blame(groups, error)
            if len(groups) == 1:
                self._failures[_class_of(groups[0])] += 1
            return []
        middle = len(groups) // 2
        sound: list[WaitingGroup] = []
        for half in (groups[:middle], groups[middle:]):
            part = self._without_faulty_classes(half, error)
            answer = self._attempt(part)
            sound += part if isinstance(answer, Decision) else self.sound_groups(part, answer)
        return sound

    def largest_decision(self, groups: list[WaitingGroup]) -> Decision:
        """A decision for all of these groups, which pass in parts, or for as many as possible."""
        answer = self._attempt(groups)
        while not isinstance(answer, Decision):
            error, best = answer, NOTHING_DECIDED
            passes, fails = 0, len(groups)
            while fails - passes > 1:
                middle = (passes + fails) // 2
                part = self._attempt(groups[:middle])
                if isinstance(part, Decision):
                    best, passes = part, middle
                else:
                    error, fails = part, middle
            if self._attempts >= MAX_ATTEMPTS:
                self._blame(groups[passes:], error)
                return best
            self._blame([groups.pop(fails - 1)], error)
            answer = self._attempt(groups)
        return answer

    def _attempt(self, groups: Sequence[WaitingGroup]) -> Decision | Exception:
        if not groups:
            return NOTHING_DECIDED
        self._attempts += 1
        try:
            return self._decide(groups)
        except Exception as error:
            return error

    def _without_faulty_classes(
        self, groups: Sequence[WaitingGroup], error: Exception
    ) -> Sequence[WaitingGroup]:
        faulty = {of for of, count in self._failures.items() if count >= MAX_FAILURES_PER_CLASS}
        if not faulty:
            return groups
        self._blame([group for group in groups if _class_of(group) in faulty], error)
        return [group for group in groups if _class_of(group) not in faulty]

    def _blame(self, groups: Sequence[WaitingGroup], error: Exception) -> None:
        self.faulty.update({group.key: error for group in groups})


def _class_of(group: WaitingGroup) -> frozenset[Shape]:
    return frozenset(shape for shape, _ in group.shapes)


@dataclass(slots=True)
class _Quarantined:
    """A group as it came and as it waits (`blocked`), the earlier failures, and the release."""

    group: WaitingGroup
    blocked: WaitingGroup
    failures: int
    until_seconds: float | None


class Quarantine:
    """The groups that made a decision fail. They wait in the queue with their tasks blocked.

    The first backoff lasts `initial_backoff_seconds`; each further failure doubles it.
    """

    def __init__(self, initial_backoff_seconds: float = INITIAL_BACKOFF_SECONDS) -> None:
        self._initial_backoff = initial_backoff_seconds
        self._known: dict[str, _Quarantined] = {}

    def add(self, faulty: Mapping[str, Exception], queue: WaitingQueue, now_seconds: float) -> None:
        """Quarantine these groups; their reason names the type of the error."""
        for name, error in faulty.items():
            group = queue.get(name)
            if group is None:
                continue
            before = self._known.get(name)
            failures = before.failures + 1 if before is not None and before.group is group else 0
            backoff = min(MAX_BACKOFF_SECONDS, self._initial_backoff * 2.0 ** min(failures, 20))
            # The text of the error may be about other groups, so it goes to the log only.
            why = (
                f"quarantined after a scheduler error ({type(error).__name__}); the scheduler's "
                f"log has details; tried again after {backoff:g} s"
            )
            blocked = replace(group, tasks=tuple(replace(t, blocked=why) for t in group.tasks))
            queue.add(blocked)
            self._known[name] = _Quarantined(group, blocked, failures, now_seconds + backoff)

    def release(self, queue: WaitingQueue, now_seconds: float) -> bool:
        """Unblock the groups whose backoff is over; returns whether there were any."""
        released = False
        for name, each in list(self._known.items()):
            there = queue.get(name)
            if there is not each.blocked and there is not each.group:
                # The group has left or changed: a new group of this name starts without failures.
                del self._known[name]
            elif each.until_seconds is not None and each.until_seconds <= now_seconds:
                queue.add(each.group)
                each.until_seconds = None
                released = True
        return released

    def next_release_seconds(self) -> float:
        """When the next group is released, infinity if no group waits for that."""
        ends = [each.until_seconds for each in self._known.values()]
        return min((end for end in ends if end is not None), default=math.inf)
