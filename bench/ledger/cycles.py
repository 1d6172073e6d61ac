"""Cycles with and without a ledger, and many new pods at once, without an API server."""

import gc
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

from afflux.kube import objects
from bench.ledger.scheduling_loop import SchedulingLoop, nodes, pods, scheduling_loop

MACHINES = 1_000
SIZE = 10
# The number of groups that arrive at once, and the number of rounds.
CASES = ((10, 120), (100, 40), (1_000, 12))
# Rounds with a ledger before the same number of rounds without one.
ROUNDS_PER_TURN = 4


@dataclass(frozen=True)
class Cycles:
    """Median seconds of three cycles, with and without a ledger: groups arrive and start, pods are
    bound, pods end. The next groups arrive at once, so that the ledger writes while the next cycle
    decides.

    `ledger` is the time in which the loop works for the ledger or waits for it; the optimiser may
    run in parallel.
    """

    groups: int
    total: float
    without: float
    ledger: float

    @property
    def slower(self) -> float:
        """The share of a cycle's time that the ledger adds."""
        return (self.total - self.without) / self.total

    @property
    def share(self) -> float:
        """The share of a cycle in which the loop works or waits for the ledger."""
        return self.ledger / self.total


async def queued(groups: int = 10_000) -> float:
    """Seconds until groups that arrive at once are all in the queue's table."""
    with TemporaryDirectory(prefix="ledger-") as directory:
        async with scheduling_loop([], directory) as one:
            arriving = pods(groups, SIZE)
            gc.collect()
            gc.freeze()
            one.reader.pods.replaced(arriving)
            began = perf_counter()
            await one.queued()
            return perf_counter() - began


async def cycles(groups: int, rounds: int) -> Cycles:
    """Measures cycles in which `groups` groups arrive, `rounds` times."""
    kept: list[tuple[float, float]] = []
    without: list[tuple[float, float]] = []
    with TemporaryDirectory(prefix="ledger-") as directory:
        machines = nodes(MACHINES)
        async with scheduling_loop(machines, directory) as one, scheduling_loop(machines) as other:
            for start in range(0, rounds, ROUNDS_PER_TURN):
                # Both alternate, so that other load on the machine affects both.
                for each, measured in ((one, kept), (other, without)):
                    coming = [
                        pods(groups, SIZE, groups * (start + number))
                        for number in range(ROUNDS_PER_TURN + 1)
                    ]
                    gc.collect()
                    gc.freeze()
                    rounds_seconds = [await _run_groups(each, arriving) for arriving in coming]
                    # In the first round the ledger has nothing to write about earlier groups.
                    measured.extend(rounds_seconds[1:])
                    await each.written()
    total, ledger = zip(*kept, strict=True)
    return Cycles(groups, median(total), median(each[0] for each in without), median(ledger))


async def _run_groups(one: SchedulingLoop, arriving: Sequence[objects.Pod]) -> tuple[float, float]:
    """Runs three cycles: groups arrive and start, their pods are bound, the pods end."""
    one.ledger_seconds = 0.0
    began = perf_counter()
    for pod in arriving:
        one.reader.pods.changed(pod)
    outcome = await one.cycle(began)
    assert len(outcome.placements) > 0.98 * len(arriving)
    one.bound(outcome)
    await one.cycle(began + 0.001)
    one.ended(outcome)
    await one.cycle(began + 0.002)
    return perf_counter() - began, one.ledger_seconds
