"""Finds the backfilled groups: they started while a group ahead of them in the queue waited."""

from heapq import heappop, heappush

import numpy as np

from afflux.sim.result_columns import Bools, Groups, Ints


def backfilled(groups: Groups) -> Bools:
    """Per group whether it started before a group that was ahead of it.

    Group A is ahead of B if both wait in the same queue and A has the higher priority, or the same
    priority and an earlier submission. Groups that start at the same time do not pass each other.
    Groups that never started are never ahead: otherwise all later groups would be backfilled.
    """
    order = np.lexsort((groups.submit, -groups.priority))
    rank: Ints = np.empty(order.size, dtype=np.int64)
    rank[order] = np.arange(order.size)
    started = np.flatnonzero(~np.isnan(groups.start))
    by_start: list[int] = started[np.argsort(groups.start[started], kind="stable")].tolist()
    by_submit: list[int] = started[np.argsort(groups.submit[started], kind="stable")].tolist()
    starts, submits = groups.start.tolist(), groups.submit.tolist()
    ranks: list[int] = rank.tolist()
    queues = groups.queue.tolist()
    found = np.zeros(order.size, dtype=np.bool_)
    # Per queue a heap of the submitted groups by rank; started groups are popped once on top.
    waiting: dict[int, list[tuple[int, float]]] = {}
    submitted = 0
    for index in by_start:
        now = starts[index]
        while submitted < len(by_submit) and submits[by_submit[submitted]] <= now:
            other = by_submit[submitted]
            heappush(waiting.setdefault(queues[other], []), (ranks[other], starts[other]))
            submitted += 1
        heap = waiting.get(queues[index], [])
        while heap and heap[0][1] <= now:
            heappop(heap)
        found[index] = bool(heap) and heap[0][0] < ranks[index]
    return found
