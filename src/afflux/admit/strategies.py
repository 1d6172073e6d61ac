"""Strategies: which waiting groups may start now, and which get a reservation.

A strategy walks its queue in order and asks the planner: can this group start at once, else when?
`flow` asks nothing: it admits all groups, and cost decides. The others are sequential by nature;
for them the optimiser decides only where groups are placed.

    fcfs                   no group starts before one that is ahead of it
    easy                   the first group that does not fit gets a reservation; others may pass it
                           as long as they do not delay it (EASY backfilling, Lifka 1995)
    hybrid                 the first N groups that do not fit get reservations
    conservative-compress  all groups get reservations, which only move to earlier starts
                           (`conservative` for short)
    conservative-rebuild   all groups get reservations, which are made anew in every pass

Other packages can add strategies as entry points `afflux.strategies`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.metadata import entry_points
from itertools import chain, groupby
from typing import cast

from afflux.admit.capacity_planner import Planner
from afflux.model.errors import InputError
from afflux.model.waiting_group import WaitingGroup
from afflux.queue.rules import QueueRules

ENTRY_POINT_GROUP = "afflux.strategies"

# The reservations of `hybrid` if its queue does not say.
DEFAULT_HYBRID_RESERVATIONS = 64

# Groups come in queue order, as many as the queue's depth allows.
Strategy = Callable[[Sequence[WaitingGroup], Planner, QueueRules], None]


def flow(queue: Sequence[WaitingGroup], planner: Planner, rules: QueueRules) -> None:
    """Admit all groups; cost decides which of them start."""
    del rules
    planner.admit_without_reservation(queue)


def fcfs(queue: Sequence[WaitingGroup], planner: Planner, rules: QueueRules) -> None:
    """Start groups in order until one does not fit; groups that can never start are skipped."""
    del rules
    for group in queue:
        if not planner.start(group) and planner.infeasible_reason(group) is None:
            return


def easy(queue: Sequence[WaitingGroup], planner: Planner, rules: QueueRules) -> None:
    """One reservation, which is also kept if other groups come ahead: late members, for example."""
    _backfill(_after_renewal(queue, planner), planner, rules, 1)


def hybrid(queue: Sequence[WaitingGroup], planner: Planner, rules: QueueRules) -> None:
    """As many reservations as the queue says."""
    most = rules.max_reservations
    _backfill(queue, planner, rules, DEFAULT_HYBRID_RESERVATIONS if most is None else most)


def conservative_rebuild(
    queue: Sequence[WaitingGroup], planner: Planner, rules: QueueRules
) -> None:
    """A reservation for every group, made anew in each pass: some may move to a later start."""
    _backfill(queue, planner, rules, rules.max_reservations)


def conservative_compress(
    queue: Sequence[WaitingGroup], planner: Planner, rules: QueueRules
) -> None:
    """A reservation for every group, which only ever moves to an earlier start."""
    _backfill(_after_renewal(queue, planner), planner, rules, rules.max_reservations)


def _after_renewal(queue: Sequence[WaitingGroup], planner: Planner) -> Iterator[WaitingGroup]:
    """The groups of the queue, after earlier reservations have been renewed.

    Priority by priority: the reservations of a priority are renewed before its new groups come,
    but after the new groups of higher priorities. Groups with a reservation come after all
    renewals, so that they move to an earlier start only where they delay no other reservation.
    """
    levels = [list(level) for _, level in groupby(queue, key=lambda group: group.priority)]
    for level in levels[:-1]:
        planner.renew(level)
        yield from (group for group in level if not planner.had_reservation(group))
    for level in levels[-1:]:
        planner.renew(level)
    for level in levels[:-1]:
        yield from (group for group in level if planner.had_reservation(group))
    yield from chain.from_iterable(levels[-1:])


def _backfill(
    queue: Iterable[WaitingGroup], planner: Planner, rules: QueueRules, max_reservations: int | None
) -> None:
    reservations, holds_machines = 0, False
    for group in queue:
        if holds_machines and not planner.had_reservation(group):
            continue
        if planner.confirm(group):
            reservations += 1
            continue
        if planner.start(group):
            continue
        if max_reservations is not None and reservations >= max_reservations:
            continue
        reservation = planner.reserve(group)
        if reservation is None:
            continue
        if reservation.start_seconds is not None:
            reservations += 1
        elif rules.hold_for_endless:
            # All machines are held for this group, except for groups that had a reservation
            # before: this group may wait for them.
            holds_machines = True


BUILT_IN: dict[str, Strategy] = {
    "flow": flow,
    "fcfs": fcfs,
    "easy": easy,
    "hybrid": hybrid,
    "conservative": conservative_compress,
    "conservative-compress": conservative_compress,
    "conservative-rebuild": conservative_rebuild,
}


def find_strategy(name: str, where: str) -> Strategy:
    """The strategy of this name; `where` is the place in the input that names it, for errors."""
    if name in BUILT_IN:
        return BUILT_IN[name]
    shipped = {point.name: point for point in entry_points(group=ENTRY_POINT_GROUP)}
    if name not in shipped:
        known = ", ".join([*BUILT_IN, *sorted(shipped)])
        raise InputError(f"{where}: unknown strategy {name!r}; expected one of {known}")
    try:
        strategy = cast("Strategy", shipped[name].load())
    except Exception as error:
        raise InputError(f"{where}: strategy {name} cannot be loaded: {error}") from error
    if not callable(strategy):
        raise InputError(f"{where}: strategy {name} is {strategy!r}; expected a function")
    return strategy
