"""Room for a whole gang, exactly: all members on some machines, or the proof that there is none.

One class is arithmetic. Several classes compete for the same machines: first a greedy try, then
dynamic programming over machines. Its state is how many of each class are still without a place,
a machine's move any combination that fits on it and cannot be extended. The number of states does
not depend on the number of machines, so the search is exact wherever it is allowed to finish.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np

from afflux.model.devices import DeviceRequest, pack_devices
from afflux.plan.book import Book

# Moves times states that one search may look at; beyond it the gang waits for another round.
LARGEST_SEARCH = 20_000_000

Need = Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Seat:
    """`count` members of one class on one machine, and the devices they take."""

    number: int
    row: int
    count: int
    devices: tuple[tuple[int, ...], ...] = ()


def place_gang(book: Book, need: Need) -> bool:
    """Place the whole gang if there is room for it; otherwise leave the book as it was."""
    for number, count in need.items():
        if np.minimum(book.room[number], count).sum() < count:
            return False
    if _place_greedily(book, need):
        return True
    if len(need) == 1 and book.shapes[next(iter(need))].devices is None:
        return False
    seats = _search(book, need)
    if seats is None:
        return False
    for seat in seats:
        book.place(seat.number, seat.row, seat.count, seat.devices)
    return True


def _place_greedily(book: Book, need: Need) -> bool:
    """Class by class, the hardest to place first, each member where it is cheapest."""
    mark = book.mark()
    for number in sorted(need, key=lambda n: int(np.minimum(book.room[n], need[n]).sum())):
        missing = need[number]
        for row in np.argsort(book.marginal(number), kind="stable"):
            count = min(missing, int(book.room[number, row]))
            if count:
                book.place(number, int(row), count)
                missing -= count
            if not missing:
                break
        if missing:
            book.rollback(mark)
            return False
    return True


def _search(book: Book, need: Need) -> list[Seat] | None:
    numbers = sorted(need)
    counts = tuple(need[number] for number in numbers)
    states = int(np.prod([count + 1 for count in counts]))
    rows = np.flatnonzero((book.room[numbers] > 0).any(axis=0))
    moves: dict[tuple[object, ...], list[tuple[int, ...]]] = {}
    # reached[state] after each machine; a state is what is still missing.
    missing = np.zeros([count + 1 for count in counts], bool)
    missing[counts] = True
    trail: list[tuple[int, list[tuple[int, ...]], np.ndarray]] = []
    work = 0
    for row in map(int, rows):
        signature = (
            book.free[row].tobytes(),
            book.free_devices[row],
            book.admitted[numbers, row].tobytes(),
        )
        options = moves.get(signature)
        if options is None:
            options = moves[signature] = _moves(book, numbers, counts, row)
        work += states * len(options)
        if work > LARGEST_SEARCH:
            return None
        trail.append((row, options, missing))
        missing = missing | _after(missing, options)
        if missing[(0,) * len(counts)]:
            return _trace(book, numbers, trail)
    return None


def _moves(
    book: Book, numbers: list[int], counts: tuple[int, ...], row: int
) -> list[tuple[int, ...]]:
    """Combinations of members that fit on the machine together and cannot be extended."""
    limits = [min(count, int(book.room[n, row])) for n, count in zip(numbers, counts, strict=True)]
    fitting = [
        combination
        for combination in product(*(range(limit + 1) for limit in limits))
        if any(combination) and _fits(book, numbers, combination, row)
    ]
    fitting_set = set(fitting)
    return [
        c
        for c in fitting
        if not any((*c[:i], c[i] + 1, *c[i + 1 :]) in fitting_set for i in range(len(c)))
    ]


def _fits(book: Book, numbers: list[int], combination: tuple[int, ...], row: int) -> bool:
    asked = np.array(combination) @ book.requests[numbers]
    if np.any((asked > 0) & (asked > book.free[row])):
        return False
    return _devices(book, numbers, combination, row) is not None


def _devices(
    book: Book, numbers: list[int], combination: tuple[int, ...], row: int
) -> dict[int, list[tuple[int, ...]]] | None:
    """Devices for every member that needs some, by class; None if they do not fit together."""
    owners: list[int] = []
    requests: list[DeviceRequest] = []
    for number, count in zip(numbers, combination, strict=True):
        request = book.shapes[number].devices
        if request is not None:
            owners += [number] * count
            requests += [request] * count
    if not requests:
        return {}
    chosen = pack_devices(book.free_devices[row], requests)
    if chosen is None:
        return None
    by_class: dict[int, list[tuple[int, ...]]] = {}
    for number, devices in zip(owners, chosen, strict=True):
        by_class.setdefault(number, []).append(devices)
    return by_class


def _after(missing: np.ndarray, options: list[tuple[int, ...]]) -> np.ndarray:
    """What may be missing after one more machine; a move may leave places unused."""
    reached = np.zeros_like(missing)
    states = np.argwhere(missing)
    for option in options:
        reached[tuple(np.maximum(states - option, 0).T)] = True
    return reached


def _trace(
    book: Book,
    numbers: list[int],
    trail: list[tuple[int, list[tuple[int, ...]], np.ndarray]],
) -> list[Seat]:
    """Walk back from nothing missing to everything missing."""
    seats: list[Seat] = []
    state = np.zeros(len(numbers), np.int64)
    for row, options, before in reversed(trail):
        if before[tuple(state)]:
            continue
        state, used = _step_back(before, options, state)
        devices = _devices(book, numbers, tuple(used), row) or {}
        for number, count in zip(numbers, used, strict=True):
            if count:
                seats.append(Seat(number, row, int(count), tuple(devices.get(number, ()))))
    return seats


def _step_back(
    before: np.ndarray, options: list[tuple[int, ...]], state: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    for earlier in np.argwhere(before):
        for option in options:
            if np.array_equal(np.maximum(earlier - option, 0), state):
                return earlier, earlier - state
    raise AssertionError("a state was reached that no machine leads to")
