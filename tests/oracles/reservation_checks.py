"""Checks reservations: remembers them and what has happened, and compares with each outcome.

The record does not know how reservations are made.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from afflux.cycle.loop import Outcome
from afflux.cycle.reservations import BrokenReservation, DelayCause
from afflux.model.disks import Disk
from afflux.model.machine import Machine
from afflux.model.reservation import Reservation
from afflux.model.task import Shape
from afflux.model.waiting_group import WaitingGroup
from oracles.naive_model import admits, unstated

KEEP_RESERVATIONS = {"easy", "conservative", "conservative-compress"}


@dataclass
class FirstReservation:
    """The start that was first reserved for a group, and the step in which that was."""

    start: float
    step: int


@dataclass(frozen=True)
class Taken:
    """A task of this shape uses this machine from `begin` to `until`."""

    shape: Shape
    machine: str
    begin: float
    until: float


class Record:
    """Reservations and what has happened since; `queues` with their strategies, in their order."""

    def __init__(self, queues: Sequence[tuple[str, str]]) -> None:
        self.step = 0
        self.broken: list[tuple[str, DelayCause]] = []
        self.moved_later: list[str] = []
        self.reservations = 0
        self._rank = {name: number for number, (name, _) in enumerate(queues)}
        self._strategy = dict(queues)
        self._first: dict[str, FirstReservation] = {}
        self._latest: dict[str, float | None] = {}
        self._last: Sequence[Reservation] = ()
        self._happened: list[tuple[int, DelayCause, Callable[[WaitingGroup], bool]]] = []

    def happens(
        self, cause: DelayCause, to: Callable[[WaitingGroup], bool] = lambda _: True
    ) -> None:
        self._happened.append((self.step, cause, to))

    def forget(self, name: str) -> None:
        self._first.pop(name, None)
        self._latest.pop(name, None)

    def restart(self, reservations: Sequence[Reservation], now: float, *, decided: bool) -> None:
        """The stored reservations count as the first ones."""
        self._first = {
            reservation.group: FirstReservation(reservation.start_seconds, self.step)
            for reservation in reservations
            if reservation.start_seconds is not None
        }
        if not decided or any(first.start < now for first in self._first.values()):
            # Earlier changes have not been planned for yet.
            self.happens(DelayCause.RESTART)
        # A strategy that plans anew does so after a restart as well.
        self.happens(DelayCause.RESTART, lambda g: self._strategy[g.queue] not in KEEP_RESERVATIONS)

    def check(
        self,
        outcome: Outcome,
        placed: list[WaitingGroup],
        waiting: Mapping[str, WaitingGroup],
        now: float,
    ) -> None:
        """Compare the reservations, the broken ones and their causes with the record."""
        self.step += 1
        new = {p.group: p.start_seconds for p in outcome.reservations}
        assert len(new) == len(outcome.reservations)
        assert new.keys() <= waiting.keys()
        self._note_overtaken(placed, outcome.reservations, waiting)
        late = {
            group.name: group
            for group in placed
            if group.name in self._first and now > self._first[group.name].start
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
                self.reservations += 1
                self._first.setdefault(name, FirstReservation(start, self.step))
        for name, start in self._latest.items():
            if self._strategy[waiting[name].queue] in KEEP_RESERVATIONS and start is not None:
                # No reservation is lost, unless its group can never start any more.
                assert name in new or name in outcome.unsatisfiable, (name, start)
        self._latest = new

    def _check_cause(self, broken: BrokenReservation, group: WaitingGroup) -> None:
        first, strategy = self._first[group.name], self._strategy[group.queue]
        assert broken.reserved_start_seconds == first.start
        self.broken.append((strategy, broken.cause))
        if broken.cause is DelayCause.STRATEGY:
            assert strategy not in KEEP_RESERVATIONS, (broken, first)
            return
        since = {cause for step, cause, to in self._happened if step >= first.step and to(group)}
        assert broken.cause in since, (broken, first, since)

    def _note_overtaken(
        self,
        placed: list[WaitingGroup],
        reservations: Sequence[Reservation],
        waiting: Mapping[str, WaitingGroup],
    ) -> None:
        """Groups that start or get another reservation may delay the groups served after them."""
        moved = [waiting[each.group] for each in reservations if each not in self._last]
        self._last = reservations
        before = self.step - 1
        for ahead in [*placed, *moved]:
            self._happened.append(
                (before, DelayCause.QUEUE, partial(self._is_served_before, ahead))
            )
            if self._latest.get(ahead.name) is None:
                self._happened.append((before, DelayCause.PRIORITY, partial(_is_above, ahead)))

    def _is_served_before(self, group: WaitingGroup, other: WaitingGroup) -> bool:
        return self._rank[group.queue] < self._rank[other.queue]


def check_room(
    outcome: Outcome,
    waiting: Mapping[str, WaitingGroup],
    machines: Mapping[str, Machine],
    taken: list[Taken],
    now: float,
    disks: Mapping[str, tuple[Disk, ...]],
) -> None:
    """Reservations name allowed machines, each member once, and overfill no machine."""
    use, times = list(taken), set[float]()
    for reservation in outcome.reservations:
        group, start = waiting[reservation.group], reservation.start_seconds
        if start is None:
            assert reservation.machines == ()
            continue
        if outcome.round is not None:
            assert start >= now
        named = Counter(task for task, _ in reservation.machines)
        assert named == Counter(task.id for task in group.tasks)
        where = dict(reservation.machines)
        end = math.inf if group.run_seconds is None else start + group.run_seconds
        for task in group.tasks:
            assert where[task.id] in machines, (reservation, sorted(machines))
            assert admits(machines[where[task.id]], task.shape), (reservation, task.shape)
            use.append(Taken(task.shape, where[task.id], start, end))
        times.add(start)
    # Ends that move by seconds cause no pass: until the next one, reservations stay as they are.
    for at in times if outcome.round is not None else ():
        for machine in machines.values():
            # An overdue task is expected to end at once.
            there = [
                each
                for each in use
                if each.machine == machine.name
                and (each.begin <= at < max(each.until, now) or each.begin == at)
            ]
            # Foreign pods may overfill a machine with resources that no reservation asks for.
            asked = {key for each in there if each.begin == at for key, _ in each.shape.requests}
            shapes = [each.shape for each in there]
            over = _too_much(machine, shapes, asked)
            assert not over, (machine.name, at, over, outcome.reservations)
            if any(each.begin == at and each.shape.disks for each in there):
                assert _fit_on_disks(disks.get(machine.name, ()), shapes), (machine.name, at)


def _too_much(machine: Machine, taken: list[Shape], asked: set[str]) -> dict[str, int]:
    """The resources among `asked` of which more is taken than the machine has."""
    offered = dict(machine.capacity)
    amounts: Counter[str] = Counter()
    devices = 0
    for each in taken:
        amounts.update(dict(each.requests))
        devices += each.devices.count * each.devices.milli if each.devices else 0
    over = {n: amounts[n] for n in asked if amounts[n] > offered.get(n, unstated(n))}
    return over | ({"devices": devices} if devices > 1000 * machine.devices else {})


def _fit_on_disks(disks: tuple[Disk, ...], taken: list[Shape]) -> bool:
    """Whether there is bandwidth for all of them, as if all disks were one."""
    stated = [each.disks for each in taken if each.disks and (disks or each.disks.is_stated)]
    volumes = [volume for each in stated for volume in each.volumes]
    return sum(v.read for v in volumes) <= sum(d.left.read for d in disks) and sum(
        v.write for v in volumes
    ) <= sum(d.left.write for d in disks)


def _is_above(group: WaitingGroup, other: WaitingGroup) -> bool:
    return group.queue == other.queue and group.priority > other.priority
