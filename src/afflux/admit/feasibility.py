"""Feasibility: whether a group could start on the existing machines if nothing ran on them."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from afflux.cluster.disk_columns import DiskColumns
from afflux.cluster.state import State
from afflux.cluster.task_class import TaskClass
from afflux.cluster.task_room import FreeCapacity, room_of
from afflux.model.relations import NO_RELATIONS, TaskLabels
from afflux.model.task import Shape
from afflux.model.waiting_group import WaitingGroup
from afflux.network.pricing import Pricing
from afflux.plan.book import Book, counted_columns

MAX_CACHED_ANSWERS = 100_000
# What the shapes of cached answers name together (see `Shape.parts`), about 100 MB.
MAX_CACHED_PARTS = 1_000_000
# So many groups that no longer wait may stay in memory, besides as many as wait.
MAX_GONE_GROUPS = 16
# The effort for new answers in one report, about a tenth of a second. An answer costs the machines
# that are examined for each class and a fixed amount; a search for several classes costs more.
MAX_EFFORT = 1_000_000
EFFORT_PER_CLASS = 1_000
EFFORT_PER_SEARCH = 100_000

# Groups that ask for the same share an answer: their shapes, and the labels of their members if
# these may repel each other.
_Kind = tuple[tuple[tuple[Shape, int], ...], frozenset[TaskLabels]]


class Feasibility:
    """Answers are cached until a machine comes, goes or changes; those about groups that do
    something on disks until the bandwidth of a disk without its tasks changes, too."""

    def __init__(self, state: State, pricing: Pricing) -> None:
        self._state = state
        self._pricing = pricing
        self._as_of = -1
        self._disks_as_of = 0
        # The devices of every machine by its row, all of them free.
        self._devices: list[tuple[int, ...]] = []
        # The disks without any tasks, if an answer has needed them.
        self._disks: DiskColumns | None = None
        self._answers: dict[_Kind, str | None] = {}
        self._answered_parts = 0
        # Answers from before machines changed, the oldest first.
        self._old_answers: dict[_Kind, str | None] = {}
        # The groups of earlier reports, and the reasons of those that are infeasible.
        self._reported: dict[str, WaitingGroup] = {}
        self._reasons: dict[str, str] = {}

    def infeasible_reasons(self, groups: Sequence[WaitingGroup]) -> dict[str, str]:
        """A report: the groups that can never fit, with the reason.

        If there are too many different groups for one report, the rest keeps its answers from
        before machines changed. Later reports renew them: new groups first, then the oldest
        answers.
        """
        self._start_anew_if_changed()
        due: dict[_Kind, list[WaitingGroup]] = {}
        # Most groups were in the last report; only this comparison is made for every group.
        for group in [group for group in groups if self._reported.get(group.key) is not group]:
            due.setdefault(_kind_of(group), []).append(group)
        age = {kind: number for number, kind in enumerate(self._old_answers)} if due else {}
        effort_left = MAX_EFFORT
        old_reasons: dict[str, str] = {}
        for kind in sorted(due, key=lambda kind: age.get(kind, -1)):
            alike, is_new = due[kind], kind not in self._answers
            if is_new and effort_left <= 0:
                reason = self._old_answers.get(kind)
                old_reasons.update({group.key: reason for group in alike if reason is not None})
                continue
            reason = self.infeasible_reason(alike[0])
            effort_left -= self._effort(kind, reason) if is_new else 0
            self._note(alike, reason)
        self._forget_gone_groups(groups)
        reasons = self._reasons | old_reasons
        return {g.key: reasons[g.key] for g in groups if g.key in reasons} if reasons else {}

    def infeasible_reason(self, group: WaitingGroup) -> str | None:
        """Why the group provably can never fit, even on the empty cluster; None if it may."""
        self._start_anew_if_changed()
        kind = _kind_of(group)
        if kind not in self._answers:
            self._answers[kind] = self._compute(group)
            self._answered_parts += _parts(kind)
            self._old_answers.pop(kind, None)
        return self._answers[kind]

    def _note(self, groups: Sequence[WaitingGroup], reason: str | None) -> None:
        for group in groups:
            self._reported[group.key] = group
            self._reasons.pop(group.key, None)
            if reason is not None:
                self._reasons[group.key] = reason

    def _forget_gone_groups(self, groups: Sequence[WaitingGroup]) -> None:
        if len(self._reported) > 2 * len(groups) + MAX_GONE_GROUPS:
            there = {group.key for group in groups}
            self._reported = {name: g for name, g in self._reported.items() if name in there}
            self._reasons = {name: why for name, why in self._reasons.items() if name in there}

    def _start_anew_if_changed(self) -> None:
        if self._disks_as_of != self._state.disks.capacity_version:
            self._forget_disks()
        too_many_parts = self._answered_parts > MAX_CACHED_PARTS
        too_many = len(self._answers) > MAX_CACHED_ANSWERS or too_many_parts
        if self._as_of == self._state.machines_version and not too_many:
            return
        self._old_answers.update(self._answers)
        if len(self._old_answers) > MAX_CACHED_ANSWERS or too_many_parts:
            self._old_answers.clear()
        self._answered_parts = sum(map(_parts, self._old_answers))
        for cache in (self._answers, self._reported, self._reasons):
            cache.clear()
        self._devices = [() for _ in range(len(self._state))]
        for row, machine in self._state.machines():
            self._devices[row] = machine.free_devices()
        self._as_of = self._state.machines_version

    def _forget_disks(self) -> None:
        self._disks_as_of = self._state.disks.capacity_version
        self._disks = None
        for kind in [kind for kind in self._answers if _uses_disks(kind)]:
            self._old_answers[kind] = self._answers.pop(kind)
            self._answered_parts -= _parts(kind)
        for key in [key for key, g in self._reported.items() if _uses_disks(_kind_of(g))]:
            del self._reported[key]
            self._reasons.pop(key, None)

    def _empty_disks(self) -> DiskColumns:
        if self._disks is None:
            self._disks = self._state.disks.capacity(len(self._state))
        return self._disks

    def _effort(self, kind: _Kind, reason: str | None) -> int:
        each = EFFORT_PER_CLASS + len(self._state)
        shapes = len(kind[0])
        if shapes == 1:
            return each
        return 2 * shapes * each + (0 if reason is None else EFFORT_PER_SEARCH)

    def _compute(self, group: WaitingGroup) -> str | None:
        state = self._state
        if not state.rows:
            # The machines have not been reported yet.
            return None
        for shape, count in group.shapes:
            requests = state.requests(shape)
            asked = np.flatnonzero(requests)
            rows: list[int] = self._pricing.prices(shape).rows.tolist()
            capacity = state.view(np.array(rows, np.intp)).capacity_of(asked)
            disks = None
            if shape.disks is not None:
                disks = self._empty_disks().of_rows(np.array(rows, np.intp))
            free = FreeCapacity(capacity, [self._devices[row] for row in rows], disks)
            room = room_of(requests[asked], shape, free)
            if (reason := self._unmet_disks(group, shape, free, room)) is not None:
                return reason
            if (reason := self._unmet_relations(group, shape, rows, room)) is not None:
                return reason
            total = int(np.minimum(room, count).sum())
            if total < count:
                wanted = f"{count} of its members" if group.is_gang else "it"
                found = f"for {total} of them" if total else "nowhere"
                return f"needs room for {wanted} at once; the empty cluster has it {found}"
        if len(group.shapes) > 1 and not self._fits_together(group):
            return "its members do not fit together, even on the empty cluster"
        return None

    def _unmet_relations(
        self, group: WaitingGroup, shape: Shape, rows: list[int], room: NDArray[np.int64]
    ) -> str | None:
        """A constraint between tasks that no other tasks, running or not, could help to meet."""
        relations, domains = shape.relations, self._state.labels.domains
        usable = np.array(rows, np.intp)[room > 0]
        needed = [term.topology_key for term in relations.affinity]
        needed += [each.topology_key for each in relations.spread if each.required]
        for key in dict.fromkeys(needed) if len(usable) else ():
            if not (domains(key)[usable] >= 0).any():
                return f"needs a node with the label {key}; none that admits it has the label"
        members = [task.labels for task in group.tasks if task.shape == shape]
        for term in relations.anti_affinity if len(members) > 1 else ():
            own = domains(term.topology_key)[usable]
            different = len(np.unique(own))
            repel_each_other = all(
                each.namespace in term.selector.namespaces and term.selector.matches_labels(each)
                for each in members
            )
            if repel_each_other and (own >= 0).all() and different < len(members):
                return (
                    f"needs {len(members)} different values of the label {term.topology_key} for"
                    f" members that repel each other; the nodes that admit them have {different}"
                )
        return None

    def _unmet_disks(
        self, group: WaitingGroup, shape: Shape, free: FreeCapacity, room: NDArray[np.int64]
    ) -> str | None:
        """Why disks without any tasks have too little bandwidth, if there is other room enough."""
        if free.disks is None:
            return None
        count = dict(group.shapes)[shape]
        total = int(np.minimum(room, count).sum())
        requests = self._state.requests(shape)
        elsewhere = room_of(requests[requests > 0], shape, replace(free, disks=None))
        if total >= count or int(np.minimum(elsewhere, count).sum()) < count:
            return None
        if not (free.disks.model >= 0).any():
            return "states what it does on disks; no node that admits it reports its disks"
        wanted = f"{count} of its members" if group.is_gang else "it"
        found = f"for {total} of them" if total else "nowhere"
        return f"needs disk bandwidth for {wanted} at once; the empty cluster has it {found}"

    def _fits_together(self, group: WaitingGroup) -> bool:
        shapes = [shape for shape, _ in group.shapes]
        prices = [self._pricing.prices(shape) for shape in shapes]
        requests = np.array([self._state.requests(shape) for shape in shapes])
        capacity = self._state.view().capacities[:, counted_columns(self._state, requests)]
        # Other tasks may come and go: their constraints never make a group infeasible.
        classes = [TaskClass(replace(shape, relations=NO_RELATIONS)) for shape in shapes]
        disks = self._empty_disks() if any(shape.disks for shape in shapes) else None
        book = Book(self._state, classes, prices, FreeCapacity(capacity, self._devices, disks))
        return book.place_gang(dict(enumerate(count for _, count in group.shapes)))


def _kind_of(group: WaitingGroup) -> _Kind:
    if all(not shape.relations.anti_affinity for shape, _ in group.shapes):
        return group.shapes, frozenset()
    return group.shapes, frozenset(task.labels for task in group.tasks)


def _uses_disks(kind: _Kind) -> bool:
    return any(shape.disks is not None for shape, _ in kind[0])


def _parts(kind: _Kind) -> int:
    return sum(shape.parts for shape, _ in kind[0])
