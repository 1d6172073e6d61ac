"""Rationing: when not everything can fit, who is worth the room.

The network knows how many tasks of a class fit on a machine, not that all classes share its CPU
and memory; at high load it would promise the same room to several. So the cluster as a whole is
looked at first, as one large machine: a knapsack with a few resources, relaxed to a linear program.
Its dual gives each resource a price, and with it

- a size for every class: what one task takes of the scarce resources at these prices,
- an order: worth of not waiting per size, best first,
- a bound: whatever is placed, at least so much has to wait.

Only those who fit into the large machine in this order are sent through the network; the others
are tried afterwards, wherever something is left.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from afflux.plan.book import Book
from afflux.plan.demand import Gang, Level, Singles
from afflux.plan.knapsack import choose

# Sweeps over the resources, and halvings per price, when prices are sought.
SWEEPS = 6
HALVINGS = 30


@dataclass(frozen=True, slots=True)
class Ration:
    """`singles` of each class and which `gangs` (by position) go first; what has to wait costs at
    least `waiting_bound`, and if the ration is `exact` nothing else would cost less."""

    singles: dict[int, int]
    gangs: frozenset[int]
    waiting_bound: int
    exact: bool = False


@dataclass(frozen=True, slots=True)
class _Bid:
    """Singles of one class, or one gang: what one of them asks for, and what each is worth."""

    item: Singles | Gang
    request: NDArray[np.int64]
    worths: NDArray[np.int64]


def ration(book: Book, level: Level) -> Ration | None:
    """Who goes first, or None if the cluster as a whole has room for everybody."""
    if len(book.shapes) == 1 and book.shapes[0].devices is None:
        room = int(book.room[0].sum())
        if room >= level.waiting_tasks():
            return None
        exact = _of_one_class(level, room)
        if exact is not None:
            return exact
    bids = _bids(book, level)
    usable = book.admitted.any(axis=0)
    free = np.maximum(book.free[usable], 0).sum(axis=0).astype(np.float64)
    requests = np.array([bid.request for bid in bids], np.float64).reshape(-1, len(free))
    counts = np.array([len(bid.worths) for bid in bids], np.float64)
    if not np.any(counts @ requests > free):
        return None
    worth = np.array([bid.worths.mean() for bid in bids])
    prices = _prices(requests, counts, worth, free)
    paid = requests @ prices
    # Within a class the longest waiting are worth more than its mean: each counts for itself.
    kept = [np.maximum(bid.worths - price, 0).sum() for bid, price in zip(bids, paid, strict=True)]
    gain = sum(kept) + prices @ free
    waiting_bound = int(max(0.0, worth @ counts - gain) * (1 - 1e-9))
    singles: dict[int, int] = {}
    gangs: set[int] = set()
    for index in map(int, np.argsort(paid / worth, kind="stable")):
        bid = bids[index]
        asked = requests[index] > 0
        fitting = len(bid.worths)
        if asked.any():
            fitting = min(fitting, int((free[asked] / requests[index][asked]).min()))
        if fitting <= 0:
            continue
        free -= fitting * requests[index]
        if isinstance(bid.item, Gang):
            gangs.add(bid.item.position)
        else:
            singles[bid.item.class_index] = fitting
    return Ration(singles, frozenset(gangs), waiting_bound)


def _of_one_class(level: Level, room: int) -> Ration | None:
    gangs = level.waiting_gangs()
    singles = level.singles.get(0)
    waiting: list[int] = []
    if singles is not None:
        waiting = singles.waiting[singles.taken :].tolist()
    items = [(len(gang.group.tasks), gang.worth) for gang in gangs]
    chosen = choose(items, waiting, room)
    if chosen is None:
        return None
    indices, alone = chosen
    kept = sum(items[index][1] for index in indices) + sum(waiting[:alone])
    first = 0 if singles is None else singles.taken
    return Ration(
        singles={0: first + alone} if alone else {},
        gangs=frozenset(gangs[index].position for index in indices),
        waiting_bound=level.waiting_cost() - kept,
        exact=True,
    )


def _bids(book: Book, level: Level) -> list[_Bid]:
    bids = [
        _Bid(s, book.requests[s.class_index], s.waiting[s.taken :])
        for s in level.singles.values()
        if s.left
    ]
    for gang in level.waiting_gangs():
        request = np.zeros(book.requests.shape[1], np.int64)
        for number, count in gang.need.items():
            request += count * book.requests[number]
        bids.append(_Bid(gang, request, np.array([gang.worth])))
    return bids


def _prices(
    requests: NDArray[np.float64],
    counts: NDArray[np.float64],
    worth: NDArray[np.float64],
    free: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Prices at which what is still worth its price fits: one resource after the other, by
    halving. Any prices give a valid bound; these are close to the best."""
    prices = np.zeros(len(free))
    scarce = np.flatnonzero((counts @ requests > free) & (free > 0))
    for _ in range(SWEEPS if len(scarce) > 1 else 1):
        for resource in scarce:
            asking = requests[:, resource] > 0
            low, high = 0.0, float((worth[asking] / requests[asking, resource]).max()) * 2
            for _ in range(HALVINGS):
                prices[resource] = (low + high) / 2
                taken = counts * (worth > requests @ prices)
                if taken @ requests[:, resource] > free[resource]:
                    low = prices[resource]
                else:
                    high = prices[resource]
    return prices
