"""`python -m bench.ledger`: the cost of the ledger on this machine."""

import argparse
import json
from asyncio import Runner
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.ledger.cycles import CASES, MACHINES, SIZE, Cycles, cycles, queued
from bench.ledger.large_group import FurtherMember, further_member
from bench.ledger.live_schedulers import Live, live


@dataclass(frozen=True)
class Figures:
    """`queued_seconds`: the time to write 100,000 pods in 10,000 groups to the queue's table."""

    queued_seconds: float
    further_member: FurtherMember
    cycles: tuple[Cycles, ...]
    live: Live | None


def measure(*, with_api_server: bool) -> Figures:
    """Measures all figures."""
    with Runner() as runner:
        seconds = runner.run(queued())
        further = runner.run(further_member())
        found = tuple([runner.run(cycles(*case)) for case in CASES])
    return Figures(seconds, further, found, live() if with_api_server else None)


def show(figures: Figures) -> None:
    """Prints the figures in words."""
    print(f"100,000 pods in 10,000 groups are queued in {figures.queued_seconds:.2f} s")
    further = figures.further_member
    print(
        f"a further member of a group of {further.members:,} is written in"
        f" {further.seconds * 1e3:.1f} ms, with {further.wal_bytes / 1e3:.0f} kB of log"
    )
    for each in figures.cycles:
        print(
            f"{each.groups:>6,} groups of {SIZE} arrive, start and end on {MACHINES:,} machines in"
            f" {each.total * 1e3:.1f} ms, without a ledger in {each.without * 1e3:.1f} ms:"
            f" {each.slower:.1%}. The loop works or waits for the ledger for"
            f" {each.ledger * 1e3:.1f} ms, {each.share:.1%}"
        )
    found = figures.live
    if found is not None:
        print(
            f"    on an API server {found.groups} groups of {found.size} are bound"
            f" {found.kept * 1e3:.1f} ms after their last pods are created, without a ledger"
            f" {found.bare * 1e3:.1f} ms: {found.slower:.1%}. Its cycles without binds take"
            f" {found.cycles * 1e3:.1f} ms of this, in which the scheduler waits"
            f" {found.waits * 1e3:.1f} ms for the ledger:"
            f" {found.waits / found.cycles:.1%} of the cycles,"
            f" {found.waits / found.kept:.1%} of the whole time"
        )


def main() -> None:
    """Measures the cost of the ledger and prints it."""
    parser = argparse.ArgumentParser(prog="python -m bench.ledger", description=main.__doc__)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--no-live", action="store_true", help="only what needs no API server")
    arguments = parser.parse_args()
    figures = measure(with_api_server=not arguments.no_live)
    show(figures)
    if arguments.json:
        arguments.json.write_text(json.dumps(asdict(figures), indent=2) + "\n")


if __name__ == "__main__":
    main()
