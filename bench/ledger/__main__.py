"""`python -m bench.ledger`: figures of the ledger on this machine."""

import argparse
import asyncio
import gc
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from bench.ledger.flood import Door, door, nodes, pods

MACHINES = 1_000
SIZE = 10
# How many groups come at once, and how often.
CASES = ((10, 60), (100, 30), (1_000, 10))


@dataclass(frozen=True)
class Cycles:
    """Seconds, at best, for groups that come, start, and are found to be bound: two cycles.

    `written` is how long it takes after the second until the ledger is at rest.
    """

    groups: int
    without: float
    with_ledger: float
    written: float

    @property
    def share(self) -> float:
        """The ledger's part of a cycle."""
        return 1 - self.without / self.with_ledger


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


async def started(one: Door, groups: int, first: int) -> tuple[float, float]:
    """So many groups come, start, and are found to be bound; and when all of it is written."""
    arriving = pods(groups, SIZE, first)
    gc.collect()
    gc.freeze()
    began = perf_counter()
    for pod in arriving:
        one.mirror.pods.changed(pod)
    outcome = await one.cycle(float(first))
    assert len(outcome.placements) == groups * SIZE
    one.bound(outcome)
    await one.cycle(float(first) + 1)
    seconds = perf_counter() - began
    await one.written()
    return seconds, perf_counter() - began - seconds


async def cycles(groups: int, rounds: int) -> Cycles:
    """With and without a ledger in turn, so that both see the same machine."""
    machines = nodes(MACHINES)
    with TemporaryDirectory(prefix="ledger-") as directory:
        async with door(directory, machines) as keeping, door(None, machines) as bare:
            found: dict[Door, list[tuple[float, float]]] = {keeping: [], bare: []}
            for number in range(rounds + 1):
                for one, times in found.items():
                    times.append(await started(one, groups, groups * number))
    # The first time everything is new.
    kept, plain = found[keeping][1:], found[bare][1:]
    return Cycles(
        groups,
        min(seconds for seconds, _ in plain),
        min(seconds for seconds, _ in kept),
        min(seconds for _, seconds in kept),
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
            f"{each.groups:>6,} groups of {SIZE} start on {MACHINES:,} machines:"
            f" {each.without * 1e3:.1f} ms without a ledger, {each.with_ledger * 1e3:.1f} ms with"
            f" one, {each.share:.1%}; it is at rest {each.written * 1e3:.1f} ms later"
        )
    if arguments.json:
        arguments.json.write_text(json.dumps(asdict(figures), indent=2) + "\n")


if __name__ == "__main__":
    main()
