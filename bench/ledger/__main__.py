"""`python -m bench.ledger`: figures of the ledger on this machine."""

import argparse
import json
from asyncio import Runner
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.ledger.cycles import CASES, MACHINES, SIZE, Cycles, cycles, queued
from bench.ledger.live import Live, live


@dataclass(frozen=True)
class Figures:
    """`queued_seconds`: until 100,000 pods in 10,000 groups stand in the queue's table."""

    queued_seconds: float
    cycles: tuple[Cycles, ...]
    live: Live | None


def measure(*, with_api_server: bool) -> Figures:
    """All figures."""
    with Runner() as runner:
        seconds = runner.run(queued())
        found = tuple([runner.run(cycles(*case)) for case in CASES])
    return Figures(seconds, found, live() if with_api_server else None)


def show(figures: Figures) -> None:
    """In words."""
    print(f"100,000 pods in 10,000 groups are queued in {figures.queued_seconds:.2f} s")
    for each in figures.cycles:
        print(
            f"{each.groups:>6,} groups of {SIZE} come and go on {MACHINES:,} machines in"
            f" {each.total * 1e3:.1f} ms, without a ledger in {each.without * 1e3:.1f} ms:"
            f" {each.slower:.1%}. The loop does its part, or waits, for"
            f" {each.ledger * 1e3:.1f} ms, {each.share:.1%}"
        )
    found = figures.live
    if found is not None:
        print(
            f"    on an API server {found.groups} groups of {found.size} are bound"
            f" {found.kept * 1e3:.1f} ms after they are complete, without a ledger"
            f" {found.bare * 1e3:.1f} ms: {found.slower:.1%}. Of these its cycles, without their"
            f" binds, are {found.cycles * 1e3:.1f} ms, in which {found.waits * 1e3:.1f} ms are the"
            f" wait for the ledger: {found.waits / found.cycles:.1%} of the cycles,"
            f" {found.waits / found.kept:.1%} of all"
        )


def main() -> None:
    """Measure, and say what was found."""
    parser = argparse.ArgumentParser(prog="python -m bench.ledger", description=main.__doc__)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--no-live", action="store_true", help="without the API server")
    arguments = parser.parse_args()
    figures = measure(with_api_server=not arguments.no_live)
    show(figures)
    if arguments.json:
        arguments.json.write_text(json.dumps(asdict(figures), indent=2) + "\n")


if __name__ == "__main__":
    main()
