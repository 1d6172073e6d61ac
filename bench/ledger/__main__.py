"""`python -m bench.ledger`: figures of the ledger on this machine."""

import argparse
import asyncio
import gc
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

from bench.ledger.flood import Door, door, nodes, pods

MACHINES = 1_000
SIZE = 10
# How many groups come at once, and how often.
CASES = ((10, 60), (100, 30), (1_000, 10))


@dataclass(frozen=True)
class Cycles:
    """Seconds, in the median, for groups that come and start, are found to be bound, and end: three
    cycles, of which the ledger takes so much, and goes on writing for so long afterwards."""

    groups: int
    total: float
    ledger: float
    afterwards: float

    @property
    def share(self) -> float:
        """The ledger's part of a cycle."""
        return self.ledger / self.total


@dataclass(frozen=True)
class Figures:
    """`queued_seconds`: until 100,000 pods in 10,000 groups stand in the queue's table."""

    queued_seconds: float
    cycles: tuple[Cycles, ...]


async def queued(groups: int = 10_000) -> float:
    """Everybody comes at once."""
    with TemporaryDirectory(prefix="ledger-") as directory:
        async with door(directory, []) as one:
            arriving = pods(groups, SIZE)
            gc.collect()
            gc.freeze()
            one.mirror.pods.replaced(arriving)
            began = perf_counter()
            await one.queued()
            return perf_counter() - began


async def lived(one: Door, groups: int, first: int) -> Cycles:
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
    await one.keeping.written()
    return Cycles(groups, ended - began, one.ledger_seconds, perf_counter() - ended)


async def cycles(groups: int, rounds: int) -> Cycles:
    """So many of them, so often; the first time, when everything is new, does not count."""
    with TemporaryDirectory(prefix="ledger-") as directory:
        async with door(directory, nodes(MACHINES)) as one:
            found = [await lived(one, groups, groups * number) for number in range(rounds + 1)][1:]
    return Cycles(
        groups,
        median(each.total for each in found),
        median(each.ledger for each in found),
        median(each.afterwards for each in found),
    )


async def measure() -> Figures:
    """All figures."""
    seconds = await queued()
    return Figures(seconds, tuple([await cycles(*case) for case in CASES]))


def main() -> None:
    """Measure, and say what was found."""
    parser = argparse.ArgumentParser(prog="python -m bench.ledger", description=main.__doc__)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    arguments = parser.parse_args()
    figures = asyncio.run(measure())
    print(f"100,000 pods in 10,000 groups are queued in {figures.queued_seconds:.2f} s")
    for each in figures.cycles:
        print(
            f"{each.groups:>6,} groups of {SIZE} come and go on {MACHINES:,} machines in"
            f" {each.total * 1e3:.1f} ms, of which the ledger {each.ledger * 1e3:.1f} ms,"
            f" {each.share:.1%}; it is at rest {each.afterwards * 1e3:.1f} ms later"
        )
    if arguments.json:
        arguments.json.write_text(json.dumps(asdict(figures), indent=2) + "\n")


if __name__ == "__main__":
    main()
