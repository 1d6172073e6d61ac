"""Which groups were backfilled: they started while one ahead of them in the queue still waited."""

from heapq import heappop, heappush

import numpy as np

from afflux.sim.columns import Bools, Groups, Ints


def backfilled(groups: Groups) -> Bools:
    """Per group whether it passed another on its way in.

    Ahead is who waits in the same queue with a higher priority, or with the same one and has been
    ready for longer. Who starts at the same time as one ahead has not passed it. Who never started
    is not counted as ahead, since otherwise everybody after it would be backfilled.
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
    # Of each queue those who have been submitted, the first of them on top; who has started is
    # taken away when it gets there.
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
