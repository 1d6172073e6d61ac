"""Preselection: when not everything fits, chooses the tasks that go through the network first.

The network knows how many tasks of a class fit on a machine, but not that all classes share its
CPU and memory: at high load it would give the same capacity to several classes. So the cluster is
first treated as one large machine: a knapsack with a few resources, relaxed to a linear program.
Its dual prices give

- a size for every class: the price of what one task requests,
- an order: by waiting cost saved per size, best first,
- a bound: the lowest waiting cost that any plan leaves.

Only the tasks that fit into the large machine in this order go through the network; the others are
placed afterwards, where capacity is left.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from afflux.plan.book import Book
from afflux.plan.single_class_knapsack import choose
from afflux.plan.waiting_demand import Gang, Level, Singles

# Passes over the resources, and bisection steps per price.
PRICE_PASSES = 6
BISECTION_STEPS = 30


@dataclass(frozen=True, slots=True)
class Preselection:
    """The number of `singles` of each class and the `gangs` (by position) that go first.

    Any plan leaves a waiting cost of at least `waiting_bound`; with `exact` this choice reaches it.
    """

    singles: dict[int, int]
    gangs: frozenset[int]
    waiting_bound: int
    exact: bool = False


@dataclass(frozen=True, slots=True)
class _Candidate:
    """Singles of one class, or one gang: the request of one, and the waiting cost of each."""

    item: Singles | Gang
    request: NDArray[np.int64]
    waiting_costs: NDArray[np.int64]


def preselect(book: Book, level: Level) -> Preselection | None:
    """What goes first, or None if the cluster as a whole has room for everything."""
    if len(book.classes) == 1 and book.classes[0].shape.room_adds_up and not book.rules:
        room = int(book.packing.rooms(0).sum())
        if room >= level.waiting_tasks():
            return None
        exact = _preselect_one_class(level, room)
        if exact is not None:
            return exact
    candidates = _candidates(book, level)
    usable = book.packing.usable_machines()
    free = np.maximum(book.packing.free()[usable], 0).sum(axis=0).astype(np.float64)
    requests = np.array([each.request for each in candidates], np.float64).reshape(-1, len(free))
    counts = np.array([len(candidate.waiting_costs) for candidate in candidates], np.float64)
    if not np.any(counts @ requests > free):
        return None
    waiting_cost = np.array([candidate.waiting_costs.mean() for candidate in candidates])
    prices = _prices(requests, counts, waiting_cost, free)
    paid = requests @ prices
    # The waiting costs within a class differ: each task counts with its own.
    pairs = zip(candidates, paid, strict=True)
    kept = [np.maximum(each.waiting_costs - price, 0).sum() for each, price in pairs]
    gain = sum(kept) + prices @ free
    waiting_bound = int(max(0.0, waiting_cost @ counts - gain) * (1 - 1e-9))
    singles: dict[int, int] = {}
    gangs: set[int] = set()
    for index in map(int, np.argsort(paid / waiting_cost, kind="stable")):
        candidate = candidates[index]
        asked = requests[index] > 0
        fitting = len(candidate.waiting_costs)
        if asked.any():
            fitting = min(fitting, int((free[asked] / requests[index][asked]).min()))
        if fitting <= 0:
            continue
        free -= fitting * requests[index]
        if isinstance(candidate.item, Gang):
            gangs.add(candidate.item.position)
        else:
            singles[candidate.item.class_index] = fitting
    return Preselection(singles, frozenset(gangs), waiting_bound)


def _preselect_one_class(level: Level, room: int) -> Preselection | None:
    gangs = level.waiting_gangs()
    singles = level.singles.get(0)
    waiting: list[int] = []
    if singles is not None:
        waiting = singles.waiting_costs[singles.placed_count :].tolist()
    items = [(len(gang.group.tasks), gang.waiting_cost) for gang in gangs]
    chosen = choose(items, waiting, room)
    if chosen is None:
        return None
    indices, alone = chosen
    kept = sum(items[index][1] for index in indices) + sum(waiting[:alone])
    first = 0 if singles is None else singles.placed_count
    return Preselection(
        singles={0: first + alone} if alone else {},
        gangs=frozenset(gangs[index].position for index in indices),
        waiting_bound=level.waiting_cost() - kept,
        exact=True,
    )


def _candidates(book: Book, level: Level) -> list[_Candidate]:
    candidates = [
        _Candidate(s, book.requests[s.class_index], s.waiting_costs[s.placed_count :])
        for s in level.singles.values()
        if s.waiting_count
    ]
    for gang in level.waiting_gangs():
        request = np.zeros(book.requests.shape[1], np.int64)
        for number, count in gang.need.items():
            request += count * book.requests[number]
        candidates.append(_Candidate(gang, request, np.array([gang.waiting_cost])))
    return candidates


def _prices(
    requests: NDArray[np.float64],
    counts: NDArray[np.float64],
    waiting_cost: NDArray[np.float64],
    free: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Prices at which the tasks that cost less than they save fit: by bisection, one resource after
    the other. Any prices give a valid bound; these are close to the best."""
    prices = np.zeros(len(free))
    scarce = np.flatnonzero((counts @ requests > free) & (free > 0))
    for _ in range(PRICE_PASSES if len(scarce) > 1 else 1):
        for resource in scarce:
            asking = requests[:, resource] > 0
            low, high = 0.0, float((waiting_cost[asking] / requests[asking, resource]).max()) * 2
            for _ in range(BISECTION_STEPS):
                prices[resource] = (low + high) / 2
                chosen = counts * (waiting_cost > requests @ prices)
                if chosen @ requests[:, resource] > free[resource]:
                    low = prices[resource]
                else:
                    high = prices[resource]
    return prices
