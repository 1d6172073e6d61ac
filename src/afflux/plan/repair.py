"""The finish of a round: search that closes what the network left open.

The network does not know that classes compete for the same CPU and memory of a machine, so at high
load some tasks are refused although everything would fit after a few moves. Three searches mend
that, all on tasks placed in this very round, all exact, all bounded:

- insertion: waiting tasks go wherever they still fit, the tightest machine first;
- ejection chains: a waiting task takes a machine, pushing one or two tasks from it to other
  machines, which may push again; or a large task gives way for two smaller ones;
- descent: tasks move, or change places, while that makes the plan cheaper.
"""

import numpy as np
from numpy.typing import NDArray

from afflux.plan.book import Book
from afflux.plan.demand import Demand, Level, Singles
from afflux.plan.gangs import place_gang

# Changes of the book that one level may try before it is left as it is.
CHAIN_EFFORT = 4_000
DESCENT_EFFORT = 2_000
# How long a chain of pushes may get, and how many ways to push are tried at each of its links.
CHAIN_LENGTH = 3
CHAIN_WIDTH = 12
# Placements among which pairs are searched for an exchange that pays.
EXCHANGE_PLACES = 200


def finish(book: Book, demand: Demand, level: Level) -> None:
    """Place what is left of a level, by moving what was placed in this round if need be."""
    _insert(book, level)
    chains = _Chains(book, CHAIN_EFFORT)
    for singles in _by_wait(level):
        while singles.left and chains.insert(singles.class_index, CHAIN_LENGTH):
            singles.taken += 1
    while _give_way(book, level, chains):
        _insert(book, level)
    _descend(book)
    if any(singles.left for singles in level.singles.values()) or level.waiting_gangs():
        sweep(book, demand)


def sweep(book: Book, demand: Demand) -> None:
    """Leave no group waiting for which there is room as things stand."""
    while any([_insert(book, level) for level in demand.levels]):
        pass


def _by_wait(level: Level) -> list[Singles]:
    waiting = [singles for singles in level.singles.values() if singles.left]
    return sorted(waiting, key=lambda singles: singles.positions[singles.taken])


def _insert(book: Book, level: Level) -> bool:
    """Put waiting groups where they fit, in queue order; whether anybody found a place."""
    usable = book.room.any(axis=1)
    found = False
    items: list[tuple[int, Singles | None, int]] = [
        (singles.positions[singles.taken], singles, 0)
        for singles in level.singles.values()
        if singles.left and usable[singles.class_index]
    ]
    gangs = [
        gang for gang in level.waiting_gangs() if all(usable[number] for number in gang.need)
    ]
    items += [(gang.position, None, index) for index, gang in enumerate(gangs)]
    for _, singles, index in sorted(items, key=lambda item: item[0]):
        if singles is None:
            gangs[index].placed = place_gang(book, gangs[index].need)
            found |= gangs[index].placed
            continue
        while singles.left and (row := _tightest(book, singles.class_index)) is not None:
            book.place(singles.class_index, row)
            singles.taken += 1
            found = True
    return found


def _tightest(book: Book, number: int) -> int | None:
    """The machine with room for a task of this class that has least left; the cheaper of equals."""
    rows = np.flatnonzero(book.room[number])
    if not len(rows):
        return None
    left = (book.free[rows] / book.scale).sum(axis=1)
    order = np.lexsort((book.marginal(number)[rows], left))
    return int(rows[order[0]])


class _Chains:
    """Ejection chains over one book, with a common limit on the effort."""

    def __init__(self, book: Book, effort: int) -> None:
        self._book = book
        self._effort = effort

    @property
    def exhausted(self) -> bool:
        """Whether the effort is used up."""
        return self._effort <= 0

    def insert(self, number: int, length: int) -> bool:
        """Find a place for one task of a class, pushing others aside; all or nothing."""
        book = self._book
        row = _tightest(book, number)
        if row is not None:
            self._effort -= 1
            book.place(number, row)
            return True
        if length == 0:
            return False
        for pushed, row in self._pushes(number):
            if self._effort <= 0:
                return False
            if self._replace(pushed, row, number, length):
                return True
        return False

    def _replace(self, pushed: tuple[int, ...], row: int, number: int, length: int) -> bool:
        book = self._book
        self._effort -= 1 + len(pushed)
        mark = book.mark()
        for other in pushed:
            book.remove(other, row)
        if book.room[number, row]:
            book.place(number, row)
            if all(self.insert(other, length - len(pushed)) for other in pushed):
                return True
        book.rollback(mark)
        return False

    def _pushes(self, number: int) -> list[tuple[tuple[int, ...], int]]:
        """Tasks whose removal from a machine makes room there, the smallest first."""
        book = self._book
        numbers, rows = np.nonzero(book.units * book.admitted[number])
        if not len(rows):
            return []
        wanted = book.requests[number]
        relieved = book.free[rows] + book.requests[numbers]
        enough = ((wanted == 0) | (relieved >= wanted)).all(axis=1) & (numbers != number)
        size = (book.requests[numbers] / book.scale).sum(axis=1)
        order = np.argsort(np.where(enough, size, np.inf), kind="stable")[:CHAIN_WIDTH]
        return [((int(numbers[i]),), int(rows[i])) for i in order if enough[i]]


def _give_way(book: Book, level: Level, chains: _Chains) -> bool:
    """Let one placed task make way for two waiting ones; whether that was possible."""
    for taken in level.singles.values():
        if not taken.taken:
            continue
        for row in np.flatnonzero(book.units[taken.class_index]):
            if _two_for_one(book, level, taken, int(row), chains):
                return True
    return False


def _two_for_one(book: Book, level: Level, taken: Singles, row: int, chains: _Chains) -> bool:
    for first in _by_wait(level):
        if first is taken or chains.exhausted:
            continue
        mark = book.mark()
        book.remove(taken.class_index, row)
        if book.room[first.class_index, row]:
            book.place(first.class_index, row)
            first.taken += 1
            for second in _by_wait(level):
                if second is not taken and chains.insert(second.class_index, 1):
                    second.taken += 1
                    taken.taken -= 1
                    return True
            first.taken -= 1
        book.rollback(mark)
    return False


def _descend(book: Book) -> None:
    """Move tasks, or let two change places, while that makes the plan cheaper."""
    effort = DESCENT_EFFORT
    improved = True
    while improved and effort > 0:
        improved = False
        for number in np.flatnonzero(book.units.any(axis=1)):
            while effort > 0 and _move(book, int(number)):
                effort -= 1
                improved = True
        while effort > 0 and _exchange(book):
            effort -= 1
            improved = True


def _move(book: Book, number: int) -> bool:
    """Move the dearest task of a class to the cheapest machine with room, if that is cheaper."""
    here = np.flatnonzero(book.units[number])
    there = np.flatnonzero(book.room[number])
    if not len(here) or not len(there):
        return False
    leaving = book.cost[number, here] + book.slope[here] * (book.count[here] - 1)
    arriving = book.marginal(number)[there]
    source, target = int(here[np.argmax(leaving)]), int(there[np.argmin(arriving)])
    if source == target or arriving.min() >= leaving.max():
        return False
    book.remove(number, source)
    book.place(number, target)
    return True


def _exchange(book: Book) -> bool:
    """Let two tasks of different classes on different machines change places, if that is cheaper."""
    numbers, rows = np.nonzero(book.units)
    if len(rows) < 2:
        return False
    regret = book.cost[numbers, rows] - np.where(
        book.admitted[numbers], book.cost[numbers], np.iinfo(np.int64).max
    ).min(axis=1)
    best = np.argsort(-regret, kind="stable")[:EXCHANGE_PLACES]
    numbers, rows = numbers[best], rows[best]
    cost = book.cost[numbers][:, rows]  # what the task of place i costs on the machine of place j
    own = np.diag(cost)
    gain = own[:, None] + own[None, :] - cost - cost.T
    possible = book.admitted[numbers][:, rows] & book.admitted[numbers][:, rows].T
    gain = np.where(possible & (rows[:, None] != rows[None, :]), gain, 0)
    change = book.requests[numbers][:, None, :] - book.requests[numbers][None, :, :]
    # Machine of place i loses task i and takes task j.
    fits = ((change + book.free[rows][:, None, :] >= 0) | (change >= 0)).all(axis=2)
    gain = np.where(fits & fits.T, gain, 0)
    for flat in np.argsort(-gain, axis=None)[:8]:
        i, j = np.unravel_index(flat, gain.shape)
        if gain[i, j] <= 0:
            return False
        if _swap(book, int(numbers[i]), int(rows[i]), int(numbers[j]), int(rows[j])):
            return True
    return False


def _swap(book: Book, first: int, here: int, second: int, there: int) -> bool:
    mark = book.mark()
    book.remove(first, here)
    book.remove(second, there)
    if book.room[second, here] and book.room[first, there]:
        book.place(second, here)
        book.place(first, there)
        return True
    book.rollback(mark)
    return False
