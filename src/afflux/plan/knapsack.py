"""Who is worth the room when all who wait are of one class: room is a number, and the best choice a
knapsack that dynamic programming fills exactly.
"""

from collections.abc import Sequence

import numpy as np

# Sizes times units of room that one choice may look at.
LARGEST_TABLE = 20_000_000

# Units it takes, what it is worth.
Item = tuple[int, int]


def choose(
    items: Sequence[Item], singles: Sequence[int], room: int
) -> tuple[list[int], int] | None:
    """Which items and how many of the singles are worth most together; None if there are too many.

    `singles` take one unit each and come in descending order of worth.
    """
    wanted = _candidates(items, room)
    if len(wanted) * (room + 1) > LARGEST_TABLE:
        return None
    # best[u]: the most that items are worth which take u units at most.
    best = np.zeros(room + 1, np.int64)
    taken = np.zeros((len(wanted), room + 1), bool)
    for row, index in enumerate(wanted):
        size, worth = items[index]
        with_it = best[: room + 1 - size] + worth
        better = with_it > best[size:]
        taken[row, size:] = better
        best[size:][better] = with_it[better]
    # The rest goes to singles.
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
    """Of each size only as many as there is room for, the most worthy first, can matter."""
    by_size: dict[int, list[int]] = {}
    for index, (size, _) in enumerate(items):
        if size <= room:
            by_size.setdefault(size, []).append(index)
    wanted: list[int] = []
    for size, indices in by_size.items():
        # Of equal worth those who come first.
        indices.sort(key=lambda index: (-items[index][1], index))
        wanted += indices[: room // size]
    return wanted
