"""Machines for promises that were found by counting: for one class there always are some."""

from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush

import numpy as np

from afflux.admit.commitment import Commitment
from afflux.cluster.machines import Column


def seats_by_counting(
    room: Column,
    growth: Mapping[int, Sequence[tuple[float, int]]],
    started: Sequence[Commitment],
    promised: Sequence[Commitment],
) -> list[list[int]]:
    """A row for every member of every promise.

    In the order of their starts each takes machines with room at that time, those first that have
    none today: so what is free today stays free for others.
    """
    free_now = room > 0
    left = room.copy()
    # What becomes free when, and where.
    events = [(at, row, more) for row, steps in growth.items() for at, more in steps]
    for commitment in started:
        for _, row, _ in commitment.seats:
            left[row] -= 1
            events.append((commitment.end, row, 1))
    heapify(events)
    seats: list[list[int]] = [[] for _ in promised]
    for number in sorted(range(len(promised)), key=lambda n: promised[n].start[0]):
        commitment = promised[number]
        while events and events[0][0] <= commitment.start[0]:
            _, row, more = heappop(events)
            left[row] += more
        rows = np.flatnonzero(left > 0)
        rows = rows[np.argsort(free_now[rows], kind="stable")]
        missing = len(commitment.group.tasks)
        for row in rows.tolist():
            taken = min(missing, int(left[row]))
            seats[number] += [row] * taken
            left[row] -= taken
            heappush(events, (commitment.end, row, taken))
            missing -= taken
            if not missing:
                break
    return seats
