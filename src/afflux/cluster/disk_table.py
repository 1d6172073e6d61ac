"""The disk table: what every disk has left now, after the tasks that its report does not know.

A report says what a disk has left beside the tasks that it acknowledges. Now there is less: tasks
have been placed since, which it does not acknowledge. And there is more: acknowledged tasks have
ended. Each task counts with what its request takes of the model of its disk, never with what it was
measured to do, so that it gives back exactly what it took.

Which disk a volume is on is known where the account chose it, or where the pod says so. A running
task of which that is not known is counted on the disks that the account would give it.
"""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from afflux.cluster.disk_columns import DiskArrays, DiskColumns
from afflux.cluster.normalised_requests import (
    MAX_BANDWIDTH,
    Amounts,
    NormalisedRequests,
    Taken,
    amounts_of,
    cut,
)
from afflux.model.disks import Disk, DiskReport, DiskRequest, Normalise, VolumeIO
from afflux.model.errors import InputError

# So many disks of a machine are used; what comes after them in a report is not looked at.
MAX_DISKS = 128
# So many tasks that have ended before a report acknowledged them are remembered for each machine.
MAX_ENDED = 1_000


@dataclass(frozen=True, slots=True)
class DiskChange:
    """What a change of disks means for tasks that wait: whether any may find more bandwidth than
    before, and whether any may find less."""

    more: bool = False
    less: bool = False


NO_CHANGE = DiskChange()
_Left = list[list[int]]


@dataclass(slots=True)
class _Held:
    """A task on a machine: what it asks for, and the disks that it is said to have. `disks` and
    `charges` are those that it is counted on, by volume; none as long as no disks are known."""

    request: DiskRequest
    given: tuple[str, ...]
    disks: tuple[str, ...] = ()
    charges: tuple[Amounts, ...] = ()


@dataclass(slots=True)
class _OnMachine:
    """What is known of one machine: its report, its tasks, and those that have ended and are, or
    may yet be, acknowledged. `left` and `capacity` are by disk."""

    report: DiskReport | None = None
    row: int | None = None
    disks: tuple[Disk, ...] = ()
    index: dict[str, int] = field(default_factory=dict[str, int])
    left: _Left = field(default_factory=_Left)
    capacity: _Left = field(default_factory=_Left)
    held: dict[str, _Held] = field(default_factory=dict[str, _Held])
    ended: dict[str, _Held] = field(default_factory=dict[str, _Held])

    @property
    def is_open(self) -> bool:
        """Whether its disks take stated requests."""
        return self.report is not None and not self.report.refused

    def copied(self) -> "_OnMachine":
        """The same, in which tasks can be placed and removed."""
        other = copy(self)
        other.left = [list(left) for left in self.left]
        other.capacity = [list(left) for left in self.capacity]
        other.held, other.ended = self.held.copy(), self.ended.copy()
        return other

    def acknowledges(self, task_id: str) -> bool:
        return self.report is not None and task_id in self.report.acknowledged

    def add(self, amounts_by_disk: _Left, held: _Held, times: int) -> None:
        """Add so often what a task takes of the disks that are still there."""
        for disk, amounts in zip(held.disks, held.charges, strict=True):
            if (index := self.index.get(disk)) is not None:
                _add(amounts_by_disk[index], amounts, times)


class DiskTable:
    """Disks by machine. It is empty, and costs nothing, as long as no machine reports its disks and
    no task does anything on them."""

    def __init__(self) -> None:
        # Counts the changes to what the disks have left without any tasks.
        self.capacity_version = 0
        self._requests = NormalisedRequests()
        self._machines: dict[str, _OnMachine] = {}
        self._machine_of: dict[str, str] = {}
        self._arrays = DiskArrays()
        # What the disks would have left without tasks, without the changes of these machines.
        self._capacity = DiskArrays()
        self._stale_capacity: dict[str, None] = {}
        # In an overlay, the machines whose tasks differ from those of the table below.
        self._own: set[str] | None = None

    def overlay(self) -> "DiskTable":
        """A table that begins as this one, in which tasks can be placed and removed while this one
        stays as it is. No report may change as long as it is used."""
        other = copy(self)
        other._machines, other._machine_of = self._machines.copy(), self._machine_of.copy()
        other._arrays, other._capacity = self._arrays.copied(), self._capacity.copied()
        other._stale_capacity = self._stale_capacity.copy()
        other._own = set()
        return other

    # Questions.

    @property
    def normalise(self) -> Normalise:
        """What converts a request for disks that name a model."""
        return self._requests.normalise

    def report(self, machine: str) -> DiskReport | None:
        """The last report of a machine."""
        known = self._machines.get(machine)
        return None if known is None else known.report

    def taken(self, request: DiskRequest) -> Taken:
        """What a request takes, by volume and number of the model."""
        return self._requests.taken(request)

    def columns(self, rows: NDArray[np.intp] | slice, machines: int) -> DiskColumns:
        """What is left of the disks that take stated requests. Callers must not write into it."""
        return self._arrays.columns(rows, machines, self.taken)

    def capacity(self, machines: int) -> DiskColumns:
        """What the disks would have left without the tasks that are known, also of those that take
        no stated request at the moment."""
        stale, self._stale_capacity = self._stale_capacity, {}
        for machine in stale:
            known = self._machines.get(machine)
            if known is not None and known.row is not None:
                self._capacity.set(known.row, self._numbered(known, known.capacity))
        return self._capacity.columns(slice(0, machines), machines, self.taken).copied()

    def disks_of(self, task_id: str) -> tuple[str, ...]:
        """The ids of the disks that a task is counted on, by volume; empty if none are known."""
        held = self._held(task_id)
        return () if held is None else held.disks

    def is_said_to_be_on(self, task_id: str, disks: tuple[str, ...]) -> bool:
        """Whether a task is counted on these disks as far as they are there."""
        held = self._held(task_id)
        return held is None or disks in (held.given, held.disks)

    def charges_of(self, task_id: str) -> list[tuple[int, Amounts]]:
        """What a task gives back when it ends: the indices of its disks, and the amounts."""
        held = self._held(task_id)
        if held is None:
            return []
        index = self._machines[self._machine_of[task_id]].index
        pairs = zip(held.disks, held.charges, strict=True)
        return [(index[disk], amounts) for disk, amounts in pairs]

    def ended_on(self, machine: str) -> dict[str, tuple[DiskRequest, tuple[str, ...]]]:
        """The acknowledged tasks of a machine that have ended, with the disks that they had."""
        known = self._machines.get(machine)
        if known is None:
            return {}
        ended = known.ended.items()
        return {i: (held.request, held.disks) for i, held in ended if known.acknowledges(i)}

    def names(self, machine: str, indices: Sequence[int]) -> tuple[str, ...]:
        """The ids of disks by their index in the last report."""
        known = self._machines.get(machine)
        return () if known is None else tuple(known.disks[index].id for index in indices)

    # Changes.

    def set_report(self, report: DiskReport, row: int | None) -> DiskChange:
        """Replace the report of a machine, which may not have joined yet: then it has no row."""
        ids = {disk.id for disk in report.disks}
        if len(ids) < len(report.disks):
            named = [disk.id for disk in report.disks]
            raise InputError(f"disks of {report.machine}: {named}; expected different ids")
        known = self._machines.setdefault(report.machine, _OnMachine())
        known.row = row
        if known.report == report:
            return NO_CHANGE
        return self._replace_report(report.machine, known, report)

    def remove_report(self, machine: str) -> DiskChange:
        """The disks of a machine are not known any more."""
        known = self._machines.get(machine)
        if known is None or known.report is None:
            return NO_CHANGE
        change = self._replace_report(machine, known, None)
        self._forget_if_empty(machine)
        return change

    def set_normalise(self, models: frozenset[str], normalise: Normalise) -> list[int]:
        """From now on this function converts requests; it answers otherwise than before for these
        models. Returns the rows with such disks."""
        self._requests.set_normalise(models, normalise)
        rows: list[int] = []
        for machine, known in self._machines.items():
            if any(disk.model in models for disk in known.disks):
                self._count_anew(known)
                self._write(machine, known)
                if known.row is not None:
                    rows.append(known.row)
        self.capacity_version += bool(rows)
        return rows

    def join(self, machine: str, row: int) -> None:
        """A machine has got this row."""
        known = self._machines.get(machine)
        if known is not None:
            known.row = row
            self._write(machine, known)
            self.capacity_version += 1

    def leave(self, machine: str) -> None:
        """A machine has left, with its tasks. Its report stays, in case it returns."""
        known = self._machines.get(machine)
        if known is None:
            return
        if known.row is not None:
            self._arrays.set(known.row, ())
            self._capacity.set(known.row, ())
        for task_id in known.held:
            del self._machine_of[task_id]
        known.held.clear()
        known.ended.clear()
        known.row = None
        self._count_anew(known)
        self.capacity_version += 1
        self._forget_if_empty(machine)

    def place(
        self, task_id: str, request: DiskRequest, machine: str, row: int, given: tuple[str, ...]
    ) -> None:
        """A task is on a machine, its volumes on the given disks, if these are known."""
        known = self._changeable(machine)
        known.row = row
        before = known.ended.pop(task_id, None)
        if before is not None and known.acknowledges(task_id):
            known.add(known.left, before, -1)
            known.add(known.capacity, before, -1)
        held = known.held[task_id] = _Held(request, given)
        self._machine_of[task_id] = machine
        self._count(known, task_id, held)
        self._write(machine, known)

    def remove(self, task_id: str) -> None:
        """A task has ended. If its report acknowledges it, now or later, the disks have more left
        than the report says."""
        machine = self._machine_of.pop(task_id)
        known = self._changeable(machine)
        held = known.held.pop(task_id)
        known.add(known.left, held, 1)
        if known.report is not None:
            known.ended[task_id] = held
            if len(known.ended) > MAX_ENDED + len(known.report.acknowledged):
                oldest = next(each for each in known.ended if not known.acknowledges(each))
                del known.ended[oldest]
        self._write(machine, known)
        self._forget_if_empty(machine)

    def _changeable(self, machine: str) -> _OnMachine:
        """What is known of a machine, to be changed; in an overlay a copy of its own."""
        known = self._machines.setdefault(machine, _OnMachine())
        if self._own is not None and machine not in self._own:
            self._own.add(machine)
            known = self._machines[machine] = known.copied()
        return known

    def _held(self, task_id: str) -> _Held | None:
        machine = self._machine_of.get(task_id)
        return None if machine is None else self._machines[machine].held[task_id]

    def _forget_if_empty(self, machine: str) -> None:
        known = self._machines[machine]
        if known.report is None and not known.held:
            del self._machines[machine]
            if known.row is not None:
                self._capacity.set(known.row, ())

    def _replace_report(
        self, machine: str, known: _OnMachine, report: DiskReport | None
    ) -> DiskChange:
        if report is not None and known.row is not None and _has_same_disks(known, report):
            return self._replace_figures(machine, known, report)
        left_before, capacity_before = _open_disks(known), _by_disk(known, known.capacity)
        disks = () if report is None else report.disks[:MAX_DISKS]
        self._requests.add_disks(disk.model for disk in disks)
        self._requests.remove_disks(disk.model for disk in known.disks)
        known.report, known.disks = report, disks
        known.index = {disk.id: index for index, disk in enumerate(disks)}
        known.ended = {i: held for i, held in known.ended.items() if known.acknowledges(i)}
        self._count_anew(known)
        if known.row is None:
            return NO_CHANGE
        self._write(machine, known)
        self.capacity_version += capacity_before != _by_disk(known, known.capacity)
        return _difference(left_before, _open_disks(known))

    def _replace_figures(self, machine: str, known: _OnMachine, report: DiskReport) -> DiskChange:
        """The same for a report of the same disks, the usual one: every task is on the disks that
        it was on, and takes of them what it took."""
        left, capacity = known.left, known.capacity
        known.report, known.disks = report, report.disks[:MAX_DISKS]
        known.ended = {i: held for i, held in known.ended.items() if known.acknowledges(i)}
        known.left = [list(amounts_of(disk.left)) for disk in known.disks]
        known.capacity = [list(each) for each in known.left]
        for held in known.ended.values():
            known.add(known.left, held, 1)
            known.add(known.capacity, held, 1)
        for task_id, held in known.held.items():
            if known.acknowledges(task_id):
                known.add(known.capacity, held, 1)
            else:
                known.add(known.left, held, -1)
        self._write(machine, known)
        self.capacity_version += capacity != known.capacity
        if not known.is_open:
            return NO_CHANGE
        pairs = [
            pair
            for old, new in zip(left, known.left, strict=True)
            for pair in zip(old, new, strict=True)
        ]
        return DiskChange(
            more=any(new > old for old, new in pairs), less=any(new < old for old, new in pairs)
        )

    def _count_anew(self, known: _OnMachine) -> None:
        """Count everything on a machine: tasks of which all disks are known come first."""
        known.left = [list(amounts_of(disk.left)) for disk in known.disks]
        known.capacity = [list(left) for left in known.left]
        for task_id, held in known.ended.items():
            held.charges = tuple(self._charges(known, held))
            if known.acknowledges(task_id):
                known.add(known.left, held, 1)
                known.add(known.capacity, held, 1)
        held_tasks = known.held.items()
        in_order = sorted(held_tasks, key=lambda item: None in self._places(known, item[1]))
        for task_id, held in in_order:
            self._count(known, task_id, held)

    def _charges(self, known: _OnMachine, held: _Held) -> list[Amounts]:
        """What a task that has ended had of its disks; a disk that is gone gives nothing back."""
        charges: list[Amounts] = []
        # One that ended where no disks were known had none.
        for disk, volume, before in zip(
            held.disks, held.request.volumes, held.charges, strict=False
        ):
            index = known.index.get(disk)
            model = None if index is None else known.disks[index].model
            charges.append(before if model is None else self._requests.charge(model, volume))
        return charges

    def _places(self, known: _OnMachine, held: _Held) -> list[int | None]:
        """The disk of each volume, as far as it is known and there."""
        found: list[int | None] = []
        for volume in range(len(held.request.volumes)):
            ids = [each[volume] for each in (held.given, held.disks) if volume < len(each)]
            found.append(next((known.index[i] for i in ids if i in known.index), None))
        return found

    def _count(self, known: _OnMachine, task_id: str, held: _Held) -> None:
        """Count a task on its disks; for a volume of which the disk is not known one is chosen."""
        if not known.disks:
            held.disks, held.charges = (), ()
            return
        is_acknowledged = known.acknowledges(task_id)
        disks: list[int] = []
        charges: list[Amounts] = []
        places = self._places(known, held)
        for volume, disk in zip(held.request.volumes, places, strict=True):
            chosen = self._choose(known, held.request, volume) if disk is None else disk
            amounts = self._requests.charge(known.disks[chosen].model, volume)
            if is_acknowledged:
                _add(known.capacity[chosen], amounts, 1)
            else:
                _add(known.left[chosen], amounts, -1)
            disks.append(chosen)
            charges.append(amounts)
        held.disks = tuple(known.disks[disk].id for disk in disks)
        held.charges = tuple(charges)

    def _choose(self, known: _OnMachine, request: DiskRequest, volume: VolumeIO) -> int:
        """The fullest disk that has enough left for a stated request. The emptiest for any other,
        and where none has enough."""

        def order(index: int) -> tuple[bool, int, int]:
            left = known.left[index]
            taken = self._requests.charge(known.disks[index].model, volume)
            pairs = zip(taken, left, strict=True)
            fits = all(not asked or asked <= enough for asked, enough in pairs)
            is_fullest_first = request.is_stated and fits
            return not fits, left[2] if is_fullest_first else -left[2], index

        return min(range(len(known.disks)), key=order)

    def _write(self, machine: str, known: _OnMachine) -> None:
        if known.row is not None:
            self._stale_capacity[machine] = None
            disks = self._numbered(known, known.left) if known.is_open else ()
            self._arrays.set(known.row, disks)

    def _numbered(self, known: _OnMachine, amounts: _Left) -> list[tuple[int, Amounts]]:
        pairs = zip(known.disks, amounts, strict=True)
        return [(self._requests.number(disk.model), _cut(left)) for disk, left in pairs]


def _has_same_disks(known: _OnMachine, report: DiskReport) -> bool:
    """Whether a report has the disks of the one before it, open to the same requests."""
    before = known.report
    if before is None or before.refused != report.refused or not known.disks:
        return False
    disks = report.disks[:MAX_DISKS]
    return len(disks) == len(known.disks) and all(
        old.id == new.id and old.model == new.model
        for old, new in zip(known.disks, disks, strict=True)
    )


_ByDisk = dict[str, tuple[str, tuple[int, ...]]]


def _by_disk(known: _OnMachine, amounts: _Left) -> _ByDisk:
    pairs = zip(known.disks, amounts, strict=True)
    return {disk.id: (disk.model, tuple(left)) for disk, left in pairs}


def _open_disks(known: _OnMachine) -> _ByDisk:
    return _by_disk(known, known.left) if known.is_open else {}


def _difference(before: _ByDisk, now: _ByDisk) -> DiskChange:
    """Where disks become known, or are not any more, requests that are not stated see it the other
    way round: they count only there."""
    if bool(before) != bool(now):
        return DiskChange(more=True, less=True)
    return DiskChange(more=_offers_more(now, before), less=_offers_more(before, now))


def _offers_more(one: _ByDisk, other: _ByDisk) -> bool:
    """Whether some disk has more left than the other knows of."""
    for disk, (model, left) in one.items():
        if disk not in other or other[disk][0] != model:
            return True
        if any(mine > theirs for mine, theirs in zip(left, other[disk][1], strict=True)):
            return True
    return False


def _add(amounts: list[int], more: Amounts, times: int) -> None:
    for kind, amount in enumerate(more):
        amounts[kind] += times * amount


def _cut(left: list[int]) -> Amounts:
    read, write, total = left
    if min(left) >= -MAX_BANDWIDTH and max(left) <= MAX_BANDWIDTH:
        return read, write, total
    return cut(read), cut(write), cut(total)
