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


class Satisfying:
    """Answers hold until a machine comes, goes or changes."""

    def __init__(self, state: State, pricing: Pricing) -> None:
        self._state = state
        self._pricing = pricing
        self._as_of = -1
        # The devices of every machine by its row, with nobody there.
        self._devices: list[tuple[int, ...]] = []
        self._known: dict[tuple[tuple[Shape, int], ...], str | None] = {}
        # Who was asked about, and who of them got a complaint.
        self._asked: dict[str, Group] = {}
        self._complaints: dict[str, str] = {}

    def complaints(self, groups: Sequence[Group]) -> dict[str, str]:
        """For those of the groups who can never fit, why; who was asked about before is known."""
        self._start_anew_if_changed()
        before, complaints = self._asked, self._complaints
        self._asked = {group.name: group for group in groups}
        self._complaints = {}
        for group in groups:
            name = group.name
            reason = complaints.get(name) if before.get(name) is group else self.complaint(group)
            if reason is not None:
                self._complaints[name] = reason
        return dict(self._complaints)

    def complaint(self, group: Group) -> str | None:
        """Why the group provably can never fit, even on the empty cluster; None if it may."""
        self._start_anew_if_changed()
        if group.shapes not in self._known:
            self._known[group.shapes] = self._find_out(group)
        return self._known[group.shapes]

    def _start_anew_if_changed(self) -> None:
        if self._as_of != self._state.described or len(self._known) > _KEPT:
            for known in (self._known, self._asked, self._complaints):
                known.clear()
            self._devices = [() for _ in range(len(self._state))]
            for row, machine in self._state.machines():
                self._devices[row] = machine.free_devices()
            self._as_of = self._state.described

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
