"""`python -m bench.ledger`: figures of the ledger on this machine."""

import argparse
import asyncio
import gc
import json
import statistics
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.ledger.flood import Door, door, nodes, pods

MACHINES = 1_000
SIZE = 10
ROUNDS = 5


@dataclass(frozen=True)
class Figures:
    """Seconds. `queued`: until 100,000 pods in 10,000 groups stand in the queue's table."""

    queued: float
    queued_ledger: float
    # By number of groups that arrive and start together: the whole of their cycles, and of it the
    # ledger's part.
    cycles: dict[int, tuple[float, float]]


async def queued(groups: int = 10_000) -> tuple[float, float]:
    """Everybody comes at once, and nobody can start."""
    with TemporaryDirectory(prefix="ledger-") as directory:
        async with door(directory, []) as one:
            arriving = pods(groups, SIZE)
            gc.collect()
            gc.freeze()
            one.mirror.pods.replaced(arriving)
            spent, _ = await one.cycle(0.0)
            return spent.total, spent.ledger


async def started(one: Door, groups: int, first: int) -> tuple[float, float]:
    """So many groups come, start, and are found to be bound: two cycles."""
    arriving = pods(groups, SIZE, first)
    gc.collect()
    for pod in arriving:
        one.mirror.pods.changed(pod)
    spent, outcome = await one.cycle(float(first))
    assert len(outcome.placements) == groups * SIZE
    settling = one.bound(outcome)
    after, _ = await one.cycle(float(first) + 1)
    total = spent.total + after.total + settling
    return total, spent.ledger + after.ledger + settling


async def measure() -> Figures:
    """All figures."""
    queued_total, queued_ledger = await queued()
    cycles: dict[int, tuple[float, float]] = {}
    for groups in (10, 100, 1_000):
        with TemporaryDirectory(prefix="ledger-") as directory:
            async with door(directory, nodes(MACHINES)) as one:
                await started(one, groups, 0)
                found = [await started(one, groups, groups * (n + 1)) for n in range(ROUNDS)]
        cycles[groups] = (
            statistics.median(total for total, _ in found),
            statistics.median(ledger for _, ledger in found),
        )
    return Figures(queued_total, queued_ledger, cycles)


def main() -> None:
    """Measure, and say what was found."""
    parser = argparse.ArgumentParser(prog="python -m bench.ledger", description=main.__doc__)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    arguments = parser.parse_args()
    figures = asyncio.run(measure())
    print(
        f"100,000 pods in 10,000 groups queued in {figures.queued:.2f} s,"
        f" of which the ledger {figures.queued_ledger:.2f} s"
    )
    for groups, (total, ledger) in figures.cycles.items():
        print(
            f"{groups:>6,} groups of {SIZE} start on {MACHINES:,} machines in {total * 1e3:.0f} ms,"
            f" of which the ledger {ledger * 1e3:.1f} ms, {ledger / total:.1%}"
        )
    if arguments.json:
        arguments.json.write_text(json.dumps(asdict(figures), indent=2) + "\n")


if __name__ == "__main__":
    main()
