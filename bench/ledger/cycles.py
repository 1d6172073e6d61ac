"""Cycles with and without a ledger, and a flood of pods: everything but the API server."""

import gc
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

from afflux.kube import objects
from bench.ledger.flood import Door, door, nodes, pods

MACHINES = 1_000
SIZE = 10
# How many groups come at once, and how often.
CASES = ((10, 120), (100, 40), (1_000, 12))
# So many after one another, before the same is done without a ledger.
AT_A_TIME = 4


@dataclass(frozen=True)
class Cycles:
    """Seconds, in the median, for groups that come and start, are found to be bound, and end: three
    cycles, with a ledger and without. Others come at once when they have ended, so that what is
    written about these is written while those are decided about.

    `ledger` is what the loop does for the ledger, or waits for it, though the optimiser may be at
    work beside it.
    """

    groups: int
    total: float
    without: float
    ledger: float

    @property
    def slower(self) -> float:
        """By how much of its time a cycle is longer with a ledger."""
        return (self.total - self.without) / self.total

    @property
    def share(self) -> float:
        """The part of a cycle in which its loop is busy with the ledger."""
        return self.ledger / self.total


async def queued(groups: int = 10_000) -> float:
    """Seconds until everybody who comes at once stands in the queue's table."""
    with TemporaryDirectory(prefix="ledger-") as directory:
        async with door([], directory) as one:
            arriving = pods(groups, SIZE)
            gc.collect()
            gc.freeze()
            one.mirror.pods.replaced(arriving)
            began = perf_counter()
            await one.queued()
            return perf_counter() - began


async def cycles(groups: int, rounds: int) -> Cycles:
    """So many groups, so often."""
    kept: list[tuple[float, float]] = []
    without: list[tuple[float, float]] = []
    with TemporaryDirectory(prefix="ledger-") as directory:
        async with door(nodes(MACHINES), directory) as one, door(nodes(MACHINES)) as other:
            for start in range(0, rounds, AT_A_TIME):
                # In turn, so that whatever else the machine does happens to both.
                for each, measured in ((one, kept), (other, without)):
                    coming = [
                        pods(groups, SIZE, groups * (start + number))
                        for number in range(AT_A_TIME + 1)
                    ]
                    gc.collect()
                    gc.freeze()
                    lived = [await _lived(each, arriving) for arriving in coming]
                    # The first has nothing to be written of those before.
                    measured.extend(lived[1:])
                    await each.written()
    total, ledger = zip(*kept, strict=True)
    return Cycles(groups, median(total), median(each[0] for each in without), median(ledger))


async def _lived(one: Door, arriving: Sequence[objects.Pod]) -> tuple[float, float]:
    """Groups come and start, are found to be bound, and end."""
    one.ledger_seconds = 0.0
    began = perf_counter()
    for pod in arriving:
        one.mirror.pods.changed(pod)
    outcome = await one.cycle(began)
    assert len(outcome.placements) > 0.98 * len(arriving)
    one.bound(outcome)
    await one.cycle(began + 0.001)
    one.ended(outcome)
    await one.cycle(began + 0.002)
    return perf_counter() - began, one.ledger_seconds
