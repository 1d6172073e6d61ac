"""Sparing the others: who makes every decision fail is found and set aside.

A policy that raises, or a plan that the checker refuses, is a defect, and the decision is lost. But
of the thousands who wait it is mostly about one, or about one class. So the queue is halved until
those are found alone who fail alone; the others are decided about together. If these fail all the
same, it is because of who stands beside whom: then the last one goes without whom the rest passes.

Who is set aside keeps its place in the queue, and is tried again: soon, then less and less often.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from afflux.model.group import Group
from afflux.model.task import Shape
from afflux.plan.rounds import Round
from afflux.queue.waiting import Queue

FIRST_PAUSE_SECONDS = 5.0
LONGEST_PAUSE_SECONDS = 600.0
# So many decisions at most to find out who it is; whoever has not been cleared by then waits too.
MOST_ATTEMPTS = 1000
# If so many of one class fail alone, the others of that class need not be asked.
ENOUGH_WITNESSES = 2

Decide = Callable[[Sequence[Group]], Round]


def decide_sparing(decide: Decide, queue: Sequence[Group]) -> tuple[Round, Mapping[str, Exception]]:
    """The decision for all who do not make it fail; and the others by name, with their errors."""
    try:
        return decide(queue), {}
    except Exception as error:
        search = _Search(decide)
        sound = search.sound_parts(queue, error)
        return search.longest_sound(sound), search.culprits


class _Search:
    """Who it is."""

    def __init__(self, decide: Decide) -> None:
        self.culprits: dict[str, Exception] = {}
        self._decide = decide
        self._attempts = 0
        self._witnesses: Counter[frozenset[Shape]] = Counter()

    def sound_parts(self, groups: Sequence[Group], error: Exception) -> list[Group]:
        """Of groups that fail together, those who do not fail in smaller parts."""
        if len(groups) == 1 or self._attempts >= MOST_ATTEMPTS:
            self._blame(groups, error)
            if len(groups) == 1:
                self._witnesses[_class_of(groups[0])] += 1
            return []
        middle = len(groups) // 2
        sound: list[Group] = []
        for half in (groups[:middle], groups[middle:]):
            part = self._without_known(half, error)
            answer = self._attempt(part)
            sound += part if isinstance(answer, Round) else self.sound_parts(part, answer)
        return sound

    def longest_sound(self, groups: list[Group]) -> Round:
        """A decision for all of these, who pass in parts, or for as many as possible."""
        answer = self._attempt(groups)
        while not isinstance(answer, Round):
            error, best = answer, Round((), ())
            passes, fails = 0, len(groups)
            while fails - passes > 1:
                middle = (passes + fails) // 2
                part = self._attempt(groups[:middle])
                if isinstance(part, Round):
                    best, passes = part, middle
                else:
                    error, fails = part, middle
            if self._attempts >= MOST_ATTEMPTS:
                self._blame(groups[passes:], error)
                return best
            self._blame([groups.pop(fails - 1)], error)
            answer = self._attempt(groups)
        return answer

    def _attempt(self, groups: Sequence[Group]) -> Round | Exception:
        if not groups:
            return Round((), ())
        self._attempts += 1
        try:
            return self._decide(groups)
        except Exception as error:
            return error

    def _without_known(self, groups: Sequence[Group], error: Exception) -> Sequence[Group]:
        """Those who are not of a class of which enough have failed alone."""
        known = {of for of, count in self._witnesses.items() if count >= ENOUGH_WITNESSES}
        if not known:
            return groups
        self._blame([group for group in groups if _class_of(group) in known], error)
        return [group for group in groups if _class_of(group) not in known]

    def _blame(self, groups: Sequence[Group], error: Exception) -> None:
        self.culprits.update({group.name: error for group in groups})


def _class_of(group: Group) -> frozenset[Shape]:
    return frozenset(shape for shape, _ in group.shapes)


@dataclass(slots=True)
class _SetAside:
    """As it came, as it waits now, how often it was set aside, and until when."""

    group: Group
    waits: Group
    times: int
    until_seconds: float | None


class Aside:
    """Those who were set aside. They wait in the queue as those do who must not be placed yet."""

    def __init__(self) -> None:
        self._known: dict[str, _SetAside] = {}

    def take(self, culprits: Mapping[str, Exception], queue: Queue, now_seconds: float) -> None:
        """Set these aside, with a reason that says what kind of error it was."""
        for name, error in culprits.items():
            group = queue.get(name)
            if group is None:
                continue
            before = self._known.get(name)
            times = before.times + 1 if before is not None and before.group is group else 0
            pause = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** min(times, 20))
            # What the error says may be about others: it is for the log.
            why = (
                f"set aside after an error of the scheduler ({type(error).__name__}), of which its "
                f"log says more; tried again after {pause:g} s"
            )
            tasks = tuple(replace(task, blocked=why) for task in group.tasks)
            waits = replace(group, tasks=tasks)
            queue.add(waits)
            self._known[name] = _SetAside(group, waits, times, now_seconds + pause)

    def release(self, queue: Queue, now_seconds: float) -> bool:
        """Let those join the others again whose time is over; whether there are any."""
        released = False
        for name, each in list(self._known.items()):
            there = queue.get(name)
            if there is not each.waits and there is not each.group:
                # It is gone, or has changed: who comes next under this name has done nothing yet.
                del self._known[name]
            elif each.until_seconds is not None and each.until_seconds <= now_seconds:
                queue.add(each.group)
                each.until_seconds = None
                released = True
        return released

    def soonest_seconds(self) -> float | None:
        """When the next one has to be tried again, None if nobody has."""
        ends = [each.until_seconds for each in self._known.values()]
        return min((end for end in ends if end is not None), default=None)
