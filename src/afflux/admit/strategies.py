"""Strategies: who of those who wait may start now, and who is promised a start.

A strategy walks its queue, first come first, and asks the planner: can this group start at once,
else when? `flow` asks nothing: everybody is let in and cost decides. The others are sequential by
nature; for them the optimiser decides only where.

    fcfs                   nobody starts before one who came first
    easy                   the first who does not fit is promised a start; others may pass him as
                           long as he loses nothing
    hybrid                 as many of those who do not fit are promised a start as the queue says
    conservative-compress  everybody is; promises move to earlier starts, never to later ones
                           (`conservative` for short)
    conservative-rebuild   everybody is, anew in every pass

Other packages can ship strategies as entry points `afflux.strategies`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.metadata import entry_points
from itertools import chain, groupby
from typing import cast

from afflux.admit.planner import Planner
from afflux.model.errors import InputError
from afflux.model.group import Group
from afflux.queue.rules import QueueRules

GROUP = "afflux.strategies"

# Promises of `hybrid` where its queue does not say.
HYBRID_RESERVATIONS = 64

# Groups come in queue order, as many as the queue's depth allows.
Strategy = Callable[[Sequence[Group], Planner, QueueRules], None]


def flow(queue: Sequence[Group], planner: Planner, rules: QueueRules) -> None:
    """Everybody is let in."""
    del rules
    planner.let_in(queue)


def fcfs(queue: Sequence[Group], planner: Planner, rules: QueueRules) -> None:
    """Nobody before one who came first; who can never start is in nobody's way."""
    del rules
    for group in queue:
        if not planner.start(group) and planner.complaint(group) is None:
            return


def easy(queue: Sequence[Group], planner: Planner, rules: QueueRules) -> None:
    """One promise, which is kept also if others come ahead: late members, the rest of a group."""
    _backfill(_after_what_was_promised(queue, planner), planner, rules, 1)


def hybrid(queue: Sequence[Group], planner: Planner, rules: QueueRules) -> None:
    """As many promises as the queue says."""
    most = HYBRID_RESERVATIONS if rules.reservations is None else rules.reservations
    _backfill(queue, planner, rules, most)


def conservative_rebuild(queue: Sequence[Group], planner: Planner, rules: QueueRules) -> None:
    """A promise for everybody, made anew in each pass: some may move to a later start."""
    _backfill(queue, planner, rules, rules.reservations)


def conservative_compress(queue: Sequence[Group], planner: Planner, rules: QueueRules) -> None:
    """A promise for everybody that only ever moves to an earlier start."""
    _backfill(_after_what_was_promised(queue, planner), planner, rules, rules.reservations)


def _after_what_was_promised(queue: Sequence[Group], planner: Planner) -> Iterator[Group]:
    """The queue, but what was promised is held before anybody is asked about.

    Not against newcomers of a higher priority: they are asked about before what was promised below
    them is held. Who has a promise already looks for an earlier start only where nobody's is.
    """
    levels = [list(level) for _, level in groupby(queue, key=lambda group: group.priority)]
    for level in levels[:-1]:
        planner.hold(level)
        yield from (group for group in level if not planner.was_promised(group))
    for level in levels[-1:]:
        planner.hold(level)
    for level in levels[:-1]:
        yield from (group for group in level if planner.was_promised(group))
    yield from chain.from_iterable(levels[-1:])


def _backfill(
    queue: Iterable[Group], planner: Planner, rules: QueueRules, most: int | None
) -> None:
    promises, machines_are_held = 0, False
    for group in queue:
        if machines_are_held and not planner.was_promised(group):
            continue
        if planner.stands(group):
            promises += 1
            continue
        if planner.start(group) or (most is not None and promises >= most):
            continue
        promise = planner.reserve(group)
        if promise is None:
            continue
        if promise.start_seconds is not None:
            promises += 1
        elif rules.holds_for_endless:
            # Only who was promised a start before still gets it: it may be what the head waits for.
            machines_are_held = True


OURS: dict[str, Strategy] = {
    "flow": flow,
    "fcfs": fcfs,
    "easy": easy,
    "hybrid": hybrid,
    "conservative": conservative_compress,
    "conservative-compress": conservative_compress,
    "conservative-rebuild": conservative_rebuild,
}


def find_strategy(name: str, where: str) -> Strategy:
    """The strategy of this name; `where` names the place that asks for it."""
    if name in OURS:
        return OURS[name]
    shipped = {point.name: point for point in entry_points(group=GROUP)}
    if name not in shipped:
        known = ", ".join([*OURS, *sorted(shipped)])
        raise InputError(f"{where}: unknown strategy {name!r}; expected one of {known}")
    try:
        strategy = cast("Strategy", shipped[name].load())
    except Exception as error:
        raise InputError(f"{where}: strategy {name} cannot be loaded: {error}") from error
    if not callable(strategy):
        raise InputError(f"{where}: strategy {name} is {strategy!r}; expected a function")
    return strategy
