"""Places a whole gang, or proves that it does not fit.

For one class this is arithmetic. Several classes compete for the same machines: two greedy
attempts come first, then dynamic programming over machines. Its state is the number of unplaced
members of each class, and a machine's move any maximal combination of members that fits on it. The
number of states does not depend on the number of machines. The search is exact unless it reaches
one of its limits.
"""

from collections.abc import Mapping
from math import prod

import numpy as np

from afflux.model.devices import DeviceRequest, pack_devices
from afflux.plan.book import Book

# Limits of one search: states, combinations on one machine, and moves times states. A gang that
# exceeds them waits for another round.
MAX_STATES = 1_000_000
MAX_MOVES = 20_000
MAX_SEARCH_STEPS = 20_000_000

Need = Mapping[int, int]


# Members of one class on one machine: class, row, how many, and the devices that they take.
ClassPlacement = tuple[int, int, int, list[tuple[int, ...]]]


def place_gang(book: Book, need: Need) -> bool:
    """Place the whole gang if it fits; otherwise leave the book unchanged."""
    if book.has_refused(need):
        return False
    if _place(book, need):
        return True
    book.remember_refusal(need)
    return False


def _place(book: Book, need: Need) -> bool:
    for number, count in need.items():
        if np.minimum(book.room[number], count).sum() < count:
            return False
    if _place_greedily(book, need):
        return True
    if len(need) == 1 and book.shapes[next(iter(need))].devices is None:
        return False
    if _place_tightly(book, need):
        return True
    found = _search(book, need)
    if found is None:
        return False
    for part in found:
        book.place(*part)
    return True


def _place_greedily(book: Book, need: Need) -> bool:
    """Class by class, the one with the least room first, each member on its cheapest machine."""
    mark = book.mark()
    for number in sorted(need, key=lambda n: int(np.minimum(book.room[n], need[n]).sum())):
        missing = need[number]
        rows = np.flatnonzero(book.room[number])
        for row in map(int, rows[np.argsort(book.marginal_cost(number)[rows], kind="stable")]):
            count = min(missing, int(book.room[number, row]))
            book.place(number, row, count)
            missing -= count
            if not missing:
                break
        if missing:
            book.rollback(mark)
            return False
    return True


def _place_tightly(book: Book, need: Need) -> bool:
    """Class by class, the largest first, each member on the machine with the least left."""
    mark = book.mark()
    for number in sorted(need, key=lambda n: -float((book.requests[n] / book.scale).sum())):
        for _ in range(need[number]):
            row = tightest(book, number)
            if row is None:
                book.rollback(mark)
                return False
            book.place(number, row)
    return True


def tightest(book: Book, number: int) -> int | None:
    """The machine with room for this class that has the least left; of equal ones the cheapest."""
    rows = np.flatnonzero(book.room[number])
    if not len(rows):
        return None
    left = (book.free[rows] / book.scale).sum(axis=1)
    order = np.lexsort((book.marginal_cost(number)[rows], left))
    return int(rows[order[0]])


def _search(book: Book, need: Need) -> list[ClassPlacement] | None:
    numbers = sorted(need)
    counts = tuple(need[number] for number in numbers)
    states = prod(count + 1 for count in counts)
    if states > MAX_STATES:
        return None
    rows = np.flatnonzero((book.room[numbers] > 0).any(axis=0))
    moves: dict[tuple[object, ...], list[tuple[int, ...]] | None] = {}
    # reached[state] after each machine; a state is what is still missing.
    missing = np.zeros([count + 1 for count in counts], bool)
    missing[counts] = True
    trail: list[tuple[int, list[tuple[int, ...]], np.ndarray]] = []
    # A machine is skipped if an equal one before it reached no new state.
    useless: set[tuple[object, ...]] = set()
    work = 0
    for row in map(int, rows):
        admitted = book.admitted[numbers, row].tobytes()
        signature = (book.free[row].tobytes(), book.free_devices[row], admitted)
        if signature in useless:
            continue
        if signature not in moves:
            moves[signature] = _moves(book, numbers, counts, row)
        options = moves[signature]
        if options is None:
            return None
        work += states * len(options)
        if work > MAX_SEARCH_STEPS:
            return None
        after = missing | _after(missing, options)
        if np.array_equal(after, missing):
            useless.add(signature)
            continue
        useless.clear()
        trail.append((row, options, missing))
        missing = after
        if missing[(0,) * len(counts)]:
            return _trace(book, numbers, trail)
    return None


def _moves(
    book: Book, numbers: list[int], counts: tuple[int, ...], row: int
) -> list[tuple[int, ...]] | None:
    """Combinations of members that fit on the machine together and cannot be extended.

    None if there are more than MAX_MOVES.
    """
    fitting: set[tuple[int, ...]] = {(0,) * len(numbers)}
    for i, (number, count) in enumerate(zip(numbers, counts, strict=True)):
        limit = min(count, int(book.room[number, row]))
        for smaller in sorted(fitting):
            for members in range(1, limit + 1):
                larger = (*smaller[:i], members, *smaller[i + 1 :])
                if not _fits(book, numbers, larger, row):
                    break
                fitting.add(larger)
            if len(fitting) > MAX_MOVES:
                return None
    return [
        c
        for c in sorted(fitting)
        if any(c) and not any((*c[:i], c[i] + 1, *c[i + 1 :]) in fitting for i in range(len(c)))
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
    """The states after one more machine; a move may place fewer members than it could."""
    reached = np.zeros_like(missing)
    states = np.argwhere(missing)
    for option in options:
        reached[tuple(np.maximum(states - option, 0).T)] = True
    return reached


def _trace(
    book: Book, numbers: list[int], trail: list[tuple[int, list[tuple[int, ...]], np.ndarray]]
) -> list[ClassPlacement]:
    """The moves that lead to the state without missing members."""
    found: list[ClassPlacement] = []
    state = np.zeros(len(numbers), np.int64)
    for row, options, before in reversed(trail):
        if before[tuple(state)]:
            continue
        state, used = _step_back(before, options, state)
        devices = _devices(book, numbers, tuple(used), row) or {}
        for number, count in zip(numbers, used, strict=True):
            if count:
                found.append((number, row, int(count), devices.get(number, [])))
    return found


def _step_back(
    before: np.ndarray, options: list[tuple[int, ...]], state: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    states = np.argwhere(before)
    for option in options:
        leading = (np.maximum(states - option, 0) == state).all(axis=1)
        if leading.any():
            earlier = states[int(np.argmax(leading))]
            return earlier, earlier - state
    raise AssertionError("a state was reached that no machine leads to")
