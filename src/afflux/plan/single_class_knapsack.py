"""Exact choice of gangs and single tasks when all are of one class: a knapsack over free units."""

from collections.abc import Sequence

import numpy as np

# The largest table: items times units of room.
MAX_TABLE_CELLS = 20_000_000

# Units and value.
Item = tuple[int, int]


def choose(
    items: Sequence[Item], singles: Sequence[int], room: int
) -> tuple[list[int], int] | None:
    """The items and the number of singles with the highest value; None if there are too many.

    `singles` take one unit each and come in descending order of value.
    """
    wanted = _candidates(items, room)
    if len(wanted) * (room + 1) > MAX_TABLE_CELLS:
        return None
    # best[u]: the highest value of items that take at most u units.
    best = np.zeros(room + 1, np.int64)
    taken = np.zeros((len(wanted), room + 1), bool)
    for row, index in enumerate(wanted):
        size, value = items[index]
        with_it = best[: room + 1 - size] + value
        better = with_it > best[size:]
        taken[row, size:] = better
        best[size:][better] = with_it[better]
    # Singles get the rest.
    first = np.concatenate(([0], np.cumsum(np.array(singles[:room], np.int64))))
    left = np.minimum(room - np.arange(room + 1), len(first) - 1)
    units = int(np.argmax(best + first[left]))
    chosen: list[int] = []
    free = units
    for row in range(len(wanted) - 1, -1, -1):
        if taken[row, free]:
            chosen.append(wanted[row])
            free -= items[wanted[row]][0]
    return chosen, min(room - units, len(singles))


def _candidates(items: Sequence[Item], room: int) -> list[int]:
    """The items that can be chosen: of each size the most valuable, as many as fit."""
    by_size: dict[int, list[int]] = {}
    for index, (size, _) in enumerate(items):
        if size <= room:
            by_size.setdefault(size, []).append(index)
    wanted: list[int] = []
    for size, indices in by_size.items():
        # Of equal value the earlier ones.
        indices.sort(key=lambda index: (-items[index][1], index))
        wanted += indices[: room // size]
    return wanted
