"""The order in which the placements of a round can be bound.

Placements are judged with everything else of the round in place, but they are bound one after the
other. A placement *rests on* others if the required affinity of its task fails without them, in
the state before the round: it is bound after them, and not at all if one of them is not bound.
Spread and anti-affinity impose no order. Placements that rest on each other in a *circle* are bound
like a gang, in any order.

A place of the affinity of a task is a pair of a topology key and a domain, for the selector of all
its terms; it is filled by the first task there that the selector selects. A placement rests on the
tasks that fill its places. Of several tasks the one that was filled in first counts: it rests on as
few others as possible, so that thousands of placements rest on one of them and not on each other.
"""

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

import numpy as np

from afflux.cluster.state import State
from afflux.model.placement import Placement
from afflux.model.relations import Relations, TaskLabels
from afflux.plan.strong_components import strong_components

_NO_ORDER: Mapping[str, tuple[str, ...]] = {}


@dataclass(frozen=True, slots=True)
class BindingOrder:
    """`placements` in an order in which they can be bound, those of a circle in a row.

    `rests_on` has, by task id, the ids of the tasks that have to be bound before; all tasks of a
    circle rest on the same tasks outside of it. `circles` are sets of task ids.
    """

    placements: tuple[Placement, ...] = ()
    rests_on: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: _NO_ORDER)
    circles: tuple[frozenset[str], ...] = ()


def binding_order(
    state: State, placements: Sequence[Placement], unconfirmed: Collection[str] = ()
) -> BindingOrder:
    """The order of these placements, none of which is in the state.

    `unconfirmed` are tasks in the state whose own binding may still fail, by id: placements can
    rest on them like on those of the round.
    """
    attracted = {
        each.task.shape.relations for each in placements if each.task.shape.relations.affinity
    }
    if not attracted:
        return BindingOrder(tuple(placements))
    return _Ordering(state, placements, attracted, unconfirmed).result()


# The id of a selector, a topology key, and the number of a domain.
_Place = tuple[int, str, int]
# The id of a selector and a topology key.
_Counted = tuple[int, str]


class _Kind(NamedTuple):
    """Placements with the same kind can take each other's position in the order.

    `needs` are the places that have to be filled, `fills` those that such a placement fills. With
    `is_first_admitted`, a task is admitted as well where none of the tasks that it needs exists.
    """

    needs: tuple[_Place, ...]
    fills: tuple[_Place, ...]
    is_first_admitted: bool


class _Places:
    """Which places tasks fill on a row, and which are filled before the round."""

    def __init__(self, state: State, attracted: Iterable[Relations], rows: Collection[int]) -> None:
        self._index = state.relations
        self._index.use(attracted)
        # The selector of all required affinity terms of a task; by selector, its topology keys.
        self._selector_of: dict[Relations, int] = {}
        self._keys: dict[int, dict[str, None]] = {}
        for relations in attracted:
            if (attracting := relations.attracting) is not None:
                number = self._selector_of[relations] = self._index.selector_id(attracting)
                terms = relations.affinity
                self._keys.setdefault(number, {}).update(
                    (term.topology_key, None) for term in terms
                )
        used = np.fromiter(rows, np.intp, len(rows))
        self._domains = {
            key: state.labels.domains(key) for keys in self._keys.values() for key in keys
        }
        self._domain_of_row = {
            key: dict(zip(used.tolist(), domains[used].tolist(), strict=True))
            for key, domains in self._domains.items()
        }

    def selected_by(self, labels: TaskLabels) -> list[int]:
        """The selectors of required affinity that select a task with these labels."""
        found = self._index.selected.selectors_of(labels)
        return [number for number in found if number in self._keys]

    def filled(self, labels: TaskLabels, row: int) -> tuple[_Place, ...]:
        """The places that a task with these labels fills on a row."""
        return tuple(
            (number, key, domain)
            for number in self.selected_by(labels)
            for key in self._keys[number]
            if (domain := self._domain_of_row[key][row]) >= 0
        )

    def needed(self, relations: Relations, row: int) -> tuple[_Place, ...]:
        """The places that have to be filled for a task with these relations on a row."""
        number = self._selector_of[relations]
        keys = dict.fromkeys(term.topology_key for term in relations.affinity)
        return tuple((number, key, self._domain_of_row[key][row]) for key in keys)

    def filled_before(
        self, wanted: Iterable[_Place], unconfirmed: Mapping[int, Mapping[int, int]]
    ) -> tuple[list[_Place], list[_Counted]]:
        """Those of the wanted places that are filled before the round, and for which selectors and
        keys any place is. `unconfirmed` tasks, by selector and row, do not count."""
        by_counted: dict[_Counted, list[int]] = {}
        for number, key, domain in wanted:
            by_counted.setdefault((number, key), []).append(domain)
        places: list[_Place] = []
        present: list[_Counted] = []
        for (number, key), domains in by_counted.items():
            less = unconfirmed.get(number, {})
            running = self._index.selected.on_rows(number).items()
            rows = np.array([row for row, n in running if n > less.get(row, 0)], np.intp)
            there = set(np.unique(self._domains[key][rows]).tolist()) - {-1}
            places += [(number, key, domain) for domain in domains if domain in there]
            if there:
                present.append((number, key))
        return places, present


class _Ordering:
    """Binds placements on paper: first those that need nothing, then those that these admit, then
    the first tasks of groups that require their own kind, and at last circles."""

    def __init__(
        self,
        state: State,
        placements: Sequence[Placement],
        attracted: Collection[Relations],
        unconfirmed: Collection[str],
    ) -> None:
        self._placements = placements
        self._order: list[int] = []
        self._is_bound = bytearray(len(placements))
        self._rests_on: dict[str, tuple[str, ...]] = {}
        self._circles: list[frozenset[str]] = []
        # The task that fills a place; None if the place is filled before the round.
        self._filled_by: dict[_Place, str | None] = {}
        self._present: set[_Counted] = set()
        # By selector, the first tasks of groups and their needs. Another task that the selector
        # selects would have kept such a task out: it is bound after it.
        self._firsts: dict[int, list[tuple[str, frozenset[_Place]]]] = {}
        # By kind, what waits; how many places it lacks; and the kinds that lack a place.
        self._waiting: dict[_Kind, deque[int]] = {}
        self._lacking: dict[_Kind, int] = {}
        self._lack: dict[_Place, list[_Kind]] = {}
        self._ready: deque[_Kind] = deque()
        self._read(state, attracted, unconfirmed)

    def result(self) -> BindingOrder:
        self._bind_ready()
        # A later task never makes a task the first of its group: each kind is asked once.
        for kind, waiting in self._waiting.items():
            if waiting and kind.is_first_admitted and not self._is_present(kind):
                self._bind_first(kind)
                self._bind_ready()
        self._bind_circles()
        for kind in self._waiting:
            # Only of a plan that breaks a rule: what is bound without the tasks that it needs.
            self._bind_kind(kind)
        if not self._rests_on and not self._circles:
            return BindingOrder(tuple(self._placements))
        ordered = tuple(self._placements[number] for number in self._order)
        return BindingOrder(ordered, self._rests_on, tuple(self._circles))

    def _read(
        self, state: State, attracted: Collection[Relations], unconfirmed: Collection[str]
    ) -> None:
        """Sort the placements by kind, and fill the places that are filled without any order."""
        rows = [state.rows[each.machine] for each in self._placements]
        before = [placed for each in unconfirmed if (placed := state.placed_task(each)) is not None]
        places = _Places(state, attracted, {*rows, *(each.row for each in before)})
        kinds: dict[tuple[Relations, TaskLabels, int], _Kind] = {}
        for number, (placement, row) in enumerate(zip(self._placements, rows, strict=True)):
            task = placement.task
            relations = task.shape.relations
            known = (relations, task.labels, row)
            if known not in kinds:
                fills = places.filled(task.labels, row)
                needs = places.needed(relations, row) if relations.affinity else ()
                is_first = bool(needs) and needs[0][0] in places.selected_by(task.labels)
                kinds[known] = _Kind(needs, fills, is_first)
            self._waiting.setdefault(kinds[known], deque()).append(number)
        uncertain: dict[int, dict[int, int]] = {}
        for each in before:
            for selector in places.selected_by(each.task.labels):
                on_rows = uncertain.setdefault(selector, {})
                on_rows[each.row] = on_rows.get(each.row, 0) + 1
        wanted = dict.fromkeys(place for kind in self._waiting for place in kind.needs)
        filled, present = places.filled_before(wanted, uncertain)
        self._filled_by.update(dict.fromkeys(filled))
        self._present.update(present)
        for kind in self._waiting:
            lacking = [place for place in kind.needs if place not in self._filled_by]
            self._lacking[kind] = len(lacking)
            for place in lacking:
                self._lack.setdefault(place, []).append(kind)
            if not lacking:
                self._ready.append(kind)
        for each in before:
            self._fill(places.filled(each.task.labels, each.row), each.task.id)

    def _bind_ready(self) -> None:
        while self._ready:
            self._bind_kind(self._ready.popleft())

    def _bind_kind(self, kind: _Kind) -> None:
        """Bind everything that waits of a kind whose places are filled."""
        waiting = self._waiting[kind]
        if not waiting:
            return
        first, rests_on = waiting[0], self._anchors(kind)
        while waiting:
            self._bind(waiting.popleft(), rests_on)
        self._fill(kind.fills, self._id(first))

    def _is_present(self, kind: _Kind) -> bool:
        return any((number, key) in self._present for number, key, _ in kind.needs)

    def _bind_first(self, kind: _Kind) -> None:
        """Bind one task of a kind of which no domain has any."""
        number = self._waiting[kind].popleft()
        self._bind(number, self._anchors(kind))
        first = (self._id(number), frozenset(kind.needs))
        self._firsts.setdefault(kind.needs[0][0], []).append(first)
        self._fill(kind.fills, self._id(number))

    def _bind_circles(self) -> None:
        """Bind what needs each other, what is needed by others before these."""
        kind_of = {number: kind for kind, each in self._waiting.items() for number in each}
        # The first two of each kind, and the first two that fill a place: two are enough for each
        # of them to find another one.
        of_kind = {kind: tuple(islice(waiting, 2)) for kind, waiting in self._waiting.items()}
        of_place: dict[_Place, list[int]] = {}
        for kind, first in of_kind.items():
            for place in kind.fills:
                if len(known := of_place.setdefault(place, [])) < 2:
                    known.extend(first)

        def needed(number: int) -> Iterator[int]:
            """For each place that a placement lacks another one that fills it. One of its own kind
            is preferred, as two of them need no third one."""
            kind = kind_of[number]
            for place in kind.needs:
                if place not in self._filled_by:
                    own = of_kind[kind] if place in kind.fills else ()
                    fillers = (*own, *of_place.get(place, ()))
                    found = next((each for each in fillers if each != number), None)
                    if found is not None:
                        yield found

        roots = [waiting[0] for waiting in self._waiting.values() if waiting]
        # Found before any of them is bound; of a set, some may be admitted by another set.
        for found in list(strong_components(roots, needed)):
            circle = [each for each in sorted(found) if not self._is_bound[each]]
            if not circle:
                continue
            kinds = [kind_of[each] for each in circle]
            rests_on = tuple(dict.fromkeys(a for kind in kinds for a in self._anchors(kind)))
            for number, kind in zip(circle, kinds, strict=True):
                self._waiting[kind].remove(number)
                self._bind(number, rests_on)
            if len(circle) > 1:
                self._circles.append(frozenset(self._id(each) for each in circle))
            for number, kind in zip(circle, kinds, strict=True):
                self._fill(kind.fills, self._id(number))
            self._bind_ready()

    def _anchors(self, kind: _Kind) -> tuple[str, ...]:
        """The tasks on which a placement of this kind rests, among those that are bound by now."""
        filled = (self._filled_by.get(place) for place in kind.needs)
        found = dict.fromkeys(each for each in filled if each is not None)
        if self._firsts:
            for selector in dict.fromkeys(number for number, _, _ in kind.fills):
                for task_id, needs in self._firsts.get(selector, ()):
                    if not needs.issubset(kind.fills):
                        found[task_id] = None
        return tuple(found)

    def _bind(self, number: int, rests_on: tuple[str, ...]) -> None:
        self._order.append(number)
        self._is_bound[number] = True
        if rests_on:
            self._rests_on[self._id(number)] = rests_on

    def _fill(self, places: Iterable[_Place], task_id: str) -> None:
        for place in places:
            self._present.add(place[:2])
            if place in self._filled_by:
                continue
            self._filled_by[place] = task_id
            for kind in self._lack.get(place, ()):
                self._lacking[kind] -= 1
                if not self._lacking[kind]:
                    self._ready.append(kind)

    def _id(self, number: int) -> str:
        return self._placements[number].task.id
