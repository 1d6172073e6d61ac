"""Whether a group could ever start: on the machines there are, if nothing ran on them."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from afflux.cluster.state import State
from afflux.model.group import Group
from afflux.model.task import Shape
from afflux.network.pricing import Pricing
from afflux.plan.book import Book
from afflux.plan.gangs import place_gang
from afflux.policies import fit

# Answers that are kept.
_KEPT = 100_000
# How many may be remembered for nothing, besides as many as are there.
_GONE = 16
# What one report may spend on new answers, about a tenth of a second. An answer costs the machines
# that are looked at for each class, and something besides; that several classes do not fit together
# is a search of its own.
MOST_EFFORT = 1_000_000
OF_EACH_CLASS = 1_000
OF_EACH_SEARCH = 100_000

# Who asks for the same gets the same answer.
_Kind = tuple[tuple[Shape, int], ...]


class Satisfying:
    """Answers hold until a machine comes, goes or changes."""

    def __init__(self, state: State, pricing: Pricing) -> None:
        self._state = state
        self._pricing = pricing
        self._as_of = -1
        # The devices of every machine by its row, with nobody there.
        self._devices: list[tuple[int, ...]] = []
        self._known: dict[_Kind, str | None] = {}
        # What was answered before machines changed, the oldest answer first.
        self._former: dict[_Kind, str | None] = {}
        # Who was reported on, and who of them got a complaint.
        self._asked: dict[str, Group] = {}
        self._complaints: dict[str, str] = {}

    def complaints(self, groups: Sequence[Group]) -> dict[str, str]:
        """A report: for those of the groups who can never fit, why.

        Where so many different ones wait that there is not the time for all of them, the others
        keep the answer they had before machines changed, until a later report comes to them: new
        ones first, then those whose answer is the oldest.
        """
        self._start_anew_if_changed()
        due: dict[_Kind, list[Group]] = {}
        # Most were asked about before, and there are cycles after every event: only this is done
        # for everybody.
        for group in [group for group in groups if self._asked.get(group.name) is not group]:
            due.setdefault(group.shapes, []).append(group)
        age = {kind: number for number, kind in enumerate(self._former)} if due else {}
        effort_left = MOST_EFFORT
        former: dict[str, str] = {}
        for kind in sorted(due, key=lambda kind: age.get(kind, -1)):
            alike, is_new = due[kind], kind not in self._known
            if is_new and effort_left <= 0:
                reason = self._former.get(kind)
                former.update({group.name: reason for group in alike if reason is not None})
                continue
            reason = self.complaint(alike[0])
            effort_left -= self._effort(kind, reason) if is_new else 0
            self._note(alike, reason)
        self._forget_the_gone(groups)
        complaints = self._complaints | former
        if not complaints:
            return complaints
        return {g.name: complaints[g.name] for g in groups if g.name in complaints}

    def _note(self, groups: Sequence[Group], reason: str | None) -> None:
        for group in groups:
            self._asked[group.name] = group
            self._complaints.pop(group.name, None)
            if reason is not None:
                self._complaints[group.name] = reason

    def _forget_the_gone(self, groups: Sequence[Group]) -> None:
        if len(self._asked) > 2 * len(groups) + _GONE:
            there = {group.name for group in groups}
            self._asked = {name: g for name, g in self._asked.items() if name in there}
            self._complaints = {n: why for n, why in self._complaints.items() if n in there}

    def complaint(self, group: Group) -> str | None:
        """Why the group provably can never fit, even on the empty cluster; None if it may."""
        self._start_anew_if_changed()
        kind = group.shapes
        if kind not in self._known:
            self._known[kind] = self._find_out(group)
            self._former.pop(kind, None)
        return self._known[kind]

    def _start_anew_if_changed(self) -> None:
        if self._as_of == self._state.described and len(self._known) <= _KEPT:
            return
        self._former.update(self._known)
        if len(self._former) > _KEPT:
            self._former.clear()
        for known in (self._known, self._asked, self._complaints):
            known.clear()
        self._devices = [() for _ in range(len(self._state))]
        for row, machine in self._state.machines():
            self._devices[row] = machine.free_devices()
        self._as_of = self._state.described

    def _effort(self, kind: _Kind, reason: str | None) -> int:
        each = OF_EACH_CLASS + len(self._state)
        if len(kind) == 1:
            return each
        return 2 * len(kind) * each + (0 if reason is None else OF_EACH_SEARCH)

    def _find_out(self, group: Group) -> str | None:
        state = self._state
        if not state.rows:
            # Machines are on their way: a cluster without any says nothing about groups.
            return None
        for shape, count in ((_lasting(shape), count) for shape, count in group.shapes):
            requests = state.requests(shape)
            asked = np.flatnonzero(requests)
            room = fit.room(state.view().capacities[:, asked], requests[asked])
            if shape.devices is not None:
                np.minimum(room, fit.device_room(self._devices, shape.devices), out=room)
            total = int(np.minimum(room[self._pricing.prices(shape).admitted], count).sum())
            if total < count:
                wanted = f"{count} of its members" if group.is_gang else "it"
                found = f"for {total} of them" if total else "nowhere"
                return f"needs room for {wanted} at once; the empty cluster has it {found}"
        if len(group.shapes) > 1 and not self._fits_together(group):
            return "its members do not fit together, even on the empty cluster"
        return None

    def _fits_together(self, group: Group) -> bool:
        shapes = [_lasting(shape) for shape, _ in group.shapes]
        prices = [self._pricing.prices(shape) for shape in shapes]
        book = Book(self._state, shapes, prices)
        capacity = self._state.view().capacities[:, book.columns]
        admitted = np.array([price.admitted for price in prices])
        book.foresee(capacity.copy(), list(self._devices), admitted)
        return place_gang(book, dict(enumerate(count for _, count in group.shapes)))


def _lasting(shape: Shape) -> Shape:
    """The shape without what only holds because of what runs now."""
    if not any(places.passing for places in shape.places):
        return shape
    return replace(shape, places=tuple(each for each in shape.places if not each.passing))
