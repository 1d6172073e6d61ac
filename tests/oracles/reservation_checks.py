"""Who keeps an eye on promises: what was said is remembered, and what the cycle says is held to it.

The record knows nothing of how promises are made: only who was told what, and what has happened.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from afflux.cycle.loop import Outcome
from afflux.cycle.promises import Broken, Cause
from afflux.model.group import Group
from afflux.model.machine import Machine
from afflux.model.promise import Promise
from afflux.model.task import Shape
from oracles.scalar import admits, unstated

KEEP_PROMISES = {"easy", "conservative", "conservative-compress"}


@dataclass
class Word:
    """What a group was first promised, and the step at which that was."""

    start: float
    step: int


@dataclass(frozen=True)
class Taken:
    """A task of this shape is on this machine, from when until when."""

    shape: Shape
    machine: str
    begin: float
    until: float


class Record:
    """Promises, and what has happened since; queues with their strategies, as they are served."""

    def __init__(self, queues: Sequence[tuple[str, str]]) -> None:
        self.step = 0
        self.broken: list[tuple[str, Cause]] = []
        self.moved_later: list[str] = []
        self.promised = 0
        self._rank = {name: number for number, (name, _) in enumerate(queues)}
        self._strategy = dict(queues)
        self._words: dict[str, Word] = {}
        self._latest: dict[str, float | None] = {}
        self._last: Sequence[Promise] = ()
        self._happened: list[tuple[int, Cause, Callable[[Group], bool]]] = []

    def happens(self, cause: Cause, to: Callable[[Group], bool] = lambda _: True) -> None:
        self._happened.append((self.step, cause, to))

    def forget(self, name: str) -> None:
        self._words.pop(name, None)
        self._latest.pop(name, None)

    def restart(self, promises: Sequence[Promise], now: float, *, decided: bool) -> None:
        """What is written down is what was first promised."""
        self._words = {
            promise.group: Word(promise.start_seconds, self.step)
            for promise in promises
            if promise.start_seconds is not None
        }
        if not decided or any(word.start < now for word in self._words.values()):
            # What had changed before was not planned for yet.
            self.happens(Cause.RESTART)
        # Who plans anew does so after a restart as well; nobody saw what else there was.
        self.happens(Cause.RESTART, lambda g: self._strategy[g.queue] not in KEEP_PROMISES)

    def hear(
        self, outcome: Outcome, placed: list[Group], waiting: Mapping[str, Group], now: float
    ) -> None:
        """Who was promised what, whose promise was not kept, and whether the cause is true."""
        self.step += 1
        new = {p.group: p.start_seconds for p in outcome.promises}
        assert len(new) == len(outcome.promises)
        assert new.keys() <= waiting.keys()
        self._go_ahead(placed, outcome.promises, waiting)
        late = {
            group.name: group
            for group in placed
            if group.name in self._words and now > self._words[group.name].start
        }
        assert {each.group for each in outcome.broken} == late.keys()
        for each in outcome.broken:
            self._check_cause(each, late[each.group])
        for group in placed:
            self.forget(group.name)
        for name, start in new.items():
            before = self._latest.get(name)
            if before is not None and (start is None or start > before):
                self.moved_later.append(name)
            if start is not None:
                self.promised += 1
                self._words.setdefault(name, Word(start, self.step))
        for name, start in self._latest.items():
            if self._strategy[waiting[name].queue] in KEEP_PROMISES and start is not None:
                # Nobody is forgotten, whatever happens, unless it can never start any more.
                assert name in new or name in outcome.unsatisfiable, (name, start)
        self._latest = new

    def _check_cause(self, broken: Broken, group: Group) -> None:
        word, strategy = self._words[group.name], self._strategy[group.queue]
        assert broken.promised_seconds == word.start
        self.broken.append((strategy, broken.cause))
        if broken.cause is Cause.STRATEGY:
            assert strategy not in KEEP_PROMISES, (broken, word)
            return
        since = {cause for step, cause, to in self._happened if step >= word.step and to(group)}
        assert broken.cause in since, (broken, word, since)

    def _go_ahead(
        self, placed: list[Group], promises: Sequence[Promise], waiting: Mapping[str, Group]
    ) -> None:
        """Who starts or gets another promise takes something from those served after it."""
        moved = [waiting[each.group] for each in promises if each not in self._last]
        self._last = promises
        before = self.step - 1
        for ahead in [*placed, *moved]:
            self._happened.append((before, Cause.QUEUE, partial(self._is_served_before, ahead)))
            if self._latest.get(ahead.name) is None:
                self._happened.append((before, Cause.PRIORITY, partial(_is_above, ahead)))

    def _is_served_before(self, group: Group, other: Group) -> bool:
        return self._rank[group.queue] < self._rank[other.queue]


def check_room(
    outcome: Outcome,
    waiting: Mapping[str, Group],
    machines: Mapping[str, Machine],
    taken: list[Taken],
    now: float,
) -> None:
    """Machines that exist and are allowed, each member once; nobody has more than there is."""
    use, times = list(taken), set[float]()
    for promise in outcome.promises:
        group, start = waiting[promise.group], promise.start_seconds
        if start is None:
            assert promise.machines == ()
            continue
        if outcome.round is not None:
            assert start >= now
        named = Counter(task for task, _ in promise.machines)
        assert named == Counter(task.id for task in group.tasks)
        where = dict(promise.machines)
        end = math.inf if group.run_seconds is None else start + group.run_seconds
        for task in group.tasks:
            assert where[task.id] in machines, (promise, sorted(machines))
            assert admits(machines[where[task.id]], task.shape), (promise, task.shape)
            use.append(Taken(task.shape, where[task.id], start, end))
        times.add(start)
    # Ends that move by seconds are not worth a pass: until the next, promises are as they were.
    for at in times if outcome.round is not None else ():
        for machine in machines.values():
            # What should have ended is expected to end at once.
            there = [
                each
                for each in use
                if each.machine == machine.name
                and (each.begin <= at < max(each.until, now) or each.begin == at)
            ]
            # Foreign pods may overfill a machine, with what nobody asks for who is promised.
            asked = {key for each in there if each.begin == at for key, _ in each.shape.requests}
            over = _too_much(machine, [each.shape for each in there], asked)
            assert not over, (machine.name, at, over, outcome.promises)


def _too_much(machine: Machine, taken: list[Shape], asked: set[str]) -> dict[str, int]:
    """Of what is asked for there, that of which more is taken than there is."""
    offered = dict(machine.capacity)
    amounts: Counter[str] = Counter()
    devices = 0
    for each in taken:
        amounts.update(dict(each.requests))
        devices += each.devices.count * each.devices.milli if each.devices else 0
    over = {n: amounts[n] for n in asked if amounts[n] > offered.get(n, unstated(n))}
    return over | ({"devices": devices} if devices > 1000 * machine.devices else {})


def _is_above(group: Group, other: Group) -> bool:
    return group.queue == other.queue and group.priority > other.priority
