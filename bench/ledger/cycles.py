"""Cycles with and without a ledger, and a flood of pods: everything but the API server."""

import gc
from dataclasses import dataclass
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

from bench.ledger.flood import Door, door, nodes, pods

MACHINES = 1_000
SIZE = 10
# How many groups come at once, and how often.
CASES = ((10, 100), (100, 40), (1_000, 10))


@dataclass(frozen=True)
class Cycles:
    """Seconds, in the median, for groups that come and start, are found to be bound, and end: three
    cycles, with a ledger and without.

    `ledger` is what the loop does for the ledger, or waits for it, though the optimiser may be at
    work beside it; `afterwards` is for how long the ledger goes on writing.
    """

    groups: int
    total: float
    without: float
    ledger: float
    afterwards: float

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
    """So many groups, so often; the first time, when everything is new, does not count."""
    kept: list[tuple[float, float, float]] = []
    without: list[float] = []
    with TemporaryDirectory(prefix="ledger-") as directory:
        async with door(nodes(MACHINES), directory) as one, door(nodes(MACHINES)) as other:
            for number in range(rounds + 1):
                # In turn, so that whatever else the machine does happens to both.
                kept.append(await _lived(one, groups, groups * number))
                without.append((await _lived(other, groups, groups * number))[0])
    total, ledger, afterwards = zip(*kept[1:], strict=True)
    return Cycles(groups, median(total), median(without[1:]), median(ledger), median(afterwards))


async def _lived(one: Door, groups: int, first: int) -> tuple[float, float, float]:
    """So many groups come and start, are found to be bound, and end."""
    arriving = pods(groups, SIZE, first)
    gc.collect()
    gc.freeze()
    one.ledger_seconds = 0.0
    began = perf_counter()
    for pod in arriving:
        one.mirror.pods.changed(pod)
    outcome = await one.cycle(float(first))
    assert len(outcome.placements) > 0.98 * groups * SIZE
    one.bound(outcome)
    await one.cycle(float(first) + 1)
    one.ended(outcome)
    await one.cycle(float(first) + 2)
    ended = perf_counter()
    await one.written()
    return ended - began, one.ledger_seconds, perf_counter() - ended
