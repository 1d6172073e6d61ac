"""Machines for reservations of a single class, chosen after the starts are known."""

from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush

import numpy as np

from afflux.admit.planned_run import PlannedRun
from afflux.cluster.machines import Column


def assign_rows(
    room: Column,
    growth: Mapping[int, Sequence[tuple[float, int]]],
    started: Sequence[PlannedRun],
    reserved: Sequence[PlannedRun],
) -> list[list[int]]:
    """A machine row for every member of every reservation.

    In the order of their starts, each reservation takes machines with room at its start, first
    those without room now: so what is free now stays free for groups that can use it.
    """
    free_now = room > 0
    left = room.copy()
    # When, where and for how many more there is room.
    events = [(at, row, more) for row, steps in growth.items() for at, more in steps]
    for run in started:
        for _, row, _ in run.assignments:
            left[row] -= 1
            events.append((run.end, row, 1))
    heapify(events)
    assigned: list[list[int]] = [[] for _ in reserved]
    for number in sorted(range(len(reserved)), key=lambda n: reserved[n].start[0]):
        run = reserved[number]
        while events and events[0][0] <= run.start[0]:
            _, row, more = heappop(events)
            left[row] += more
        rows = np.flatnonzero(left > 0)
        rows = rows[np.argsort(free_now[rows], kind="stable")]
        missing = len(run.group.tasks)
        for row in rows.tolist():
            taken = min(missing, int(left[row]))
            assigned[number] += [row] * taken
            left[row] -= taken
            heappush(events, (run.end, row, taken))
            missing -= taken
            if not missing:
                break
    return assigned
